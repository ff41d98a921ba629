// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <utility>

#include "mrc/core/error.hpp"
#include "mrc/probe/paths.hpp"

namespace mrc::inline v0_1::probe {

MRC_DECL const char* to_string(PathKind kind) noexcept {
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

MRC_DECL std::string way_name(const Description& d, const ProbePath& path) {
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

MRC_DECL std::string path_name(const Description& d, const ProbePath& path) {
  std::string name = way_name(d, path);
  if (d.forwarding == fabric::Forwarding::srv6) return name;
  char ev[24];
  std::snprintf(ev, sizeof ev, " by EV 0x%x", value(path.ev));
  return name + ev;
}

MRC_DECL PathMaker::PathMaker(const Description& d, unsigned self) : d_(d), self_(self) {
  // uSIDs of different planes differ in the plane bits only, which stop_at() clears.
  for (unsigned i = 0; i < d.t0; ++i) owners_[d.usids.of_t0(0, i)] = {Stop::Kind::t0, i};
  for (unsigned j = 0; j < d.t1; ++j) owners_[d.usids.of_t1(0, j)] = {Stop::Kind::t1, j};
  for (unsigned k = 0; k < d.hosts.size(); ++k) owners_[host_usid(0, k)] = {Stop::Kind::host, k};
}

MRC_DECL std::vector<ProbePath> PathMaker::loops() const {
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

MRC_DECL std::vector<ProbePath> PathMaker::paths_to(unsigned host, unsigned evs) const {
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

MRC_DECL ProbePath PathMaker::detour(Plane plane, unsigned u, unsigned far, unsigned by) const {
  return make_loop(PathKind::detour, plane, u, far,
                   {t1(plane, by), t0(plane, far), t1(plane, u), t0(plane, far), t1(plane, by)});
}

MRC_DECL fabric::Usid PathMaker::host_usid(Plane p, unsigned k) const {
  return d_.usids.of_host(p, d_.hosts[k].t0, d_.hosts[k].downlink);
}

MRC_DECL ProbePath PathMaker::make_loop(PathKind kind, Plane plane, unsigned uplink, unsigned far,
                                        std::vector<fabric::Usid> usids) const {
  usids.push_back(host_usid(plane, self_));
  const auto route = path::make_route(d_.blocks[plane], usids);
  if (!route)
    throw Error(route.error(), d_.file + ": no source route makes a " + to_string(kind) +
                                   " in plane " + std::to_string(plane));
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

MRC_DECL ProbePath PathMaker::trace(ProbePath p) const {
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

MRC_DECL Stop PathMaker::stop_at(fabric::Usid usid) const {
  const auto owner = owners_.find(d_.usids.plane.set(usid, 0));
  return owner == owners_.end() ? Stop{} : owner->second;
}

MRC_DECL void PathMaker::find_parts(ProbePath& p) const {
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
    if (lower.kind == Kind::host && upper.kind == Kind::t0) add(PartKind::host_link, lower.number);
    if (lower.kind == Kind::t0 && upper.kind == Kind::t1)
      add(PartKind::switch_link, lower.number, upper.number);
  }
  std::sort(p.parts.begin(), p.parts.end());
  p.parts.erase(std::unique(p.parts.begin(), p.parts.end()), p.parts.end());
  p.denied = std::any_of(p.parts.begin(), p.parts.end(),
                         [this](const Part& part) { return is_denied(d_, part); });
}

}  // namespace mrc::inline v0_1::probe
