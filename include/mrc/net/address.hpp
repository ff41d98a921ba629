// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "mrc/core/linkage.hpp"
#include "mrc/wire/ip.hpp"

namespace mrc::inline v0_1::port {

/// IP addresses as text and back: set-up calls, any thread.

/// IPv6 in network byte order, or IPv4 mapped into it (::ffff:a.b.c.d).
using IpAddress = wire::IpAddress;

/// Where a peer is reached in one plane.
struct PeerAddress {
  std::array<std::uint8_t, 16> ip{};  ///< IPv6, or IPv4 mapped (::ffff:a.b.c.d)
  std::uint16_t udp_port = 0;         ///< host byte order

  /// Equal in every field.
  friend bool operator==(const PeerAddress&, const PeerAddress&) = default;
};

/// A local address as a plane is configured: an address, an interface, or both.
struct LocalAddress {
  IpAddress ip{};         ///< all zero: the first address of `interface`
  std::string interface;  ///< name, or empty; the scope of a link-local address

  /// Equal in both fields.
  friend bool operator==(const LocalAddress&, const LocalAddress&) = default;
};

/// True for an IPv4-mapped address.
[[nodiscard]] constexpr bool is_v4(const IpAddress& ip) noexcept {
  return wire::is_mapped_ipv4(ip);
}
/// True for :: and for 0.0.0.0, which name no single address.
[[nodiscard]] constexpr bool is_unspecified(const IpAddress& ip) noexcept {
  for (std::size_t i = is_v4(ip) ? 12 : 0; i < 16; ++i)
    if (ip[i] != 0) return false;
  return true;
}
/// True for fe80::/10, which needs an interface to be reached.
[[nodiscard]] constexpr bool is_link_local(const IpAddress& ip) noexcept {
  return ip[0] == 0xFE && (ip[1] & 0xC0) == 0x80;
}
/// True for 127.0.0.0/8 and ::1.
[[nodiscard]] constexpr bool is_loopback(const IpAddress& ip) noexcept {
  if (is_v4(ip)) return ip[12] == 127;
  for (std::size_t i = 0; i < 15; ++i)
    if (ip[i] != 0) return false;
  return ip[15] == 1;
}

/// The address a.b.c.d in mapped form.
[[nodiscard]] constexpr IpAddress make_v4(std::uint8_t a, std::uint8_t b, std::uint8_t c,
                                          std::uint8_t d) noexcept {
  return {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF, a, b, c, d};
}

/// Tag of a sender in RxPacket::source: a 64-bit hash of the IP address alone, never 0. Without the
/// UDP port, since every path of a peer has its own source port.
[[nodiscard]] inline std::uint64_t source_tag(const IpAddress& ip) noexcept {
  std::uint64_t half[2];
  std::memcpy(half, ip.data(), sizeof half);
  std::uint64_t h = half[0] * 0x9E3779B97F4A7C15u;
  h = (h ^ (h >> 32) ^ half[1]) * 0xD6E8FEB86659FD93u;
  h = (h ^ (h >> 32)) * 0xD6E8FEB86659FD93u;
  h ^= h >> 32;
  return h != 0 ? h : 1;
}

/// "192.0.2.1", "2001:db8::1" or "::ffff:192.0.2.1". Throws Error.
[[nodiscard]] MRC_API IpAddress parse_ip(std::string_view text);

/// "192.0.2.1", "192.0.2.1:4791", "2001:db8::1", "[2001:db8::1]" or "[2001:db8::1]:4791". Without a
/// port, `default_port` is taken; the interface of a link-local address, "[fe80::1%eth0]:4791", is
/// left out. Throws Error.
[[nodiscard]] MRC_API PeerAddress parse_address(std::string_view text,
                                                std::uint16_t default_port = wire::kUdpPort);

/// "192.0.2.1", "2001:db8::1", "fe80::1%eth0", or an interface name such as "eth0". Throws Error;
/// whether the interface exists is found out when a socket is opened.
[[nodiscard]] LocalAddress parse_local_address(std::string_view text);

/// "192.0.2.1" or "2001:db8::1".
[[nodiscard]] MRC_API std::string format_ip(const IpAddress& ip);

/// "192.0.2.1:4791" or "[2001:db8::1]:4791"; parse_address() reads it back.
[[nodiscard]] MRC_API std::string format_address(const PeerAddress& address);

/// "192.0.2.1", "2001:db8::1" or "fe80::1%eth0": a link-local address has its interface.
[[nodiscard]] std::string format_local(const LocalAddress& local);

/// The same with a UDP port: "192.0.2.1:4791" or "[fe80::1%eth0]:4791"; parse_address() reads the
/// address and the port back.
[[nodiscard]] std::string format_local(const LocalAddress& local, std::uint16_t udp_port);

/// A range of addresses of one IP version: a network, or a single address. A plain value.
struct Network {
  IpAddress base{};   ///< IPv4 mapped
  unsigned bits = 0;  ///< that an address must share with `base`, of 128; of IPv4 at least 96

  /// Is that address in it? IPv6 networks contain no IPv4 address.
  [[nodiscard]] constexpr bool contains(const IpAddress& ip) const noexcept {
    if (is_v4(ip) != is_v4(base)) return false;
    const std::size_t whole = bits / 8;
    for (std::size_t i = 0; i < whole; ++i)
      if (ip[i] != base[i]) return false;
    return bits % 8 == 0 || ((ip[whole] ^ base[whole]) >> (8 - bits % 8)) == 0;
  }

  /// Equal in both fields.
  friend bool operator==(const Network&, const Network&) = default;
};

/// "10.0.0.0/8", "fd00::/16", or an address, which is a network of its own. Throws Error, also if
/// bits of the address behind the prefix are set, since such a network is rarely the one meant.
[[nodiscard]] MRC_API Network parse_network(std::string_view text);

/// Networks separated by commas; none in an empty text. Throws Error.
[[nodiscard]] MRC_API std::vector<Network> parse_networks(std::string_view text);

}  // namespace mrc::inline v0_1::port
