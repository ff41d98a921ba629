// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "mrc/fabric/description.hpp"

namespace mrc::tools {

using fabric::NodeKind;

/// One end of a link: an interface of a node. The ports at index 2n and 2n+1 of Plan::ports are the
/// ends of one link, the first one further from the spine.
struct FabricPort {
  std::size_t node = 0;   ///< index in Plan::nodes
  std::string interface;  ///< hosts: as described; T0: h<host>, s<T1>; T1: l<T0>
  std::string mac;
};

/// A host or a switch: one network namespace.
struct FabricNode {
  NodeKind kind = NodeKind::host;
  unsigned plane = 0;              ///< of a switch
  unsigned index = 0;              ///< among the hosts, or among the T0 or T1 of its plane
  std::string name;                ///< "h0", "p1t0-2"
  std::string netns;               ///< "mrc-demo-h0"
  std::vector<std::size_t> ports;  ///< hosts: [plane]; T0: downlinks, then uplinks; T1: [T0]
};

/// The names and links of a description's fabric on this machine.
struct Plan {
  const fabric::Description* description = nullptr;
  std::string name;  ///< "mrc-demo": prefix and fabric; also that of its folder under kRunFolder
  std::vector<FabricNode> nodes;
  std::vector<FabricPort> ports;

  /// The description must outlive the plan. Throws mrc::Error for names that are too long.
  Plan(const fabric::Description& d, const std::string& prefix);

  [[nodiscard]] const FabricNode& node_of(std::size_t port) const {
    return nodes[ports[port].node];
  }
  [[nodiscard]] static std::size_t peer(std::size_t port) noexcept { return port ^ 1; }
  /// The plane of a port.
  [[nodiscard]] unsigned plane_of(std::size_t port) const;
  /// "h0>p1t0-0": the direction sent by this port.
  [[nodiscard]] std::string direction(std::size_t port) const;
  /// "h0-p1t0-0".
  [[nodiscard]] std::string link(std::size_t port) const;

  /// Both throw mrc::Error that lists the alternatives.
  [[nodiscard]] const FabricNode& find_node(std::string_view wanted) const;
  [[nodiscard]] std::size_t find_port(std::string_view from, std::string_view to) const;
};

/// Which hosts and switches there are, in one line.
[[nodiscard]] std::string nodes_text(const fabric::Description& description);

/// 1 to 12 letters, digits, '-' or '_', as in the name of a fabric. Throws mrc::Error.
void check_prefix(const std::string& prefix);

}  // namespace mrc::tools
