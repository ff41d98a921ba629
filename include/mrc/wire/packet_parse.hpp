// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "mrc/core/types.hpp"
#include "mrc/wire/dscp.hpp"
#include "mrc/wire/entropy.hpp"
#include "mrc/wire/icrc.hpp"
#include "mrc/wire/packet_layout.hpp"

namespace mrc::inline v0_1::wire {

/// What a receiver accepts.
struct ParseOptions {
  DscpMap dscp{};  ///< to recognize trimmed packets
  /// Accepted UDP destination ports.
  std::array<std::uint16_t, 2> udp_ports{kUdpPort, kUdpPortAlternative};
  bool check_icrc =
      true;  ///< false only if the iCRC is verified elsewhere, for instance by hardware
};

/// Result of the iCRC check of a received packet.
enum class IcrcState : std::uint8_t {
  ok,
  bad,
  absent,     ///< cut off with the payload (trimmed packet)
  unchecked,  ///< check_icrc is off
};

/// A parsed packet. Points into the bytes parsed.
struct ParsedPacket {
  Bytes transport;               ///< BTH .. payload and pad; of a trimmed packet what is left of it
  IpAddress source{};            ///< of the IP header nearest to UDP, IPv4 mapped
  IpAddress destination{};       ///< likewise
  std::uint32_t flow_label = 0;  ///< of the IP header nearest to UDP; 0 on IPv4
  std::uint16_t source_port = 0;       ///< UDP source port
  std::uint16_t destination_port = 0;  ///< UDP destination port
  std::uint16_t udp_length = 0;        ///< field value, so the untrimmed length of a trimmed packet
  std::uint8_t ip_version = 0;         ///< of the IP header nearest to UDP
  std::uint8_t outer_dscp = 0;         ///< of the outermost header, which switches rewrite
  Ecn outer_ecn = Ecn::not_ect;        ///< likewise
  Trim trim = Trim::none;              ///< from outer_dscp
  IcrcState icrc = IcrcState::unchecked;  ///< result of the check
  /// Headers outside the IP header nearest to UDP.
  Encapsulation encapsulation = Encapsulation::none;
  ParseError transport_error = ParseError::none;  ///< set with PacketError::bad_transport

  /// The header fields that carry the EV.
  [[nodiscard]] WireEntropy entropy() const noexcept { return {source_port, flow_label}; }
};

namespace detail {

/// Copies header fields to `out`.
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

/// Shortest UDP length: BTH and iCRC without extension header.
inline constexpr std::size_t kMinUdpLength = sizeof(Udp) + sizeof(Bth) + kIcrcSize;

[[nodiscard]] inline PacketError finish(ParsedPacket& out, ParseError e) noexcept {
  out.transport_error = e;
  return e == ParseError::none ? PacketError::none : PacketError::bad_transport;
}

/// `after_udp`: bytes from BTH on, according to the IP length.
[[nodiscard]] inline PacketError parse_trimmed(Bytes after_udp, ParsedPacket& out) noexcept {
  // A packet marked as trimmed that was short enough to keep all its bytes still ends with its
  // iCRC, at the end given by the UDP length. Drop it, so that all trimmed packets have the same
  // form.
  const std::size_t before_icrc = out.udp_length - sizeof(Udp) - kIcrcSize;
  out.transport = after_udp.first(std::min(after_udp.size(), before_icrc));
  out.icrc = IcrcState::absent;
  TrimmedView view;
  return finish(out, view_trimmed(out.transport, view));
}

}  // namespace detail

/// Parses a packet that starts with its outermost IP header: steps 1 to 5 of mrc-1.0 §2.13. Safe on
/// any input. After an error `out` holds what had been read until then, for diagnosis only. A
/// packet whose DSCP marks it as trimmed is read as far as possible and has no iCRC; use
/// view_trimmed(). The UDP checksum is ignored.
[[nodiscard]] inline PacketError parse_packet(Bytes l3, const ParseOptions& options,
                                              ParsedPacket& out) noexcept {
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
    const bool good = icrc(prefix, out.transport) == load_icrc(after_udp.last(kIcrcSize).data());
    out.icrc = good ? IcrcState::ok : IcrcState::bad;
    if (!good) return PacketError::bad_icrc;
  }
  return detail::finish(out, check(out.transport));
}

}  // namespace mrc::inline v0_1::wire
