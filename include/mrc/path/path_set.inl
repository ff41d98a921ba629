// SPDX-License-Identifier: Apache-2.0
#pragma once

// The parts of PathSet off the data path: set-up, health changes, probes, administration.

#include "mrc/path/path_set.hpp"

namespace mrc::inline v0_1::path {
namespace detail {

[[noreturn]] inline void bad_option(const std::string& what) {
  throw Error(Errc::invalid_argument, "path set: " + what);
}

/// Throws unless a PathSet can be made of this.
void check(std::span<const PathSpec> universe, const PathSetOptions& o) {
  if (universe.empty() || universe.size() > kMaxPaths)
    bad_option("number of paths is " + std::to_string(universe.size()) + ", allowed are 1 to " +
               std::to_string(kMaxPaths));
  for (std::size_t i = 0; i < universe.size(); ++i)
    if (universe[i].plane >= kMaxPlanes)
      bad_option("path " + std::to_string(i) + " has plane " + std::to_string(universe[i].plane) +
                 ", allowed are 0 to " + std::to_string(kMaxPlanes - 1));
  if (o.active > universe.size())
    bad_option("active is " + std::to_string(o.active) + ", but there are only " +
               std::to_string(universe.size()) + " paths");
  const std::size_t active = o.active == 0 ? universe.size() : o.active;
  if (o.min_active > active)
    bad_option("min_active is " + std::to_string(o.min_active) + ", but only " +
               std::to_string(active) + " paths are active");
  if (o.probe_successes == 0) bad_option("probe_successes is 0, must be at least 1");
  if (o.probe_first < Duration::zero() || o.probe_max < o.probe_first ||
      o.probe_max <= Duration::zero())
    bad_option("probe_first is " + std::to_string(o.probe_first.count()) + " ns and probe_max " +
               std::to_string(o.probe_max.count()) +
               " ns; needed is 0 <= probe_first <= probe_max, and probe_max > 0");
  if ((o.event_mask & ~(kEventGood | kEventAssumedBad)) != 0)
    bad_option("event_mask is " + std::to_string(o.event_mask) +
               ", allowed are 1 (good), 2 (assumed bad) and their sum");
}

}  // namespace detail

PathSet::PathSet(std::span<const PathSpec> universe, const PathSetOptions& options,
                 std::uint64_t seed)
    : options_((detail::check(universe, options), options)),
      random_(seed),
      entries_(universe.size()),
      order_(universe.size(), random_),
      index_(universe.size()),
      probes_(universe.size(), options.probe_max),
      holds_(universe.size(), options.hold_marks),
      waiting_(universe.size()),
      marked_(universe.size()),
      replaced_(universe.size(), Time::min()),
      figures_(universe.size()),
      events_(options.event_capacity) {
  set_up_entries(universe);
  index_.rebuild(entries_);
  rebuild();
  order_.start_anywhere(random_);
}

/// Gives out the places of the active set to the planes in turn, so that shares are equal.
void PathSet::set_up_entries(std::span<const PathSpec> universe) noexcept {
  for (std::size_t i = 0; i < universe.size(); ++i) {
    entries_[i].ev = universe[i].ev;
    entries_[i].plane = universe[i].plane;
    entries_[i].port_path = universe[i].port_path;
  }
  std::array<std::size_t, kMaxPlanes> next{};  // where the search in each plane goes on
  std::size_t left = options_.active == 0 ? universe.size() : options_.active;
  for (Plane plane = 0; left > 0; plane = static_cast<Plane>((plane + 1) % kMaxPlanes)) {
    std::size_t& at = next[plane];
    while (at < entries_.size() && entries_[at].plane != plane) ++at;
    if (at == entries_.size()) continue;
    entries_[at++].active = true;
    --left;
  }
}

/// select() where its walk found no GOOD path within the limit. `planes` has a usable path.
PathIndex PathSet::select_rare(PlaneMask planes, PathIndex avoid) noexcept {
  const auto salt = static_cast<std::uint32_t>(random_.next());
  const PathIndex good = order_.find_good(planes, salt, avoid);
  if (good != kNoPath) {
    restore_next();
    return good;
  }
  PathIndex path = order_.find_any(planes, avoid);
  if (path == kNoPath) path = avoid;  // the only path there is
  if (entries_[path].health == Health::skip) rotate(entries_[path]);
  return path;
}

/// The path that has waited longest becomes GOOD.
void PathSet::restore_next() noexcept {
  while (!waiting_.empty()) {
    Entry& e = entries_[waiting_.front()];
    waiting_.pop_front();
    e.queued = false;
    // It may have been used because there was no other, and marked again.
    const bool waits = e.waits && e.health == Health::skip && walks(e);
    e.waits = false;
    if (!waits || holds_.held(index_of(e), now_)) continue;
    return rotate(e);
  }
}

// ---- feedback

void PathSet::on_mark(PathIndex path, Mark mark, Time now) noexcept {
  if (path >= entries_.size() || mark == Mark::none) return;
  saw(now);
  Entry& e = entries_[path];
  ++e.marks;
  order_.on_mark(e.plane);
  if (mark == Mark::always_skip)
    degrade(e, HealthInput::always_skip);
  else
    pass_over(e, HealthInput::skip_once);
}

void PathSet::on_trimmed(PathIndex path, Time now) noexcept {
  if (path >= entries_.size()) return;
  saw(now);
  ++entries_[path].trims;
  pass_over(entries_[path], HealthInput::trimmed);
}

void PathSet::on_inferred_loss(PathIndex path, Time now, Time sent) noexcept {
  if (path >= entries_.size() || sent < replaced_[path]) return;
  saw(now);
  Entry& e = entries_[path];
  ++e.losses;
  if (options_.loss_strikes == 0 || !usable(e.health) || !plane_is_up(e)) return;
  if (++e.strikes >= options_.loss_strikes) degrade(e, HealthInput::loss_limit);
}

void PathSet::on_timeout(PathIndex path, Time now, Time sent) noexcept {
  if (path >= entries_.size() || sent < replaced_[path]) return;
  on_silence(path, now, sent);
  if (plane_is_up(entries_[path])) degrade(entries_[path], HealthInput::timeout);
}

void PathSet::on_silence(PathIndex path, Time now, Time sent) noexcept {
  if (path >= entries_.size() || sent < replaced_[path]) return;
  saw(now);
  if (Entry& e = entries_[path]; e.timeouts != 0xFFFF) ++e.timeouts;
}

/// GOOD to SKIP, if the input says so.
void PathSet::pass_over(Entry& e, HealthInput input) noexcept {
  const Health to = next_health(e.health, input);
  if (to == e.health) return;
  e.health = to;
  e.waits = false;
  holds_.on_mark(index_of(e), now_, spacing_, order_.size());
  if (walks(e)) order_.clear_good(e);
}

/// GOOD or SKIP to ASSUMED_BAD if enough paths are left; a backup of the plane takes the place.
void PathSet::degrade(Entry& e, HealthInput input) noexcept {
  const Health to = next_health(e.health, input);
  if (to == e.health) return;
  const bool walked = walks(e);
  Entry* const backup = e.active ? find_backup(e) : nullptr;
  e.strikes = 0;
  if (walked && backup == nullptr && order_.size() <= options_.min_active) {
    ++refusals_;
    pass_over(e, HealthInput::refused);
    return;
  }
  e.health = to;
  if (e.times_bad != 0xFFFF) ++e.times_bad;
  marked_[index_of(e)] = ++marks_made_;
  if (backup != nullptr) {
    e.active = false;
    backup->active = true;
  }
  if (plane_is_up(e)) probes_.start(index_of(e), now_, shortest_probe_interval());
  report(e);
  if (walked) rebuild();
}

/// A backup of the same plane: of another route if routes are shared, and GOOD, if possible.
PathSet::Entry* PathSet::find_backup(const Entry& failed) noexcept {
  Entry* found = nullptr;
  const auto rank = [&](const Entry& e) {
    const bool other = !options_.shared_routes || e.port_path != failed.port_path;
    return 2 * other + (e.health == Health::good);
  };
  for (Entry& e : entries_) {
    if (e.active || e.plane != failed.plane || !usable(e.health)) continue;
    if (rank(e) == 3) return &e;
    if (found == nullptr || rank(e) > rank(*found)) found = &e;
  }
  return found;
}

/// ASSUMED_BAD or DENIED to a usable state.
void PathSet::bring_back(Entry& e, HealthInput input) noexcept {
  e.health = next_health(e.health, input);
  e.strikes = 0;
  probes_.stop(index_of(e), now_);
  report(e);
  claim_place(e);
  if (walks(e)) rebuild();
}

/// A usable backup takes over a place that lies idle; otherwise it stays a backup.
void PathSet::claim_place(Entry& e) noexcept {
  if (e.active || !usable(e.health)) return;
  Entry* const idle = place_to_claim(e);
  if (idle == nullptr) return;
  idle->active = false;
  e.active = true;
}

/// What makes room for a recovered path: the oldest ASSUMED_BAD one, a DENIED one, its substitute.
PathSet::Entry* PathSet::place_to_claim(const Entry& back) noexcept {
  Entry* bad = nullptr;
  Entry* denied = nullptr;
  for (Entry& e : entries_) {
    if (!e.active || e.plane != back.plane) continue;
    if (e.health == Health::denied) denied = &e;
    if (e.health == Health::assumed_bad &&
        (bad == nullptr || marked_[index_of(e)] < marked_[index_of(*bad)]))
      bad = &e;
  }
  if (bad != nullptr || denied != nullptr) return bad != nullptr ? bad : denied;
  return options_.shared_routes ? doubled_route(back) : nullptr;
}

/// An active EV whose route has a second one; none if the recovered path's route is active.
PathSet::Entry* PathSet::doubled_route(const Entry& back) noexcept {
  Entry* found = nullptr;
  for (Entry& e : entries_) {
    if (!e.active || e.plane != back.plane) continue;
    if (e.port_path == back.port_path) return nullptr;
    const auto same = [&](const Entry& other) {
      return &other != &e && other.active && other.plane == e.plane &&
             other.port_path == e.port_path;
    };
    if (std::any_of(entries_.begin(), entries_.end(), same)) found = &e;
  }
  return found;
}

/// Releases ASSUMED_BAD paths, the oldest first, until min_active is met or none is left.
void PathSet::uphold_minimum() noexcept {
  while (order_.size() < options_.min_active) {
    Entry* const e = to_release();
    if (e == nullptr) return;
    ++releases_;
    bring_back(*e, HealthInput::released);
  }
}

/// The oldest ASSUMED_BAD path that would carry data: it has a place, or its plane an idle one.
PathSet::Entry* PathSet::to_release() noexcept {
  PlaneMask idle = 0;
  for (const Entry& e : entries_)
    if (e.active && !usable(e.health)) idle |= plane_bit(e.plane);
  idle &= up_;
  Entry* oldest = nullptr;
  for (Entry& e : entries_) {
    if (e.health != Health::assumed_bad || (idle >> e.plane & 1) == 0) continue;
    if (oldest == nullptr || marked_[index_of(e)] < marked_[index_of(*oldest)]) oldest = &e;
  }
  return oldest;
}

// ---- planes and probes

void PathSet::set_plane_up(Plane plane, bool up) noexcept {
  if (plane >= kMaxPlanes || ((up_ >> plane & 1) != 0) == up) return;
  up_ ^= plane_bit(plane);
  for (Entry& e : entries_) {
    if (e.plane != plane || e.health != Health::assumed_bad) continue;
    if (up)
      probes_.resume(index_of(e), now_);
    else
      probes_.stop(index_of(e), now_);
  }
  rebuild();
  uphold_minimum();
}

/// An answer has to have the time to arrive before the next probe is sent.
Duration PathSet::shortest_probe_interval() const noexcept {
  static constexpr Duration kUnknown = std::chrono::milliseconds{1};
  if (options_.probe_first > Duration::zero()) return std::max(options_.probe_first, 2 * spacing_);
  return spacing_ > Duration::zero() ? 4 * spacing_ : kUnknown;
}

Time PathSet::next_probe() const noexcept {
  const Time due = probes_.next();
  return due == kNever ? kNever : std::max(due, probe_gate_);
}

PathIndex PathSet::poll_probe(Time now) noexcept {
  if (now < probe_gate_) return kNoPath;
  saw(now);
  const PathIndex path = probes_.poll(now, shortest_probe_interval());
  if (path == kNoPath) return kNoPath;
  ++entries_[path].probes_sent;
  probe_gate_ = now + spacing_;
  return path;
}

void PathSet::on_probe_answer(PathIndex path, Mark mark, Time now) noexcept {
  if (path >= entries_.size()) return;
  saw(now);
  Entry& e = entries_[path];
  ++figures_[path].probes_answered;
  if (e.health != Health::assumed_bad) return on_mark(path, mark, now);
  if (mark == Mark::always_skip) return probes_.failed(path);
  if (probes_.succeeded(path, now, shortest_probe_interval()) < options_.probe_successes) return;
  bring_back(e, mark == Mark::skip_once ? HealthInput::revived_marked : HealthInput::revived);
}

// ---- administration

Errc PathSet::set_health(PathIndex path, Health health) noexcept {
  if (path >= entries_.size()) return Errc::invalid_argument;
  Entry& e = entries_[path];
  if (health == Health::denied) {
    deny(e);
    return Errc::ok;
  }
  if (health != Health::good) return Errc::invalid_argument;
  if (!usable(e.health)) {
    bring_back(e, HealthInput::administer_good);
  } else if (e.health == Health::skip) {
    e.health = next_health(e.health, HealthInput::administer_good);
    if (walks(e)) order_.set_good(e);
  }
  return Errc::ok;
}

void PathSet::deny(Entry& e) noexcept {
  e.health = next_health(e.health, HealthInput::administer_denied);
  probes_.forget(index_of(e));
  if (e.active) {
    if (Entry* const backup = find_backup(e)) {
      e.active = false;
      backup->active = true;
    }
  }
  rebuild();
  uphold_minimum();
}

Errc PathSet::replace(PathIndex path, PathSpec spec, Health health, Time now) noexcept {
  if (path >= entries_.size() || spec.plane >= kMaxPlanes) return Errc::invalid_argument;
  if (health != Health::good && health != Health::denied) return Errc::invalid_argument;
  Entry& e = entries_[path];
  const bool active = e.active, queued = e.queued;
  probes_.forget(path);
  e = Entry{};
  e.queued = queued;
  e.ev = spec.ev;
  e.plane = spec.plane;
  e.port_path = spec.port_path;
  e.active = active;
  replaced_[path] = now;
  figures_[path] = {};
  holds_.reset(path);
  index_.rebuild(entries_);
  if (health == Health::denied) {
    deny(e);
    return Errc::ok;
  }
  claim_place(e);
  rebuild();
  uphold_minimum();
  return Errc::ok;
}

PathIndex PathSet::next_of_plane(Plane plane, std::uint32_t from) const noexcept {
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    const Entry& e = entries_[(from + i) % entries_.size()];
    if (e.plane == plane && e.health != Health::denied) return index_of(e);
  }
  return kNoPath;
}

PathIndex PathSet::random_of_plane(Plane plane, Random& random, bool any) const noexcept {
  PathIndex chosen = kNoPath;
  std::uint32_t best = 0, count = 0;  // how well the paths seen so far suit, and how many do so
  for (const Entry& e : entries_) {
    if (e.plane != plane || e.health == Health::denied) continue;
    const std::uint32_t suits = any ? 0 : (e.active ? 2u : 0u) + (usable(e.health) ? 1u : 0u);
    if (chosen != kNoPath && suits < best) continue;
    count = chosen == kNoPath || suits > best ? 1 : count + 1;
    best = suits;
    if (random.below(count) == 0) chosen = index_of(e);
  }
  return chosen;
}

void PathSet::report(const Entry& e) noexcept {
  const std::uint8_t state = to_api(e.health);
  if ((state & options_.event_mask) == 0) return;
  if (event_counter_ != nullptr) ++*event_counter_;
  if (events_.full()) {
    if (dropped_ != UINT32_MAX) ++dropped_;
    return;
  }
  events_.push_back({std::exchange(dropped_, 0), e.ev, index_of(e), e.plane,
                     usable(e.health) ? Health::good : e.health});
}

}  // namespace mrc::inline v0_1::path
