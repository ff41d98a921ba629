// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <string_view>

#include "mrc/path/usid.hpp"
#include "mrc/wire/ip.hpp"

/// IPv6 addresses of a fabric as text and back.
namespace mrc::inline v0_1::fabric {

/// Nothing but a numeric IPv6 address.
[[nodiscard]] inline std::optional<wire::IpAddress> parse_ipv6(const std::string& text) {
  wire::IpAddress address{};
  // C's functions would stop at a zero byte.
  if (text.find('\0') != std::string::npos) return std::nullopt;
  if (inet_pton(AF_INET6, text.c_str(), address.data()) != 1) return std::nullopt;
  return address;
}

/// Six bytes in hexadecimal, two digits each, with ':' between them. Not the address of nobody, and
/// not one of a group.
[[nodiscard]] inline std::optional<wire::MacAddress> parse_mac(std::string_view text) {
  wire::MacAddress mac{};
  if (text.size() != 3 * mac.size() - 1) return std::nullopt;
  for (std::size_t i = 0; i < mac.size(); ++i) {
    const char* const digits = text.data() + 3 * i;
    if (std::from_chars(digits, digits + 2, mac[i], 16).ptr != digits + 2) return std::nullopt;
    if (i + 1 < mac.size() && digits[2] != ':') return std::nullopt;
  }
  if (mac == wire::MacAddress{} || (mac[0] & 1) != 0) return std::nullopt;
  return mac;
}

/// "02:00:00:00:00:0a".
[[nodiscard]] inline std::string format_mac(const wire::MacAddress& mac) {
  char text[18];
  std::snprintf(text, sizeof text, "%02x:%02x:%02x:%02x:%02x:%02x", mac[0], mac[1], mac[2], mac[3],
                mac[4], mac[5]);
  return text;
}

/// "fd00:1::2".
[[nodiscard]] inline std::string format_ipv6(const wire::IpAddress& address) {
  char text[INET6_ADDRSTRLEN] = "";
  inet_ntop(AF_INET6, address.data(), text, sizeof text);
  return text;
}

/// True for what names one host beyond its own links: neither multicast (ff00::/8) nor link-local
/// (fe80::/10) nor in ::/32, where ::, ::1 and the mapped IPv4 addresses are.
[[nodiscard]] constexpr bool is_routable(const wire::IpAddress& address) noexcept {
  const bool link_local = address[0] == 0xFE && (address[1] & 0xC0) == 0x80;
  return address[0] != 0xFF && !link_local && path::usid_block(address) != 0;
}

/// The upper 32 bits of a prefix such as "fcbb::/32". Nothing for any other length, or with more
/// bits set than those.
[[nodiscard]] inline std::optional<std::uint32_t> parse_block(const std::string& text) {
  constexpr std::string_view kLength = "/32";
  if (!text.ends_with(kLength)) return std::nullopt;
  const auto address = parse_ipv6(text.substr(0, text.size() - kLength.size()));
  if (!address || !is_routable(*address)) return std::nullopt;
  const std::uint32_t block = path::usid_block(*address);
  if (path::make_carrier(block, {}) != *address) return std::nullopt;
  return block;
}

/// "fcbb::/32".
[[nodiscard]] inline std::string format_block(std::uint32_t block) {
  return format_ipv6(path::make_carrier(block, {})) + "/32";
}

}  // namespace mrc::inline v0_1::fabric
