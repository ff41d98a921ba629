// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "mrc/core/error.hpp"
#include "mrc/fabric/routes.hpp"
#include "mrc/probe/part.hpp"

/// The ways that probes take. A source route may lead back to its sender, so most of a fabric can
/// be looked at without anybody's help. Without source routes a path is an EV to another host, and
/// switches choose its way by it.
namespace mrc::inline v0_1::probe {

/// What a path is for.
enum class PathKind : std::uint8_t {
  t0_loop,   ///< host, T0, host
  t1_loop,   ///< host, T0, T1, T0, host
  far_loop,  ///< the same by way of another T0: host, T0, T1, other T0, T1, T0, host
  detour,    ///< to a T1 by another way than the own uplink, which alone can't tell the two apart
  peer,      ///< to another host, which has to answer
};

/// "T0 loop", as tables call it.
[[nodiscard]] inline const char* to_string(PathKind kind) noexcept {
  switch (kind) {
    case PathKind::t0_loop:
      return "T0 loop";
    case PathKind::t1_loop:
      return "T1 loop";
    case PathKind::far_loop:
      return "far loop";
    case PathKind::detour:
      return "detour";
    case PathKind::peer:
      return "peer";
  }
  return "?";
}

/// A host or switch on a path.
struct Stop {
  enum class Kind : std::uint8_t { host, t0, t1, unknown };
  /// unknown: a uSID of a template that the description can't place, or what switches choose
  Kind kind = Kind::unknown;
  unsigned number = 0;

  friend constexpr bool operator==(const Stop&, const Stop&) = default;
};

/// A way for probes.
struct ProbePath {
  PathKind kind = PathKind::peer;
  Plane plane = 0;
  /// Of the own T0; for a detour that of the T1 it is about; without a route just a number.
  std::uint16_t uplink = 0;
  unsigned to = 0;   ///< index of the host at its end; loops: the own
  unsigned far = 0;  ///< far_loop, detour: the other T0
  Ev ev{};
  path::UsidRoute route;  ///< without a destination where switches choose
  std::vector<Stop> stops;
  std::vector<Part> parts;  ///< all that has to work, each once, in order
  bool denied = false;      ///< the description denies one of them
};

/// "h0 p1t0-0 p1t1-1 p1t0-0 h0".
[[nodiscard]] inline std::string way_name(const Description& d, const ProbePath& path) {
  std::string name;
  for (const Stop& stop : path.stops) {
    if (!name.empty()) name += ' ';
    if (stop.kind == Stop::Kind::host)
      name += d.hosts[stop.number].name;
    else if (stop.kind == Stop::Kind::unknown)
      name += '?';
    else
      name += switch_name(path.plane,
                          stop.kind == Stop::Kind::t0 ? fabric::NodeKind::t0 : fabric::NodeKind::t1,
                          stop.number);
  }
  return name;
}

/// The same, and the EV where switches choose: "h0 p1t0-0 ? p1t0-1 h1 by EV 0x2c003".
[[nodiscard]] inline std::string path_name(const Description& d, const ProbePath& path) {
  const std::string name = way_name(d, path);
  if (d.forwarding == fabric::Forwarding::srv6) return name;
  return fmt::format("{} by EV {:#x}", name, value(path.ev));
}

/// Makes paths from one host of a fabric. Keeps a reference to the description.
class PathMaker {
 public:
  PathMaker(const Description& d, unsigned self) : d_(d), self_(self) {
    // Planes differ in nothing but the plane's bits, which stop_at() takes away.
    for (unsigned i = 0; i < d.t0; ++i) owners_[d.usids.of_t0(0, i)] = {Stop::Kind::t0, i};
    for (unsigned j = 0; j < d.t1; ++j) owners_[d.usids.of_t1(0, j)] = {Stop::Kind::t1, j};
    for (unsigned k = 0; k < d.hosts.size(); ++k) owners_[host_usid(0, k)] = {Stop::Kind::host, k};
  }

  [[nodiscard]] const Description& description() const noexcept { return d_; }
  [[nodiscard]] unsigned self() const noexcept { return self_; }

  /// All paths back to the host itself: every link between switches is on one. For fabrics with
  /// source routes.
  [[nodiscard]] std::vector<ProbePath> loops() const {
    std::vector<ProbePath> out;
    for (unsigned p = 0; p < d_.planes; ++p) {
      const auto plane = static_cast<Plane>(p);
      out.push_back(make_loop(PathKind::t0_loop, plane, 0, home(), {}));
      for (unsigned u = 0; u < d_.t1; ++u)
        out.push_back(
            make_loop(PathKind::t1_loop, plane, u, home(), {t0(plane, home()), t1(plane, u)}));
      for (unsigned u = 0; u < d_.t1; ++u)
        for (unsigned i = 0; i < d_.t0; ++i)
          if (i != home())
            out.push_back(make_loop(PathKind::far_loop, plane, u, i,
                                    {t0(plane, home()), t1(plane, u), t0(plane, i), t1(plane, u)}));
    }
    return out;
  }

  /// All paths to another host: source routes, or so many EVs of each plane.
  [[nodiscard]] std::vector<ProbePath> paths_to(unsigned host,
                                                unsigned evs = fabric::kEcmpPaths) const {
    std::vector<ProbePath> out;
    for (const fabric::Path& path : fabric::paths(d_, d_.hosts[self_], d_.hosts[host], evs)) {
      ProbePath p;
      p.plane = path.plane;
      p.uplink = path.uplink;
      p.to = host;
      p.ev = path.ev;
      p.route = path.route;
      out.push_back(trace(std::move(p)));
    }
    return out;
  }

  /// The loop that gets to T1 `u` from T0 `far`, which it reaches over T1 `by`. It leaves the own
  /// T0's uSID out: six have room.
  [[nodiscard]] ProbePath detour(Plane plane, unsigned u, unsigned far, unsigned by) const {
    return make_loop(PathKind::detour, plane, u, far,
                     {t1(plane, by), t0(plane, far), t1(plane, u), t0(plane, far), t1(plane, by)});
  }

 private:
  [[nodiscard]] unsigned home() const noexcept { return d_.hosts[self_].t0; }
  [[nodiscard]] fabric::Usid t0(Plane p, unsigned i) const { return d_.usids.of_t0(p, i); }
  [[nodiscard]] fabric::Usid t1(Plane p, unsigned j) const { return d_.usids.of_t1(p, j); }
  [[nodiscard]] fabric::Usid host_usid(Plane p, unsigned k) const {
    return d_.usids.of_host(p, d_.hosts[k].t0, d_.hosts[k].downlink);
  }

  /// Over `usids` and back to the host itself.
  [[nodiscard]] ProbePath make_loop(PathKind kind, Plane plane, unsigned uplink, unsigned far,
                                    std::vector<fabric::Usid> usids) const {
    usids.push_back(host_usid(plane, self_));
    const auto route = path::make_route(d_.blocks[plane], usids);
    if (!route)
      throw Error(route.error(), fmt::format("{}: no source route makes a {} in plane {}", d_.file,
                                             to_string(kind), plane));
    ProbePath p;
    p.kind = kind;
    p.plane = plane;
    p.uplink = static_cast<std::uint16_t>(uplink);
    p.to = self_;
    p.far = far;
    p.ev = fabric::path_ev(d_, plane, uplink);
    p.route = route.value();
    return trace(std::move(p));
  }

  /// Fills in stops and parts from the route, or from what switches are bound to.
  [[nodiscard]] ProbePath trace(ProbePath p) const {
    p.stops = {{Stop::Kind::host, self_}, {Stop::Kind::t0, home()}};
    const auto add = [&](Stop stop) {
      if (p.stops.back() != stop) p.stops.push_back(stop);
    };
    const auto follow = [&](const path::Ipv6& carrier) {
      for (std::size_t i = 0; i < path::kUsidsPerCarrier; ++i) {
        const fabric::Usid usid = path::usid_at(carrier, i);
        if (usid == 0) return;
        const Stop stop = stop_at(usid);
        if (stop.kind == Stop::Kind::host) add({Stop::Kind::t0, d_.hosts[stop.number].t0});
        add(stop);
      }
    };
    if (d_.forwarding == fabric::Forwarding::srv6) {
      follow(p.route.destination);
      if (p.route.has_srh) follow(p.route.segment);
    } else {
      if (d_.hosts[p.to].t0 != home()) add({});
      add({Stop::Kind::t0, d_.hosts[p.to].t0});
      add({Stop::Kind::host, p.to});
    }
    find_parts(p);
    return p;
  }

  [[nodiscard]] Stop stop_at(fabric::Usid usid) const {
    const auto owner = owners_.find(d_.usids.plane.set(usid, 0));
    return owner == owners_.end() ? Stop{} : owner->second;
  }

  void find_parts(ProbePath& p) const {
    using Kind = Stop::Kind;
    const auto add = [&](PartKind kind, unsigned number, unsigned t1_number = 0) {
      const Plane plane = kind == PartKind::host ? Plane{0} : p.plane;
      p.parts.push_back({kind, plane, number, t1_number});
    };
    add(PartKind::plane, 0);
    for (std::size_t i = 0; i < p.stops.size(); ++i) {
      const Stop& stop = p.stops[i];
      if (stop.kind == Kind::host) add(PartKind::host, stop.number);
      if (stop.kind == Kind::t0) add(PartKind::t0, stop.number);
      if (stop.kind == Kind::t1) add(PartKind::t1, stop.number);
      if (i == 0) continue;
      // A link, whichever way it is passed.
      const Stop& lower = p.stops[i - 1].kind < stop.kind ? p.stops[i - 1] : stop;
      const Stop& upper = &lower == &stop ? p.stops[i - 1] : stop;
      if (lower.kind == Kind::host && upper.kind == Kind::t0)
        add(PartKind::host_link, lower.number);
      if (lower.kind == Kind::t0 && upper.kind == Kind::t1)
        add(PartKind::switch_link, lower.number, upper.number);
    }
    std::sort(p.parts.begin(), p.parts.end());
    p.parts.erase(std::unique(p.parts.begin(), p.parts.end()), p.parts.end());
    p.denied = std::any_of(p.parts.begin(), p.parts.end(),
                           [this](const Part& part) { return is_denied(d_, part); });
  }

  const Description& d_;
  unsigned self_;
  std::map<fabric::Usid, Stop> owners_;
};

}  // namespace mrc::inline v0_1::probe
