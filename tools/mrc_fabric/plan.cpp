// SPDX-License-Identifier: Apache-2.0
#include "mrc_fabric/plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <climits>

#include "mrc/core/error.hpp"
#include "mrc/fabric/description.hpp"
#include "mrc_fabric/wire/wire_report.hpp"

namespace mrc::tools {
namespace {

/// A locally administered address, the same at every start: plane, kind and index of the node, and
/// the index of its port.
std::string mac_of(unsigned plane, const FabricNode& node) {
  const auto port = static_cast<unsigned>(node.ports.size());
  return fmt::format("02:{:02x}:{:02x}:{:02x}:{:02x}:{:02x}",
                     plane << 2 | static_cast<unsigned>(node.kind), node.index >> 8,
                     node.index & 0xFF, port >> 8 & 0xFF, port & 0xFF);
}

/// Rejects names that `ip -batch` or `mrc_fabric set` would interpret as something else.
void check_host(const fabric::Host& h, const std::string& file) {
  for (const char* kind : {"host", "t0", "t1", "all", "wire"})
    if (h.name == kind)
      throw Error(Errc::invalid_argument,
                  fmt::format("{}: host '{}': is a word that mrc_fabric uses: take another name",
                              file, h.name));
  for (const std::string& interface : h.interfaces)
    if (interface == "lo" || wire_port(interface) ||
        interface.find_first_of("\"'#\\") != std::string::npos)
      throw Error(Errc::invalid_argument,
                  fmt::format("{}: host {}: can't make an interface '{}': take another name", file,
                              h.name, interface));
}

class Planner {
 public:
  explicit Planner(Plan& plan) : plan_(plan), d_(*plan.description) {}

  void fill() {
    for (unsigned k = 0; k < d_.hosts.size(); ++k) {
      check_host(d_.hosts[k], d_.file);
      add(NodeKind::host, 0, k, d_.hosts[k].name);
    }
    for (unsigned p = 0; p < d_.planes; ++p) add_plane(p);
  }

 private:
  void add_plane(unsigned p) {
    const std::size_t first_t0 = plan_.nodes.size();
    for (const NodeKind kind : {NodeKind::t0, NodeKind::t1})
      for (unsigned i = 0; i < (kind == NodeKind::t0 ? d_.t0 : d_.t1); ++i)
        add(kind, p, i, fabric::switch_name(static_cast<Plane>(p), kind, i));
    for (unsigned k = 0; k < d_.hosts.size(); ++k) {
      const fabric::Host& h = d_.hosts[k];
      connect(p, k, h.interfaces[p], first_t0 + h.t0, fmt::format("h{}", k));
      if (!h.next_hops.empty()) take_next_hop(h, p);
    }
    for (unsigned i = 0; i < d_.t0; ++i)
      for (unsigned j = 0; j < d_.t1; ++j)
        connect(p, first_t0 + i, fmt::format("s{}", j), first_t0 + d_.t0 + j,
                fmt::format("l{}", i));
  }

  /// Gives the T0's port the address in the description.
  void take_next_hop(const fabric::Host& h, unsigned plane) {
    FabricPort& own = plan_.ports[plan_.ports.size() - 2];
    FabricPort& other = plan_.ports.back();
    other.mac = fabric::format_mac(h.next_hops[plane]);
    if (other.mac == own.mac)
      throw Error(
          Errc::invalid_argument,
          fmt::format("{}: host {}: next_hops[{}] is {}, the address that its own port gets "
                      "here: take another",
                      d_.file, h.name, plane, other.mac));
  }

  void add(NodeKind kind, unsigned plane, unsigned index, const std::string& name) {
    plan_.nodes.push_back({kind, plane, index, name, plan_.name + "-" + name, {}});
    const std::string& netns = plan_.nodes.back().netns;
    if (netns.size() > NAME_MAX)
      throw Error(Errc::invalid_argument,
                  fmt::format("namespace '{}' would have {} characters, at most {} are possible: "
                              "take shorter names",
                              netns, netns.size(), NAME_MAX));
  }

  void connect(unsigned plane, std::size_t lower, const std::string& lower_interface,
               std::size_t upper, const std::string& upper_interface) {
    add_port(plane, lower, lower_interface);
    add_port(plane, upper, upper_interface);
  }

  void add_port(unsigned plane, std::size_t at, const std::string& interface) {
    FabricNode& node = plan_.nodes[at];
    plan_.ports.push_back({at, interface, mac_of(plane, node)});
    node.ports.push_back(plan_.ports.size() - 1);
  }

  Plan& plan_;
  const fabric::Description& d_;
};

}  // namespace

Plan::Plan(const fabric::Description& d, const std::string& prefix)
    : description(&d), name(prefix + "-" + d.name) {
  Planner(*this).fill();
}

unsigned Plan::plane_of(std::size_t port) const {
  return nodes[ports[port | 1].node].plane;  // the upper end is always a switch
}

std::string Plan::direction(std::size_t port) const {
  return node_of(port).name + ">" + node_of(peer(port)).name;
}

std::string Plan::link(std::size_t port) const {
  return node_of(port & ~std::size_t{1}).name + "-" + node_of(port | 1).name;
}

const FabricNode& Plan::find_node(std::string_view wanted) const {
  for (const FabricNode& node : nodes)
    if (node.name == wanted) return node;
  throw Error(Errc::invalid_argument, fmt::format("no node '{}' in {}: there are {}", wanted,
                                                  description->file, nodes_text(*description)));
}

std::size_t Plan::find_port(std::string_view from, std::string_view to) const {
  const FabricNode& node = find_node(from);
  (void)find_node(to);
  std::string neighbours;
  for (const std::size_t port : node.ports) {
    if (node_of(peer(port)).name == to) return port;
    neighbours += (neighbours.empty() ? "" : ", ") + node_of(peer(port)).name;
  }
  throw Error(
      Errc::invalid_argument,
      fmt::format("no link between {} and {}: {} is connected to {}", from, to, from, neighbours));
}

std::string nodes_text(const fabric::Description& d) {
  return fmt::format(
      "hosts {} to {} and in each plane p (0 to {}) the switches p<p>t0-0 to p<p>t0-{} and "
      "p<p>t1-0 to p<p>t1-{}",
      d.hosts.front().name, d.hosts.back().name, d.planes - 1, d.t0 - 1, d.t1 - 1);
}

void check_prefix(const std::string& prefix) {
  constexpr std::size_t kLongest = 12;
  const bool plain = std::all_of(prefix.begin(), prefix.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '-' || c == '_';
  });
  if (prefix.empty() || prefix.size() > kLongest || !plain)
    throw Error(Errc::invalid_argument,
                fmt::format("--prefix: is '{}', must be 1 to {} letters, digits, '-' or '_'",
                            prefix, kLongest));
}

}  // namespace mrc::tools
