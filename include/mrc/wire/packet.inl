// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstring>

#include "mrc/wire/icrc.hpp"
#include "mrc/wire/packet_build.hpp"
#include "mrc/wire/transport.hpp"

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

}  // namespace mrc::inline v0_1::wire
