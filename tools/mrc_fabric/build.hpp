// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

#include "mrc_fabric/plan.hpp"
#include "mrc_fabric/state.hpp"

/// Creates, repairs and removes the parts of a plan on this machine. All throw mrc::Error.
namespace mrc::tools {

/// Creates the missing parts of these nodes and their links, and configures all of them. Sets up
/// the links of `raised` ([port], both ends), and those that were up before. Restores conditions on
/// new ports. Touches nothing else of the fabric.
void build(const Plan& plan, const State& state, const std::vector<std::size_t>& nodes,
           std::vector<bool> raised);

/// Builds or repairs the whole fabric.
void build_all(const Plan& plan, const State& state);

/// Brings up the node's links, at both ends.
void raise_node(const Plan& plan, const State& state, const FabricNode& node);

/// Sets the interface of a port down. The other end loses its carrier.
void lower_port(const Plan& plan, std::size_t port);

/// Removes the node and its links at once; deleting only the namespace would remove its links
/// later.
void remove_node(const Plan& plan, const FabricNode& node);

/// Removes those of these network namespaces that exist.
void remove_namespaces(const std::vector<std::string>& names);

}  // namespace mrc::tools
