// SPDX-License-Identifier: Apache-2.0
#include "mrc_fabric/batch.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "mrc/fabric/description.hpp"
#include "mrc_fabric/command_lines.hpp"
#include "mrc_fabric/switch_routes.hpp"

namespace mrc::tools {
namespace {

/// The commands for one node.
class NodeBatch {
 public:
  NodeBatch(const Plan& plan, const FabricNode& node, const std::vector<bool>& used)
      : plan_(plan), d_(*plan.description), node_(node), used_(used) {}

  [[nodiscard]] std::string text() {
    lines_.add("link set dev lo up");
    for (const std::size_t port : node_.ports)
      if (used_[port]) add_port(port);
    if (node_.kind == NodeKind::host) {
      for (unsigned p = 0; p < d_.planes; ++p)
        if (used_[node_.ports[p]]) add_host_plane(static_cast<Plane>(p));
    } else {
      add_own_usid();
      for (const SwitchRoute& r : switch_routes(plan_, node_)) {
        if (r.shifts)
          add_link_usid(r.prefix, r.ports.front());
        else
          route(r.prefix, r.ports);
      }
    }
    return lines_.take();
  }

 private:
  void add_port(std::size_t port) {
    const std::string& interface = plan_.ports[port].interface;
    lines_.add("link set dev {} up", interface);
    lines_.add("neigh replace {} lladdr {} dev {} nud permanent", kGateway,
               plan_.ports[Plan::peer(port)].mac, interface);
  }

  /// A route with one next hop, or several for ECMP.
  void route(const std::string& to, const std::vector<std::size_t>& ports,
             const std::string& more = {}) {
    std::vector<std::string> hops;
    for (const std::size_t port : ports)
      if (used_[port])
        hops.push_back(fmt::format("via {} dev {}", kGateway, plan_.ports[port].interface));
    if (hops.empty()) return;
    lines_.add("route replace {} {}{}{}", to, hops.size() > 1 ? "nexthop " : "",
               fmt::join(hops, " nexthop "), more);
  }

  /// Shifts the own uSID out and looks up the next one (uN, mrc-1.0 §4.1).
  void add_own_usid() {
    lines_.add("link set dev {} addrgenmode none mtu 65535 up", kAnchor);
    const std::string own = own_prefix(plan_, node_);
    if (own.empty()) return;
    lines_.add(
        "route replace {} encap seg6local action End flavors next-csid lblen 32 nflen 16 dev {}",
        own, kAnchor);
  }

  /// Shifts the uSID of a link out and sends over that link (uA, mrc-1.0 §4.1). The next hop has to
  /// name the link, which kGateway does not.
  void add_link_usid(const std::string& prefix, std::size_t port) {
    if (!used_[port]) return;
    const std::string next = fmt::format("{}{:x}", kLinkGateways, port + 1);
    const std::string& interface = plan_.ports[port].interface;
    lines_.add("neigh replace {} lladdr {} dev {} nud permanent", next,
               plan_.ports[Plan::peer(port)].mac, interface);
    lines_.add("route replace {}/128 dev {}", next, interface);
    lines_.add(
        "route replace {} encap seg6local action End.X nh6 {} flavors next-csid lblen 32 nflen 16 "
        "dev {}",
        prefix, next, kAnchor);
  }

  void add_host_plane(Plane p) {
    const fabric::Host& self = d_.hosts[node_.index];
    const std::string own = fabric::format_ipv6(self.addresses[p]);
    const std::vector<std::size_t> port{node_.ports[p]};
    const std::string source = " src " + own;
    lines_.add("addr replace {}/128 dev {} nodad", own, self.interfaces[p]);
    for (const std::string& prefix : usid_prefixes(p)) route(prefix, port, source);
    for (const fabric::Host& h : d_.hosts)
      if (&h != &self) route(fabric::format_ipv6(h.addresses[p]) + "/128", port, source);
  }

  /// Destinations of a host's packets in a plane: its block, or each uSID if planes share a block.
  [[nodiscard]] std::vector<std::string> usid_prefixes(Plane p) const {
    if (std::count(d_.blocks.begin(), d_.blocks.end(), d_.blocks[p]) == 1)
      return {fabric::format_block(d_.blocks[p])};
    std::vector<std::string> prefixes;
    for (unsigned i = 0; i < d_.t0; ++i)
      prefixes.push_back(usid_prefix(d_, p, d_.usids.of_t0(p, i)));
    for (unsigned j = 0; j < d_.t1; ++j)
      prefixes.push_back(usid_prefix(d_, p, d_.usids.of_t1(p, j)));
    for (const fabric::Host& h : d_.hosts) prefixes.push_back(host_usid_prefix(d_, p, h));
    return prefixes;
  }

  const Plan& plan_;
  const fabric::Description& d_;
  const FabricNode& node_;
  const std::vector<bool>& used_;
  CommandLines lines_;
};

}  // namespace

std::string links_batch(const Plan& plan, const std::vector<std::size_t>& links) {
  std::string out;
  const auto end = [&](std::size_t port) {
    const FabricPort& p = plan.ports[port];
    return fmt::format("name {} netns {} mtu {} address {}", p.interface, plan.node_of(port).netns,
                       plan.description->mtu, p.mac);
  };
  for (const std::size_t link : links)
    out += fmt::format("link add {} type veth peer {}\n", end(link), end(Plan::peer(link)));
  return out;
}

std::string node_batch(const Plan& plan, std::size_t node, const std::vector<bool>& used) {
  return NodeBatch(plan, plan.nodes[node], used).text();
}

}  // namespace mrc::tools
