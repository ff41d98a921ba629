// SPDX-License-Identifier: Apache-2.0
#include "mrc_fabric/build.hpp"

#include <fmt/format.h>

#include <chrono>
#include <filesystem>
#include <numeric>
#include <set>
#include <thread>

#include "mrc_fabric/batch.hpp"
#include "mrc_fabric/netns.hpp"
#include "mrc_fabric/shaper.hpp"
#include "mrc_fabric/wire/wire_report.hpp"

namespace mrc::tools {
namespace {

void run_ip(const std::string& batch) {
  if (!batch.empty())
    run_program({"ip", "-batch", "-"}, batch,
                "needed are Linux 6.1 with CONFIG_IPV6_SEG6_LWTUNNEL, CONFIG_VETH and CONFIG_IFB, "
                "and iproute2 6.1");
}

/// Defaults for new interfaces must be set before these are created.
void set_sysctls(const FabricNode& node) {
  const InNetns inside(node.netns);
  const bool is_switch = node.kind != NodeKind::host;
  const std::string ipv6 = "net/ipv6/";
  for (const char* scope : {"all", "default"}) {
    const std::string conf = ipv6 + "conf/" + scope + "/";
    set_sysctl(conf + "disable_ipv6", "0");
    set_sysctl(conf + "forwarding", is_switch ? "1" : "0");
    set_sysctl(conf + "seg6_enabled", "1");
    set_sysctl(conf + "accept_dad", "0");
    set_sysctl(conf + "accept_ra", "0");
    set_sysctl(conf + "router_solicitations", "0");
    // A switch does not route to links without carrier.
    if (is_switch) set_sysctl(conf + "ignore_routes_with_linkdown", "1");
  }
  set_sysctl(ipv6 + "conf/default/addr_gen_mode", "1");  // link-local addresses are not used
  // Hash of addresses, flow label and ports, as in switches (mrc-1.0 §3.1).
  set_sysctl(ipv6 + "fib_multipath_hash_policy", "3");
  set_sysctl(ipv6 + "fib_multipath_hash_fields", "59");
}

class Builder {
 public:
  Builder(const Plan& plan, const std::vector<std::size_t>& nodes, std::vector<bool> used)
      : plan_(plan), nodes_(nodes), used_(std::move(used)) {}

  void make_namespaces() const {
    std::string batch;
    for (const std::size_t n : nodes_) {
      const std::string& netns = plan_.nodes[n].netns;
      if (is_netns(netns)) continue;
      if (netns_exists(netns)) batch += "netns del " + netns + "\n";
      batch += "netns add " + netns + "\n";
    }
    run_ip(batch);
    for (const std::size_t n : nodes_) set_sysctls(plan_.nodes[n]);
  }

  /// Reads which ports exist, and which of them are up.
  void look() {
    there_.assign(plan_.ports.size(), false);
    std::set<std::size_t> nodes(nodes_.begin(), nodes_.end());
    for (const std::size_t n : nodes_)
      for (const std::size_t port : plan_.nodes[n].ports)
        nodes.insert(plan_.ports[Plan::peer(port)].node);
    for (const std::size_t n : nodes) {
      const InNetns inside(plan_.nodes[n].netns);
      for (const std::size_t port : plan_.nodes[n].ports) {
        const InterfaceState state = interface_state(plan_.ports[port].interface);
        there_[port] = state.exists;
        if (state.up) used_[port] = true;
      }
    }
  }

  void make_links() const {
    std::vector<std::size_t> missing;
    for (std::size_t port = 0; port < plan_.ports.size(); port += 2) {
      if (!used_[port] || !used_[port + 1] || (there_[port] && there_[port + 1])) continue;
      missing.push_back(port);
      for (const std::size_t rest : {port, port + 1})
        if (there_[rest]) remove(rest);
    }
    run_ip(links_batch(plan_, missing));
  }

  /// What is left of a link. The kernel removes the other end of one whose namespace has gone in
  /// its own time, which may be just now.
  void remove(std::size_t port) const {
    const std::string& name = plan_.ports[port].interface;
    const InNetns inside(plan_.node_of(port).netns);
    try {
      run_ip("link del dev " + name + "\n");
    } catch (const std::exception&) {
      if (interface_state(name).exists) throw;
    }
  }

  void configure() const {
    for (const std::size_t n : nodes_) {
      const FabricNode& node = plan_.nodes[n];
      const InNetns inside(node.netns);
      std::string batch = node_batch(plan_, n, used_);
      if (node.kind != NodeKind::host && !interface_state(kAnchor).exists)
        batch = fmt::format("link add name {} type ifb\n", kAnchor) + batch;
      run_ip(batch);
    }
  }

  /// A port sends nothing until the kernel has processed that its other end came up.
  void wait_for_carriers() const {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    for (std::size_t port = 0; port < plan_.ports.size(); ++port) {
      if (!used_[port] || !used_[Plan::peer(port)]) continue;
      const InNetns inside(plan_.node_of(port).netns);
      while (!interface_state(plan_.ports[port].interface).carrier) {
        if (std::chrono::steady_clock::now() > end)
          throw Error(Errc::timed_out, plan_.direction(port) + ": the link does not come up");
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
      }
    }
  }

 private:
  const Plan& plan_;
  const std::vector<std::size_t>& nodes_;
  std::vector<bool> used_, there_;
};

std::vector<std::size_t> with_neighbours(const Plan& plan, const FabricNode& node) {
  std::vector<std::size_t> nodes{static_cast<std::size_t>(&node - plan.nodes.data())};
  for (const std::size_t port : node.ports) nodes.push_back(plan.ports[Plan::peer(port)].node);
  return nodes;
}

}  // namespace

void build(const Plan& plan, const State& state, const std::vector<std::size_t>& nodes,
           std::vector<bool> raised) {
  Builder builder(plan, nodes, std::move(raised));
  builder.make_namespaces();
  builder.look();
  builder.make_links();
  builder.configure();
  builder.wait_for_carriers();
  restore_conditions(plan, state, nodes);
}

void build_all(const Plan& plan, const State& state) {
  if (!std::filesystem::exists("/proc/sys/net/ipv6/conf/all/seg6_enabled"))
    throw Error(Errc::unsupported,
                "this kernel has no SRv6: take one with CONFIG_IPV6_SEG6_LWTUNNEL, 6.1 or newer");
  std::vector<std::size_t> nodes(plan.nodes.size());
  std::iota(nodes.begin(), nodes.end(), std::size_t{0});
  build(plan, state, nodes, std::vector<bool>(plan.ports.size(), true));
}

void raise_node(const Plan& plan, const State& state, const FabricNode& node) {
  std::vector<bool> raised(plan.ports.size(), false);
  for (const std::size_t port : node.ports) raised[port] = raised[Plan::peer(port)] = true;
  build(plan, state, with_neighbours(plan, node), std::move(raised));
}

void lower_port(const Plan& plan, std::size_t port) {
  {
    const InNetns inside(plan.node_of(port).netns);
    run_program({"ip", "link", "set", "dev", plan.ports[port].interface, "down"});
  }
  const std::size_t peer = Plan::peer(port);
  const InNetns inside(plan.node_of(peer).netns);
  (void)interface_state(plan.ports[peer].interface);  // makes the kernel process the change
}

void remove_node(const Plan& plan, const FabricNode& node) {
  if (is_netns(node.netns)) {
    const InNetns inside(node.netns);
    std::string batch;
    for (const std::size_t port : node.ports) {
      const std::string& interface = plan.ports[port].interface;
      for (const std::string& name : {interface, wire_interface(Plan::peer(port))})
        if (interface_state(name).exists) batch += "link del dev " + name + "\n";
    }
    run_ip(batch);
  }
  remove_namespaces({node.netns});
}

void remove_namespaces(const std::vector<std::string>& names) {
  std::string batch;
  for (const std::string& name : names)
    if (netns_exists(name)) batch += "netns del " + name + "\n";
  // -force: continue after one that can't be removed.
  if (!batch.empty()) run_program({"ip", "-force", "-batch", "-"}, batch);
}

}  // namespace mrc::tools
