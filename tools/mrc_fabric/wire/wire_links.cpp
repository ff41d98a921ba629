// SPDX-License-Identifier: Apache-2.0
#include "mrc_fabric/wire/wire_links.hpp"

#include <fmt/format.h>
#include <net/if.h>
#include <poll.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "mrc/core/value_text.hpp"
#include "mrc_fabric/command_lines.hpp"
#include "mrc_fabric/netns.hpp"
#include "mrc_fabric/wire/wire.hpp"

namespace mrc::tools {
namespace {

using std::chrono::milliseconds;
using SteadyClock = std::chrono::steady_clock;

constexpr auto kPatience = std::chrono::seconds(30);

void run_batch(const std::string& batch) {
  if (!batch.empty()) run_program({"ip", "-batch", "-"}, batch, "needed is CONFIG_VETH");
}

/// Names of the wire's interfaces in this thread's namespace.
std::vector<std::string> wire_interfaces() {
  std::vector<std::string> names;
  struct if_nameindex* const all = if_nameindex();
  for (auto* i = all; i != nullptr && i->if_index != 0; ++i)
    if (wire_port(i->if_name)) names.emplace_back(i->if_name);
  if (all != nullptr) if_freenameindex(all);
  return names;
}

/// Removes them as a group, since the kernel takes its time for each removal. Some may disappear
/// meanwhile, with their other end.
void remove_interfaces(const std::vector<std::string>& names) {
  constexpr unsigned kGroup = 0x77697265;
  if (names.empty()) return;
  CommandLines lines;
  for (const std::string& name : names) lines.add("link set dev {} group {}", name, kGroup);
  lines.add("link del group {}", kGroup);
  try {
    run_program({"ip", "-force", "-batch", "-"}, lines.take());
  } catch (const Error&) {
    for (const std::string& name : names)
      if (interface_state(name).exists) throw;
  }
}

}  // namespace

WireLinks::WireLinks(const Plan& plan, const State& state, const SwitchPorts& switch_ports)
    : plan_(plan), state_(state), switch_ports_(switch_ports), netns_(wire_netns(plan.name)) {}

Duration WireLinks::delay(std::size_t port) const {
  return Duration{static_cast<Duration::rep>(switch_ports_.config(port).delay)};
}

void WireLinks::prepare(const std::vector<std::size_t>& ports) const {
  const bool any = std::any_of(ports.begin(), ports.end(),
                               [&](std::size_t port) { return delay(port) != Duration{0}; });
  if (!any && !is_netns(netns_)) return;
  make_namespace();
  std::vector<bool> at_wire = look_at_wire();
  std::vector<std::size_t> delayed, known;
  for (const std::size_t port : ports) {
    if (delay(port) != Duration{0}) delayed.push_back(port);
    if (delay(port) != Duration{0} || at_wire[port]) known.push_back(port);
  }
  make_links(delayed, at_wire);
  tell_delays(known);
  at_wire = look_at_wire();
  if (std::find(at_wire.begin(), at_wire.end(), true) != at_wire.end()) wait_for_wire(known, false);
}

/// With IPv6 disabled, no interface sends anything by itself.
void WireLinks::make_namespace() const {
  if (is_netns(netns_)) return;
  run_batch((netns_exists(netns_) ? "netns del " + netns_ + "\n" : "") + "netns add " + netns_ +
            "\n");
  const InNetns inside(netns_);
  for (const char* scope : {"all", "default"})
    set_sysctl(fmt::format("net/ipv6/conf/{}/disable_ipv6", scope), "1");
}

/// Directions whose link has an end at the wire ([port]).
std::vector<bool> WireLinks::look_at_wire() const {
  std::vector<bool> there(plan_.ports.size(), false);
  const InNetns inside(netns_);
  for (const std::string& name : wire_interfaces())
    if (const std::size_t port = *wire_port(name); port < there.size()) there[port] = true;
  return there;
}

/// Creates the missing ones, after removing partial ones.
void WireLinks::make_links(const std::vector<std::size_t>& ports,
                           const std::vector<bool>& at_wire) const {
  CommandLines lines;
  std::vector<std::string> rests;
  for (const std::size_t port : ports) {
    const std::string name = wire_interface(port);
    const std::string& node = plan_.node_of(Plan::peer(port)).netns;
    const InNetns inside(node);
    const bool is_there = interface_state(name).exists;
    if (at_wire[port] && is_there) continue;
    if (at_wire[port]) rests.push_back(name);
    if (is_there) remove_interfaces({name});
    lines.add("link add name {} netns {} mtu {} type veth peer name {} netns {} mtu {}", name, node,
              plan_.description->mtu, name, netns_, plan_.description->mtu);
  }
  {
    const InNetns inside(netns_);
    remove_interfaces(rests);
  }
  run_batch(lines.take());
  for (const std::size_t port : ports) set_up_link(port);
}

/// The wire sees packets as on a cable: checksums and segmentation, normally done by NICs, are done
/// before. The link carries nothing else.
void WireLinks::set_up_link(std::size_t port) const {
  const InNetns inside(plan_.node_of(Plan::peer(port)).netns);
  const std::string name = wire_interface(port);
  set_sysctl(fmt::format("net/ipv6/conf/{}/disable_ipv6", name), "1");
  switch_offloads_off(name);
  set_up(name);
}

void WireLinks::tell_delays(const std::vector<std::size_t>& ports) const {
  CommandLines lines;
  for (const std::size_t port : ports)
    lines.add("link set dev {} alias {} up", wire_interface(port), format_duration(delay(port)));
  const InNetns inside(netns_);
  run_batch(lines.take());
}

bool WireLinks::agrees(const WireReport& report, const std::vector<std::size_t>& ports) const {
  return std::all_of(ports.begin(), ports.end(), [&](std::size_t port) {
    const WireDirection* const d = report.find(port);
    return d != nullptr && d->delay == delay(port);
  });
}

/// Waits until the wire has these directions' delays and, if `empty`, holds no packets of theirs.
void WireLinks::wait_for_wire(const std::vector<std::size_t>& ports, bool empty) const {
  const InNetns inside(netns_);
  const std::string log = state_.wire_log();
  const auto end = SteadyClock::now() + kPatience;
  for (auto start_at = SteadyClock::now(); SteadyClock::now() < end;
       std::this_thread::sleep_for(milliseconds(2))) {
    if (const auto report = ask_wire()) {
      const auto holds = [&](std::size_t port) { return report->find(port)->held != 0; };
      if (agrees(*report, ports) && !(empty && std::any_of(ports.begin(), ports.end(), holds)))
        return;
    } else if (SteadyClock::now() >= start_at) {
      start_wire(plan_.name, log);
      start_at = SteadyClock::now() + milliseconds(500);
    }
  }
  throw Error(Errc::timed_out,
              fmt::format("the wire, the process that delays packets, does not {}: {} may say why",
                          ask_wire() ? "do as it is told" : "start", log));
}

void WireLinks::remove_unused(const std::vector<std::size_t>& ports) const {
  if (!is_netns(netns_)) return;
  const std::vector<bool> at_wire = look_at_wire();
  std::vector<std::size_t> unused;
  std::vector<std::string> names;
  for (const std::size_t port : ports)
    if (at_wire[port] && delay(port) == Duration{0}) {
      unused.push_back(port);
      names.push_back(wire_interface(port));
    }
  if (!unused.empty()) wait_for_wire(unused, true);
  bool is_last = false;
  {
    const InNetns inside(netns_);
    remove_interfaces(names);
    is_last = wire_interfaces().empty();
  }
  if (is_last) run_batch("netns del " + netns_ + "\n");
}

std::optional<WireReport> ask_wire_of(const std::string& fabric) {
  if (!is_netns(wire_netns(fabric))) return std::nullopt;
  const InNetns inside(wire_netns(fabric));
  return ask_wire();
}

void end_wire_of(const std::string& fabric) {
  const std::string netns = wire_netns(fabric);
  if (!is_netns(netns)) return;
  const InNetns inside(netns);
  UniqueFd process;
  (void)ask_wire(&process);
  remove_interfaces(wire_interfaces());
  if (!process.open()) return;
  pollfd ended{process.fd(), POLLIN, 0};
  (void)poll(&ended, 1, static_cast<int>(milliseconds(kPatience).count()));
}

}  // namespace mrc::tools
