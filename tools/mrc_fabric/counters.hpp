// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "mrc_fabric/plan.hpp"
#include "mrc_fabric/state.hpp"
#include "mrc_fabric/switch_port.hpp"
#include "mrc_fabric/wire/wire_report.hpp"

namespace mrc::tools {

/// The kernel's counters of an interface.
struct InterfaceCounters {
  std::uint64_t sent_packets = 0, sent_bytes = 0, sent_drops = 0;
  std::uint64_t received_packets = 0, received_bytes = 0, received_drops = 0;
};

/// Current state of a port.
struct PortView {
  const char* state = "missing";  ///< up, down, no carrier
  InterfaceCounters interface;
  bool has_conditions = false;  ///< without conditions the switch port does not count
  std::string conditions;
  port_state counters{};
  Duration delay{};
  std::optional<WireDirection> wire;  ///< of a direction with a delay, while the wire runs
};

/// All ports of a fabric that is up, by port. Throws mrc::Error.
[[nodiscard]] std::vector<PortView> view_ports(const Plan& plan, const State& state);

}  // namespace mrc::tools
