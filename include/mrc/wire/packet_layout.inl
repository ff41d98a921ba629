// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "mrc/wire/ip.hpp"
#include "mrc/wire/packet_layout.hpp"
#include "mrc/wire/transport.hpp"

namespace mrc::inline v0_1::wire {

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

/// Advances `at` past an SRH, which must be followed by an IPv6 header.
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

PacketError locate(Bytes l3, PacketLayout& out) noexcept {
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
