// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <charconv>
#include <optional>

#include "mrc/sim/fabric.hpp"

namespace mrc::inline v0_1::sim {

void FabricSettings::check() const {
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

wire::IpAddress Fabric::address(unsigned host, unsigned plane) noexcept {
  wire::IpAddress a{0xFD, 0x00, 0, 0, 0, 0, 0, 0, 0, 0, 0, static_cast<std::uint8_t>(plane)};
  for (unsigned i = 0; i < 4; ++i) a[15 - i] = static_cast<std::uint8_t>((host + 1) >> 8 * i);
  return a;
}

path::UsidTemplate Fabric::route_template(unsigned from, unsigned to) const {
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

wire::IpAddress Fabric::route(unsigned from, unsigned to, unsigned plane, unsigned uplink) const {
  const path::UsidTemplate t = route_template(from, to);
  const auto route = t.route(static_cast<Plane>(plane), t.usids.size() > 1 ? uplink : 0, to + 1);
  if (!route) throw Error(route.error(), "fabric: no such path");
  return route.value().destination;
}

Ev Fabric::ev(unsigned plane, unsigned uplink) const noexcept {
  const std::uint32_t port = 0xC000u | plane << 8;
  // A structured EV has the uplink in its first byte, other formats in their last.
  return settings_.forwarding == Forwarding::stev ? Ev{uplink << 24 | port} : Ev{port | uplink};
}

namespace detail {

/// A part of a fabric, by its name.
struct Part {
  enum class Kind : std::uint8_t { host, port, plane, t0, t1 };
  Kind kind{};
  unsigned plane = 0;   ///< of all but hosts
  unsigned number = 0;  ///< of the host or switch

  [[nodiscard]] bool is_switch() const noexcept { return kind >= Kind::t0; }
  [[nodiscard]] std::string name() const {
    const std::string in_plane = "p" + std::to_string(plane);
    switch (kind) {
      case Kind::host:
        return "h" + std::to_string(number);
      case Kind::port:
        return "h" + std::to_string(number) + "." + in_plane;
      case Kind::plane:
        return in_plane;
      default:
        return in_plane + (kind == Kind::t0 ? "t0-" : "t1-") + std::to_string(number);
    }
  }
};

/// Two ends of a cable, or of one of its directions.
struct Ends {
  Part from, to;
  bool one_way = false;
};

/// Takes a prefix off a text.
[[nodiscard]] inline bool take(std::string_view& text, std::string_view prefix) noexcept {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}
/// Takes a number off a text.
[[nodiscard]] inline bool take(std::string_view& text, unsigned& number) noexcept {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{}) return false;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return true;
}

/// Takes the name of a part off a text: h3, h3.p0, p1, p1t0-2, or the older t0.1.2.
[[nodiscard]] inline std::optional<Part> take_part(std::string_view& text) noexcept {
  Part p;
  if (take(text, "h")) {
    if (!take(text, p.number)) return std::nullopt;
    p.kind = Part::Kind::host;
    if (!take(text, ".p")) return p;
    p.kind = Part::Kind::port;
    return take(text, p.plane) ? std::optional(p) : std::nullopt;
  }
  const bool older = text.starts_with("t");
  if (!older && !(take(text, "p") && take(text, p.plane))) return std::nullopt;
  p.kind = Part::Kind::plane;
  if (!take(text, "t")) return p;
  unsigned tier = 0;
  if (!take(text, tier) || tier > 1) return std::nullopt;
  p.kind = tier == 0 ? Part::Kind::t0 : Part::Kind::t1;
  if (older && !(take(text, ".") && take(text, p.plane))) return std::nullopt;
  if (!take(text, older ? "." : "-") || !take(text, p.number)) return std::nullopt;
  return p;
}

[[nodiscard]] inline std::optional<Part> parse_part(std::string_view text) noexcept {
  const auto part = take_part(text);
  return text.empty() ? part : std::nullopt;
}

/// A-B or A>B, with or without spaces around the sign. A host stands for its port in the plane of
/// the switch.
[[nodiscard]] inline std::optional<Ends> parse_ends(std::string_view text) noexcept {
  const auto skip_spaces = [&] {
    while (take(text, " ")) {
    }
  };
  const auto from = take_part(text);
  if (!from) return std::nullopt;
  skip_spaces();
  Ends ends{*from, {}, text.starts_with(">")};
  if (!ends.one_way && !text.starts_with("-")) return std::nullopt;
  text.remove_prefix(1);
  skip_spaces();
  const auto to = parse_part(text);
  if (!to) return std::nullopt;
  ends.to = *to;
  const auto as_port = [](Part& host, const Part& other) {
    if (host.kind == Part::Kind::host && other.is_switch())
      host = {Part::Kind::port, other.plane, host.number};
  };
  as_port(ends.from, ends.to);
  as_port(ends.to, ends.from);
  return ends;
}

}  // namespace detail

std::string canonical_name(std::string_view name) {
  if (const auto part = detail::parse_part(name)) return part->name();
  if (const auto ends = detail::parse_ends(name))
    return ends->from.name() + (ends->one_way ? ">" : "-") + ends->to.name();
  return std::string(name);
}

std::string switch_name(unsigned tier, unsigned plane, unsigned number) {
  const auto kind = tier == 0 ? detail::Part::Kind::t0 : detail::Part::Kind::t1;
  return detail::Part{kind, plane, number}.name();
}

int Fabric::host_of(std::string_view name) const {
  const auto part = detail::parse_part(name);
  if (!part || part->kind != detail::Part::Kind::host || part->number >= settings_.hosts) return -1;
  return static_cast<int>(part->number);
}

std::vector<LinkId> Fabric::find(std::string_view name) const {
  using detail::Part;
  std::vector<LinkId> found;
  const auto add_where = [&](auto&& wanted) {
    for (std::uint32_t i = 0; i < network_.link_count(); ++i) {
      const std::string_view link = network_[LinkId{i}].name;
      const std::size_t cut = link.find('>');
      if (wanted(link.substr(0, cut), link.substr(cut + 1))) found.push_back(LinkId{i});
    }
  };
  if (const auto ends = detail::parse_ends(name)) {
    const std::string a = ends->from.name(), b = ends->to.name();
    add_where([&](auto from, auto to) {
      return (from == a && to == b) || (!ends->one_way && from == b && to == a);
    });
  } else if (const auto part = detail::parse_part(name)) {
    const std::string whole = part->name();
    const auto belongs = [&](std::string_view node) {
      if (part->kind == Part::Kind::host) return node.starts_with(whole + ".");
      if (part->kind != Part::Kind::plane) return node == whole;
      const auto other = detail::parse_part(node);
      return other && other->plane == part->plane;
    };
    add_where([&](auto from, auto to) { return belongs(from) || belongs(to); });
  }
  if (found.empty())
    throw Error(Errc::invalid_argument,
                "fabric: nothing is called '" + std::string(name) + "'; there are h0 to h" +
                    std::to_string(settings_.hosts - 1) + ", h0.p0, p0 to p" +
                    std::to_string(settings_.planes - 1) + ", p0t0-0 to p0t0-" +
                    std::to_string(settings_.t0s() - 1) +
                    (settings_.t1_count() > 0
                         ? ", p0t1-0 to p0t1-" + std::to_string(settings_.t1_count() - 1)
                         : std::string()) +
                    " in each plane, cables A-B and directions A>B between them");
  return found;
}

// --- building
// -------------------------------------------------------------------------------------

Fabric::Fabric(Network& network, const FabricSettings& settings, std::span<const NodeId> hosts,
               std::uint64_t seed)
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

LinkSettings Fabric::link(double gbps, Duration delay, bool from_host, bool to_host) const {
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

Switch& Fabric::add_switch(path::Usid usid, Random& random, NodeId& node) {
  switches_.push_back(
      std::make_unique<Switch>(network_, settings_.forwarding, kBlock, usid, random.next()));
  node = network_.add_node(*switches_.back());
  return *switches_.back();
}

void Fabric::build_plane(unsigned plane, std::span<const NodeId> hosts, Random& random) {
  std::vector<NodeId> t0s(settings_.t0s());
  std::vector<Switch*> t0_switches;
  for (unsigned j = 0; j < settings_.t0s(); ++j)
    t0_switches.push_back(&add_switch(usid(UsidKind::t0, plane, j + 1), random, t0s[j]));
  connect_hosts(plane, hosts, t0s, t0_switches);
  if (settings_.topology == Topology::clos) connect_tiers(plane, t0s, t0_switches, random);
  if (settings_.topology == Topology::dumbbell) connect_dumbbell(plane, t0s, t0_switches);
  for (unsigned j = 0; j < settings_.t0s(); ++j) set_buffers(*t0_switches[j], t0s[j]);
}

void Fabric::set_buffers(const Switch& s, NodeId node) {
  if (settings_.shared_buffer > 0)
    network_.share_buffer(s.ports(), settings_.shared_buffer, settings_.buffer_alpha);
  network_.set_pfc(node, settings_.pfc);
}

void Fabric::connect_hosts(unsigned plane, std::span<const NodeId> hosts,
                           std::span<const NodeId> t0s, std::span<Switch*> t0_switches) {
  for (unsigned h = 0; h < settings_.hosts; ++h) {
    const unsigned j = t0_of(h);
    const std::string host = "h" + std::to_string(h) + ".p" + std::to_string(plane);
    const std::string t0 = switch_name(0, plane, j);
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

void Fabric::connect_tiers(unsigned plane, std::span<const NodeId> t0s,
                           std::span<Switch*> t0_switches, Random& random) {
  for (unsigned u = 0; u < settings_.t1s; ++u) {
    NodeId node;
    Switch& t1 = add_switch(usid(UsidKind::t1, plane, u), random, node);
    const std::string t1_name = switch_name(1, plane, u);
    for (unsigned j = 0; j < settings_.t0s(); ++j) {
      const std::string t0_name = switch_name(0, plane, j);
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

void Fabric::connect_dumbbell(unsigned plane, std::span<const NodeId> t0s,
                              std::span<Switch*> t0_switches) {
  for (unsigned j = 0; j < 2; ++j) {
    const std::string from = switch_name(0, plane, j);
    const std::string to = switch_name(0, plane, 1 - j);
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

std::uint64_t Fabric::unroutable() const noexcept {
  std::uint64_t n = 0;
  for (const auto& s : switches_) n += s->unroutable();
  return n;
}

}  // namespace mrc::inline v0_1::sim
