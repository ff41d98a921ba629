// SPDX-License-Identifier: Apache-2.0
#include "mrc_fabric/commands.hpp"

#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>

#include "mrc/fabric/fabric_reader.hpp"
#include "mrc_fabric/build.hpp"
#include "mrc_fabric/conditions.hpp"
#include "mrc_fabric/netns.hpp"
#include "mrc_fabric/shaper.hpp"
#include "mrc_fabric/wire/wire_links.hpp"

namespace mrc::tools {

Fabric::Fabric(const Options& o)
    : description(fabric::read(o.file)), plan(description, o.prefix), state(plan.name) {}

namespace {

/// Removes all existing parts of the fabric.
void take_down(const std::string& name, const State& state) {
  end_wire_of(name);
  remove_namespaces(state.namespaces());
  state.remove();
}

}  // namespace

int run_up(const Options& o) {
  need_root("up");
  const Fabric f(o);
  const auto lock = lock_fabrics();
  const bool is_new = !f.state.exists();
  f.state.claim(f.plan);
  try {
    build_all(f.plan, f.state);
  } catch (...) {
    if (is_new) {  // keep a fabric that existed before, for diagnosis
      take_down(f.plan.name, f.state);
    }
    throw;
  }
  fmt::print("{}: {} hosts, {} planes of {} T0 and {} T1; namespaces {}-*\n", f.description.name,
             f.description.hosts.size(), f.description.planes, f.description.t0, f.description.t1,
             f.plan.name);
  return 0;
}

int run_down(const Options& o) {
  need_root("down");
  const bool is_file = std::filesystem::is_regular_file(o.file);
  const std::string name = o.prefix + "-" + (is_file ? fabric::read(o.file).name : o.file);
  if (name.find('/') != std::string::npos)
    throw Error(Errc::not_found, fmt::format("there is no file '{}'", o.file));
  const auto lock = lock_fabrics();
  const State state(name);
  if (state.exists()) {
    take_down(name, state);
    fmt::print("{} is removed\n", name);
  } else {
    const auto known = known_fabrics();
    fmt::print("{} is not up; there {}\n", name,
               known.empty() ? "are no fabrics" : fmt::format("is {}", fmt::join(known, ", ")));
  }
  return 0;
}

int run_exec(const Options& o) {
  need_root("exec");
  const Fabric f(o);
  f.state.need(f.plan);
  const FabricNode& node = f.plan.find_node(o.node);
  setenv("MRC_FABRIC", std::filesystem::absolute(o.file).c_str(), 1);
  if (node.kind == NodeKind::host) setenv("MRC_HOST", node.name.c_str(), 1);
  move_to_netns(node.netns);
  std::vector<char*> arguments;
  for (const std::string& word : o.words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  execvp(arguments[0], arguments.data());
  const int error = errno;
  fmt::print(stderr, "mrc_fabric: can't run '{}': {}\n", o.words[0],
             std::generic_category().message(error));
  return error == ENOENT ? 127 : 126;  // as shells do
}

int run_link(const Options& o) {
  need_root("link");
  const Fabric f(o);
  const std::size_t port = f.plan.find_port(o.node, o.other);
  const auto lock = lock_fabrics();
  f.state.need(f.plan);
  if (o.state == "down") {
    lower_port(f.plan, port);
    return 0;
  }
  std::vector<bool> raised(f.plan.ports.size(), false);
  raised[port] = raised[Plan::peer(port)] = true;
  build(f.plan, f.state, {f.plan.ports[port].node, f.plan.ports[Plan::peer(port)].node}, raised);
  return 0;
}

int run_switch(const Options& o) {
  need_root("switch");
  const Fabric f(o);
  const FabricNode& node = f.plan.find_node(o.node);
  if (node.kind == NodeKind::host)
    throw Error(Errc::invalid_argument,
                fmt::format("{} is a host: take its links down with `mrc_fabric link`", o.node));
  const auto lock = lock_fabrics();
  f.state.need(f.plan);
  if (o.state == "down")
    for (const std::size_t port : node.ports) lower_port(f.plan, port);
  if (o.state == "restart") remove_node(f.plan, node);
  if (o.state != "down") raise_node(f.plan, f.state, node);
  return 0;
}

int run_set(const Options& o) {
  need_root("set");
  const Fabric f(o);
  const std::vector<std::size_t> ports = select_ports(f.plan, o.ports);
  const auto lock = lock_fabrics();
  f.state.need(f.plan);
  auto switch_ports = SwitchPorts::open(f.state.bpf_folder());
  std::vector<port_config> configs;
  for (const std::size_t port : ports) {
    port_config config = default_conditions(f.plan, port);
    if (switch_ports) {
      const port_config before = switch_ports->config(port);
      if ((before.flags & PORT_ACTIVE) != 0) config = before;
    }
    change_conditions(config, o.words, f.plan, port);
    configs.push_back(config);
  }
  if (!switch_ports) switch_ports = SwitchPorts::make(f.state.bpf_folder(), f.plan.ports.size());
  for (std::size_t i = 0; i < ports.size(); ++i) {
    switch_ports->set_config(ports[i], configs[i]);
    if ((configs[i].flags & PORT_ACTIVE) == 0) switch_ports->clear_state(ports[i]);
  }
  apply_conditions(f.plan, f.state, *switch_ports, ports);
  return 0;
}

}  // namespace mrc::tools
