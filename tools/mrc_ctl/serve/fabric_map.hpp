// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "mrc/fabric/description.hpp"
#include "mrc_ctl/serve/snapshot.hpp"

namespace mrc::ctl_tool {

/// Says through which switches of a described fabric (docs/fabric.md) the paths of devices lead.
/// Which hosts a device and its peer are follows from their addresses, so devices in network
/// namespaces of several hosts are told apart. One thread.
class FabricMap {
 public:
  /// Reads the description. Throws json_file::FileError.
  explicit FabricMap(const std::string& file);

  [[nodiscard]] const std::string& name() const { return description_.name; }
  /// Fills in from, to, routes and the route of each path, as far as the description has them.
  void add_routes(DeviceSnapshot& device);

 private:
  using Stops = std::vector<std::string>;
  /// Of the paths from one host to another, by plane and uplink.
  using Routes = std::map<std::pair<unsigned, unsigned>, Stops>;

  [[nodiscard]] const fabric::Host* host_with(unsigned plane, const std::string& address) const;
  [[nodiscard]] const Routes& routes(const fabric::Host& from, const fabric::Host& to);
  void add_routes(PeerSnapshot& peer, const fabric::Host& from, const fabric::Host& to);

  fabric::Description description_;
  std::map<std::pair<const fabric::Host*, const fabric::Host*>, Routes> known_;
};

}  // namespace mrc::ctl_tool
