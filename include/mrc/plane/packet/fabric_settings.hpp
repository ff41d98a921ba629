// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "mrc/api/device_config.hpp"
#include "mrc/fabric/description.hpp"
#include "mrc/fabric/routes.hpp"
#include "mrc/path/path_entry.hpp"
#include "mrc/plane/packet/packet_options.hpp"
#include "mrc/plane/port_path.hpp"

/// What a fabric description (docs/fabric.md) means for a device's configuration, ports and paths.
/// Set-up only.
namespace mrc::inline v0_1::detail {

/// The description that option fabric names. Throws mrc::Error.
[[nodiscard]] fabric::Description read_fabric(const Config& config);

/// The configuration in force: where an option is at its default, the description decides.
[[nodiscard]] Config in_force(Config config, const fabric::Description& fabric);

/// Each source-routed path has two EVs, the second one a backup with a number above the route's 16
/// bits. When a path of a plane fails, the plane's other paths take its place with their second
/// EVs, so the plane keeps its share; a path carries at most twice its normal load.
inline constexpr std::uint32_t kSecondEv = 1u << 16;

/// The EVs of a plane towards a peer.
struct FabricSpecs {
  std::vector<path::PathSpec> specs;  ///< the first `active` carry data from the start
  std::size_t active = 0;             ///< the rest are backups
};

/// The EVs of `paths` that are not denied. `routed`: these have routes, so they get second EVs as
/// long as those of all `planes` planes of the peer fit into a path set.
[[nodiscard]] FabricSpecs specs_of(const std::vector<fabric::Path>& paths, bool routed,
                                   unsigned planes);

/// The outer headers of paths, [port_path]; none for paths without.
[[nodiscard]] std::vector<port::PacketRoute> routes_of(const std::vector<fabric::Path>& paths);

/// A port's paths, whatever the peer: the uplinks of its T0, or with ECMP `ecmp_paths` EVs.
[[nodiscard]] std::vector<port::PortPath> paths_of(const fabric::Description& fabric,
                                                   const fabric::Host& self, Plane plane,
                                                   unsigned ecmp_paths);

}  // namespace mrc::inline v0_1::detail
