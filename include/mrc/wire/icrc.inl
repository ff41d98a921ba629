// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "mrc/wire/icrc.hpp"

namespace mrc::inline v0_1::wire {

namespace detail {

/// Sets the fields that switches may change to all ones.
inline void mask(Ipv6& ip) noexcept {
  ip.set_first_word(0xFF, 0xFFFFF);
  ip.hop_limit = 0xFF;
}
inline void mask(Ipv4& ip) noexcept {
  ip.tos = 0xFF;
  ip.ttl = 0xFF;
  ip.checksum = 0xFFFF;
}

}  // namespace detail

IcrcPrefix IcrcPrefix::of_packet(Bytes ip, const Udp& udp) noexcept {
  assert(ip.size() >= sizeof(Ipv4) && ip.size() <= kMaxIpHeader);
  IcrcPrefix prefix;
  prefix.image.fill(0xFF);
  std::uint8_t* at = prefix.image.data() + kOnes;
  std::memcpy(at, ip.data(), ip.size());
  if ((ip[0] >> 4) == 6)
    detail::mask(*reinterpret_cast<Ipv6*>(at));
  else
    detail::mask(*reinterpret_cast<Ipv4*>(at));
  Udp masked = udp;
  masked.checksum = 0xFFFF;
  std::memcpy(at + ip.size(), &masked, sizeof masked);
  prefix.length = static_cast<std::uint8_t>(kOnes + ip.size() + sizeof masked);
  return prefix;
}

IcrcPrefix IcrcPrefix::make(const IpAddress& source, const IpAddress& destination,
                            std::uint16_t udp_destination_port) noexcept {
  Udp udp;
  udp.destination_port = udp_destination_port;
  if (is_mapped_ipv4(destination)) {
    Ipv4 ip;
    ip.flags_fragment = Ipv4::kDontFragment;
    ip.protocol = kNextUdp;
    ip.source = unmap_ipv4(source);
    ip.destination = unmap_ipv4(destination);
    return of_packet({reinterpret_cast<const std::uint8_t*>(&ip), sizeof ip}, udp);
  }
  Ipv6 ip;
  ip.next_header = kNextUdp;
  ip.source = source;
  ip.destination = destination;
  return of_packet({reinterpret_cast<const std::uint8_t*>(&ip), sizeof ip}, udp);
}

}  // namespace mrc::inline v0_1::wire
