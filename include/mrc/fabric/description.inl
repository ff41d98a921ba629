// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "mrc/fabric/description.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <charconv>
#include <cstddef>
#include <cstdio>
#include <span>

namespace mrc::inline v0_1::fabric {

std::string switch_name(Plane plane, NodeKind kind, unsigned number) {
  return 'p' + std::to_string(plane) + (kind == NodeKind::t0 ? "t0-" : "t1-") +
         std::to_string(number);
}

const Host* Description::find_host(std::string_view host) const noexcept {
  for (const Host& h : hosts)
    if (h.name == host) return &h;
  return nullptr;
}

const Host* Description::find_host(Plane p, const wire::IpAddress& address) const noexcept {
  for (const Host& h : hosts)
    if (p < h.addresses.size() && h.addresses[p] == address) return &h;
  return nullptr;
}

path::Ipv6 Description::usid_prefix(Plane p, Usid usid) const noexcept {
  return path::make_carrier(blocks[p], std::span<const Usid>(&usid, 1));
}

std::optional<wire::IpAddress> parse_ipv6(const std::string& text) {
  wire::IpAddress address{};
  // inet_pton() would stop at a zero byte.
  if (text.find('\0') != std::string::npos) return std::nullopt;
  if (inet_pton(AF_INET6, text.c_str(), address.data()) != 1) return std::nullopt;
  return address;
}

std::optional<wire::MacAddress> parse_mac(std::string_view text) {
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

std::string format_mac(const wire::MacAddress& mac) {
  char text[18];
  std::snprintf(text, sizeof text, "%02x:%02x:%02x:%02x:%02x:%02x", mac[0], mac[1], mac[2], mac[3],
                mac[4], mac[5]);
  return text;
}

std::string format_ipv6(const wire::IpAddress& address) {
  char text[INET6_ADDRSTRLEN] = "";
  inet_ntop(AF_INET6, address.data(), text, sizeof text);
  return text;
}

std::optional<std::uint32_t> parse_block(const std::string& text) {
  constexpr std::string_view kLength = "/32";
  if (!text.ends_with(kLength)) return std::nullopt;
  const auto address = parse_ipv6(text.substr(0, text.size() - kLength.size()));
  if (!address || !is_routable(*address)) return std::nullopt;
  const std::uint32_t block = path::usid_block(*address);
  if (path::make_carrier(block, {}) != *address) return std::nullopt;
  return block;
}

std::string format_block(std::uint32_t block) {
  return format_ipv6(path::make_carrier(block, {})) + "/32";
}

}  // namespace mrc::inline v0_1::fabric
