// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>

#include "mrc/api/option_table.hpp"
#include "mrc/core/error.hpp"
#include "mrc/fabric/fabric_reader.hpp"
#include "mrc/plane/packet/fabric_settings.hpp"

namespace mrc::inline v0_1::detail {

fabric::Description read_fabric(const Config& config) {
  fabric::Description fabric;
  naming_variables(config, {"fabric"}, [&] {
    try {
      fabric = fabric::read(config.fabric);
    } catch (const json_file::FileError& error) {
      throw Error(Errc::invalid_argument, error.what());
    }
  });
  return fabric;
}

Config in_force(Config config, const fabric::Description& fabric) {
  const Config defaults;
  const auto take = [&](auto Config::*option, auto value) {
    if (config.*option == defaults.*option) config.*option = value;
  };
  const auto take_class = [&](std::uint8_t ExpertConfig::*option, std::uint8_t value) {
    if (config.expert.*option == defaults.expert.*option) config.expert.*option = value;
  };
  take_class(&ExpertConfig::dscp_no_trim, fabric.dscp.no_trim);
  take_class(&ExpertConfig::dscp_trimmable, fabric.dscp.trimmable);
  take_class(&ExpertConfig::dscp_trimmable_retx, fabric.dscp.trimmable_retx);
  take_class(&ExpertConfig::dscp_trimmed, fabric.dscp.trimmed);
  take_class(&ExpertConfig::dscp_trimmed_last_hop, fabric.dscp.trimmed_last_hop);
  take_class(&ExpertConfig::dscp_control, fabric.dscp.control);
  take(&Config::cc_link_speed, fabric.link_speed * fabric.planes);
  take(&Config::cc_base_rtt, fabric.base_rtt);
  config.validate();
  return config;
}

FabricSpecs specs_of(const std::vector<fabric::Path>& paths, bool routed, unsigned planes) {
  FabricSpecs out;
  for (const fabric::Path& path : paths)
    if (!path.denied) out.specs.push_back({path.ev, path.plane, path.uplink});
  out.active = out.specs.size();
  const bool room = 2 * out.active * planes <= path::kMaxPaths;
  for (std::size_t i = 0; routed && room && out.active > 1 && i < out.active; ++i) {
    path::PathSpec second = out.specs[i];
    second.ev = Ev{value(second.ev) | kSecondEv};
    out.specs.push_back(second);
  }
  return out;
}

std::vector<port::PacketRoute> routes_of(const std::vector<fabric::Path>& paths) {
  std::vector<port::PacketRoute> routes;
  for (const fabric::Path& path : paths)
    if (path.route.destination != path::Ipv6{})
      routes.push_back({path.route.destination, path.route.segment, path.route.has_srh});
  return routes;
}

std::vector<port::PortPath> paths_of(const fabric::Description& fabric, const fabric::Host& self,
                                     Plane plane, unsigned ecmp_paths) {
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
