// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "mrc/fabric/description.hpp"
#include "mrc_ctl/serve/snapshot.hpp"
#include "probe/paths.hpp"

namespace mrc::ctl_tool {

/// Says through which switches of a described fabric (docs/fabric.md) the paths of devices lead.
/// Which hosts a device and its peer are follows from their addresses, so devices in network
/// namespaces of several hosts are told apart. One thread.
class FabricMap {
 public:
  /// Reads the description. Throws json_file::FileError.
  explicit FabricMap(const std::string& file);

  [[nodiscard]] const std::string& name() const { return description_.name; }
  [[nodiscard]] const fabric::Description& description() const { return description_; }
  /// Fills in from, to, routes and the route of each path, as far as the description has them.
  void add_routes(DeviceSnapshot& device);
  /// The paths of a peer whose routes have been filled in, with the parts that they pass; nullptr
  /// where the description has none. Valid as long as this.
  [[nodiscard]] std::vector<const probe::ProbePath*> paths_of(const PeerSnapshot& peer);

 private:
  struct Route {
    std::vector<std::string> stops;
    probe::ProbePath path;
  };
  /// Of the paths from one host to another, by plane and uplink.
  using Routes = std::map<std::pair<unsigned, unsigned>, Route>;

  [[nodiscard]] const fabric::Host* host_with(unsigned plane, const std::string& address) const;
  [[nodiscard]] const Routes& routes(const fabric::Host& from, const fabric::Host& to);
  /// nullptr: the description has no such route.
  [[nodiscard]] const Route* find(const Routes& routes, const PathSnapshot& path) const;
  void add_routes(PeerSnapshot& peer, const fabric::Host& from, const fabric::Host& to);

  fabric::Description description_;
  std::map<std::pair<const fabric::Host*, const fabric::Host*>, Routes> known_;
};

}  // namespace mrc::ctl_tool
