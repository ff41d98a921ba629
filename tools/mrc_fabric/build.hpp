// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

#include "mrc_fabric/plan.hpp"
#include "mrc_fabric/state.hpp"

/// Makes, repairs and removes what a plan says, on this machine. All throw mrc::Error.
namespace mrc::bench {

/// Makes what is missing of these nodes and of their links, and sets all of it up: the links of
/// `raised` ([port], both ends), and those that are up already. Conditions are put back on new
/// ports. Nothing else of the fabric is touched.
void build(const Plan& plan, const State& state, const std::vector<std::size_t>& nodes,
           std::vector<bool> raised);

/// All of the fabric, whatever there is of it.
void build_all(const Plan& plan, const State& state);

/// The node's links, those of others to it among them; brings them up.
void raise_node(const Plan& plan, const State& state, const FabricNode& node);

/// Sets the interface of a port down. The other end loses its carrier.
void lower_port(const Plan& plan, std::size_t port);

/// Removes the node and its links at once; a namespace alone would take its links away some time
/// later.
void remove_node(const Plan& plan, const FabricNode& node);

/// Removes these network namespaces as far as they are there.
void remove_namespaces(const std::vector<std::string>& names);

}  // namespace mrc::bench
