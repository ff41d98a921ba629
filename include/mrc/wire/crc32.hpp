// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "mrc/core/types.hpp"

/// The CRC-32 of Ethernet, the polynomial of the iCRC (mrc-1.0 §1.12): 0xEDB88320 reflected, start
/// and result inverted. Start with 0; pass a result as `crc` to continue over more bytes. Any
/// thread may call any of these functions.
namespace mrc::inline v0_1::wire {

/// The fastest kernel that this processor has, chosen by the first call.
[[nodiscard]] std::uint32_t crc32(std::uint32_t crc, Bytes bytes) noexcept;

/// Portable kernel, eight bytes per step.
[[nodiscard]] std::uint32_t crc32_portable(std::uint32_t crc, Bytes bytes) noexcept;

/// What computes the CRC, as crc32() does.
using Crc32Function = std::uint32_t(std::uint32_t crc, Bytes bytes) noexcept;

/// One way to compute the CRC, for tests and benchmarks; all give the same result.
struct Crc32Kernel {
  const char* name;         ///< after the instructions that it is made of
  Crc32Function* function;  ///< to call only if `supported`
  bool supported;           ///< by this processor
};

/// The kernels of this architecture, the fastest first, the portable one last.
[[nodiscard]] std::span<const Crc32Kernel> crc32_kernels() noexcept;

}  // namespace mrc::inline v0_1::wire
