// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>

#include "mrc/core/error.hpp"
#include "mrc/path/profile.hpp"

namespace mrc::inline v0_1::path {
namespace detail {

[[noreturn]] inline void bad_profile(const std::string& field, std::uint64_t value,
                                     const std::string& rule, Errc code = Errc::invalid_argument) {
  throw Error(code, "EV profile: " + field + " is " + std::to_string(value) + ", " + rule);
}

bool is_denied(const EvProfile& p, Ev ev) {
  return std::find(p.denied.begin(), p.denied.end(), ev) != p.denied.end();
}

/// Checks the rules common to all modes, once the counts are known.
void check_size(const EvProfile& p, unsigned active, unsigned backup) {
  if (active == 0) bad_profile("active", 0, "needed is at least one path");
  if (active > kMaxPaths || backup > kMaxPaths - active)
    bad_profile("active + backup", std::uint64_t{active} + backup,
                "the most is " + std::to_string(kMaxPaths), Errc::no_resources);
  if (p.min_active > active)
    bad_profile("min_active", p.min_active, "but active is " + std::to_string(active));
}

/// The same for modes in which every plane gets as many paths as any other.
void check_counts(const EvProfile& p, unsigned active, unsigned backup) {
  check_size(p, active, backup);
  const std::string share = "must be a multiple of planes (" + std::to_string(p.planes) + ")";
  if (active % p.planes != 0) bad_profile("active", active, share);
  if (backup % p.planes != 0) bad_profile("backup", backup, share);
}

EvPlan plan_with(const EvProfile& p, unsigned active) {
  EvPlan plan;
  plan.options.active = static_cast<std::uint16_t>(active);
  plan.options.min_active = p.min_active;
  plan.options.event_mask = p.event_mask;
  return plan;
}

EvPlan plan_explicit(const EvProfile& p) {
  std::vector<std::vector<PathSpec>> by_plane(p.planes);
  for (const PathSpec& spec : p.paths) {
    if (spec.plane >= p.planes)
      bad_profile("paths[].plane", spec.plane, "must be below " + std::to_string(p.planes));
    by_plane[spec.plane].push_back(spec);
  }
  const auto total = static_cast<unsigned>(p.paths.size());
  if (p.active > total || p.backup > total - p.active ||
      (p.active != 0 && p.backup != 0 && p.active + p.backup != total))
    bad_profile("active + backup", std::uint64_t{p.active} + p.backup,
                "but the list has " + std::to_string(total) + " paths");
  const unsigned active = p.active != 0 ? p.active : total - p.backup;
  check_size(p, active, total - active);
  EvPlan plan = plan_with(p, active);
  for (std::size_t row = 0; plan.universe.size() < total; ++row)
    for (const std::vector<PathSpec>& plane : by_plane)
      if (row < plane.size()) plan.universe.push_back(plane[row]);
  for (std::size_t i = 0; i < total; ++i)
    if (is_denied(p, plan.universe[i].ev)) plan.denied.push_back(static_cast<PathIndex>(i));
  return plan;
}

EvPlan plan_generated(const EvProfile& p) {
  if (const Errc e = check(p.fields, p.format); e != Errc::ok)
    throw Error(e, "EV profile: fields do not fit the format");
  unsigned bits = 0;
  for (const EvField& f : p.fields) bits += ev_bits(f);
  if (bits > 32)
    bad_profile("number of mask bits", bits, "feedback can carry 32", Errc::no_resources);
  check_counts(p, p.active, p.backup);
  EvPlan plan = plan_with(p, p.active);
  const std::size_t total = p.active + p.backup;
  SparseShuffle order(count_values(p.fields), p.seed);
  while (plan.universe.size() < total) {
    if (order.empty())
      bad_profile("active + backup", total,
                  "but the fields' ranges make only " + std::to_string(plan.universe.size()) +
                      " EVs that are not denied",
                  Errc::no_resources);
    const EvValue compact = nth_value(order.next(), p.fields).value();
    const EvValue expanded = expand(compact, p.fields, p.format).value();
    const Ev ev = feedback_ev(p.format.mode, compact, expanded);
    if (is_denied(p, ev)) continue;
    const std::size_t i = plan.universe.size();
    plan.universe.push_back(
        {ev, static_cast<Plane>(i % p.planes), static_cast<std::uint16_t>(i / p.planes)});
    plan.values.push_back(expanded);
  }
  return plan;
}

EvPlan plan_auto(const EvProfile& p) {
  const unsigned share = (kAutoPaths + p.planes - 1) / p.planes;
  const unsigned active = p.active != 0 ? p.active : (share - share / 8) * p.planes;
  const unsigned backup = p.active != 0 || p.backup != 0 ? p.backup : share / 8 * p.planes;
  check_counts(p, active, backup);
  EvPlan plan = plan_with(p, active);
  SparseShuffle order(kAutoPorts, p.seed);
  while (plan.universe.size() < std::size_t{active} + backup) {
    if (order.empty())
      bad_profile("active + backup", std::uint64_t{active} + backup,
                  "but there are only " + std::to_string(plan.universe.size()) +
                      " source ports that are not denied",
                  Errc::no_resources);
    const Ev ev{kAutoFirstPort + static_cast<std::uint32_t>(order.next())};
    if (is_denied(p, ev)) continue;
    const std::size_t i = plan.universe.size();
    plan.universe.push_back(
        {ev, static_cast<Plane>(i % p.planes), static_cast<std::uint16_t>(i / p.planes)});
  }
  return plan;
}

}  // namespace detail

EvPlan make_plan(const EvProfile& profile) {
  if (profile.planes == 0 || profile.planes > kMaxPlanes)
    detail::bad_profile("planes", profile.planes, "allowed are 1 to " + std::to_string(kMaxPlanes));
  if ((profile.event_mask & ~(kEventGood | kEventAssumedBad)) != 0)
    detail::bad_profile("event_mask", profile.event_mask, "allowed are 0 to 3");
  switch (profile.mode) {
    case ProfileMode::explicit_:
      return detail::plan_explicit(profile);
    case ProfileMode::generated:
      return detail::plan_generated(profile);
    case ProfileMode::auto_:
      return detail::plan_auto(profile);
  }
  detail::bad_profile("mode", static_cast<std::uint64_t>(profile.mode), "no such mode");
}

PathSet make_path_set(const EvPlan& plan, std::uint64_t seed) {
  PathSet set(plan.universe, plan.options, seed);
  for (const PathIndex path : plan.denied) (void)set.set_health(path, Health::denied);
  return set;
}

}  // namespace mrc::inline v0_1::path
