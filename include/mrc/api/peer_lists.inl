// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <charconv>
#include <system_error>

#include "mrc/api/peer_lists.hpp"
#include "mrc/core/error.hpp"

namespace mrc::inline v0_1 {

PeerPorts::PeerPorts(std::string_view text) {
  if (text.empty()) return;
  for (std::size_t comma = 0; comma != std::string_view::npos;) {
    comma = text.find(',');
    const std::string_view item = text.substr(0, comma);
    const std::size_t equals = item.find('=');
    std::uint16_t port = 0;
    const std::string_view digits =
        equals == std::string_view::npos ? std::string_view() : item.substr(equals + 1);
    const auto [end, failed] = std::from_chars(digits.begin(), digits.end(), port);
    if (failed != std::errc{} || end != digits.end() || port == 0)
      throw Error(Errc::invalid_argument,
                  "'" + std::string(item) + "': a UDP port, 1 to 65535, belongs behind '='");
    ports_.emplace_back(port::parse_network(item.substr(0, equals)), port);
    text.remove_prefix(comma == std::string_view::npos ? text.size() : comma + 1);
  }
}

namespace detail {

/// What parse(text) complains of, and what is allowed.
template <class Parse>
[[nodiscard]] std::string mistake_in_list(std::string_view text, std::string_view allowed,
                                          Parse&& parse) {
  try {
    parse(text);
    return {};
  } catch (const Error& error) {
    const std::string what = error.what();  // ends with the text of its code
    return "must be " + std::string(allowed) + " (" + what.substr(0, what.rfind(": ")) + ")";
  }
}

std::string mistake_in_peers_allowed(std::string_view text) {
  return mistake_in_list(text, "networks separated by commas: 10.0.0.0/8,fd00::/16",
                         [](std::string_view t) { (void)AllowedPeers(t); });
}

std::string mistake_in_peer_ports(std::string_view text) {
  return mistake_in_list(text, "NETWORK=PORT, separated by commas: 10.0.0.7=4971,fd00::/16=4971",
                         [](std::string_view t) { (void)PeerPorts(t); });
}

}  // namespace detail

}  // namespace mrc::inline v0_1
