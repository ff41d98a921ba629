// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "mrc/core/types.hpp"
#include "mrc/wire/bth.hpp"
#include "mrc/wire/burst.hpp"
#include "mrc/wire/data_headers.hpp"
#include "mrc/wire/endian.hpp"
#include "mrc/wire/opcode.hpp"
#include "mrc/wire/overhead.hpp"

/// A part of a data packet: how packets pass planes that have become too narrow for them. The MTU
/// of a connection is agreed once, and a packet that was sent keeps its PSN and its payload. So
/// what no longer fits travels in parts, which the receiver puts together before it looks at the
/// packet (engine/part_assembly.hpp). An extension between OpenMRC peers: MRC has no such opcode.
///
/// Header: BTH of the packet, but with this opcode and the pad of this part; PartHeader; the rest
/// of the packet's header, in every part. Payload: kPartPayload bytes, in the last part the rest.
namespace mrc::inline v0_1::wire {

/// Follows the BTH.
struct PartHeader {
  std::uint8_t op = 0;         ///< opcode of the packet
  std::uint8_t reserved_ = 0;  ///< sent 0
  Be16 offset;                 ///< of this part in the packet's payload, bytes
  Be16 length;                 ///< of the packet's payload, bytes: more than kPartPayload
  Be16 reserved2_;             ///< sent 0

  /// Not checked.
  [[nodiscard]] constexpr Opcode opcode() const noexcept { return static_cast<Opcode>(op); }
};

static_assert(sizeof(PartHeader) == 8 && alignof(PartHeader) == 1);
static_assert(offsetof(PartHeader, offset) == 2 && offsetof(PartHeader, length) == 4);
static_assert(std::is_trivially_copyable_v<PartHeader>);
static_assert(kMaxWriteHeader + sizeof(PartHeader) <= kMaxTransportHeader);

/// Payload of each part but the last, bytes. A multiple of the cache line, and of 4: only the last
/// part is padded.
inline constexpr std::uint32_t kPartPayload = 1024;
/// Longest part, BTH .. iCRC, bytes. In every encapsulation it fits into 1,280 bytes of IP, the
/// least that IPv6 links carry.
inline constexpr std::uint32_t kMaxPart = kMaxTransportHeader + kPartPayload + kIcrcSize;
static_assert(kMaxPart + kMaxEnvelope <= 1280);

/// Parts of a packet with so many bytes of payload.
[[nodiscard]] constexpr std::uint32_t parts_of(std::uint32_t payload) noexcept {
  return payload <= kPartPayload ? 1 : (payload + kPartPayload - 1) / kPartPayload;
}

}  // namespace mrc::inline v0_1::wire
