// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include "mrc/core/random.hpp"
#include "mrc/sim/fabric.hpp"
#include "mrc/sim/fault_swarm.hpp"

namespace mrc::inline v0_1::sim {

namespace detail {

/// Draws the schedule of a seed for a fabric, which must outlive it.
class FaultSwarm {
 public:
  FaultSwarm(const Fabric& fabric, const SwarmOptions& options, std::uint64_t seed)
      : fabric_(fabric), settings_(fabric.settings()), options_(options), random_(seed) {}

  [[nodiscard]] FaultSchedule draw();

 private:
  enum class Kind : std::uint8_t { down, flap, black_hole, loss, corruption, slow };
  enum class Place : std::uint8_t { port, host, t0, t1, plane, cable };

  /// Keeps each of `all` with probability 1/2.
  template <class T>
  void pick(std::vector<T>& out, std::initializer_list<T> all) {
    for (const T one : all)
      if (random_.chance(0.5)) out.push_back(one);
  }
  template <class T>
  [[nodiscard]] T one_of(const std::vector<T>& all) {
    return all[random_.below(static_cast<std::uint32_t>(all.size()))];
  }
  /// Logarithmically uniform in [most / 1024, most].
  [[nodiscard]] double magnitude(double most) {
    const auto halvings = random_.below(10);
    const double share = 0.5 + static_cast<double>(random_.below(512)) / 1024;
    return most * share / static_cast<double>(1u << halvings);
  }

  void add_fault(FaultSchedule& schedule);
  void add_flap(FaultSchedule& schedule, const std::string& target, Time from, Duration span);
  void add_kills(FaultSchedule& schedule);
  [[nodiscard]] std::string name(Place place);
  [[nodiscard]] std::string one_way(const std::string& a, const std::string& b) {
    return random_.chance(0.5) ? a + ">" + b : b + ">" + a;
  }
  [[nodiscard]] std::string cable(const std::string& a, const std::string& b) {
    return one_way_ ? one_way(a, b) : a + "-" + b;
  }

  const Fabric& fabric_;
  const FabricSettings& settings_;
  SwarmOptions options_;
  Random random_;
  std::vector<Kind> kinds_;
  std::vector<Place> places_;
  bool one_way_ = false;
};

FaultSchedule FaultSwarm::draw() {
  pick(kinds_,
       {Kind::down, Kind::flap, Kind::black_hole, Kind::loss, Kind::corruption, Kind::slow});
  pick(places_, {Place::port, Place::host, Place::t0, Place::plane});
  if (settings_.topology != Topology::single_switch) pick(places_, {Place::cable});
  if (settings_.t1_count() > 0) pick(places_, {Place::t1});
  if (places_.empty()) places_.push_back(Place::port);
  one_way_ = random_.chance(0.5);
  FaultSchedule schedule;
  const unsigned count = kinds_.empty() ? 0 : random_.below(options_.max_faults + 1);
  for (unsigned i = 0; i < count; ++i) add_fault(schedule);
  if (options_.kills && random_.chance(0.5)) add_kills(schedule);
  return schedule;
}

void FaultSwarm::add_fault(FaultSchedule& schedule) {
  const Kind kind = one_of(kinds_);
  const std::string target = name(one_of(places_));
  const double all = static_cast<double>((options_.end - options_.begin).count());
  const Time from =
      options_.begin + Duration{static_cast<std::int64_t>(all * random_.below(1000) / 1000)};
  const auto most = static_cast<double>((options_.end - from).count());
  const Duration span{std::max<std::int64_t>(1, static_cast<std::int64_t>(magnitude(most)))};
  switch (kind) {
    case Kind::down:
      return schedule.add_for({from, FaultKind::down, target, 0}, span);
    case Kind::flap:
      return add_flap(schedule, target, from, span);
    case Kind::black_hole:
      return schedule.add_for({from, FaultKind::black_hole, target, 0}, span);
    case Kind::loss:
      return schedule.add_for({from, FaultKind::loss, target, magnitude(options_.max_loss)}, span);
    case Kind::corruption:
      return schedule.add_for(
          {from, FaultKind::corruption, target, magnitude(options_.max_corruption)}, span);
    case Kind::slow:
      return schedule.add_for({from, FaultKind::slow, target, 1 + magnitude(options_.max_slow)},
                              span);
  }
}

void FaultSwarm::add_flap(FaultSchedule& schedule, const std::string& target, Time from,
                          Duration span) {
  const unsigned times = 2 + random_.below(6);
  const Duration period = span / times;
  if (period.count() < 2) return;
  const Duration down{1 + random_.below(static_cast<std::uint32_t>(
                              std::min<std::int64_t>(period.count() - 1, 1'000'000'000)))};
  schedule.flap(target, from, from + span, period, down);
}

void FaultSwarm::add_kills(FaultSchedule& schedule) {
  if (settings_.hosts < 2) return;
  std::vector<unsigned> hosts(settings_.hosts);
  for (unsigned h = 0; h < settings_.hosts; ++h) hosts[h] = h;
  random_.shuffle(std::span<unsigned>(hosts));
  const unsigned victims = 1 + random_.below(std::min(2u, settings_.hosts - 1));
  const auto all = static_cast<double>((options_.end - options_.begin).count());
  for (unsigned i = 0; i < victims; ++i) {
    const Duration after{static_cast<std::int64_t>(all * random_.below(1000) / 1000)};
    schedule.add({options_.begin + after, FaultKind::kill, "h" + std::to_string(hosts[i]), 0});
  }
}

std::string FaultSwarm::name(Place place) {
  const unsigned plane = random_.below(settings_.planes);
  const unsigned host = random_.below(settings_.hosts);
  std::string t0 = switch_name(0, plane, random_.below(settings_.t0s()));
  const std::string port = "h" + std::to_string(host) + ".p" + std::to_string(plane);
  switch (place) {
    case Place::port:
      return one_way_ ? one_way(port, switch_name(0, plane, fabric_.t0_of(host))) : port;
    case Place::host:
      return "h" + std::to_string(host);
    case Place::t0:
      return t0;
    case Place::t1:
      return switch_name(1, plane, random_.below(settings_.t1s));
    case Place::plane:
      return "p" + std::to_string(plane);
    case Place::cable:
      break;
  }
  if (settings_.topology == Topology::dumbbell)
    return cable(switch_name(0, plane, 0), switch_name(0, plane, 1));
  return cable(t0, switch_name(1, plane, random_.below(settings_.t1s)));
}

}  // namespace detail

FaultSchedule random_faults(const Fabric& fabric, const SwarmOptions& options, std::uint64_t seed) {
  return detail::FaultSwarm(fabric, options, seed).draw();
}

}  // namespace mrc::inline v0_1::sim
