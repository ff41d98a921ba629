// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

#include "mrc_fabric/plan.hpp"
#include "mrc_fabric/state.hpp"
#include "mrc_fabric/switch_port.hpp"

namespace mrc::tools {

/// Applies these ports' configuration, adding and removing as needed: the program, and the queue
/// that it controls; at the receiving end, the redirection to the wire. Throws mrc::Error.
void apply_conditions(const Plan& plan, const State& state, const SwitchPorts& switch_ports,
                      const std::vector<std::size_t>& ports);

/// The same for all ports of these nodes that have conditions.
void restore_conditions(const Plan& plan, const State& state,
                        const std::vector<std::size_t>& nodes);

}  // namespace mrc::tools
