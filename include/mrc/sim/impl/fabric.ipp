// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <charconv>
#include <optional>

#include "mrc/sim/fabric.hpp"

namespace mrc::inline v0_1::sim {

MRC_DECL void FabricSettings::check() const {
  const auto range = [](const char* name, double v, double low, double high) {
    if (!(v >= low && v <= high))
      throw Error(Errc::invalid_argument, std::string("fabric: ") + name + " is " +
                                              std::to_string(v) + ", must be " +
                                              std::to_string(low) + " to " + std::to_string(high));
  };
  range("planes", planes, 1, 16);
  range("hosts", hosts, 1, planes > 8 ? 1023 : 2047);
  range("hosts_per_t0", hosts_per_t0, 1, 2047);
  range("t1s", t1s, 1, 256);
  range("host_gbps", host_gbps, 0.001, 100'000);
  range("fabric_gbps", fabric_gbps, 0.001, 100'000);
  range("host_delay", static_cast<double>(host_delay.count()), 1, 1e9);
  range("fabric_delay", static_cast<double>(fabric_delay.count()), 1, 1e9);
  range("ecn_probability", queue.ecn_probability, 0, 1);
  range("buffer_alpha", buffer_alpha, 0.001, 1000);
  range("data_limit", static_cast<double>(queue.data_limit), 1, 1e12);
  range("control_limit", static_cast<double>(queue.control_limit), 1, 1e12);
  if (queue.ecn_max != 0 && queue.ecn_min > queue.ecn_max)
    throw Error(Errc::invalid_argument, "fabric: ecn_min is above ecn_max");
  if (pfc.xon > pfc.xoff) throw Error(Errc::invalid_argument, "fabric: PFC xon is above xoff");
}

// --- names and addresses ------------------------------------------------------------------------

MRC_DECL wire::IpAddress Fabric::address(unsigned host, unsigned plane) noexcept {
  wire::IpAddress a{0xFD, 0x00, 0, 0, 0, 0, 0, 0, 0, 0, 0, static_cast<std::uint8_t>(plane)};
  for (unsigned i = 0; i < 4; ++i) a[15 - i] = static_cast<std::uint8_t>((host + 1) >> 8 * i);
  return a;
}

MRC_DECL path::UsidTemplate Fabric::route_template(unsigned from, unsigned to) const {
  const auto shift = static_cast<std::uint8_t>(number_bits());
  path::UsidTemplate t;
  t.block = kBlock;
  t.plane = {shift, static_cast<std::uint8_t>(plane_bits())};
  t.downlink = {0, shift};
  if (t0_of(from) == t0_of(to) || settings_.topology != Topology::clos) {
    t.usids = {usid(UsidKind::host, 0, 0)};
    return t;
  }
  t.uplink = {0, 8};
  t.usids = {usid(UsidKind::t0, 0, t0_of(from) + 1), usid(UsidKind::t1, 0, 0),
             usid(UsidKind::host, 0, 0)};
  return t;
}

MRC_DECL wire::IpAddress Fabric::route(unsigned from, unsigned to, unsigned plane,
                                       unsigned uplink) const {
  const path::UsidTemplate t = route_template(from, to);
  const auto route = t.route(static_cast<Plane>(plane), t.usids.size() > 1 ? uplink : 0, to + 1);
  if (!route) throw Error(route.error(), "fabric: no such path");
  return route.value().destination;
}

MRC_DECL Ev Fabric::ev(unsigned plane, unsigned uplink) const noexcept {
  const std::uint32_t port = 0xC000u | plane << 8;
  // A structured EV has the uplink in its first byte, other formats in their last.
  return settings_.forwarding == Forwarding::stev ? Ev{uplink << 24 | port} : Ev{port | uplink};
}

namespace detail {

/// Parses names like "t0.1.2": leading letters, then numbers separated by dots.
struct Name {
  std::string_view kind;
  unsigned numbers[2] = {0, 0};
  unsigned count = 0;
};

[[nodiscard]] inline std::optional<Name> parse_name(std::string_view text) {
  Name n;
  if (text.starts_with("t0.") || text.starts_with("t1.")) {
    n.kind = text.substr(0, 2);
    text.remove_prefix(3);
  } else if (text.starts_with("h") || text.starts_with("p")) {
    n.kind = text.substr(0, 1);
    text.remove_prefix(1);
  } else {
    return std::nullopt;
  }
  for (;;) {
    const auto [end, error] =
        std::from_chars(text.data(), text.data() + text.size(), n.numbers[n.count]);
    if (error != std::errc{}) return std::nullopt;
    ++n.count;
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    if (text.empty()) return n;
    if (n.count == 2) return std::nullopt;
    if (text.starts_with(".p"))
      text.remove_prefix(2);
    else if (text.starts_with("."))
      text.remove_prefix(1);
    else
      return std::nullopt;
  }
}

}  // namespace detail

MRC_DECL int Fabric::host_of(std::string_view name) const {
  const auto n = detail::parse_name(name);
  if (!n || n->kind != "h" || n->count != 1 || n->numbers[0] >= settings_.hosts) return -1;
  return static_cast<int>(n->numbers[0]);
}

MRC_DECL std::vector<LinkId> Fabric::find(std::string_view name) const {
  std::vector<LinkId> found;
  const auto add_where = [&](auto&& wanted) {
    for (std::uint32_t i = 0; i < network_.link_count(); ++i) {
      const std::string_view link = network_[LinkId{i}].name;
      const std::size_t cut = link.find('>');
      if (wanted(link.substr(0, cut), link.substr(cut + 1))) found.push_back(LinkId{i});
    }
  };
  const std::size_t arrow = name.find('>'), dash = name.find('-');
  if (arrow != std::string_view::npos) {
    add_where([&](auto from, auto to) {
      return from == name.substr(0, arrow) && to == name.substr(arrow + 1);
    });
  } else if (dash != std::string_view::npos) {
    const auto a = name.substr(0, dash), b = name.substr(dash + 1);
    add_where([&](auto from, auto to) { return (from == a && to == b) || (from == b && to == a); });
  } else if (const auto n = detail::parse_name(name); n && n->kind == "p" && n->count == 1) {
    const auto in_plane = [&](std::string_view node) {
      const auto m = detail::parse_name(node);
      return m && (m->kind == "h" ? m->numbers[1] : m->numbers[0]) == n->numbers[0];
    };
    add_where([&](auto from, auto to) { return in_plane(from) || in_plane(to); });
  } else if (n && n->kind == "h" && n->count == 1) {
    const std::string prefix = std::string(name) + ".";
    add_where(
        [&](auto from, auto to) { return from.starts_with(prefix) || to.starts_with(prefix); });
  } else {
    add_where([&](auto from, auto to) { return from == name || to == name; });
  }
  if (found.empty())
    throw Error(Errc::invalid_argument,
                "fabric: nothing is called '" + std::string(name) + "'; there are h0 to h" +
                    std::to_string(settings_.hosts - 1) + ", h0.p0, p0 to p" +
                    std::to_string(settings_.planes - 1) + ", t0.PLANE.0 to t0.PLANE." +
                    std::to_string(settings_.t0s() - 1) +
                    (settings_.t1_count() > 0
                         ? ", t1.PLANE.0 to t1.PLANE." + std::to_string(settings_.t1_count() - 1)
                         : std::string()) +
                    ", cables A-B and directions A>B between them");
  return found;
}

// --- building
// -------------------------------------------------------------------------------------

MRC_DECL Fabric::Fabric(Network& network, const FabricSettings& settings,
                        std::span<const NodeId> hosts, std::uint64_t seed)
    : network_(network), settings_(settings) {
  settings_.check();
  if (hosts.size() != settings_.hosts)
    throw Error(Errc::invalid_argument, "fabric: " + std::to_string(hosts.size()) +
                                            " host nodes for " + std::to_string(settings_.hosts) +
                                            " hosts");
  switch (settings_.topology) {
    case Topology::clos:
      per_t0_ = settings_.hosts_per_t0;
      break;
    case Topology::single_switch:
      per_t0_ = settings_.hosts;
      break;
    case Topology::dumbbell:
      per_t0_ = (settings_.hosts + 1) / 2;
      break;
  }
  const std::size_t ports = std::size_t{settings_.hosts} * settings_.planes;
  host_up_.resize(ports);
  host_down_.resize(ports);
  const std::size_t cables = std::size_t{settings_.planes} * settings_.t0s() * uplinks();
  fabric_up_.resize(cables);
  fabric_down_.resize(cables);
  Random random(seed);
  for (unsigned plane = 0; plane < settings_.planes; ++plane) build_plane(plane, hosts, random);
}

MRC_DECL LinkSettings Fabric::link(double gbps, Duration delay, bool from_host,
                                   bool to_host) const {
  LinkSettings l{delay, gbps, settings_.queue};
  if (to_host) {
    l.queue.trimmed_dscp = settings_.trimmed_last_hop_dscp;
    if (!settings_.ecn_last_hop) l.queue.ecn_max = 0;
  }
  if (from_host) {  // the host limits its own queue
    l.queue = {};
    l.queue.data_limit = l.queue.control_limit = std::uint64_t{1} << 40;
  }
  return l;
}

MRC_DECL Switch& Fabric::add_switch(path::Usid usid, Random& random, NodeId& node) {
  switches_.push_back(
      std::make_unique<Switch>(network_, settings_.forwarding, kBlock, usid, random.next()));
  node = network_.add_node(*switches_.back());
  return *switches_.back();
}

MRC_DECL void Fabric::build_plane(unsigned plane, std::span<const NodeId> hosts, Random& random) {
  std::vector<NodeId> t0s(settings_.t0s());
  std::vector<Switch*> t0_switches;
  for (unsigned j = 0; j < settings_.t0s(); ++j)
    t0_switches.push_back(&add_switch(usid(UsidKind::t0, plane, j + 1), random, t0s[j]));
  connect_hosts(plane, hosts, t0s, t0_switches);
  if (settings_.topology == Topology::clos) connect_tiers(plane, t0s, t0_switches, random);
  if (settings_.topology == Topology::dumbbell) connect_dumbbell(plane, t0s, t0_switches);
  for (unsigned j = 0; j < settings_.t0s(); ++j) set_buffers(*t0_switches[j], t0s[j]);
}

MRC_DECL void Fabric::set_buffers(const Switch& s, NodeId node) {
  if (settings_.shared_buffer > 0)
    network_.share_buffer(s.ports(), settings_.shared_buffer, settings_.buffer_alpha);
  network_.set_pfc(node, settings_.pfc);
}

MRC_DECL void Fabric::connect_hosts(unsigned plane, std::span<const NodeId> hosts,
                                    std::span<const NodeId> t0s, std::span<Switch*> t0_switches) {
  for (unsigned h = 0; h < settings_.hosts; ++h) {
    const unsigned j = t0_of(h);
    const std::string host = "h" + std::to_string(h) + ".p" + std::to_string(plane);
    const std::string t0 = "t0." + std::to_string(plane) + "." + std::to_string(j);
    const std::size_t at = std::size_t{h} * settings_.planes + plane;
    host_up_[at] = network_.add_link(hosts[h], t0s[j],
                                     link(settings_.host_gbps, settings_.host_delay, true, false),
                                     host + ">" + t0, plane);
    host_down_[at] = network_.add_link(t0s[j], hosts[h],
                                       link(settings_.host_gbps, settings_.host_delay, false, true),
                                       t0 + ">" + host, 0, plane);
    const auto port = t0_switches[j]->add_port(host_down_[at]);
    t0_switches[j]->route_usid(usid(UsidKind::host, plane, h + 1), port);
    t0_switches[j]->route_host(h + 1, port);
  }
}

MRC_DECL void Fabric::connect_tiers(unsigned plane, std::span<const NodeId> t0s,
                                    std::span<Switch*> t0_switches, Random& random) {
  for (unsigned u = 0; u < settings_.t1s; ++u) {
    NodeId node;
    Switch& t1 = add_switch(usid(UsidKind::t1, plane, u), random, node);
    const std::string t1_name = "t1." + std::to_string(plane) + "." + std::to_string(u);
    for (unsigned j = 0; j < settings_.t0s(); ++j) {
      const std::string t0_name = "t0." + std::to_string(plane) + "." + std::to_string(j);
      const std::size_t at = (std::size_t{plane} * settings_.t0s() + j) * settings_.t1s + u;
      const LinkSettings l = link(settings_.fabric_gbps, settings_.fabric_delay, false, false);
      fabric_up_[at] = network_.add_link(t0s[j], node, l, t0_name + ">" + t1_name);
      fabric_down_[at] = network_.add_link(node, t0s[j], l, t1_name + ">" + t0_name);
      const auto up = t0_switches[j]->add_port(fabric_up_[at]);
      t0_switches[j]->add_uplink(up);
      t0_switches[j]->route_usid(usid(UsidKind::t1, plane, u), up);
      const auto down = t1.add_port(fabric_down_[at]);
      for (unsigned h = j * per_t0_; h < std::min((j + 1) * per_t0_, settings_.hosts); ++h) {
        t1.route_usid(usid(UsidKind::host, plane, h + 1), down);
        t1.route_host(h + 1, down);
      }
    }
    set_buffers(t1, node);
  }
}

MRC_DECL void Fabric::connect_dumbbell(unsigned plane, std::span<const NodeId> t0s,
                                       std::span<Switch*> t0_switches) {
  for (unsigned j = 0; j < 2; ++j) {
    const std::string from = "t0." + std::to_string(plane) + "." + std::to_string(j);
    const std::string to = "t0." + std::to_string(plane) + "." + std::to_string(1 - j);
    const LinkId id = network_.add_link(
        t0s[j], t0s[1 - j], link(settings_.fabric_gbps, settings_.fabric_delay, false, false),
        from + ">" + to);
    fabric_up_[std::size_t{plane} * 2 + j] = id;
    fabric_down_[std::size_t{plane} * 2 + 1 - j] = id;
    const auto port = t0_switches[j]->add_port(id);
    t0_switches[j]->add_uplink(port);
    for (unsigned h = 0; h < settings_.hosts; ++h)
      if (t0_of(h) != j) t0_switches[j]->route_usid(usid(UsidKind::host, plane, h + 1), port);
  }
}

MRC_DECL std::uint64_t Fabric::unroutable() const noexcept {
  std::uint64_t n = 0;
  for (const auto& s : switches_) n += s->unroutable();
  return n;
}

}  // namespace mrc::inline v0_1::sim
