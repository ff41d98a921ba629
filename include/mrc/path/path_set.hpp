// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "mrc/core/error.hpp"
#include "mrc/core/linkage.hpp"
#include "mrc/core/random.hpp"
#include "mrc/core/types.hpp"
#include "mrc/path/ev_index.hpp"
#include "mrc/path/event_ring.hpp"
#include "mrc/path/health.hpp"
#include "mrc/path/path_entry.hpp"
#include "mrc/path/probe_schedule.hpp"
#include "mrc/path/turn_order.hpp"

namespace mrc::inline v0_1::path {

/// Settings of a PathSet.
struct PathSetOptions {
  /// Places in the active set, shared out evenly over the planes; the other paths are backup.
  /// 0: all paths are active.
  std::uint16_t active = 0;
  /// Feedback never brings the number of paths that data may use below this (mrc-1.0 [O-14]).
  std::uint16_t min_active = 1;
  /// Paths of a plane with the same port path are EVs of one route: what fails with one of them
  /// fails with all, so another route's EV takes its place, and gives it back when the first one
  /// works again.
  bool shared_routes = false;
  /// Inferred losses in a row on a path, without a delivery, that make it ASSUMED_BAD [O-4].
  /// 0: inferred losses never do.
  std::uint8_t loss_strikes = 3;
  /// Answered probes in a row that revive a path [C-9]; at least 1.
  std::uint8_t probe_successes = 3;
  /// First probe this long after the marking, then intervals that double up to probe_max [O-6].
  Duration probe_first = std::chrono::milliseconds{1};
  Duration probe_max = std::chrono::milliseconds{100};
  /// States that make an event: kEventGood, kEventAssumedBad.
  std::uint8_t event_mask = kEventGood | kEventAssumedBad;
  /// Events kept for poll_event(); what comes when the ring is full is dropped and counted.
  std::uint16_t event_capacity = 64;
};

/// The paths to one destination with their health, and the choice among them (mrc-1.0 §3.4, §3.5,
/// §5). Shared by all queue pairs to that destination; each has its own Cursor.
///
/// * Data path: make_cursor, select, find, on_sent, on_delivered. A few nanoseconds each.
/// * Feedback: on_mark, on_trimmed, on_inferred_loss, on_timeout, on_probe_answer. Linear in the
///   number of paths, but only when a path enters or leaves the walk.
/// * Control: set_plane_up, set_health, replace, set_probe_spacing.
/// * Output: poll_probe with next_probe, poll_event.
///
/// Allocates in the constructor only. A feedback call with an index out of range (kNoPath: a
/// reflected EV that was not found) does nothing. The same calls with the same seed give the same
/// answers. Belongs to one thread at a time.
class PathSet {
 public:
  /// `universe`: 1 .. kMaxPaths paths, planes below kMaxPlanes. Throws mrc::Error
  /// (invalid_argument) that names the bad value.
  PathSet(std::span<const PathSpec> universe, const PathSetOptions& options, std::uint64_t seed);

  // ---- data path

  /// A cursor for one more queue pair, with a start of its own.
  [[nodiscard]] Cursor make_cursor() noexcept {
    Cursor c;
    c.random = static_cast<std::uint32_t>(random_.next());
    return c;
  }

  /// The path for the next packet or burst: GOOD, of a plane in `free_planes` that is up. kNoPath
  /// when there is none. At most one SKIP path on the way becomes GOOD, and is not used at once
  /// unless nothing else is left. A retransmission names in `avoid` the path that it went by
  /// before: it gets another one, of another plane if possible.
  [[nodiscard]] PathIndex select(Cursor& c, PlaneMask free_planes,
                                 PathIndex avoid = kNoPath) noexcept {
    PlaneMask planes = free_planes & order_.planes();
    if (planes == 0) return kNoPath;
    if (avoid < entries_.size()) {
      const PlaneMask others = planes & ~plane_bit(entries_[avoid].plane);
      if (others != 0) planes = others;
    }
    PathIndex restored = kNoPath;
    for (unsigned i = 0; i < kWalkLimit; ++i) {
      const PathIndex path = order_.step(c);
      detail::Entry& e = entries_[path];
      if ((planes >> e.plane & 1) == 0 || path == avoid) continue;
      if (e.health == Health::good) {
        if (path != restored) return path;
      } else if (restored == kNoPath) {
        const bool none_good = (order_.good_planes() & planes) == 0;
        rotate(e);
        // The walk would only come back to it: take the end of that turn for granted.
        if (none_good) return path;
        restored = path;
      }
    }
    return select_rare(c, planes, avoid, restored);
  }

  /// The path's EV, plane and port path. `path` < size().
  [[nodiscard]] PathSpec operator[](PathIndex path) const noexcept {
    const detail::Entry& e = entries_[path];
    return {e.ev, e.plane, e.port_path};
  }
  [[nodiscard]] std::size_t size() const noexcept { return entries_.size(); }

  /// The path that a reflected EV names (any one of several), or kNoPath. A value with zeros in
  /// its upper half is also looked up by the lower half alone (IPv4, [O-29]).
  [[nodiscard]] PathIndex find(Ev reflected) const noexcept {
    return index_.find(entries_, reflected);
  }

  /// A packet of `bytes` bytes leaves on the path.
  void on_sent(PathIndex path, std::uint32_t bytes) noexcept {
    if (path >= entries_.size()) return;
    ++entries_[path].sent_packets;
    entries_[path].sent_bytes += bytes;
  }
  /// A packet was reported received that had been sent on the path at `sent`. `certain`: it was
  /// sent only once, so it is known to have come by this path: that ends a run of losses, and shows
  /// that what was sent on the path before should be there.
  void on_delivered(PathIndex path, Time sent, Time now, bool certain = true) noexcept {
    if (path >= entries_.size()) return;
    detail::Entry& e = entries_[path];
    ++e.delivered;
    if (!certain) return;
    e.strikes = 0;
    const std::uint32_t stamp = coarse(sent);
    if (!e.stamped || is_stale(e, now) || static_cast<std::int32_t>(stamp - e.newest_delivered) > 0)
      e.newest_delivered = stamp;
    e.stamped = true;
  }
  /// A packet that was sent on the path at `sent` would have arrived by now: one sent later on it
  /// has, and a path keeps its packets in order.
  [[nodiscard]] bool passed(PathIndex path, Time sent, Time now) const noexcept {
    if (path >= entries_.size() || !entries_[path].stamped || is_stale(entries_[path], now))
      return false;
    return static_cast<std::int32_t>(entries_[path].newest_delivered - coarse(sent)) > 0;
  }

  // ---- feedback

  /// A SACK reflected the path with this M field.
  void on_mark(PathIndex path, Mark mark, Time now) noexcept;
  /// A packet sent on the path was trimmed (NACK TRIMMED; not TRIMMED_LASTHOP).
  void on_trimmed(PathIndex path, Time now) noexcept;
  /// A packet sent on the path was inferred to be lost. While the path's plane is down this only
  /// counts: the cause is known, and the health is kept.
  void on_inferred_loss(PathIndex path, Time now) noexcept;
  /// A packet sent on the path timed out without SACK or trim. Plane down: as above.
  void on_timeout(PathIndex path, Time now) noexcept;

  // ---- planes

  /// The plane can or cannot be used towards this destination (own link and the peer's port
  /// status together). Its paths keep their health meanwhile; probing of them rests while it is
  /// down and starts over at once when it is back.
  void set_plane_up(Plane plane, bool up) noexcept;
  /// Planes that are up; all are at first.
  [[nodiscard]] PlaneMask planes_up() const noexcept { return up_; }
  /// Planes in which at least one path can carry data now.
  [[nodiscard]] PlaneMask usable_planes() const noexcept { return order_.planes(); }

  // ---- probes of ASSUMED_BAD paths (mrc-1.0 §5)

  /// At most one probe per `rtt`, and at least twice that between two probes of one path. Values
  /// outside 0 .. 1 min are cut to that.
  void set_probe_spacing(Duration rtt) noexcept {
    spacing_ = std::clamp<Duration>(rtt, Duration::zero(), std::chrono::minutes{1});
  }
  /// When poll_probe() has a path next; kNever when nothing is to be probed.
  [[nodiscard]] Time next_probe() const noexcept;
  /// The path to probe now, or kNoPath; the call counts as sending the probe.
  [[nodiscard]] PathIndex poll_probe(Time now) noexcept;
  /// A probe sent on the path was answered; `mark` is the answer's M field, `none` where the
  /// answer has none. On a path that is not ASSUMED_BAD a mark acts as in on_mark().
  void on_probe_answer(PathIndex path, Mark mark, Time now) noexcept;

  // ---- administration

  /// Writes GOOD or DENIED (others: invalid_argument). The only way out of DENIED. Not held back
  /// by min_active; if too few are left, ASSUMED_BAD paths are released, the oldest first.
  Errc set_health(PathIndex path, Health health) noexcept;
  /// Puts another path into the entry, GOOD or DENIED, with counters at zero. Linear.
  Errc replace(PathIndex path, PathSpec spec, Health health) noexcept;

  // ---- output and getters

  /// Takes the oldest event; false when there is none.
  [[nodiscard]] bool poll_event(PathEvent& event) noexcept { return events_.pop(event); }

  /// For these, `path` < size().
  [[nodiscard]] Health health(PathIndex path) const noexcept { return entries_[path].health; }
  /// Whether the path holds a place in the active set (whatever its health).
  [[nodiscard]] bool active(PathIndex path) const noexcept { return entries_[path].active; }
  [[nodiscard]] PathStats stats(PathIndex path) const noexcept {
    return detail::stats_of(entries_[path]);
  }
  /// Whether data could go by the path now.
  [[nodiscard]] bool selectable(PathIndex path) const noexcept { return walks(entries_[path]); }

  /// Paths that data may use now: active, GOOD or SKIP, plane up.
  [[nodiscard]] unsigned active_count() const noexcept {
    return static_cast<unsigned>(order_.size());
  }
  /// A random path of the plane that data may use now; kNoPath when there is none.
  [[nodiscard]] PathIndex random_usable(Plane plane, Random& random) const noexcept {
    if (plane >= kMaxPlanes) return kNoPath;
    const std::span<const PathIndex> paths = order_.plane_paths(plane);
    return paths.empty() ? kNoPath : paths[random.below(static_cast<std::uint32_t>(paths.size()))];
  }
  /// Times that a path was not made ASSUMED_BAD because of min_active.
  [[nodiscard]] std::uint64_t refusals() const noexcept { return refusals_; }
  /// Times that an ASSUMED_BAD path was taken back because of min_active.
  [[nodiscard]] std::uint64_t releases() const noexcept { return releases_; }

 private:
  /// Times of the last 34 s in 32 bits.
  [[nodiscard]] static std::uint32_t coarse(Time t) noexcept {
    return static_cast<std::uint32_t>(t.time_since_epoch().count() >> 4);
  }
  /// The path's stamp is so old that it seems to lie ahead.
  [[nodiscard]] static bool is_stale(const detail::Entry& e, Time now) noexcept {
    return static_cast<std::int32_t>(e.newest_delivered - coarse(now)) > 0;
  }
  using Entry = detail::Entry;
  /// Steps before the walk gives up on a mostly unusable order and searches by bitmap instead: a
  /// bound on the time that one packet can take.
  static constexpr unsigned kWalkLimit = 64;

  [[nodiscard]] bool plane_is_up(const Entry& e) const noexcept {
    return (up_ >> e.plane & 1) != 0;
  }
  /// Whether the entry belongs into the walk.
  [[nodiscard]] bool walks(const Entry& e) const noexcept {
    return e.active && usable(e.health) && plane_is_up(e);
  }
  [[nodiscard]] PathIndex index_of(const Entry& e) const noexcept {
    return static_cast<PathIndex>(&e - entries_.data());
  }
  void rebuild() noexcept { order_.rebuild(entries_, up_, random_); }

  /// SKIP to GOOD because the walk came by.
  void rotate(Entry& e) noexcept {
    e.health = next_health(e.health, HealthInput::rotation);
    order_.set_good(e);
  }
  PathIndex select_rare(Cursor& c, PlaneMask planes, PathIndex avoid, PathIndex restored) noexcept;

  void set_up_entries(std::span<const PathSpec> universe) noexcept;
  void saw(Time now) noexcept { now_ = std::max(now_, now); }
  void pass_over(Entry& e, HealthInput input) noexcept;
  void degrade(Entry& e, HealthInput input) noexcept;
  void bring_back(Entry& e, HealthInput input) noexcept;
  void deny(Entry& e) noexcept;
  void claim_place(Entry& e) noexcept;
  void uphold_minimum() noexcept;
  [[nodiscard]] Entry* find_backup(const Entry& failed) noexcept;
  [[nodiscard]] Entry* place_to_claim(const Entry& back) noexcept;
  [[nodiscard]] Entry* doubled_route(const Entry& back) noexcept;
  [[nodiscard]] Entry* to_release() noexcept;
  void report(const Entry& e) noexcept;

  PathSetOptions options_;
  Random random_;
  std::vector<Entry> entries_;
  detail::TurnOrder order_;
  detail::EvIndex index_;
  ProbeSchedule probes_;
  std::vector<std::uint64_t> marked_;  ///< by path: serial number of the last change to bad
  EventRing events_;
  PlaneMask up_ = ~PlaneMask{0};
  Duration spacing_{0};
  Time probe_gate_ = Time::min();  ///< no probe before this
  Time now_ = Time::min();         ///< latest time seen, for calls without one
  std::uint64_t marks_made_ = 0;
  std::uint64_t refusals_ = 0;
  std::uint64_t releases_ = 0;
};

}  // namespace mrc::inline v0_1::path

#ifndef MRC_SEPARATE_COMPILATION
#include "mrc/path/impl/path_set.ipp"
#endif
