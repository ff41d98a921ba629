// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <boost/circular_buffer.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "mrc/core/error.hpp"
#include "mrc/core/random.hpp"
#include "mrc/core/types.hpp"
#include "mrc/path/path_entry.hpp"
#include "mrc/path/trials.hpp"

namespace mrc::inline v0_1::path {

/// Bits of an event mask: the API's state values (mrc-1.0 §3.7). Other states make no events.
inline constexpr std::uint8_t kEventGood = 1;
inline constexpr std::uint8_t kEventAssumedBad = 2;  ///< likewise

/// A change of a path's state (mrc-1.0 §3.7).
struct PathEvent {
  std::uint32_t dropped = 0;     ///< events dropped right before this one because the ring was full
  Ev ev{};                       ///< EV of the path
  PathIndex path = kNoPath;      ///< the path
  Plane plane = 0;               ///< its plane
  Health health = Health::good;  ///< the new state; SKIP is reported as GOOD (mrc-1.0 [C-11])
};

namespace detail {

/// The paths that can carry data now (active, GOOD or SKIP, plane up), and a walk over them.
///
/// Each plane has a list in a random order that lasts. A step takes the next path of one plane,
/// whichever planes are free, so that all paths of a plane carry the same share, and what a host
/// sends to a switch comes at even distances: its queue stays short (docs/results.md).
///
/// A plane's progress is the number of passes over its list. Steps keep the progress of all planes
/// equal: one that has lost paths gets less, so that those left carry no more than all others.
class SprayOrder {
 public:
  static_assert(kMaxPaths + 64 * kMaxPlanes <= 0xFFFF, "slots of 16 bits");

  /// `random` orders the lists.
  SprayOrder(std::size_t paths, Random& random)
      : sequence_(paths),
        slot_path_(paths + kMaxPlanes * 64, kNoPath),
        good_(slot_path_.size() / 64 + 1) {
    for (std::size_t i = 0; i < paths; ++i) sequence_[i] = static_cast<PathIndex>(i);
    random.shuffle(std::span<PathIndex>(sequence_));
  }

  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] PlaneMask planes() const noexcept { return planes_; }
  /// Planes with at least one path that is GOOD, not SKIP.
  [[nodiscard]] PlaneMask good_planes() const noexcept { return good_planes_; }

  /// Rebuilds the lists from the entries that belong in them. Linear; allocates nothing.
  void rebuild(std::span<Entry> entries, PlaneMask up) noexcept {
    collect(entries, up);
    std::fill(good_.begin(), good_.end(), std::uint64_t{0});
    good_count_ = {};
    good_planes_ = 0;
    for (unsigned p = 0; p < kMaxPlanes; ++p) {
      for (std::size_t s = first_slot(p); s < first_slot(p) + count_[p]; ++s) {
        Entry& e = entries[slot_path_[s]];
        e.slot = static_cast<std::uint16_t>(s);
        if (e.health == Health::good) set_good(e);
      }
    }
  }

  /// Moves the walk to a random place.
  void start_anywhere(Random& random) noexcept {
    std::uint32_t planes = 0;
    for (unsigned p = 0; p < kMaxPlanes; ++p) {
      if (count_[p] == 0) continue;
      walks_[p].at = random.below(count_[p]);
      if (random.below(++planes) == 0) first_ = static_cast<std::uint8_t>(p);
    }
  }

  /// The next path of the walk, in one of `planes`: not empty, and each of them with paths.
  PathIndex step(PlaneMask planes) noexcept {
    // Mostly it is the turn of the plane behind the last one.
    unsigned p = in_turn(std::rotr(planes, first_));
    if (walks_[p].progress >= newest_ || front_ - walks_[p].progress > walks_[p].most_behind)
      p = next_plane(planes);
    Walk& walk = walks_[p];
    if (walk.at >= count_[p]) walk.at = 0;  // the list has become shorter
    const PathIndex path = slot_path_[first_slot(p) + walk.at++];
    walk.progress += walk.share;
    if (shares_.apply()) [[unlikely]]
      shares_.count_step(p);
    newest_ = walk.progress;
    front_ = std::max(front_, newest_);
    first_ = static_cast<std::uint8_t>((p + 1) % kMaxPlanes);
    return path;
  }

  /// Those of `planes` that may carry a new packet.
  [[nodiscard]] PlaneMask within_limits(PlaneMask planes) const noexcept {
    return shares_.apply() ? shares_.within_limits(planes) : planes;
  }
  void on_mark(Plane plane) noexcept { shares_.on_mark(plane); }

  /// An entry in the order changed from SKIP to GOOD, or back.
  void set_good(const Entry& e) noexcept {
    good_[e.slot / 64] |= std::uint64_t{1} << (e.slot % 64);
    if (good_count_[e.plane]++ == 0) good_planes_ |= plane_bit(e.plane);
  }
  void clear_good(const Entry& e) noexcept {
    good_[e.slot / 64] &= ~(std::uint64_t{1} << (e.slot % 64));
    if (--good_count_[e.plane] == 0) good_planes_ &= ~plane_bit(e.plane);
  }

  /// A GOOD path of the planes in `mask`, other than `avoid`, searched from a place that `salt`
  /// chooses; kNoPath when there is none.
  [[nodiscard]] PathIndex find_good(PlaneMask mask, std::uint32_t salt,
                                    PathIndex avoid) const noexcept {
    mask &= good_planes_;
    for (unsigned i = 0; i < kMaxPlanes; ++i) {
      const unsigned p = (salt + i) % kMaxPlanes;
      if ((mask >> p & 1) == 0) continue;
      const std::size_t words = (count_[p] + 63u) / 64;
      for (std::size_t w = 0; w <= words;
           ++w) {  // the first word is visited twice: its rest, finally all of it
        std::uint64_t bits = good_[word_[p] + (salt / 64 + w) % words];
        if (w == 0) bits &= ~std::uint64_t{0} << (salt % 64);
        for (; bits != 0; bits &= bits - 1) {
          const auto bit = static_cast<std::size_t>(std::countr_zero(bits));
          const PathIndex path = slot_path_[(word_[p] + (salt / 64 + w) % words) * 64 + bit];
          if (path != avoid) return path;
        }
      }
    }
    return kNoPath;
  }

  /// Any path of the planes in `mask` except `avoid`, GOOD or SKIP; kNoPath when there is none.
  [[nodiscard]] PathIndex find_any(PlaneMask mask, PathIndex avoid) const noexcept {
    for (mask &= planes_; mask != 0; mask &= mask - 1)
      for (const PathIndex path : plane_paths(static_cast<unsigned>(std::countr_zero(mask))))
        if (path != avoid) return path;
    return kNoPath;
  }

  /// The usable paths of a plane (below kMaxPlanes), in the order of the walk.
  [[nodiscard]] std::span<const PathIndex> plane_paths(unsigned plane) const noexcept {
    return std::span<const PathIndex>(slot_path_).subspan(first_slot(plane), count_[plane]);
  }

 private:
  [[nodiscard]] std::size_t first_slot(unsigned plane) const noexcept {
    return std::size_t{word_[plane]} * 64;
  }

  /// Fills the planes' lists; each starts at its own word of the bitmap.
  void collect(std::span<Entry> entries, PlaneMask up) noexcept {
    const auto belongs = [up](const Entry& e) {
      return e.active && usable(e.health) && (up >> e.plane & 1) != 0;
    };
    count_ = {};
    PlaneMask reduced = 0;
    for (const Entry& e : entries) {
      if (belongs(e)) ++count_[e.plane];
      if (e.active && !usable(e.health)) reduced |= plane_bit(e.plane);
    }
    planes_ = 0;
    size_ = 0;
    std::size_t word = 0;
    for (unsigned p = 0; p < kMaxPlanes; ++p) {
      word_[p] = static_cast<std::uint16_t>(word);
      word += (count_[p] + 63u) / 64;
      size_ += count_[p];
      if (count_[p] > 0) planes_ |= plane_bit(static_cast<Plane>(p));
    }
    std::array<std::uint16_t, kMaxPlanes> filled{};
    for (const PathIndex path : sequence_) {
      const Entry& e = entries[path];
      if (belongs(e)) slot_path_[first_slot(e.plane) + filled[e.plane]++] = path;
    }
    std::uint64_t largest = 0;
    for (unsigned p = 0; p < kMaxPlanes; ++p) {
      if (count_[p] == 0) continue;
      walks_[p].share = kPass / count_[p];
      shares_.set_step(p, walks_[p].share);
      largest = std::max(largest, walks_[p].share);
    }
    for (Walk& walk : walks_) walk.most_behind = kMostBehind * walk.share + largest;
    shares_.set(planes_, reduced);
  }

  /// The first plane in turn with less progress than that of the last step, else the one with the
  /// least. One that carried nothing for a time makes up for a few packets only.
  [[nodiscard]] unsigned next_plane(PlaneMask planes) noexcept {
    if (front_ >= kLargest) [[unlikely]]
      count_anew();
    unsigned chosen = kMaxPlanes;
    for (PlaneMask m = std::rotr(planes, first_); m != 0; m &= m - 1) {
      const unsigned p = in_turn(m);
      if (chosen == kMaxPlanes || walks_[p].progress < walks_[chosen].progress) chosen = p;
      if (walks_[p].progress < newest_) break;
    }
    Walk& walk = walks_[chosen];
    if (front_ - walk.progress > walk.most_behind) walk.progress = front_ - walk.most_behind;
    return chosen;
  }
  /// The first plane of a mask that begins with first_.
  [[nodiscard]] unsigned in_turn(PlaneMask mask) const noexcept {
    return (first_ + static_cast<unsigned>(std::countr_zero(mask))) % kMaxPlanes;
  }

  /// Takes the same from the progress of all planes, before it exceeds its range.
  void count_anew() noexcept {
    const std::uint64_t taken = front_ - kPass * kMaxPlanes;
    for (Walk& walk : walks_) walk.progress -= std::min(walk.progress, taken);
    newest_ -= std::min(newest_, taken);
    front_ -= taken;
  }

  static constexpr std::uint64_t kPass = PlaneShares::kPass;  ///< progress: one pass
  static constexpr std::uint64_t kLargest = kPass << 24;      ///< count_anew() then
  static constexpr std::uint64_t kMostBehind = 2;             ///< packets

  /// The walk over the list of one plane.
  struct Walk {
    std::uint64_t progress = 0;
    std::uint64_t share = 0;        ///< progress of one step
    std::uint64_t most_behind = 0;  ///< what it makes up for at most
    std::uint32_t at = 0;           ///< next position in the list
  };

  std::vector<PathIndex> sequence_;   ///< all paths, in the order that all lists keep
  std::vector<PathIndex> slot_path_;  ///< lists by plane, each starting at a multiple of 64
  std::vector<std::uint64_t> good_;   ///< bit per slot: GOOD
  std::array<Walk, kMaxPlanes> walks_{};
  PlaneShares shares_;
  std::array<std::uint16_t, kMaxPlanes> word_{};        ///< first word of each plane in good_
  std::array<std::uint16_t, kMaxPlanes> count_{};       ///< paths of each plane in the order
  std::array<std::uint16_t, kMaxPlanes> good_count_{};  ///< of these, GOOD
  std::size_t size_ = 0;
  PlaneMask planes_ = 0;
  PlaneMask good_planes_ = 0;
  std::uint64_t newest_ = 0;  ///< progress of the plane of the last step
  std::uint64_t front_ = 0;   ///< the furthest progress of all planes
  std::uint8_t first_ = 0;    ///< the plane whose turn is next, if it is free
};

/// How long a marked path stays SKIP (mrc-1.0 §3.4, [O-25]): one turn in general, since a queue
/// that is long for a moment marks every path. But a path with far more marks than the others leads
/// over a link that others need: it is skipped for a round trip, the time until marks can tell what
/// that has changed, and for twice as long each time it is marked again soon after.
///
/// Marks fade by half in kHalfLife round trips. Integers only, for equal results on every machine.
/// Allocates in the constructor only. One thread at a time.
class SkipHold {
 public:
  /// For paths 0 .. paths-1. Paths with fewer recent marks than `marks` are never held; 0: none is.
  SkipHold(std::size_t paths, unsigned marks) : paths_(paths), least_(marks * kOne) {}

  /// The path has become SKIP. `in_use`: paths that share the traffic.
  void on_mark(PathIndex path, Time now, Duration rtt, std::size_t in_use) noexcept {
    if (least_ == 0 || rtt <= Duration::zero()) return;
    Path& p = paths_[path];
    count(p.marks, now, rtt);
    count(all_, now, rtt);
    if (p.marks.score < least_ || p.marks.score * in_use <= kRatio * all_.score) return;
    const bool again = p.length > Duration::zero() && now < p.until + 2 * p.length;
    p.length = again ? std::min(2 * p.length, kLongest * rtt) : rtt;
    p.until = now + p.length;
  }
  /// Whether to skip the path although its turn has come.
  [[nodiscard]] bool held(PathIndex path, Time now) const noexcept {
    return now < paths_[path].until;
  }
  /// Another path takes the place of this one.
  void reset(PathIndex path) noexcept { paths_[path] = {}; }

 private:
  static constexpr std::uint64_t kOne = 256;  ///< a mark
  static constexpr std::uint64_t kRatio = 3;  ///< more than so many times the average path's marks
  static constexpr std::int64_t kHalfLife = 16;  ///< round trips
  static constexpr std::int64_t kLongest = 64;   ///< round trips

  struct Marks {
    std::uint64_t score = 0;
    Time last = Time::min();
  };
  struct Path {
    Marks marks;
    Time until = Time::min();
    Duration length{0};
  };

  /// Adds a mark to those before, which fade linearly within a half-life.
  static void count(Marks& m, Time now, Duration rtt) noexcept {
    const Duration half = kHalfLife * rtt;
    const Duration age = m.score == 0 ? Duration::zero() : std::max(Duration::zero(), now - m.last);
    const std::int64_t halvings = std::min<std::int64_t>(age / half, 63);
    const auto rest = static_cast<std::uint64_t>((age % half) * 128 / half);
    m.score >>= halvings;
    m.score -= m.score * rest / 256;
    m.score += kOne;
    m.last = now;
  }

  std::vector<Path> paths_;
  Marks all_;
  std::uint64_t least_;
};

}  // namespace detail

/// Settings of a PathSet.
struct PathSetOptions {
  /// Size of the active set, divided evenly among the planes; the others are backup. 0: all.
  std::uint16_t active = 0;
  /// Feedback never reduces the number of usable active paths below this (mrc-1.0 [O-14]).
  std::uint16_t min_active = 1;
  /// Paths of a plane with the same port path are EVs of one route and fail together: an EV of
  /// another route replaces a failed one if possible, until that recovers.
  bool shared_routes = false;
  /// Inferred losses on a path in a row that make it ASSUMED_BAD [O-4]; 0: they never do.
  std::uint8_t loss_strikes = 3;
  /// A path with so many recent marks, and three times those of the others, stays SKIP for round
  /// trips; 0: none does.
  std::uint8_t hold_marks = 24;
  /// Consecutive answered probes that revive a path [C-9]; at least 1.
  std::uint8_t probe_successes = 3;
  /// Delay of the first probe of a path, and shortest interval between two (ProbeSchedule) [O-6].
  /// 0: four round trips, 1 ms while no round trip is known.
  Duration probe_first{0};
  /// Longest interval between two probes of a path.
  Duration probe_max = std::chrono::milliseconds{100};
  /// States that generate an event.
  std::uint8_t event_mask = kEventGood | kEventAssumedBad;
  /// Events kept for poll_event(); further ones are dropped and counted.
  std::uint16_t event_capacity = 64;
};

/// The paths to one destination with their health, and path selection (mrc-1.0 §3.4, §3.5, §5).
/// Shared by all queue pairs to that destination: the sum of what they send has to be even.
///
/// A few nanoseconds per packet; feedback is linear in the number of paths when a path enters or
/// leaves the spraying order. Allocates in the constructor only. Feedback on an index out of range
/// has no effect (kNoPath: the reflected EV is unknown). The same calls with the same seed give the
/// same results. One thread at a time.
class PathSet {
 public:
  /// 1 .. kMaxPaths paths, planes below kMaxPlanes. Throws mrc::Error (invalid_argument).
  PathSet(std::span<const PathSpec> universe, const PathSetOptions& options, std::uint64_t seed);

  // ---- data path

  /// The path for the next packet or burst: GOOD, in a plane of `free_planes` that is up. kNoPath
  /// when there is none. At most one of the SKIP paths passed so far becomes GOOD, and is returned
  /// only if there is no other. Avoids `avoid`, the previous path of a retransmission, and its
  /// plane if possible.
  [[nodiscard]] PathIndex select(PlaneMask free_planes, PathIndex avoid = kNoPath) noexcept {
    PlaneMask planes = free_planes & order_.planes();
    if (planes == 0) return kNoPath;
    if (avoid < entries_.size()) {
      const PlaneMask others = planes & ~plane_bit(entries_[avoid].plane);
      if (others != 0) planes = others;
    }
    for (unsigned i = 0; i < kWalkLimit; ++i) {
      const PathIndex path = order_.step(planes);
      detail::Entry& e = entries_[path];
      if (path == avoid) continue;
      if (e.health == Health::good) {
        if (!waiting_.empty()) [[unlikely]]
          restore_next();
        return path;
      }
      if ((order_.good_planes() & planes) == 0) {  // the walk would only return to this path
        rotate(e);
        return path;
      }
      if (!e.waits && !holds_.held(path, now_)) let_wait(e);
    }
    return select_rare(planes, avoid);
  }

  /// Those of `planes` that may carry a new packet now. Others have lost paths and carried their
  /// share: waiting for a whole plane is better (PlaneShares).
  [[nodiscard]] PlaneMask within_limits(PlaneMask planes) const noexcept {
    return order_.within_limits(planes);
  }

  /// The path's EV, plane and port path. `path` < size().
  [[nodiscard]] PathSpec operator[](PathIndex path) const noexcept {
    const detail::Entry& e = entries_[path];
    return {e.ev, e.plane, e.port_path};
  }
  [[nodiscard]] std::size_t size() const noexcept { return entries_.size(); }

  /// A path with the reflected EV, or kNoPath. See EvIndex::find().
  [[nodiscard]] PathIndex find(Ev reflected) const noexcept {
    return index_.find(entries_, reflected);
  }

  void on_sent(PathIndex path, std::uint32_t bytes) noexcept {
    if (path >= entries_.size()) return;
    ++entries_[path].sent_packets;
    entries_[path].sent_bytes += bytes;
  }
  /// A packet sent on the path at `sent` was delivered. `certain`: sent once, so it took this path.
  /// That ends a run of losses, and packets sent earlier on the path should have arrived.
  void on_delivered(PathIndex path, Time sent, Time now, bool certain = true) noexcept {
    if (path >= entries_.size()) return;
    detail::Entry& e = entries_[path];
    ++e.delivered;
    saw(now);
    if (!certain) return;
    e.strikes = 0;
    e.newest_delivered = std::max(e.newest_delivered, sent);
  }
  /// For statistics only.
  void on_rtt(PathIndex path, Duration rtt) noexcept {
    if (path >= figures_.size()) return;
    const std::int64_t sample = std::clamp<std::int64_t>(rtt.count(), 1, UINT32_MAX);
    const std::int64_t before = figures_[path].rtt_ns;
    figures_[path].rtt_ns =
        static_cast<std::uint32_t>(before == 0 ? sample : before + (sample - before) / kRttWeight);
  }
  /// Whether a packet sent on the path at `sent` should have arrived: a later one of the path has.
  [[nodiscard]] bool passed(PathIndex path, Time sent) const noexcept {
    return path < entries_.size() && entries_[path].newest_delivered > sent;
  }

  // ---- feedback

  /// A SACK with this M field reflected the path.
  void on_mark(PathIndex path, Mark mark, Time now) noexcept;
  /// A packet sent on the path was trimmed (NACK TRIMMED; not TRIMMED_LASTHOP).
  void on_trimmed(PathIndex path, Time now) noexcept;
  /// A packet sent on the path was inferred to be lost. Of a plane that is down this is only
  /// counted. `sent`: as for on_timeout().
  void on_inferred_loss(PathIndex path, Time now, Time sent = Time::max()) noexcept;
  /// A packet sent on the path timed out without SACK or trim. Of a plane that is down this is only
  /// counted. A path that was replaced after `sent` is not to blame.
  void on_timeout(PathIndex path, Time now, Time sent = Time::max()) noexcept;
  /// The same, only counted: nothing was heard from the destination so far.
  void on_silence(PathIndex path, Time now, Time sent) noexcept;

  // ---- planes

  /// Sets whether the plane is usable towards this destination. Its paths keep their health; their
  /// probing stops while it is down and restarts at once when it is up.
  void set_plane_up(Plane plane, bool up) noexcept;
  /// Planes that are up; initially all.
  [[nodiscard]] PlaneMask planes_up() const noexcept { return up_; }
  /// Planes with at least one path that can carry data now.
  [[nodiscard]] PlaneMask usable_planes() const noexcept { return order_.planes(); }

  // ---- probes of ASSUMED_BAD paths (mrc-1.0 §5)

  /// Sets the round-trip time: the unit of SKIP, and the least interval between any two probes;
  /// those of one path are at least twice as far apart. Clamped to 0 .. 1 min.
  void set_probe_spacing(Duration rtt) noexcept {
    spacing_ = std::clamp<Duration>(rtt, Duration::zero(), std::chrono::minutes{1});
  }
  /// When poll_probe() returns a path next; kNever when no path is being probed.
  [[nodiscard]] Time next_probe() const noexcept;
  /// The path to probe now, or kNoPath; the probe counts as sent.
  [[nodiscard]] PathIndex poll_probe(Time now) noexcept;
  /// A probe on the path was answered with this M field, `none` if the answer has none. On a path
  /// that is not ASSUMED_BAD a mark acts as in on_mark().
  void on_probe_answer(PathIndex path, Mark mark, Time now) noexcept;

  // ---- administration

  /// Sets GOOD or DENIED (others: invalid_argument). The only way out of DENIED. Not limited by
  /// min_active; if too few paths are left, ASSUMED_BAD paths are released, the oldest first.
  Errc set_health(PathIndex path, Health health) noexcept;
  /// Replaces the entry by another path, GOOD or DENIED, with counters at zero. Linear. Feedback on
  /// packets sent before `now` is ignored. invalid_argument: an argument out of range.
  Errc replace(PathIndex path, PathSpec spec, Health health, Time now = Time::min()) noexcept;
  /// Sets PathSetOptions::event_mask.
  void set_event_mask(std::uint8_t mask) noexcept { options_.event_mask = mask; }

  // ---- output and getters

  /// Removes the oldest event; false when there is none.
  [[nodiscard]] bool poll_event(PathEvent& event) noexcept {
    if (events_.empty()) return false;
    event = events_.front();
    events_.pop_front();
    return true;
  }
  /// `counter`, which outlives the set, is raised with every event.
  void count_events(std::uint64_t& counter) noexcept { event_counter_ = &counter; }

  /// `path` < size(), as for the next three.
  [[nodiscard]] Health health(PathIndex path) const noexcept { return entries_[path].health; }
  /// Whether the path is in the active set (in any state of health).
  [[nodiscard]] bool active(PathIndex path) const noexcept { return entries_[path].active; }
  [[nodiscard]] PathStats stats(PathIndex path) const noexcept {
    return detail::stats_of(entries_[path], figures_[path]);
  }
  /// Whether the path can carry data now.
  [[nodiscard]] bool selectable(PathIndex path) const noexcept { return walks(entries_[path]); }

  /// Number of paths that can carry data now: active, GOOD or SKIP, plane up.
  [[nodiscard]] unsigned active_count() const noexcept {
    return static_cast<unsigned>(order_.size());
  }
  /// A random path of the plane that can carry data now; kNoPath when there is none.
  [[nodiscard]] PathIndex random_usable(Plane plane, Random& random) const noexcept {
    const std::span<const PathIndex> paths = usable_paths(plane);
    return paths.empty() ? kNoPath : paths[random.below(static_cast<std::uint32_t>(paths.size()))];
  }
  /// The usable paths of the plane, in the order of the walk.
  [[nodiscard]] std::span<const PathIndex> usable_paths(Plane plane) const noexcept {
    if (plane >= kMaxPlanes) return {};
    return order_.plane_paths(plane);
  }
  /// The first path of the plane from index `from` on, counted around, that is not DENIED, even of
  /// a plane that is down; kNoPath when there is none.
  [[nodiscard]] PathIndex next_of_plane(Plane plane, std::uint32_t from) const noexcept;
  /// A random one of these: of those that suit best, active and usable, or of all if `any`. Linear.
  [[nodiscard]] PathIndex random_of_plane(Plane plane, Random& random,
                                          bool any = false) const noexcept;
  /// How often min_active prevented a path from becoming ASSUMED_BAD, and made one usable again.
  [[nodiscard]] std::uint64_t refusals() const noexcept { return refusals_; }
  [[nodiscard]] std::uint64_t releases() const noexcept { return releases_; }

 private:
  using Entry = detail::Entry;
  /// Steps after which select() searches the bitmap instead: bounds the time per packet.
  static constexpr unsigned kWalkLimit = 64;

  /// A sample counts for this part of the smoothed round-trip time.
  static constexpr std::int64_t kRttWeight = 8;

  [[nodiscard]] bool plane_is_up(const Entry& e) const noexcept {
    return (up_ >> e.plane & 1) != 0;
  }
  /// Whether the entry belongs in the spraying order.
  [[nodiscard]] bool walks(const Entry& e) const noexcept {
    return e.active && usable(e.health) && plane_is_up(e);
  }
  [[nodiscard]] PathIndex index_of(const Entry& e) const noexcept {
    return static_cast<PathIndex>(&e - entries_.data());
  }
  void rebuild() noexcept { order_.rebuild(entries_, up_); }

  /// SKIP to GOOD because its turn has come.
  void rotate(Entry& e) noexcept {
    e.health = next_health(e.health, HealthInput::rotation);
    order_.set_good(e);
  }
  /// The walk has passed over a SKIP path: its turn to become GOOD comes.
  void let_wait(Entry& e) noexcept {
    e.waits = true;
    if (e.queued) return;  // since an earlier mark
    e.queued = true;
    waiting_.push_back(index_of(e));  // within the reserved capacity: each path is in it once
  }
  void restore_next() noexcept;
  PathIndex select_rare(PlaneMask planes, PathIndex avoid) noexcept;

  [[nodiscard]] Duration shortest_probe_interval() const noexcept;
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
  detail::SprayOrder order_;
  detail::EvIndex index_;
  ProbeSchedule probes_;
  detail::SkipHold holds_;
  boost::circular_buffer<PathIndex>
      waiting_;                               ///< SKIP paths that the walk has passed, oldest first
  std::vector<std::uint64_t> marked_;         ///< by path: number of its last ASSUMED_BAD
  std::vector<Time> replaced_;                ///< by path: when it took the place of another
  std::vector<detail::Figures> figures_;      ///< by path
  boost::circular_buffer<PathEvent> events_;  ///< full: new ones are dropped and counted
  std::uint32_t dropped_ = 0;                 ///< events since the last one in the ring
  std::uint64_t* event_counter_ = nullptr;
  PlaneMask up_ = ~PlaneMask{0};
  Duration spacing_{0};
  Time probe_gate_ = Time::min();  ///< earliest time of the next probe
  Time now_ = Time::min();         ///< latest time seen, for calls without a time
  std::uint64_t marks_made_ = 0;
  std::uint64_t refusals_ = 0;
  std::uint64_t releases_ = 0;
};

}  // namespace mrc::inline v0_1::path
