// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <optional>
#include <utility>

#include "mrc/core/error.hpp"
#include "probe/paths.hpp"

namespace mrc::probe {

const char* to_string(PathKind kind) noexcept {
  switch (kind) {
    case PathKind::t0_loop:
      return "T0 loop";
    case PathKind::t1_loop:
      return "T1 loop";
    case PathKind::far_loop:
      return "far loop";
    case PathKind::detour:
      return "detour";
    case PathKind::turn:
      return "turn";
    case PathKind::peer:
      return "peer";
  }
  return "?";
}

bool is_chosen(const ProbePath& path) {
  return std::any_of(path.stops.begin(), path.stops.end(),
                     [](const Stop& stop) { return stop.kind == Stop::Kind::unknown; });
}

std::string way_name(const Description& d, const ProbePath& path) {
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

std::string path_name(const Description& d, const ProbePath& path) {
  std::string name = way_name(d, path);
  if (d.forwarding == fabric::Forwarding::srv6) return name;
  char ev[24];
  std::snprintf(ev, sizeof ev, " by EV 0x%x", value(path.ev));
  return name + ev;
}

PathMaker::PathMaker(const Description& d, unsigned self) : d_(d), self_(self) {}

std::vector<ProbePath> PathMaker::loops() const {
  std::vector<ProbePath> out;
  for (unsigned p = 0; p < d_.planes; ++p) {
    const auto plane = static_cast<Plane>(p);
    out.push_back(make_loop(PathKind::t0_loop, plane, 0, home(), {}));
    for (unsigned u = 0; u < d_.t1; ++u)
      out.push_back(make_loop(PathKind::t1_loop, plane, u, home(), {t0(home()), t1(u)}));
    for (unsigned u = 0; u < d_.t1; ++u)
      for (unsigned i = 0; i < d_.t0; ++i)
        if (i != home())
          out.push_back(
              make_loop(PathKind::far_loop, plane, u, i, {t0(home()), t1(u), t0(i), t1(u)}));
  }
  return out;
}

std::vector<ProbePath> PathMaker::paths_to(unsigned host, unsigned evs) const {
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

ProbePath PathMaker::detour(Plane plane, unsigned u, unsigned far, unsigned by) const {
  return make_loop(PathKind::detour, plane, u, far, {t1(by), t0(far), t1(u), t0(far), t1(by)});
}

ProbePath PathMaker::turn(Plane plane, unsigned u, unsigned far, unsigned by) const {
  return make_loop(PathKind::turn, plane, u, far, {t0(home()), t1(u), t0(far), t1(by)});
}

std::vector<fabric::Usid> PathMaker::usids_over(Plane plane,
                                                const std::vector<Switch>& switches) const {
  const fabric::UsidPlan& plan = d_.usids;
  const fabric::Host& self = d_.hosts[self_];
  std::vector<fabric::Usid> usids;
  Switch at = t0(home());
  const auto go_to = [&](const Switch& next) {
    const bool is_t0 = next.kind == fabric::NodeKind::t0;
    const fabric::Usid usid =
        is_t0 ? plan.of_t0(plane, next.number) : plan.of_t1(plane, next.number);
    if (!path::is_local(usid) || next != at) usids.push_back(usid);  // no link leads to itself
    at = next;
  };
  for (const Switch& next : switches) go_to(next);
  if (path::is_local(plan.host)) go_to(t0(home()));
  usids.push_back(plan.of_host(plane, self.t0, self.downlink));
  for (const fabric::Usid usid : fabric::usids_behind(d_, plane, self, self)) usids.push_back(usid);
  return usids;
}

ProbePath PathMaker::make_loop(PathKind kind, Plane plane, unsigned uplink, unsigned far,
                               const std::vector<Switch>& switches) const {
  const std::vector<fabric::Usid> usids = usids_over(plane, switches);
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

ProbePath PathMaker::trace(ProbePath p) const {
  p.stops = {{Stop::Kind::host, self_}, {Stop::Kind::t0, home()}};
  const auto add = [&](Stop stop) {
    if (p.stops.back() != stop) p.stops.push_back(stop);
  };
  std::optional<fabric::Node> at = t0(home());
  const auto follow = [&](const path::Ipv6& carrier) {
    for (std::size_t i = 0; i < path::kUsidsPerCarrier; ++i) {
      const fabric::Usid usid = path::usid_at(carrier, i);
      if (usid == 0 || (at && at->kind == fabric::NodeKind::host)) return;
      at = fabric::next_node(d_, p.plane, at, usid);
      const Stop stop = at ? stop_of(*at) : Stop{};
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

Stop PathMaker::stop_of(const fabric::Node& node) noexcept {
  switch (node.kind) {
    case fabric::NodeKind::host:
      return {Stop::Kind::host, node.number};
    case fabric::NodeKind::t0:
      return {Stop::Kind::t0, node.number};
    case fabric::NodeKind::t1:
      return {Stop::Kind::t1, node.number};
  }
  return {};
}

void PathMaker::find_parts(ProbePath& p) const {
  using Kind = Stop::Kind;
  const auto add = [&](PartKind kind, unsigned number) {
    const Plane plane = kind == PartKind::host ? Plane{0} : p.plane;
    p.there.push_back({kind, plane, number});
  };
  add(PartKind::plane, 0);
  std::vector<Part> back;
  for (std::size_t i = 0; i < p.stops.size(); ++i) {
    const Stop& stop = p.stops[i];
    if (stop.kind == Kind::host) add(PartKind::host, stop.number);
    if (stop.kind == Kind::t0) add(PartKind::t0, stop.number);
    if (stop.kind == Kind::t1) add(PartKind::t1, stop.number);
    if (i == 0) continue;
    const bool rises = p.stops[i - 1].kind < stop.kind;
    const Stop& lower = rises ? p.stops[i - 1] : stop;
    const Stop& upper = rises ? stop : p.stops[i - 1];
    Part link{PartKind::host_link, p.plane, lower.number};
    if (lower.kind == Kind::t0 && upper.kind == Kind::t1)
      link = {PartKind::switch_link, p.plane, lower.number, upper.number};
    else if (lower.kind != Kind::host || upper.kind != Kind::t0)
      continue;
    p.there.push_back(link);
    link.direction = rises ? Direction::up : Direction::down;
    p.there.push_back(link);
    if (p.kind != PathKind::peer) continue;
    link.direction = rises ? Direction::down : Direction::up;
    back.push_back(link);
  }
  p.parts = p.there;
  p.parts.insert(p.parts.end(), back.begin(), back.end());
  for (std::vector<Part>* parts : {&p.parts, &p.there}) {
    std::sort(parts->begin(), parts->end());
    parts->erase(std::unique(parts->begin(), parts->end()), parts->end());
  }
  p.denied = std::any_of(p.parts.begin(), p.parts.end(),
                         [this](const Part& part) { return is_denied(d_, part); });
}

}  // namespace mrc::probe
