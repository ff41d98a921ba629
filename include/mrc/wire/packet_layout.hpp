// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "mrc/core/types.hpp"
#include "mrc/wire/ip.hpp"
#include "mrc/wire/overhead.hpp"
#include "mrc/wire/transport.hpp"

/// Offsets of the headers of a whole layer 3 packet (mrc-1.0 §1.1).
namespace mrc::inline v0_1::wire {

/// Why a packet is not usable. Suitable as an index for counters (count_ of them).
enum class PacketError : std::uint8_t {
  none = 0,
  too_short,        ///< ends within the IP, routing or UDP header
  bad_ip_version,   ///< neither 4 nor 6, or not 6 inside IPv6
  bad_ip_length,    ///< an IP length that contradicts the packet or the header around it
  bad_ip_checksum,  ///< of an IPv4 header
  fragment,         ///< MRC packets are never fragmented
  bad_srh,          ///< a routing header that is malformed or no SRH
  not_udp,          ///< payload other than UDP
  foreign_port,     ///< UDP, but to a port other than MRC's
  bad_udp_length,   ///< UDP length that is not the IP payload's, or without room for BTH and iCRC
  bad_icrc,
  bad_transport,  ///< see ParsedPacket::transport_error
  count_,
};

/// Short English text for an error; static storage.
[[nodiscard]] constexpr const char* to_string(PacketError e) noexcept {
  switch (e) {
    case PacketError::none:
      return "none";
    case PacketError::too_short:
      return "too short";
    case PacketError::bad_ip_version:
      return "bad IP version";
    case PacketError::bad_ip_length:
      return "bad IP length";
    case PacketError::bad_ip_checksum:
      return "bad IPv4 header checksum";
    case PacketError::fragment:
      return "IP fragment";
    case PacketError::bad_srh:
      return "bad segment routing header";
    case PacketError::not_udp:
      return "not UDP";
    case PacketError::foreign_port:
      return "foreign UDP port";
    case PacketError::bad_udp_length:
      return "bad UDP length";
    case PacketError::bad_icrc:
      return "bad iCRC";
    case PacketError::bad_transport:
      return "bad transport header";
    case PacketError::count_:
      break;
  }
  return "unknown packet error";
}

/// Offsets from the packet's first byte. All headers named here lie inside the packet.
struct PacketLayout {
  std::size_t ip = 0;   ///< IP header nearest to UDP
  std::size_t udp = 0;  ///< UDP header; the IP header ends here
  std::size_t end = 0;  ///< end according to the outermost IP length; the rest is link padding
  Encapsulation encapsulation = Encapsulation::none;  ///< headers outside the IP header at `ip`
  std::uint8_t ip_version = 0;                        ///< of the header at `ip`
  std::uint8_t outer_tos = 0;  ///< ToS or traffic class of the outermost header
  /// The inner IP length exceeds what the outer one leaves: a switch that adjusts only the outer
  /// header has trimmed the packet.
  bool inner_cut = false;
};

namespace detail {

[[nodiscard]] inline PacketError locate_ipv4(Bytes l3, PacketLayout& out) noexcept {
  if (l3.size() < sizeof(Ipv4)) return PacketError::too_short;
  const Ipv4& ip = view_as<Ipv4>(l3);
  out.ip_version = 4;
  out.outer_tos = ip.tos;
  out.udp = ip.header_length();
  out.end = ip.total_length;
  if (out.udp < sizeof(Ipv4) || out.end < out.udp) return PacketError::bad_ip_length;
  if (out.udp > l3.size()) return PacketError::too_short;
  if (out.end > l3.size()) return PacketError::bad_ip_length;
  if (ipv4_checksum(l3.first(out.udp)) != 0) return PacketError::bad_ip_checksum;
  if ((ip.flags_fragment & Ipv4::kFragmentMask) != 0) return PacketError::fragment;
  if (ip.protocol != kNextUdp) return PacketError::not_udp;
  return out.end - out.udp < sizeof(Udp) ? PacketError::too_short : PacketError::none;
}

/// Advances `at` over an SRH; an IPv6 header must follow.
[[nodiscard]] inline PacketError skip_srh(Bytes packet, std::size_t& at) noexcept {
  if (packet.size() - at < sizeof(Srh)) return PacketError::too_short;
  const Srh& srh = view_as<Srh>(packet.subspan(at));
  const unsigned segments = srh.last_entry + 1u;
  if (srh.routing_type != Srh::kRoutingType || srh.ext_length < 2 * segments ||
      srh.segments_left > segments)
    return PacketError::bad_srh;
  if (packet.size() - at < srh.total_length()) return PacketError::too_short;
  if (srh.next_header != kNextIpv6) return PacketError::not_udp;
  at += srh.total_length();
  return PacketError::none;
}

[[nodiscard]] inline PacketError locate_ipv6(Bytes l3, PacketLayout& out) noexcept {
  if (l3.size() < sizeof(Ipv6)) return PacketError::too_short;
  const Ipv6& outer = view_as<Ipv6>(l3);
  out.ip_version = 6;
  out.outer_tos = outer.traffic_class();
  out.end = sizeof(Ipv6) + outer.payload_length;
  if (out.end > l3.size()) return PacketError::bad_ip_length;
  const Bytes packet = l3.first(out.end);
  std::size_t at = sizeof(Ipv6);
  std::uint8_t next = outer.next_header;
  if (next == kNextRouting) {
    if (const PacketError e = skip_srh(packet, at); e != PacketError::none) return e;
    out.encapsulation = Encapsulation::srh;
  } else if (next == kNextIpv6) {
    out.encapsulation = Encapsulation::ipv6_in_ipv6;
  }
  if (out.encapsulation != Encapsulation::none) {
    if (packet.size() - at < sizeof(Ipv6)) return PacketError::too_short;
    const Ipv6& inner = view_as<Ipv6>(packet.subspan(at));
    if (inner.version() != 6) return PacketError::bad_ip_version;
    out.ip = at;
    at += sizeof(Ipv6);
    if (inner.payload_length < packet.size() - at) return PacketError::bad_ip_length;
    out.inner_cut = inner.payload_length > packet.size() - at;
    next = inner.next_header;
  }
  if (next != kNextUdp) return PacketError::not_udp;
  out.udp = at;
  return packet.size() - at < sizeof(Udp) ? PacketError::too_short : PacketError::none;
}

}  // namespace detail

/// Locates the headers of a packet that starts with its outermost IP header. Safe on any input;
/// `out` is valid only when the result is none. Does not check the UDP header's fields.
[[nodiscard]] inline PacketError locate(Bytes l3, PacketLayout& out) noexcept {
  out = {};
  if (l3.empty()) return PacketError::too_short;
  switch (l3[0] >> 4) {
    case 4:
      return detail::locate_ipv4(l3, out);
    case 6:
      return detail::locate_ipv6(l3, out);
    default:
      return PacketError::bad_ip_version;
  }
}

}  // namespace mrc::inline v0_1::wire
