// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "mrc/config.hpp"
#include "mrc/config/setting_source.hpp"
#include "mrc/fabric/description.hpp"
#include "mrc/fabric/reader.hpp"
#include "mrc/fabric/routes.hpp"
#include "mrc/port/packet_options.hpp"

/// What a fabric description (docs/fabric.md) means for a device's configuration and its ports.
/// Set-up only.
namespace mrc::inline v0_1::detail {

[[nodiscard]] inline wire::DscpMap dscp_of(const Config& c) noexcept {
  return {c.dscp_no_trim, c.dscp_trimmable,        c.dscp_trimmable_retx,
          c.dscp_trimmed, c.dscp_trimmed_last_hop, c.dscp_control};
}

/// The description that option fabric names, if it does.
[[nodiscard]] inline std::optional<fabric::Description> read_fabric(const Config& config) {
  if (config.fabric.empty()) return std::nullopt;
  std::optional<fabric::Description> fabric;
  naming_variables(config, {"fabric"}, [&] {
    try {
      fabric = fabric::read(config.fabric);
    } catch (const json_file::FileError& error) {
      throw Error(Errc::invalid_argument, error.what());
    }
  });
  return fabric;
}

/// The configuration in force: where an option is at its default, the description decides.
[[nodiscard]] inline Config in_force(Config config,
                                     const std::optional<fabric::Description>& fabric) {
  if (!fabric) return config;
  const Config defaults;
  const auto take = [&](auto Config::*option, auto value) {
    if (config.*option == defaults.*option) config.*option = value;
  };
  take(&Config::dscp_no_trim, fabric->dscp.no_trim);
  take(&Config::dscp_trimmable, fabric->dscp.trimmable);
  take(&Config::dscp_trimmable_retx, fabric->dscp.trimmable_retx);
  take(&Config::dscp_trimmed, fabric->dscp.trimmed);
  take(&Config::dscp_trimmed_last_hop, fabric->dscp.trimmed_last_hop);
  take(&Config::dscp_control, fabric->dscp.control);
  take(&Config::cc_link_speed, fabric->link_speed * fabric->planes);
  take(&Config::cc_base_rtt, fabric->base_rtt);
  config.validate();
  return config;
}

/// Each source-routed path has two EVs, the second one a backup with a number above the route's 16
/// bits. When a path of a plane fails, the plane's other paths take its place with their second
/// EVs, so the plane keeps its share: up to twice as much goes over each of them, no more.
inline constexpr std::uint32_t kSecondEv = 1u << 16;

/// How a peer is reached in one plane.
struct PlanePaths {
  std::vector<path::PathSpec> specs;      ///< its EVs; the first `active` carry data from the start
  std::size_t active = 0;                 ///< the rest are backups
  std::vector<port::PacketRoute> routes;  ///< [port_path]: outer headers; empty: none
};

/// The outer headers of paths; none for paths without.
[[nodiscard]] inline std::vector<port::PacketRoute> routes_of(
    const std::vector<fabric::Path>& paths) {
  std::vector<port::PacketRoute> routes;
  for (const fabric::Path& path : paths)
    if (path.route.destination != path::Ipv6{})
      routes.push_back({path.route.destination, path.route.segment, path.route.has_srh});
  return routes;
}

/// `planes`: how many the peer has.
[[nodiscard]] inline PlanePaths make_plane_paths(const std::vector<fabric::Path>& paths,
                                                 unsigned planes) {
  PlanePaths out;
  out.routes = routes_of(paths);
  for (const fabric::Path& path : paths)
    if (!path.denied) out.specs.push_back({path.ev, path.plane, path.uplink});
  out.active = out.specs.size();
  const bool room = 2 * out.active * planes <= path::kMaxPaths;
  for (std::size_t i = 0; !out.routes.empty() && room && out.active > 1 && i < out.active; ++i) {
    path::PathSpec second = out.specs[i];
    second.ev = Ev{value(second.ev) | kSecondEv};
    out.specs.push_back(second);
  }
  return out;
}

/// The most that a description's routes put in front of a packet.
[[nodiscard]] inline wire::Encapsulation encapsulation_of(const fabric::Description& fabric) {
  if (fabric.forwarding != fabric::Forwarding::srv6) return wire::Encapsulation::none;
  for (const fabric::RoutePattern& pattern : fabric.patterns)
    if (std::max(pattern.remote.size(), pattern.local.size()) > path::kUsidsPerCarrier)
      return wire::Encapsulation::srh;
  return wire::Encapsulation::ipv6_in_ipv6;
}

/// A port's paths, whatever the peer: the uplinks of its T0, or so many EVs.
[[nodiscard]] inline std::vector<port::PortPath> paths_of(const fabric::Description& fabric,
                                                          const fabric::Host& self, Plane plane,
                                                          unsigned ecmp_paths) {
  std::vector<port::PortPath> paths;
  if (fabric.forwarding == fabric::Forwarding::ecmp) {
    for (const fabric::Path& path : fabric::plane_paths(fabric, plane, self, self, ecmp_paths))
      paths.push_back({path.ev, path.uplink});
    return paths;
  }
  for (unsigned u = 0; u < fabric.t1; ++u)
    paths.push_back({fabric::path_ev(fabric, plane, u), static_cast<std::uint16_t>(u)});
  return paths;
}

}  // namespace mrc::inline v0_1::detail
