// SPDX-License-Identifier: Apache-2.0
#include "mrc_fabric/shaper.hpp"

#include <fmt/format.h>
#include <linux/if_ether.h>
#include <net/if.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "mrc/core/error.hpp"
#include "mrc_fabric/command_lines.hpp"
#include "mrc_fabric/netns.hpp"
#include "mrc_fabric/wire/wire_links.hpp"

namespace mrc::tools {
namespace {

/// Interfaces of this namespace with a queueing discipline of some kind.
class Disciplines {
 public:
  Disciplines() {
    for (const auto& entry : nlohmann::json::parse(run_program({"tc", "-json", "qdisc", "show"})))
      if (entry.contains("dev")) found_.emplace(entry["dev"], entry["kind"]);
  }
  [[nodiscard]] bool has(const std::string& interface, const std::string& kind) const {
    return found_.count({interface, kind}) != 0;
  }

 private:
  std::set<std::pair<std::string, std::string>> found_;
};

/// The `tc` commands for one port.
class PortBatch {
 public:
  PortBatch(const Plan& plan, std::size_t port, const SwitchPorts& switch_ports)
      : interface_(plan.ports[port].interface),
        largest_packet_(plan.description->mtu + ETH_HLEN),
        class_(SwitchPorts::class_of(port)),
        config_(switch_ports.config(port)),
        is_delayed_(switch_ports.config(Plan::peer(port)).delay != 0),
        to_wire_(wire_interface(Plan::peer(port))),
        switch_ports_(switch_ports) {}

  [[nodiscard]] std::string text(const Disciplines& there) {
    const bool is_active = (config_.flags & PORT_ACTIVE) != 0;
    const bool has_shaper = there.has(interface_, "htb");
    const bool has_hook = there.has(interface_, "clsact");
    if (config_.rate != 0) add_shaper(has_shaper);
    if (config_.rate == 0 && has_shaper) lines_.add("qdisc del dev {} root", interface_);
    if ((is_active || is_delayed_) && !has_hook) lines_.add("qdisc add dev {} clsact", interface_);
    if (!is_active && !is_delayed_ && has_hook) lines_.add("qdisc del dev {} clsact", interface_);
    if (is_active)
      add_program(interface_, "egress", switch_ports_.program_file(), 1 << 16 | class_);
    else if (is_delayed_ && has_hook)
      lines_.add("filter del dev {} egress", interface_);
    if (is_delayed_)
      lead_aside(there);
    else if (is_active && has_hook)
      lines_.add("filter del dev {} ingress", interface_);
    return lines_.take();
  }

 private:
  void add_program(const std::string& interface, const char* hook, const std::string& file,
                   unsigned class_id) {
    lines_.add(
        "filter replace dev {} {} prio 1 handle 1 protocol all bpf direct-action "
        "object-pinned {} flowid {:x}:{:x}",
        interface, hook, file, class_id >> 16, class_id & 0xFFFF);
  }

  /// Redirects arriving packets to the wire, and back. The way back is set up first.
  void lead_aside(const Disciplines& there) {
    if (!there.has(to_wire_, "clsact")) lines_.add("qdisc add dev {} clsact", to_wire_);
    add_program(to_wire_, "ingress", switch_ports_.from_wire_file(), class_of(interface_));
    add_program(interface_, "ingress", switch_ports_.to_wire_file(), class_of(to_wire_));
  }

  /// The class that identifies an interface to the wire's programs.
  [[nodiscard]] static unsigned class_of(const std::string& interface) {
    const unsigned index = if_nametoindex(interface.c_str());
    if (index > SwitchPorts::kMaxClass)
      throw Error(Errc::no_resources,
                  fmt::format("interface {} has number {}, and delays need numbers up to {}: take "
                              "the fabric `down` and `up`, which numbers them from 1 again",
                              interface, index, SwitchPorts::kMaxClass));
    return index;
  }

  /// Two classes under one with the port's rate; control and trimmed packets (1:10) go first. Their
  /// own rates are negligible, since those would break strict priority. The queues are longer than
  /// the program's limits.
  void add_shaper(bool is_there) {
    const std::string rate = fmt::format("{}bit", config_.rate * 8);
    if (!is_there) lines_.add("qdisc add dev {} root handle 1: htb default 20", interface_);
    add_class("1:", 1, rate, rate, 0);
    add_class("1:1", 10, "8bit", rate, 0);
    add_class("1:1", 20, "8bit", rate, 1);
    for (const auto& [id, limit] : {std::pair{10, config_.control_limit}, {20, config_.limit}})
      lines_.add("qdisc replace dev {} parent 1:{} handle {}: bfifo limit {}", interface_, id, id,
                 limit + 2 * largest_packet_);
  }

  void add_class(const char* parent, unsigned id, const std::string& rate, const std::string& most,
                 unsigned priority) {
    // Burst size: a kernel that wakes up 200 us late still reaches the rate.
    const std::uint64_t burst = std::max<std::uint64_t>(config_.rate / 5000, 2 * largest_packet_);
    lines_.add(
        "class replace dev {} parent {} classid 1:{} htb rate {} ceil {} burst {} cburst {} "
        "quantum {} prio {}",
        interface_, parent, id, rate, most, burst, burst, largest_packet_, priority);
  }

  const std::string& interface_;
  std::uint32_t largest_packet_;
  unsigned class_;
  port_config config_;
  bool is_delayed_;  // direction that arrives here
  std::string to_wire_;
  const SwitchPorts& switch_ports_;
  CommandLines lines_;
};

}  // namespace

void apply_conditions(const Plan& plan, const State& state, const SwitchPorts& switch_ports,
                      const std::vector<std::size_t>& ports) {
  std::set<std::size_t> both_ends(ports.begin(), ports.end());
  for (const std::size_t port : ports) both_ends.insert(Plan::peer(port));
  const std::vector<std::size_t> ends(both_ends.begin(), both_ends.end());
  const WireLinks wire(plan, state, switch_ports);
  wire.prepare(ends);
  std::map<std::size_t, std::vector<std::size_t>> by_node;
  for (const std::size_t end : ends) by_node[plan.ports[end].node].push_back(end);
  for (const auto& [node, its_ports] : by_node) {
    const InNetns inside(plan.nodes[node].netns);
    const Disciplines there;
    std::string batch;
    for (const std::size_t port : its_ports)
      batch += PortBatch(plan, port, switch_ports).text(there);
    if (!batch.empty())
      run_program({"tc", "-batch", "-"}, batch,
                  "needed are CONFIG_NET_SCH_HTB, CONFIG_NET_SCH_FIFO, "
                  "CONFIG_NET_SCH_INGRESS and CONFIG_NET_CLS_BPF");
  }
  wire.remove_unused(ends);
}

void restore_conditions(const Plan& plan, const State& state,
                        const std::vector<std::size_t>& nodes) {
  const auto switch_ports = SwitchPorts::open(state.bpf_folder());
  if (!switch_ports) return;
  std::vector<std::size_t> ports;
  for (const std::size_t node : nodes)
    for (const std::size_t port : plan.nodes[node].ports)
      if ((switch_ports->config(port).flags & PORT_ACTIVE) != 0) ports.push_back(port);
  apply_conditions(plan, state, *switch_ports, ports);
}

}  // namespace mrc::tools
