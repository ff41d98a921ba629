// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "mrc/config.hpp"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdlib>
#include <optional>
#include <system_error>
#include <utility>

#include "mrc/api/option_table.hpp"
#include "mrc/core/error.hpp"
#include "mrc/core/types.hpp"
#include "mrc/core/value_text.hpp"

namespace mrc::inline v0_1 {

namespace detail {

/// The count of "loopback:N" (`prefix` "loopback:"), or nothing when `text` starts otherwise.
/// Throws when N is not 1 .. kMaxPlanes.
[[nodiscard]] std::optional<unsigned> loopback_count(const Config& c, std::string_view text,
                                                     std::string_view prefix) {
  if (!text.starts_with(prefix)) return std::nullopt;
  const auto count = parse_integer<unsigned>(text.substr(prefix.size()));
  if (!count || *count < 1 || *count > kMaxPlanes)
    throw not_allowed(setting_name("planes", c), text,
                      std::string(prefix) + "N with N from 1 to " + std::to_string(kMaxPlanes));
  return count;
}

void check_ports(const Config& c, const std::vector<std::string>& planes) {
  // Planes on one address use UDP ports 256 apart, which leaves room for the slots.
  std::size_t repeats = 0;
  for (const auto& plane : planes)
    repeats = std::max(
        repeats, static_cast<std::size_t>(std::count(planes.begin(), planes.end(), plane)) - 1);
  const std::size_t last =
      c.udp_port + static_cast<std::size_t>(std::max(c.slot, 0)) + repeats * 256;
  if (last <= 65535) return;
  const std::size_t added = last - c.udp_port;
  throw not_allowed(setting_name("udp_port", c), std::to_string(c.udp_port),
                    "up to " + std::to_string(65535 - added) + ", since " +
                        setting_name("slot", c) + " " + std::to_string(c.slot) + " and " +
                        setting_name("planes", c) + " add " + std::to_string(added) +
                        ", which leads to UDP port " + std::to_string(last));
}

void check_paths(const Config& c, std::size_t plane_count) {
  const std::size_t all = plane_count * c.paths;
  if (c.active_paths > all)
    throw not_allowed(setting_name("active_paths", c), std::to_string(c.active_paths),
                      "up to 'planes' x 'paths' = " + std::to_string(all));
  const std::size_t active = c.active_paths == 0 ? all : c.active_paths;
  if (c.min_active_paths > active)
    throw not_allowed(setting_name("min_active_paths", c), std::to_string(c.min_active_paths),
                      "up to the active paths, " + std::to_string(active));
}

/// A receiver recognises trimmed packets by their DSCP alone (mrc-1.0 §1.12), so no other class may
/// have the same value. The two trimmed classes may be equal: then every trim counts as made by a
/// switch before the last hop.
void check_classes(const Config& c) {
  using Class = std::pair<std::string_view, std::uint8_t>;
  for (const auto& [mark, mark_value] :
       {Class{"dscp_trimmed", c.expert.dscp_trimmed},
        Class{"dscp_trimmed_last_hop", c.expert.dscp_trimmed_last_hop}})
    for (const auto& [name, value] : {Class{"dscp_no_trim", c.expert.dscp_no_trim},
                                      Class{"dscp_trimmable", c.expert.dscp_trimmable},
                                      Class{"dscp_trimmable_retx", c.expert.dscp_trimmable_retx},
                                      Class{"dscp_control", c.expert.dscp_control}})
      if (mark_value == value)
        throw not_allowed(setting_name(mark, c), std::to_string(mark_value),
                          "another value than that of " + setting_name(name, c) +
                              ", or such packets would be taken for trimmed ones");
}

}  // namespace detail

std::vector<std::string> Config::plane_list() const {
  std::vector<std::string> list;
  for (const auto& text : planes) {
    if (const auto count = detail::loopback_count(*this, text, "loopback:")) {
      for (unsigned i = 1; i <= *count; ++i) list.push_back("127.0.0." + std::to_string(i));
    } else if (const auto count6 = detail::loopback_count(*this, text, "loopback6:")) {
      list.insert(list.end(), *count6, "::1");
    } else {
      if (text.empty() || std::count(planes.begin(), planes.end(), text) != 1)
        throw not_allowed(detail::setting_name("planes", *this), text,
                          "elements that are not empty and none more than once");
      list.push_back(text);
    }
  }
  if (list.empty() || list.size() > kMaxPlanes)
    throw not_allowed(detail::setting_name("planes", *this),
                      value_text(*find_option("planes"), *this),
                      "1 .. 32 planes, these are " + std::to_string(list.size()));
  return list;
}

void Config::validate() const {
  for (const Option& option : options())
    if (!value_allowed(option, *this))
      throw value_error(option, value_text(option, *this),
                        detail::setting_name(option.name, *this));
  if (strict && peer == PeerKind::openmrc)
    throw not_allowed(detail::setting_name("peer", *this), "openmrc",
                      "any or mrc, since " + detail::setting_name("strict", *this) +
                          " is on: OpenMRC's extensions, by which such a peer is known, are off");
  const auto list = plane_list();
  detail::check_ports(*this, list);
  detail::check_paths(*this, list.size());
  detail::check_classes(*this);
}

Config Config::from_environment(DefaultPlanes planes) {
  Config defaults;
  if (planes == DefaultPlanes::default_route) defaults.planes = {std::string(kDefaultRoute)};
  return from_environment(defaults);
}

Config Config::from_environment(const Config& defaults) {
  Config config = defaults;
  for (const Option& option : options()) {
    const std::string variable = variable_name(option);
    // What names a file or folder to write is not taken from users who lend this program their
    // environment and not their rights.
    const bool trusted =
        option.name == "keylog" || option.name == "control" || option.name == "dump";
    const char* value = trusted ? ::secure_getenv(variable.c_str()) : std::getenv(variable.c_str());
    if (value != nullptr && *value != '\0')
      assign_option(option, config, value, "environment variable " + variable);
  }
  config.validate();
  return config;
}

void Config::set(std::string_view name, std::string_view value) {
  const Option& option = require_option(name);
  assign_option(option, *this, value, "option '" + std::string(option.name) + "'");
}

std::string Config::get(std::string_view name) const {
  return value_text(require_option(name), *this);
}

void set_option(Config& config, std::string_view assignment) {
  const auto equals = assignment.find('=');
  if (equals == std::string_view::npos)
    throw Error(Errc::invalid_argument, "option '" + std::string(assignment) +
                                            "': no value; write " + std::string(assignment) +
                                            "=VALUE");
  config.set(assignment.substr(0, equals), assignment.substr(equals + 1));
}

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
