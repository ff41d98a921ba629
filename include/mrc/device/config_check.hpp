// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "mrc/core/error.hpp"
#include "mrc/core/types.hpp"
#include "mrc/device/config_struct.hpp"
#include "mrc/device/option_table.hpp"

/// Checks of a Config that concern several options, and the list of planes.
namespace mrc {

namespace detail {

/// The count of "loopback:N" (`prefix` "loopback:"), or nothing when `text` starts otherwise.
/// Throws when N is not 1 .. kMaxPlanes.
[[nodiscard]] inline std::optional<unsigned> loopback_count(std::string_view text,
                                                            std::string_view prefix) {
  if (!text.starts_with(prefix)) return std::nullopt;
  const auto count = parse_integer<unsigned>(text.substr(prefix.size()));
  if (!count || *count < 1 || *count > kMaxPlanes)
    throw not_allowed("option 'planes'", text,
                      std::string(prefix) + "N with N from 1 to " + std::to_string(kMaxPlanes));
  return count;
}

/// A check that names the option at fault first.
inline void require(bool holds, const std::string& text) {
  if (!holds) throw Error(Errc::invalid_argument, text);
}

inline void check_ports(const Config& c, const std::vector<std::string>& planes) {
  // Planes on one address are told apart by UDP port, 256 apart, to leave room for the slots.
  std::size_t repeats = 0;
  for (const auto& plane : planes)
    repeats = std::max(
        repeats, static_cast<std::size_t>(std::count(planes.begin(), planes.end(), plane)) - 1);
  const std::size_t last =
      c.udp_port + static_cast<std::size_t>(std::max(c.slot, 0)) + repeats * 256;
  require(last <= 65535, "options 'udp_port' " + std::to_string(c.udp_port) + ", 'slot' " +
                             std::to_string(c.slot) + " and 'planes' lead to UDP port " +
                             std::to_string(last) + "; the last one is 65535");
}

inline void check_paths(const Config& c, std::size_t plane_count) {
  const std::size_t all = plane_count * c.paths;
  require(c.active_paths <= all,
          "option 'active_paths': value '" + std::to_string(c.active_paths) +
              "' is not allowed; allowed: up to 'planes' x 'paths' = " + std::to_string(all));
  const std::size_t active = c.active_paths == 0 ? all : c.active_paths;
  require(c.min_active_paths <= active,
          "option 'min_active_paths': value '" + std::to_string(c.min_active_paths) +
              "' is not allowed; allowed: up to the active paths, " + std::to_string(active));
}

/// A receiver knows trimmed packets by their DSCP alone (mrc-1.0 §1.12), so nothing else may have
/// it. The two trimmed classes may be one: then every trim counts as made on the way.
inline void check_classes(const Config& c) {
  using Class = std::pair<std::string_view, std::uint8_t>;
  for (const auto& [mark, mark_value] : {Class{"dscp_trimmed", c.dscp_trimmed},
                                         Class{"dscp_trimmed_last_hop", c.dscp_trimmed_last_hop}})
    for (const auto& [name, value] :
         {Class{"dscp_no_trim", c.dscp_no_trim}, Class{"dscp_trimmable", c.dscp_trimmable},
          Class{"dscp_trimmable_retx", c.dscp_trimmable_retx},
          Class{"dscp_control", c.dscp_control}})
      require(mark_value != value, "options '" + std::string(mark) + "' and '" + std::string(name) +
                                       "' are both " + std::to_string(value) +
                                       "; allowed: different values, or such packets would be "
                                       "taken for trimmed ones");
}

}  // namespace detail

inline std::vector<std::string> Config::plane_list() const {
  std::vector<std::string> list;
  for (const auto& text : planes) {
    if (const auto count = detail::loopback_count(text, "loopback:")) {
      for (unsigned i = 1; i <= *count; ++i) list.push_back("127.0.0." + std::to_string(i));
    } else if (const auto count6 = detail::loopback_count(text, "loopback6:")) {
      list.insert(list.end(), *count6, "::1");
    } else {
      detail::require(!text.empty(), "option 'planes': an element is empty");
      detail::require(std::count(planes.begin(), planes.end(), text) == 1,
                      "option 'planes': '" + text + "' stands in the list more than once");
      list.push_back(text);
    }
  }
  if (list.empty() || list.size() > kMaxPlanes)
    throw not_allowed("option 'planes'", value_text(*find_option("planes"), *this),
                      "1 .. 32 planes, these are " + std::to_string(list.size()));
  return list;
}

inline void Config::validate() const {
  for (const Option& option : options())
    if (!value_allowed(option, *this))
      throw not_allowed("option '" + std::string(option.name) + "'", value_text(option, *this),
                        allowed_text(option));
  const auto list = plane_list();
  detail::check_ports(*this, list);
  detail::check_paths(*this, list.size());
  detail::check_classes(*this);
}

}  // namespace mrc
