// SPDX-License-Identifier: Apache-2.0
#include "mrc_fabric/counters.hpp"

#include <map>
#include <sstream>

#include "mrc_fabric/conditions.hpp"
#include "mrc_fabric/netns.hpp"
#include "mrc_fabric/wire/wire_links.hpp"

namespace mrc::tools {
namespace {

/// Counters of all interfaces of this thread's namespace.
std::map<std::string, InterfaceCounters> read_counters() {
  std::map<std::string, InterfaceCounters> all;
  std::istringstream text(read_text("/proc/thread-self/net/dev"));
  for (std::string line; std::getline(text, line);) {
    const auto colon = line.find(':');
    if (colon == std::string::npos) continue;  // the table's head
    std::string name = line.substr(0, colon);
    name.erase(0, name.find_first_not_of(' '));
    InterfaceCounters c;
    std::uint64_t unused = 0;
    std::istringstream numbers(line.substr(colon + 1));
    // Bytes, packets, errors, drops, fifo, frame, compressed, multicast; then the same for sending.
    numbers >> c.received_bytes >> c.received_packets >> unused >> c.received_drops >> unused >>
        unused >> unused >> unused >> c.sent_bytes >> c.sent_packets >> unused >> c.sent_drops;
    all[name] = c;
  }
  return all;
}

const char* state_text(const InterfaceState& state) {
  if (!state.exists) return "missing";
  if (!state.up) return "down";
  return state.carrier ? "up" : "no carrier";
}

}  // namespace

std::vector<PortView> view_ports(const Plan& plan, const State& state) {
  std::vector<PortView> views(plan.ports.size());
  const auto switch_ports = SwitchPorts::open(state.bpf_folder());
  const auto wire = ask_wire_of(plan.name).value_or(WireReport{});
  for (const FabricNode& node : plan.nodes) {
    if (!is_netns(node.netns)) continue;
    const InNetns inside(node.netns);
    auto counters = read_counters();
    for (const std::size_t port : node.ports) {
      PortView& view = views[port];
      view.state = state_text(interface_state(plan.ports[port].interface));
      view.interface = counters[plan.ports[port].interface];
      if (!switch_ports) continue;
      const port_config config = switch_ports->config(port);
      view.has_conditions = (config.flags & PORT_ACTIVE) != 0;
      view.conditions = conditions_text(config);
      if (view.has_conditions) view.counters = switch_ports->state(port);
      view.delay = Duration{static_cast<Duration::rep>(config.delay)};
      const WireDirection* const direction = wire.find(port);
      if (config.delay != 0 && direction != nullptr) view.wire = *direction;
    }
  }
  return views;
}

}  // namespace mrc::tools
