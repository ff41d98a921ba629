// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "mrc/net/address.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <charconv>
#include <system_error>

#include "mrc/core/error.hpp"

namespace mrc::inline v0_1::port {

namespace detail {

/// Throws the Error of a text that is no address.
[[noreturn]] inline void bad_address(std::string_view text, const char* why) {
  throw Error(Errc::invalid_argument, "address '" + std::string(text) + "': " + why);
}

/// Either family, nothing but the address; false if it is none.
[[nodiscard]] bool ip_from_text(std::string_view text, IpAddress& out) noexcept {
  char buffer[INET6_ADDRSTRLEN] = {};
  if (text.size() >= sizeof buffer) return false;
  std::memcpy(buffer, text.data(), text.size());
  IpAddress v4 = make_v4(0, 0, 0, 0);
  if (inet_pton(AF_INET, buffer, v4.data() + 12) != 1)
    return inet_pton(AF_INET6, buffer, out.data()) == 1;
  out = v4;
  return true;
}

/// The port after the colon of `whole`. Throws Error.
[[nodiscard]] std::uint16_t udp_port_from_text(std::string_view whole, std::string_view text) {
  unsigned port = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), port);
  if (failed != std::errc{} || end != text.data() + text.size() || port == 0 || port > 65535)
    bad_address(whole, "the UDP port must be a number from 1 to 65535");
  return static_cast<std::uint16_t>(port);
}

/// Throws the Error of a text that is no network.
[[noreturn]] inline void bad_network(std::string_view text, const std::string& why) {
  throw Error(Errc::invalid_argument, "network '" + std::string(text) + "': " + why);
}

}  // namespace detail

IpAddress parse_ip(std::string_view text) {
  IpAddress ip{};
  if (!detail::ip_from_text(text, ip))
    detail::bad_address(text, "not a numeric IPv4 or IPv6 address");
  return ip;
}

PeerAddress parse_address(std::string_view text, std::uint16_t default_port) {
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
  const std::size_t percent = host.find('%');
  if (!detail::ip_from_text(host.substr(0, percent), address.ip) ||
      (percent != std::string_view::npos && !is_link_local(address.ip)))
    detail::bad_address(text, "not a numeric IPv4 or IPv6 address");
  address.udp_port = has_port ? detail::udp_port_from_text(text, port) : default_port;
  return address;
}

LocalAddress parse_local_address(std::string_view text) {
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

std::string format_ip(const IpAddress& ip) {
  char buffer[INET6_ADDRSTRLEN] = "";
  if (is_v4(ip))
    inet_ntop(AF_INET, ip.data() + 12, buffer, sizeof buffer);
  else
    inet_ntop(AF_INET6, ip.data(), buffer, sizeof buffer);
  return buffer;
}

std::string format_address(const PeerAddress& address) {
  const std::string host = format_ip(address.ip);
  return (is_v4(address.ip) ? host : "[" + host + "]") + ":" + std::to_string(address.udp_port);
}

std::string format_local(const LocalAddress& local) {
  const bool zone = is_link_local(local.ip) && !local.interface.empty();
  return format_ip(local.ip) + (zone ? "%" + local.interface : "");
}

std::string format_local(const LocalAddress& local, std::uint16_t udp_port) {
  const std::string host = format_local(local);
  return (is_v4(local.ip) ? host : "[" + host + "]") + ":" + std::to_string(udp_port);
}

Network parse_network(std::string_view text) {
  const std::size_t slash = text.find('/');
  Network network;
  network.base = parse_ip(text.substr(0, slash));
  const unsigned most = is_v4(network.base) ? 32 : 128;
  unsigned length = most;
  if (slash != std::string_view::npos) {
    const std::string_view digits = text.substr(slash + 1);
    const auto [end, failed] = std::from_chars(digits.begin(), digits.end(), length);
    if (failed != std::errc{} || end != digits.end() || length > most)
      detail::bad_network(
          text, "behind '/' belongs the length of the prefix, 0 to " + std::to_string(most));
  }
  network.bits = length + 128 - most;
  for (unsigned bit = network.bits; bit < 128; ++bit)
    if ((network.base[bit / 8] >> (7 - bit % 8) & 1) != 0)
      detail::bad_network(
          text, "bits of the address are set behind the prefix of " + std::to_string(length));
  return network;
}

std::vector<Network> parse_networks(std::string_view text) {
  std::vector<Network> networks;
  if (text.empty()) return networks;
  for (std::size_t comma = 0; comma != std::string_view::npos;) {
    comma = text.find(',');
    networks.push_back(parse_network(text.substr(0, comma)));
    text.remove_prefix(comma == std::string_view::npos ? text.size() : comma + 1);
  }
  return networks;
}

}  // namespace mrc::inline v0_1::port
