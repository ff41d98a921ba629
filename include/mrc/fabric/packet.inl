// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "mrc/fabric/packet.hpp"

#include <algorithm>
#include <cstring>

#include "mrc/wire/icrc.hpp"

namespace mrc::inline v0_1::wire {

namespace detail {

template <class H>
[[nodiscard]] inline std::uint8_t* put(std::uint8_t* at, const H& header) noexcept {
  std::memcpy(at, &header, sizeof header);
  return at + sizeof header;
}

/// `payload`: bytes after the IP header.
[[nodiscard]] inline Ipv6 make_ipv6(const Envelope& e, std::uint8_t next,
                                    std::size_t payload) noexcept {
  Ipv6 ip;
  ip.set_first_word(make_tos(e.dscp, e.ecn), e.flow_label);
  ip.payload_length = static_cast<std::uint16_t>(payload);
  ip.next_header = next;
  ip.hop_limit = e.hop_limit;
  ip.source = e.source;
  ip.destination = e.destination;
  return ip;
}

[[nodiscard]] inline Ipv4 make_ipv4(const Envelope& e, std::size_t payload) noexcept {
  Ipv4 ip;
  ip.tos = make_tos(e.dscp, e.ecn);
  ip.total_length = static_cast<std::uint16_t>(sizeof ip + payload);
  ip.flags_fragment = Ipv4::kDontFragment;
  ip.ttl = e.hop_limit;
  ip.protocol = kNextUdp;
  ip.source = unmap_ipv4(e.source);
  ip.destination = unmap_ipv4(e.destination);
  ip.checksum = ipv4_checksum({reinterpret_cast<const std::uint8_t*>(&ip), sizeof ip});
  return ip;
}

/// Outer IPv6 header and SRH; `inner`: bytes from the inner IP header on.
[[nodiscard]] inline std::uint8_t* put_outer(std::uint8_t* at, const Envelope& e,
                                             std::size_t inner) noexcept {
  const bool routed = e.encapsulation == Encapsulation::srh;
  const std::size_t srh_length = routed ? kSrhSize : 0;
  Ipv6 outer = make_ipv6(e, routed ? kNextRouting : kNextIpv6, srh_length + inner);
  outer.set_first_word(outer.traffic_class(), e.outer_flow_label);
  outer.source = e.outer_source;
  outer.destination = e.outer_destination;
  at = put(at, outer);
  if (!routed) return at;
  Srh srh;
  srh.next_header = kNextIpv6;
  srh.ext_length = 2;
  srh.segments_left = 1;  // the carrier in the destination address is not one of the segments
  return put(put(at, srh), e.segment);
}

}  // namespace detail

std::size_t build_envelope(MutableBytes out, const Envelope& e,
                           std::size_t transport_length) noexcept {
  const std::size_t size = e.size();
  const bool v4 = e.is_ipv4();
  if (out.size() < size || transport_length > 0xFFFF || size + transport_length > 0xFFFF) return 0;
  if (v4 != is_mapped_ipv4(e.source) || (v4 && e.encapsulation != Encapsulation::none)) return 0;
  const std::size_t udp_length = sizeof(Udp) + transport_length;
  std::uint8_t* at = out.data();
  if (e.encapsulation != Encapsulation::none)
    at = detail::put_outer(at, e, sizeof(Ipv6) + udp_length);
  at = v4 ? detail::put(at, detail::make_ipv4(e, udp_length))
          : detail::put(at, detail::make_ipv6(e, kNextUdp, udp_length));
  const Udp udp{e.source_port, e.destination_port, static_cast<std::uint16_t>(udp_length), {}};
  at = detail::put(at, udp);
  return static_cast<std::size_t>(at - out.data());
}

std::size_t build_packet(MutableBytes out, const Envelope& e, Bytes header,
                         std::span<const TxSge> payload, unsigned pad,
                         std::uint32_t check_seed) noexcept {
  if (header.size() < sizeof(Bth) || pad > kMaxPad) return 0;
  std::size_t length = header.size() + pad;
  for (const TxSge& sge : payload) length += sge.length;
  const std::size_t envelope = build_envelope(out, e, length + kIcrcSize);
  if (envelope == 0 || out.size() - envelope < length + kIcrcSize) return 0;
  std::uint8_t* at = out.data() + envelope;
  std::memcpy(at, header.data(), header.size());
  at += header.size();
  for (const TxSge& sge : payload) {
    if (sge.length != 0) std::memcpy(at, sge.data, sge.length);
    at += sge.length;
  }
  std::memset(at, 0, pad);
  at += pad;
  const std::size_t udp = envelope - sizeof(Udp);
  const std::size_t ip = udp - (e.is_ipv4() ? sizeof(Ipv4) : sizeof(Ipv6));
  const Bytes packet = out;
  const IcrcPrefix prefix =
      IcrcPrefix::of_packet(packet.subspan(ip, udp - ip), view_as<Udp>(packet.subspan(udp)));
  store_icrc(at, icrc(prefix, packet.subspan(envelope, length)) + check_seed);
  return envelope + length + kIcrcSize;
}

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

std::size_t trim_packet(MutableBytes packet, std::size_t keep, std::uint8_t dscp) noexcept {
  PacketLayout at;
  if (locate(packet, at) != PacketError::none) return 0;
  const std::size_t kept = std::min(std::max(keep, kTrimKeepMin), at.end - at.udp);
  const std::size_t end = at.udp + kept;
  if (at.ip_version == 4) {
    Ipv4& ip = *reinterpret_cast<Ipv4*>(packet.data());
    ip.total_length = static_cast<std::uint16_t>(end);
    set_dscp(ip, dscp);
    ip.checksum = 0;
    ip.checksum = ipv4_checksum(packet.first(at.udp));
    return end;
  }
  Ipv6& inner = *reinterpret_cast<Ipv6*>(packet.data() + at.ip);
  inner.payload_length = static_cast<std::uint16_t>(kept);
  Ipv6& outer = *reinterpret_cast<Ipv6*>(packet.data());
  outer.payload_length = static_cast<std::uint16_t>(end - sizeof(Ipv6));
  set_dscp(outer, dscp);
  return end;
}

}  // namespace mrc::inline v0_1::wire
