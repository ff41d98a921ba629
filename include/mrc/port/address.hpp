// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>

#include <charconv>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "mrc/core/error.hpp"
#include "mrc/port/port.hpp"
#include "mrc/wire/ip.hpp"

/// IP addresses as text and back. Set-up calls: they allocate, and throw mrc::Error for bad text.
/// All functions are free of state and thread-safe.
namespace mrc::inline v0_1::port {

/// IPv6 in network byte order, or IPv4 mapped into it (::ffff:a.b.c.d).
using IpAddress = wire::IpAddress;

/// A local address as a plane is configured: an address, an interface, or both.
struct LocalAddress {
  IpAddress ip{};         ///< all zero: the first address of `interface`
  std::string interface;  ///< name, or empty; the scope of a link-local address

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

namespace detail {

/// Throws the Error of a text that is no address.
[[noreturn]] inline void bad_address(std::string_view text, const char* why) {
  throw Error(Errc::invalid_argument, "address '" + std::string(text) + "': " + why);
}

/// Either family, nothing but the address; false if it is none.
[[nodiscard]] inline bool ip_from_text(std::string_view text, IpAddress& out) noexcept {
  char buffer[INET6_ADDRSTRLEN];
  if (text.size() >= sizeof buffer) return false;
  std::memcpy(buffer, text.data(), text.size());
  buffer[text.size()] = '\0';
  in_addr v4{};
  if (inet_pton(AF_INET, buffer, &v4) == 1) {
    out = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF};
    std::memcpy(out.data() + 12, &v4, 4);
    return true;
  }
  return inet_pton(AF_INET6, buffer, out.data()) == 1;
}

/// The port after the colon of `whole`. Throws Error.
[[nodiscard]] inline std::uint16_t udp_port_from_text(std::string_view whole,
                                                      std::string_view text) {
  unsigned port = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), port);
  if (failed != std::errc{} || end != text.data() + text.size() || port == 0 || port > 65535)
    bad_address(whole, "the UDP port must be a number from 1 to 65535");
  return static_cast<std::uint16_t>(port);
}

}  // namespace detail

/// "192.0.2.1", "2001:db8::1" or "::ffff:192.0.2.1". Throws Error.
[[nodiscard]] inline IpAddress parse_ip(std::string_view text) {
  IpAddress ip{};
  if (!detail::ip_from_text(text, ip))
    detail::bad_address(text, "not a numeric IPv4 or IPv6 address");
  return ip;
}

/// "192.0.2.1", "192.0.2.1:4791", "2001:db8::1", "[2001:db8::1]" or "[2001:db8::1]:4791". Without a
/// port, `default_port` is taken. Throws Error.
[[nodiscard]] inline PeerAddress parse_address(std::string_view text,
                                               std::uint16_t default_port = wire::kUdpPort) {
  std::string_view host = text;
  std::string_view port;
  bool has_port = false;
  if (!text.empty() && text.front() == '[') {
    const std::size_t close = text.find(']');
    if (close == std::string_view::npos) detail::bad_address(text, "']' is missing");
    host = text.substr(1, close - 1);
    const std::string_view rest = text.substr(close + 1);
    if (!rest.empty() && rest.front() != ':')
      detail::bad_address(text, "only ':' and a port may follow ']'");
    has_port = !rest.empty();
    if (has_port) port = rest.substr(1);
  } else if (const std::size_t colon = text.find(':');
             colon != std::string_view::npos && colon == text.rfind(':')) {
    host = text.substr(0, colon);  // one colon only: not an IPv6 address
    port = text.substr(colon + 1);
    has_port = true;
  }
  PeerAddress address;
  if (!detail::ip_from_text(host, address.ip))
    detail::bad_address(text, "not a numeric IPv4 or IPv6 address");
  address.udp_port = has_port ? detail::udp_port_from_text(text, port) : default_port;
  return address;
}

/// "192.0.2.1", "2001:db8::1", "fe80::1%eth0", or an interface name such as "eth0". Throws Error;
/// whether the interface exists is found out when a socket is opened.
[[nodiscard]] inline LocalAddress parse_local_address(std::string_view text) {
  LocalAddress local;
  if (detail::ip_from_text(text, local.ip)) {
    if (is_link_local(local.ip)) detail::bad_address(text, "a link-local address needs %interface");
    return local;
  }
  const std::size_t percent = text.find('%');
  const std::string_view name = percent == std::string_view::npos ? text : text.substr(percent + 1);
  if (percent != std::string_view::npos) local.ip = parse_ip(text.substr(0, percent));
  if (name.empty() || name.size() > 15 || name.find_first_of(":/% ") != std::string_view::npos)
    detail::bad_address(text, "neither a numeric address nor an interface name");
  local.interface = name;
  return local;
}

/// "192.0.2.1" or "2001:db8::1".
[[nodiscard]] inline std::string format_ip(const IpAddress& ip) {
  char buffer[INET6_ADDRSTRLEN] = "";
  if (is_v4(ip))
    inet_ntop(AF_INET, ip.data() + 12, buffer, sizeof buffer);
  else
    inet_ntop(AF_INET6, ip.data(), buffer, sizeof buffer);
  return buffer;
}

/// "192.0.2.1:4791" or "[2001:db8::1]:4791"; parse_address() reads it back.
[[nodiscard]] inline std::string format_address(const PeerAddress& address) {
  const std::string host = format_ip(address.ip);
  return (is_v4(address.ip) ? host : "[" + host + "]") + ":" + std::to_string(address.udp_port);
}

}  // namespace mrc::inline v0_1::port
