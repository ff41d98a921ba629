// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "mrc/core/linkage.hpp"
#include "mrc/core/types.hpp"

/// The CRC-32 of Ethernet, the polynomial of the iCRC (mrc-1.0 §1.12): 0xEDB88320 reflected, start
/// and result inverted. Start with 0; pass a result as `crc` to continue over more bytes.
namespace mrc::inline v0_1::wire {

/// The fastest implementation in this build (ISA-L if available).
[[nodiscard]] std::uint32_t crc32(std::uint32_t crc, Bytes bytes) noexcept;

/// Portable implementation, eight bytes per step.
[[nodiscard]] std::uint32_t crc32_portable(std::uint32_t crc, Bytes bytes) noexcept;

}  // namespace mrc::inline v0_1::wire

#ifndef MRC_SEPARATE_COMPILATION
#include "mrc/wire/impl/crc32.ipp"
#endif
