// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "mrc/core/types.hpp"
#include "mrc/wire/bth.hpp"
#include "mrc/wire/data_headers.hpp"
#include "mrc/wire/ip.hpp"

/// Lengths in bytes of everything in a packet except its payload. A data packet (mrc-1.0 §1.1,
/// §1.2, §4.3):
///
///     Ethernet header                 14   kEthernetHeader; kEthernetLink with FCS, preamble, gap
///     outer IPv6 header               40 \  if encapsulated
///     segment routing header      8 + 16 |  with Encapsulation::srh
///     IPv6 or IPv4 header       40 or 20 |  envelope_size(), which the port adds
///     UDP header                       8 /
///     BTH                             12 \  transport packet (wire::TxPacket) from here on
///     METH                             4 |
///     TSETH                            4 |  with a timestamp
///     RETH                            16 |
///     ImmDt                            4 /  with immediate data; write_header_size()
///     payload
///     pad                           0..3    kMaxPad
///     iCRC                             4    kIcrcSize
namespace mrc::inline v0_1::wire {

/// The headers in front of the IP header that is nearest to UDP (mrc-1.0 §1.1, §4.3).
enum class Encapsulation : std::uint8_t {
  none,          ///< IPv4 or IPv6, UDP
  ipv6_in_ipv6,  ///< outer IPv6 (uSIDs in its destination), IPv6, UDP
  srh,           ///< outer IPv6, segment routing header, IPv6, UDP
};

/// Ethernet header, without VLAN tag.
inline constexpr std::size_t kEthernetHeader = 14;
/// What a frame occupies on a link besides its IP packet: header, FCS 4, preamble 8, gap 12.
inline constexpr std::size_t kEthernetLink = kEthernetHeader + 4 + 8 + 12;

/// Segment routing header with one segment, the most that MRC needs (mrc-1.0 §4.3).
inline constexpr std::size_t kSrhSize = sizeof(Srh) + sizeof(IpAddress);

/// From the outermost IP header to the UDP header, both included. IPv4 is never encapsulated.
[[nodiscard]] constexpr std::size_t envelope_size(bool ipv4, Encapsulation e) noexcept {
  const std::size_t inner = (ipv4 ? sizeof(Ipv4) : sizeof(Ipv6)) + sizeof(Udp);
  if (e == Encapsulation::none) return inner;
  return sizeof(Ipv6) + (e == Encapsulation::srh ? kSrhSize : 0) + inner;
}
/// Largest envelope_size().
inline constexpr std::size_t kMaxEnvelope = envelope_size(false, Encapsulation::srh);

/// From BTH to the last extension header of a data packet.
[[nodiscard]] constexpr std::size_t write_header_size(bool timestamp, bool immediate) noexcept {
  return sizeof(Bth) + sizeof(Meth) + (timestamp ? sizeof(Tseth) : 0) + sizeof(Reth) +
         (immediate ? sizeof(ImmDt) : 0);
}
/// Largest write_header_size().
inline constexpr std::size_t kMaxWriteHeader = write_header_size(true, true);

/// The payload is padded to a multiple of 4.
inline constexpr std::size_t kMaxPad = 3;
/// The iCRC at the end of a packet.
inline constexpr std::size_t kIcrcSize = 4;

/// Most bytes that a data packet's transport packet (BTH .. iCRC) has besides its payload.
inline constexpr std::uint32_t kMaxWriteOverhead = kMaxWriteHeader + kMaxPad + kIcrcSize;

/// Nominal packet size, which both sides use for congestion control: UDP length + 40, whatever the
/// IP headers are (mrc-1.0 [C-15]).
inline constexpr std::uint32_t kNominalIp = 40;
/// Nominal size of a packet with this UDP length, in bytes.
[[nodiscard]] constexpr std::uint32_t nominal_size(std::uint32_t udp_length) noexcept {
  return udp_length + kNominalIp;
}
/// What the nominal size adds to the transport packet.
inline constexpr std::uint32_t kNominalOverhead = nominal_size(sizeof(Udp));

static_assert(kEthernetLink == 38 && kMaxEnvelope == 112 && kMaxWriteHeader == 40);
static_assert(kMaxWriteOverhead == 47 && kNominalOverhead == 48);

}  // namespace mrc::inline v0_1::wire
