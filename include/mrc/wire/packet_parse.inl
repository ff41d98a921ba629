// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>

#include "mrc/wire/icrc.hpp"
#include "mrc/wire/packet_parse.hpp"
#include "mrc/wire/transport.hpp"

namespace mrc::inline v0_1::wire {

namespace detail {

/// Copies the fields of the headers.
inline void read_headers(Bytes l3, const PacketLayout& at, const DscpMap& dscp,
                         ParsedPacket& out) noexcept {
  out.ip_version = at.ip_version;
  out.encapsulation = at.encapsulation;
  out.outer_dscp = dscp_of(at.outer_tos);
  out.outer_ecn = ecn_of(at.outer_tos);
  out.trim = dscp.classify(out.outer_dscp);
  if (at.ip_version == 6) {
    const Ipv6& ip = view_as<Ipv6>(l3.subspan(at.ip));
    out.source = ip.source;
    out.destination = ip.destination;
    out.flow_label = ip.flow_label();
  } else {
    const Ipv4& ip = view_as<Ipv4>(l3.subspan(at.ip));
    out.source = map_ipv4(ip.source);
    out.destination = map_ipv4(ip.destination);
  }
  const Udp& udp = view_as<Udp>(l3.subspan(at.udp));
  out.source_port = udp.source_port;
  out.destination_port = udp.destination_port;
  out.udp_length = udp.length;
}

/// Shortest UDP length: a packet without extension header.
inline constexpr std::size_t kMinUdpLength = sizeof(Udp) + sizeof(Bth) + kIcrcSize;

[[nodiscard]] inline PacketError finish(ParsedPacket& out, ParseError e) noexcept {
  out.transport_error = e;
  return e == ParseError::none ? PacketError::none : PacketError::bad_transport;
}

/// `after_udp`: what the IP length leaves of BTH .. iCRC.
[[nodiscard]] inline PacketError parse_trimmed(Bytes after_udp, ParsedPacket& out) noexcept {
  // A packet too short to be trimmed still carries its iCRC where the UDP length says. It is
  // excluded, so that `transport` never has an iCRC.
  const std::size_t before_icrc = out.udp_length - sizeof(Udp) - kIcrcSize;
  out.transport = after_udp.first(std::min(after_udp.size(), before_icrc));
  out.icrc = IcrcState::absent;
  TrimmedView view;
  return finish(out, view_trimmed(out.transport, view));
}

}  // namespace detail

PacketError parse_packet(Bytes l3, const ParseOptions& options, ParsedPacket& out) noexcept {
  out = {};
  PacketLayout at;
  if (const PacketError e = locate(l3, at); e != PacketError::none) return e;
  detail::read_headers(l3, at, options.dscp, out);
  if (std::find(options.udp_ports.begin(), options.udp_ports.end(), out.destination_port) ==
      options.udp_ports.end())
    return PacketError::foreign_port;
  if (out.udp_length < detail::kMinUdpLength) return PacketError::bad_udp_length;
  const Bytes after_udp = l3.subspan(at.udp, at.end - at.udp).subspan(sizeof(Udp));
  if (out.trim != Trim::none) return detail::parse_trimmed(after_udp, out);
  if (at.inner_cut) return PacketError::bad_ip_length;
  if (out.udp_length != sizeof(Udp) + after_udp.size()) return PacketError::bad_udp_length;
  out.transport = after_udp.first(after_udp.size() - kIcrcSize);
  if (options.check_icrc) {
    const IcrcPrefix prefix =
        IcrcPrefix::of_packet(l3.subspan(at.ip, at.udp - at.ip), view_as<Udp>(l3.subspan(at.udp)));
    out.check = load_icrc(after_udp.last(kIcrcSize).data()) - icrc(prefix, out.transport);
    out.icrc = out.check == 0 ? IcrcState::ok : IcrcState::bad;
    if (out.check != 0) return PacketError::bad_icrc;
  }
  return detail::finish(out, check(out.transport));
}

}  // namespace mrc::inline v0_1::wire
