// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "mrc/core/types.hpp"
#include "mrc/wire/endian.hpp"

/// IPv4, IPv6, UDP and segment routing headers as they stand in a packet (mrc-1.0 §1.1, §1.2,
/// §4.3).
namespace mrc::inline v0_1::wire {

/// An IPv6 address, or an IPv4 address mapped into one (::ffff:a.b.c.d).
using IpAddress = std::array<std::uint8_t, 16>;

/// An Ethernet address.
using MacAddress = std::array<std::uint8_t, 6>;

/// The numbers that follow an IP header, in IPv6's next header and IPv4's protocol field.
inline constexpr std::uint8_t kNextUdp = 17, kNextIpv6 = 41, kNextRouting = 43;
/// Destination port of MRC. 4971 is what some readers found printed: send the first, accept both
/// (mrc-1.0 [C-1]).
inline constexpr std::uint16_t kUdpPort = 4791, kUdpPortAlternative = 4971;
inline constexpr std::uint8_t kDefaultHopLimit = 64;

[[nodiscard]] constexpr std::uint8_t make_tos(std::uint8_t dscp, Ecn ecn) noexcept {
  return static_cast<std::uint8_t>(((dscp & 0x3F) << 2) | static_cast<std::uint8_t>(ecn));
}
[[nodiscard]] constexpr std::uint8_t dscp_of(std::uint8_t tos) noexcept {
  return static_cast<std::uint8_t>(tos >> 2);
}
[[nodiscard]] constexpr Ecn ecn_of(std::uint8_t tos) noexcept {
  return static_cast<Ecn>(tos & 3);
}

using Ipv4Address = std::array<std::uint8_t, 4>;

[[nodiscard]] constexpr IpAddress map_ipv4(const Ipv4Address& v4) noexcept {
  return {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF, v4[0], v4[1], v4[2], v4[3]};
}
[[nodiscard]] constexpr Ipv4Address unmap_ipv4(const IpAddress& a) noexcept {
  return {a[12], a[13], a[14], a[15]};
}
[[nodiscard]] constexpr bool is_mapped_ipv4(const IpAddress& a) noexcept {
  return map_ipv4(unmap_ipv4(a)) == a;
}

/// IPv6 header.
struct Ipv6 {
  Be32 version_tc_label = 0x60000000u;  ///< version 31:28, traffic class 27:20, flow label 19:0
  Be16 payload_length;
  std::uint8_t next_header = 0;
  std::uint8_t hop_limit = 0;
  IpAddress source{};
  IpAddress destination{};

  [[nodiscard]] constexpr std::uint8_t version() const noexcept {
    return static_cast<std::uint8_t>(version_tc_label >> 28);
  }
  [[nodiscard]] constexpr std::uint8_t traffic_class() const noexcept {
    return static_cast<std::uint8_t>(version_tc_label >> 20);
  }
  [[nodiscard]] constexpr std::uint8_t dscp() const noexcept { return dscp_of(traffic_class()); }
  [[nodiscard]] constexpr Ecn ecn() const noexcept { return ecn_of(traffic_class()); }
  [[nodiscard]] constexpr std::uint32_t flow_label() const noexcept {
    return version_tc_label & 0xFFFFFu;
  }
  /// Sets version 6 too; takes the low 20 bits of the label.
  constexpr void set_first_word(std::uint8_t traffic_class, std::uint32_t flow_label) noexcept {
    version_tc_label = 0x60000000u | std::uint32_t{traffic_class} << 20 | (flow_label & 0xFFFFFu);
  }
  constexpr void set_dscp(std::uint8_t dscp) noexcept {
    set_first_word(make_tos(dscp, ecn()), flow_label());
  }
};

/// IPv4 header without options.
struct Ipv4 {
  std::uint8_t version_ihl = 0x45;  ///< version 7:4, header length in 4-byte words 3:0
  std::uint8_t tos = 0;
  Be16 total_length;
  Be16 identification;
  Be16 flags_fragment;  ///< DF 14, MF 13, fragment offset 12:0
  std::uint8_t ttl = 0;
  std::uint8_t protocol = 0;
  Be16 checksum;
  Ipv4Address source{};
  Ipv4Address destination{};

  static constexpr std::uint16_t kDontFragment = 0x4000;
  /// MF and offset: any bit set means that this is a fragment.
  static constexpr std::uint16_t kFragmentMask = 0x3FFF;

  [[nodiscard]] constexpr std::uint8_t version() const noexcept {
    return static_cast<std::uint8_t>(version_ihl >> 4);
  }
  /// Header length in bytes, options included: 0 .. 60; below 20 the header is malformed.
  [[nodiscard]] constexpr std::size_t header_length() const noexcept {
    return (version_ihl & 0x0Fu) * 4u;
  }
  [[nodiscard]] constexpr std::uint8_t dscp() const noexcept { return dscp_of(tos); }
  [[nodiscard]] constexpr Ecn ecn() const noexcept { return ecn_of(tos); }
  /// The checksum becomes wrong.
  constexpr void set_dscp(std::uint8_t dscp) noexcept { tos = make_tos(dscp, ecn()); }
};

/// Internet checksum over an IPv4 header (an even number of bytes). With the checksum field zero it
/// is the value for that field; over a correct header it is 0.
[[nodiscard]] inline std::uint16_t ipv4_checksum(Bytes header) noexcept {
  std::uint32_t sum = 0;
  for (std::size_t i = 0; i + 1 < header.size(); i += 2)
    sum += static_cast<std::uint32_t>(header[i]) << 8 | header[i + 1];
  while ((sum >> 16) != 0) sum = (sum & 0xFFFF) + (sum >> 16);
  return static_cast<std::uint16_t>(~sum);
}

/// UDP header. The checksum may be 0 with IPv6 as well, and nobody here looks at it.
struct Udp {
  Be16 source_port;
  Be16 destination_port;
  Be16 length;  ///< this header and what follows; keeps its value when a packet is trimmed
  Be16 checksum;
};

/// Segment routing header, without its segments (16 bytes each, last one first).
struct Srh {
  std::uint8_t next_header = 0;
  std::uint8_t ext_length = 0;  ///< in 8-byte units, without the first; two per segment
  std::uint8_t routing_type = kRoutingType;
  std::uint8_t segments_left = 0;
  std::uint8_t last_entry = 0;  ///< index of the last segment
  std::uint8_t flags = 0;
  Be16 tag;

  static constexpr std::uint8_t kRoutingType = 4;

  /// Header, segments and whatever follows them in it, in bytes.
  [[nodiscard]] constexpr std::size_t total_length() const noexcept {
    return 8u * (ext_length + std::size_t{1});
  }
};

static_assert(sizeof(Ipv6) == 40 && alignof(Ipv6) == 1 && std::is_trivially_copyable_v<Ipv6>);
static_assert(offsetof(Ipv6, version_tc_label) == 0 && offsetof(Ipv6, payload_length) == 4);
static_assert(offsetof(Ipv6, next_header) == 6 && offsetof(Ipv6, hop_limit) == 7);
static_assert(offsetof(Ipv6, source) == 8 && offsetof(Ipv6, destination) == 24);
static_assert(sizeof(Ipv4) == 20 && alignof(Ipv4) == 1 && std::is_trivially_copyable_v<Ipv4>);
static_assert(offsetof(Ipv4, version_ihl) == 0 && offsetof(Ipv4, tos) == 1);
static_assert(offsetof(Ipv4, total_length) == 2 && offsetof(Ipv4, identification) == 4);
static_assert(offsetof(Ipv4, flags_fragment) == 6 && offsetof(Ipv4, ttl) == 8);
static_assert(offsetof(Ipv4, protocol) == 9 && offsetof(Ipv4, checksum) == 10);
static_assert(offsetof(Ipv4, source) == 12 && offsetof(Ipv4, destination) == 16);
static_assert(sizeof(Udp) == 8 && alignof(Udp) == 1 && std::is_trivially_copyable_v<Udp>);
static_assert(offsetof(Udp, source_port) == 0 && offsetof(Udp, destination_port) == 2);
static_assert(offsetof(Udp, length) == 4 && offsetof(Udp, checksum) == 6);
static_assert(sizeof(Srh) == 8 && alignof(Srh) == 1 && std::is_trivially_copyable_v<Srh>);
static_assert(offsetof(Srh, next_header) == 0 && offsetof(Srh, ext_length) == 1);
static_assert(offsetof(Srh, routing_type) == 2 && offsetof(Srh, segments_left) == 3);
static_assert(offsetof(Srh, last_entry) == 4 && offsetof(Srh, flags) == 5);
static_assert(offsetof(Srh, tag) == 6);

}  // namespace mrc::inline v0_1::wire
