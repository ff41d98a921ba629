// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <string>

#include "mrc/core/error.hpp"
#include "mrc/fabric/routes.hpp"

namespace mrc::inline v0_1::fabric {

namespace detail {

/// The steps that lead from a host to another.
inline const std::vector<PatternStep>& steps_between(const Description& d, const Host& from,
                                                     const Host& to) {
  const auto takes = [&](const RoutePattern& pattern) {
    return pattern.t0s.empty() ||
           std::find(pattern.t0s.begin(), pattern.t0s.end(), to.t0) != pattern.t0s.end();
  };
  const auto pattern = std::find_if(d.patterns.begin(), d.patterns.end(), takes);
  if (pattern == d.patterns.end())
    throw Error(Errc::not_found, d.file + ": no template takes host " + to.name);
  return from.t0 == to.t0 ? pattern->local : pattern->remote;
}

/// The switches of a route, in order. uSIDs that the description does not know are left out; so are
/// all with ECMP, where the route is empty.
inline std::vector<Node> hops_of(const Description& d, Plane plane, const Host& from,
                                 const Host& to, const path::UsidRoute& route) {
  std::vector<Node> hops{{NodeKind::t0, from.t0}};
  std::optional<Node> at = hops.front();
  const auto go_to = [&](const Node& node) {
    if (node.kind != NodeKind::host && hops.back() != node) hops.push_back(node);
  };
  const auto follow = [&](const path::Ipv6& carrier) {
    for (std::size_t i = 0; i < path::kUsidsPerCarrier; ++i) {
      const Usid usid = path::usid_at(carrier, i);
      if (usid == 0 || (at && at->kind == NodeKind::host)) return;  // what follows is the host's
      at = next_node(d, plane, at, usid);
      if (at) go_to(*at);
    }
  };
  follow(route.destination);
  if (route.has_srh) follow(route.segment);
  go_to({NodeKind::t0, to.t0});
  return hops;
}

/// True if a path over `hops` uses the denied part.
inline bool touches(const Denied& denied, const Description& d, const std::vector<Node>& hops,
                    const Host& from, const Host& to) {
  if (denied.host != Denied::kAny) {
    const std::string& name = d.hosts[denied.host].name;
    return name == from.name || name == to.name;
  }
  const Node t0{NodeKind::t0, denied.t0}, t1{NodeKind::t1, denied.t1};
  const bool any_t0 = denied.t0 == Denied::kAny, any_t1 = denied.t1 == Denied::kAny;
  if (any_t0 && any_t1) return true;  // the plane
  for (std::size_t i = 0; i < hops.size(); ++i) {
    if (any_t1 && hops[i] == t0) return true;
    if (any_t0 && hops[i] == t1) return true;
    if (i == 0 || any_t0 || any_t1) continue;
    if ((hops[i - 1] == t0 && hops[i] == t1) || (hops[i - 1] == t1 && hops[i] == t0)) return true;
  }
  return false;
}

inline bool is_denied(const Description& d, Plane plane, const Host& from, const Host& to,
                      const path::UsidRoute& route) {
  return std::any_of(d.denied.begin(), d.denied.end(), [&](const Denied& denied) {
    return denied.plane == plane && leads_over(d, denied, from, to, route);
  });
}

/// The template of a pattern, with the T1 of uplink 0 at the step "t1"; `block` is not set.
inline path::UsidTemplate make_template(const Description& d, const std::vector<PatternStep>& steps,
                                        const Host& from, const Host& to) {
  path::UsidTemplate t;
  t.plane = d.usids.plane;
  for (const PatternStep& step : steps) {
    switch (step.kind) {
      case PatternStep::Kind::source_t0:
        t.usids.push_back(d.usids.of_t0(0, from.t0));
        break;
      case PatternStep::Kind::t1:
        t.uplink = d.usids.t1_number;
        t.uplink_usid = t.usids.size();
        t.usids.push_back(d.usids.of_t1(0, 0));
        break;
      case PatternStep::Kind::host_t0:
        t.usids.push_back(d.usids.of_t0(0, to.t0));
        break;
      case PatternStep::Kind::host:
        t.usids.push_back(d.usids.of_host(0, to.t0, to.downlink));
        break;
      case PatternStep::Kind::literal:
        t.usids.push_back(step.literal);
        break;
    }
  }
  return t;
}

inline std::vector<Path> ecmp_paths(const Description& d, Plane plane, const Host& from,
                                    const Host& to, unsigned count) {
  if (count == 0 || count > kMaxEcmpPaths)
    throw Error(Errc::invalid_argument, d.file + ": " + std::to_string(count) +
                                            " paths per plane wanted, must be 1 to " +
                                            std::to_string(kMaxEcmpPaths));
  if (d.entropy == wire::EvFormat::udp && d.planes * count > kEcmpPorts)
    throw Error(Errc::invalid_argument, d.file + ": entropy \"udp\": " + std::to_string(count) +
                                            " paths for each of " + std::to_string(d.planes) +
                                            " planes wanted, but there are UDP source ports for " +
                                            std::to_string(kEcmpPorts) +
                                            " together; take fewer, or \"stev\"");
  const bool denied = is_denied(d, plane, from, to, {});
  std::vector<Path> paths;
  for (unsigned n = 0; n < count; ++n) {
    Path path;
    path.plane = plane;
    path.uplink = static_cast<std::uint16_t>(n);
    // EVs are unique: planes differ by flow label or, without flow labels, by port range.
    path.ev = d.entropy == wire::EvFormat::udp ? Ev{kEcmpFirstPort + plane * count + n}
                                               : Ev{(plane + 1u) << 16 | (kEcmpFirstPort + n)};
    path.denied = denied;
    paths.push_back(path);
  }
  return paths;
}

}  // namespace detail

std::vector<Path> plane_paths(const Description& d, Plane plane, const Host& from, const Host& to,
                              unsigned ecmp_count) {
  if (d.forwarding == Forwarding::ecmp) return detail::ecmp_paths(d, plane, from, to, ecmp_count);
  const std::vector<PatternStep>& steps = detail::steps_between(d, from, to);
  path::UsidTemplate t = detail::make_template(d, steps, from, to);
  t.block = d.blocks[plane];
  const Plane in_usid = t.plane.width > 0 ? plane : Plane{0};  // else the block names it
  const unsigned uplinks = t.uplink.width > 0 ? d.t1 : 1;
  std::vector<Path> out;
  for (unsigned u = 0; u < uplinks; ++u) {
    const auto route = t.route(in_usid, u, 0);
    if (!route)
      throw Error(route.error(), d.file + ": no uSIDs from host " + from.name + " to host " +
                                     to.name + " in plane " + std::to_string(plane));
    out.push_back({plane, static_cast<std::uint16_t>(u), path_ev(d, plane, u), route.value(),
                   detail::is_denied(d, plane, from, to, route.value())});
  }
  return out;
}

std::optional<Node> next_node(const Description& d, Plane plane, const std::optional<Node>& at,
                              Usid usid) {
  const UsidPlan& plan = d.usids;
  const bool local = path::is_local(usid);
  const auto from = [&](NodeKind kind) { return !local || (at && at->kind == kind); };
  if (const unsigned i = plan.t0_number.get(usid);
      i < d.t0 && plan.of_t0(plane, i) == usid && from(NodeKind::t1))
    return Node{NodeKind::t0, i};
  if (const unsigned j = plan.t1_number.get(usid);
      j < d.t1 && plan.of_t1(plane, j) == usid && from(NodeKind::t0))
    return Node{NodeKind::t1, j};
  for (unsigned k = 0; from(NodeKind::t0) && k < d.hosts.size(); ++k) {
    const Host& host = d.hosts[k];
    if (local && at->number != host.t0) continue;
    if (plan.of_host(plane, host.t0, host.downlink) == usid) return Node{NodeKind::host, k};
  }
  return std::nullopt;
}

bool leads_over(const Description& d, const Denied& part, const Host& from, const Host& to,
                const path::UsidRoute& route) {
  return detail::touches(part, d, detail::hops_of(d, part.plane, from, to, route), from, to);
}

std::vector<Path> paths(const Description& d, const Host& from, const Host& to,
                        unsigned ecmp_per_plane) {
  std::vector<std::vector<Path>> planes;
  for (unsigned p = 0; p < d.planes; ++p)
    planes.push_back(plane_paths(d, static_cast<Plane>(p), from, to, ecmp_per_plane));
  std::vector<Path> out;
  for (std::size_t i = 0; i < planes.front().size(); ++i)
    for (const std::vector<Path>& plane : planes) out.push_back(plane[i]);
  return out;
}

std::vector<Usid> usids_behind(const Description& d, Plane plane, const Host& from,
                               const Host& to) {
  const std::vector<PatternStep>& steps = detail::steps_between(d, from, to);
  const auto is_host = [](const PatternStep& step) { return step.kind == PatternStep::Kind::host; };
  std::vector<Usid> usids;
  for (auto step = std::find_if(steps.begin(), steps.end(), is_host) + 1; step != steps.end();
       ++step)
    usids.push_back(d.usids.plane.set(step->literal, plane));
  return usids;
}

wire::Encapsulation encapsulation_of(const Description& d) {
  if (d.forwarding != Forwarding::srv6) return wire::Encapsulation::none;
  for (const RoutePattern& pattern : d.patterns)
    if (std::max(pattern.remote.size(), pattern.local.size()) > path::kUsidsPerCarrier)
      return wire::Encapsulation::srh;
  return wire::Encapsulation::ipv6_in_ipv6;
}

}  // namespace mrc::inline v0_1::fabric
