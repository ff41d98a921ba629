// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <optional>
#include <string>

#include "mrc/core/error.hpp"
#include "mrc/fabric/routes.hpp"

namespace mrc::inline v0_1::fabric {

namespace detail {

/// A switch that a path goes through.
struct Hop {
  NodeKind kind;
  unsigned number;

  friend bool operator==(const Hop&, const Hop&) = default;
};

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

/// The switch with a uSID of that plane; nothing if the description has none.
inline std::optional<Hop> owner_of(const Description& d, Usid usid, Plane plane = 0) {
  for (unsigned i = 0; i < d.t0; ++i)
    if (d.usids.of_t0(plane, i) == usid) return Hop{NodeKind::t0, i};
  for (unsigned j = 0; j < d.t1; ++j)
    if (d.usids.of_t1(plane, j) == usid) return Hop{NodeKind::t1, j};
  return std::nullopt;
}

/// The switches of a path, in order. Literal uSIDs that no switch of the description has
/// are left out.
inline std::vector<Hop> hops_of(const Description& d, const std::vector<PatternStep>& steps,
                                const Host& from, const Host& to, unsigned uplink) {
  std::vector<Hop> hops{{NodeKind::t0, from.t0}};
  const auto add = [&](Hop hop) {
    if (hops.back() != hop) hops.push_back(hop);
  };
  for (const PatternStep& step : steps) {
    if (step.kind == PatternStep::Kind::source_t0) add({NodeKind::t0, from.t0});
    if (step.kind == PatternStep::Kind::t1) add({NodeKind::t1, uplink});
    if (step.kind == PatternStep::Kind::host) add({NodeKind::t0, to.t0});
    if (step.kind == PatternStep::Kind::literal)
      if (const auto hop = owner_of(d, step.literal)) add(*hop);
  }
  return hops;
}

/// True if a path over `hops` uses the denied part.
inline bool touches(const Denied& denied, const Description& d, const std::vector<Hop>& hops,
                    const Host& from, const Host& to) {
  if (denied.host != Denied::kAny) {
    const std::string& name = d.hosts[denied.host].name;
    return name == from.name || name == to.name;
  }
  const Hop t0{NodeKind::t0, denied.t0}, t1{NodeKind::t1, denied.t1};
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

inline bool is_denied(const Description& d, Plane plane, const std::vector<Hop>& hops,
                      const Host& from, const Host& to) {
  for (const Denied& denied : d.denied)
    if (denied.plane == plane && touches(denied, d, hops, from, to)) return true;
  return false;
}

/// The template of a pattern, with the T1 of uplink 0 at the step "t1"; `block` is not set.
inline path::UsidTemplate make_template(const Description& d, const std::vector<PatternStep>& steps,
                                        const Host& from, const Host& to) {
  path::UsidTemplate t;
  t.plane = d.usids.plane;
  t.downlink = d.usids.downlink;
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
  const std::vector<Hop> hops{{NodeKind::t0, from.t0}, {NodeKind::t0, to.t0}};
  std::vector<Path> paths;
  for (unsigned n = 0; n < count; ++n) {
    Path path;
    path.plane = plane;
    path.uplink = static_cast<std::uint16_t>(n);
    // EVs are unique: planes differ by flow label or, without flow labels, by port range.
    path.ev = d.entropy == wire::EvFormat::udp ? Ev{kEcmpFirstPort + plane * count + n}
                                               : Ev{(plane + 1u) << 16 | (kEcmpFirstPort + n)};
    path.denied = is_denied(d, plane, hops, from, to);
    paths.push_back(path);
  }
  return paths;
}

}  // namespace detail

MRC_SETUP std::vector<Path> plane_paths(const Description& d, Plane plane, const Host& from,
                                        const Host& to, unsigned ecmp_count) {
  if (d.forwarding == Forwarding::ecmp) return detail::ecmp_paths(d, plane, from, to, ecmp_count);
  const std::vector<PatternStep>& steps = detail::steps_between(d, from, to);
  path::UsidTemplate t = detail::make_template(d, steps, from, to);
  t.block = d.blocks[plane];
  const Plane in_usid = t.plane.width > 0 ? plane : Plane{0};  // else the block names it
  const unsigned uplinks = t.uplink.width > 0 ? d.t1 : 1;
  std::vector<Path> out;
  for (unsigned u = 0; u < uplinks; ++u) {
    const auto route = t.route(in_usid, u, to.downlink);
    if (!route)
      throw Error(route.error(), d.file + ": no uSIDs from host " + from.name + " to host " +
                                     to.name + " in plane " + std::to_string(plane));
    const bool denied =
        detail::is_denied(d, plane, detail::hops_of(d, steps, from, to, u), from, to);
    out.push_back(
        {plane, static_cast<std::uint16_t>(u), path_ev(d, plane, u), route.value(), denied});
  }
  return out;
}

MRC_SETUP bool leads_over(const Description& d, const Denied& part, const Host& from,
                          const Host& to, const path::UsidRoute& route) {
  std::vector<detail::Hop> hops{{NodeKind::t0, from.t0}};
  const auto add = [&](detail::Hop hop) {
    if (hops.back() != hop) hops.push_back(hop);
  };
  const Plane in_usid = d.usids.plane.width > 0 ? part.plane : Plane{0};
  const auto add_usids = [&](const path::Ipv6& address) {
    for (std::size_t i = 4; i + 1 < address.size(); i += 2) {  // behind the block
      const auto usid = static_cast<Usid>(address[i] << 8 | address[i + 1]);
      if (const auto hop = detail::owner_of(d, usid, in_usid)) add(*hop);
    }
  };
  add_usids(route.destination);
  if (route.has_srh) add_usids(route.segment);
  add({NodeKind::t0, to.t0});
  return detail::touches(part, d, hops, from, to);
}

MRC_SETUP std::vector<Path> paths(const Description& d, const Host& from, const Host& to,
                                  unsigned ecmp_per_plane) {
  std::vector<std::vector<Path>> planes;
  for (unsigned p = 0; p < d.planes; ++p)
    planes.push_back(plane_paths(d, static_cast<Plane>(p), from, to, ecmp_per_plane));
  std::vector<Path> out;
  for (std::size_t i = 0; i < planes.front().size(); ++i)
    for (const std::vector<Path>& plane : planes) out.push_back(plane[i]);
  return out;
}

MRC_SETUP wire::Encapsulation encapsulation_of(const Description& d) {
  if (d.forwarding != Forwarding::srv6) return wire::Encapsulation::none;
  for (const RoutePattern& pattern : d.patterns)
    if (std::max(pattern.remote.size(), pattern.local.size()) > path::kUsidsPerCarrier)
      return wire::Encapsulation::srh;
  return wire::Encapsulation::ipv6_in_ipv6;
}

}  // namespace mrc::inline v0_1::fabric
