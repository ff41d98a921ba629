// SPDX-License-Identifier: Apache-2.0
#include "mrc_ctl/serve/host_port.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace mrc::ctl_tool {
namespace {

bool is_host_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
         c == '-' || c == '_';
}

/// "fd00::1" or "fe80::1%eth0".
bool is_ipv6(const std::string& text) {
  const std::size_t percent = std::min(text.find('%'), text.size());
  const std::string zone = text.substr(percent);
  in6_addr address{};
  return ::inet_pton(AF_INET6, text.substr(0, percent).c_str(), &address) == 1 &&
         zone.size() != 1 && zone.size() <= 16 && zone.find_first_of("%/ ", 1) == zone.npos;
}

std::optional<std::uint16_t> parse_port(std::string_view text) {
  std::uint16_t port = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return port;
}

}  // namespace

std::optional<HostPort> parse_host_port(std::string_view text,
                                        std::optional<std::uint16_t> otherwise) {
  HostPort at;
  std::string_view rest;
  if (text.starts_with('[')) {
    const std::size_t end = text.find(']');
    if (end == text.npos) return std::nullopt;
    at.host = text.substr(1, end - 1);
    if (!is_ipv6(at.host)) return std::nullopt;
    rest = text.substr(end + 1);
  } else if (is_ipv6(std::string(text))) {
    at.host = text;
  } else {
    const std::size_t end = std::min(text.find(':'), text.size());
    at.host = text.substr(0, end);
    if (at.host.empty() || at.host.size() > 255 ||
        !std::all_of(at.host.begin(), at.host.end(), is_host_character))
      return std::nullopt;
    rest = text.substr(end);
  }
  std::optional<std::uint16_t> port = otherwise;
  if (!rest.empty()) port = rest[0] == ':' ? parse_port(rest.substr(1)) : std::nullopt;
  if (!port) return std::nullopt;
  at.port = *port;
  return at;
}

std::string to_string(const HostPort& at) {
  return at.host.find(':') == at.host.npos ? fmt::format("{}:{}", at.host, at.port)
                                           : fmt::format("[{}]:{}", at.host, at.port);
}

bool is_address(const std::string& host) {
  in_addr four{};
  return ::inet_pton(AF_INET, host.c_str(), &four) == 1 || is_ipv6(host);
}

}  // namespace mrc::ctl_tool
