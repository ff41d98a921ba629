// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <charconv>
#include <string>
#include <system_error>

#include "mrc/core/error.hpp"
#include "mrc/net/ip_network.hpp"

namespace mrc::inline v0_1::port {

namespace detail {

/// Throws the Error of a text that is no network.
[[noreturn]] inline void bad_network(std::string_view text, const std::string& why) {
  throw Error(Errc::invalid_argument, "network '" + std::string(text) + "': " + why);
}

}  // namespace detail

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
