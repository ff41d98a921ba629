// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>

#include "mrc/core/types.hpp"
#include "mrc/wire/ip.hpp"

/// What the receiver of a datagram is told of its IP header, in the form of RoCEv2: 40 bytes in
/// front of the payload, in the place of InfiniBand's global route header (GRH).
namespace mrc::inline v0_1::wire {

/// Bytes in front of each datagram in the receiver's memory.
inline constexpr std::size_t kGrhSize = 40;

/// Where a packet came from and how, read from the IP header nearest to UDP.
struct Origin {
  IpAddress source{};              ///< sender; IPv4 mapped
  IpAddress destination{};         ///< receiver; likewise
  std::uint32_t flow_label = 0;    ///< 20 bit; 0 on IPv4
  std::uint8_t traffic_class = 0;  ///< DSCP and ECN
  std::uint8_t hop_limit = 0;      ///< hops left; 0: the port can't see it
};

/// The 40 bytes for a packet of `udp_length` bytes from UDP header to iCRC: its IPv6 header, or 20
/// bytes of zeros and its IPv4 header. Programs tell the two apart by version and checksum.
[[nodiscard]] inline std::array<std::uint8_t, kGrhSize> make_grh(
    const Origin& o, std::uint32_t udp_length) noexcept {
  std::array<std::uint8_t, kGrhSize> grh{};
  if (is_mapped_ipv4(o.source) && is_mapped_ipv4(o.destination)) {
    Ipv4 ip;
    ip.tos = o.traffic_class;
    ip.total_length = static_cast<std::uint16_t>(sizeof(Ipv4) + udp_length);
    ip.flags_fragment = Ipv4::kDontFragment;
    ip.ttl = o.hop_limit;
    ip.protocol = kNextUdp;
    ip.source = unmap_ipv4(o.source);
    ip.destination = unmap_ipv4(o.destination);
    ip.checksum = ipv4_checksum({reinterpret_cast<const std::uint8_t*>(&ip), sizeof ip});
    std::memcpy(grh.data() + kGrhSize - sizeof ip, &ip, sizeof ip);
    return grh;
  }
  Ipv6 ip;
  ip.set_first_word(o.traffic_class, o.flow_label);
  ip.payload_length = static_cast<std::uint16_t>(udp_length);
  ip.next_header = kNextUdp;
  ip.hop_limit = o.hop_limit;
  ip.source = o.source;
  ip.destination = o.destination;
  std::memcpy(grh.data(), &ip, sizeof ip);
  return grh;
}

static_assert(sizeof(Ipv6) == kGrhSize);

/// The inverse of make_grh(); nothing if these are no such 40 bytes. Other makers leave anything in
/// the 20 bytes in front of an IPv4 header, which its checksum then makes known.
[[nodiscard]] inline std::optional<Origin> read_grh(Bytes grh) noexcept {
  if (grh.size() < kGrhSize) return std::nullopt;
  Ipv4 v4;
  std::memcpy(&v4, grh.data() + kGrhSize - sizeof v4, sizeof v4);
  if (v4.version() == 4 && v4.header_length() == sizeof v4 &&
      ipv4_checksum(grh.subspan(kGrhSize - sizeof v4, sizeof v4)) == 0)
    return Origin{map_ipv4(v4.source), map_ipv4(v4.destination), 0, v4.tos, v4.ttl};
  Ipv6 v6;
  std::memcpy(&v6, grh.data(), sizeof v6);
  if (v6.version() != 6) return std::nullopt;
  return Origin{v6.source, v6.destination, v6.flow_label(), v6.traffic_class(), v6.hop_limit};
}

}  // namespace mrc::inline v0_1::wire
