// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "mrc/core/error.hpp"
#include "mrc/core/random.hpp"
#include "mrc/core/types.hpp"
#include "mrc/path/path_entry.hpp"
#include "mrc/path/path_set.hpp"

namespace mrc::inline v0_1::path {

/// Paths of one plane that are known to carry responses, eight at most, oldest first, used in turn:
/// with one, all responses of the plane would share its queues and its loss. No allocation. One
/// thread.
class ReversePaths {
 public:
  static constexpr std::size_t kMost = 8;

  [[nodiscard]] bool empty() const noexcept { return count_ == 0; }
  [[nodiscard]] std::size_t size() const noexcept { return count_; }
  [[nodiscard]] bool contains(PathIndex path) const noexcept { return place(path) < count_; }
  /// Of these and the next one: kNoPath if there is none.
  [[nodiscard]] PathIndex newest() const noexcept {
    return empty() ? kNoPath : known_[count_ - 1].path;
  }
  [[nodiscard]] PathIndex oldest() const noexcept { return empty() ? kNoPath : known_[0].path; }
  /// The newest of those that worked although they were ASSUMED_BAD.
  [[nodiscard]] PathIndex worked_though_bad() const noexcept {
    for (std::size_t i = count_; i-- > 0;)
      if (known_[i].though_bad) return known_[i].path;
    return kNoPath;
  }

  /// The path works, `though_bad`: although it is ASSUMED_BAD. It may replace the oldest.
  void add(PathIndex path, bool though_bad) noexcept {
    std::size_t i = place(path);
    if (i == count_) {
      if (count_ == kMost) erase(0);
      i = count_++;
    }
    known_[i] = {path, though_bad};
  }
  void remove(PathIndex path) noexcept {
    if (const std::size_t i = place(path); i < count_) erase(i);
  }
  /// Removes those for which fits(path, though_bad) does not hold; it may change `though_bad`.
  template <class Fits>
  void keep(Fits&& fits) noexcept {
    for (std::size_t i = count_; i-- > 0;)
      if (!fits(known_[i].path, known_[i].though_bad)) erase(i);
  }
  /// The next one in turn that fits, or kNoPath. Those that do not are removed.
  template <class Fits>
  [[nodiscard]] PathIndex next(Fits&& fits) noexcept {
    while (!empty()) {
      if (turn_ >= count_) turn_ = 0;
      if (fits(known_[turn_].path, known_[turn_].though_bad)) return known_[turn_++].path;
      erase(turn_);
    }
    return kNoPath;
  }

 private:
  struct Known {
    PathIndex path = kNoPath;
    bool though_bad = false;  ///< it was ASSUMED_BAD when it worked
  };

  [[nodiscard]] std::size_t place(PathIndex path) const noexcept {
    const auto end = known_.begin() + count_;
    return static_cast<std::size_t>(std::ranges::find(known_.begin(), end, path, &Known::path) -
                                    known_.begin());
  }
  void erase(std::size_t i) noexcept {
    std::copy(known_.begin() + i + 1, known_.begin() + count_, known_.begin() + i);
    --count_;
    if (turn_ > i) --turn_;
  }

  std::array<Known, kMost> known_{};
  std::uint8_t count_ = 0;
  std::uint8_t turn_ = 0;  ///< the place of the next one
};

/// Settings of a ReverseSet.
struct ReverseSetOptions {
  /// Shortest interval between probes; the interval is max(RTT, this).
  Duration probe_floor = std::chrono::milliseconds{1};
  /// Consecutive unanswered probes of a plane after which its reverse paths are dropped.
  std::uint8_t max_unanswered = 8;
  /// How long a plane is not probed after a reverse path of it was confirmed.
  Duration confirmed = std::chrono::milliseconds{100};
};

/// Paths for responses to a peer: SACK, NACK, Transport ACK (mrc-1.0 §3.6, [O-18]). Keeps some
/// confirmed paths of each plane, which take turns. SACKs of own data confirm paths. In planes with
/// incoming traffic only, probes on random paths find them, one per interval, until there are
/// enough or eight probes have looked for more; then each confirmation gives the plane a pause.
/// When the peer repeats itself, the paths are tested one by one: one on test is not used until the
/// answer, except the last of a plane; after max_unanswered all of a plane are dropped.
///
/// One per destination, beside its PathSet, which is passed as an argument (always the same one).
/// Allocates in the constructor only. A few nanoseconds per call. One thread at a time.
class ReverseSet {
 public:
  /// For planes 0 to `planes` - 1. Throws mrc::Error (invalid_argument) unless probe_floor and
  /// max_unanswered are above 0.
  explicit ReverseSet(const ReverseSetOptions& options = {}, unsigned planes = kMaxPlanes)
      : options_(options), interval_(options.probe_floor), of_(std::min(planes, kMaxPlanes)) {
    if (options.probe_floor <= Duration::zero())
      throw Error(Errc::invalid_argument, "reverse set: probe_floor must be above 0");
    if (options.max_unanswered == 0)
      throw Error(Errc::invalid_argument, "reverse set: max_unanswered must be above 0");
  }

  /// A path for a response to a packet received in plane `preferred`: in that plane if it is up and
  /// in `free`, else in another such plane, those with a confirmed path first. Of the confirmed
  /// paths in turn, else a random usable one. kNoPath when no plane qualifies.
  [[nodiscard]] PathIndex pick(Plane preferred, PlaneMask free, const PathSet& paths,
                               Random& random) noexcept {
    PlaneMask mask = free & paths.usable_planes();
    if (mask == 0) return kNoPath;
    if (preferred >= kMaxPlanes || (mask >> preferred & 1) == 0) {
      if ((mask & known_) != 0) mask &= known_;
      preferred = random_plane(mask, random);
    }
    if ((known_ >> preferred & 1) != 0) {
      const PathIndex next = of_[preferred].paths.next(Fits{preferred, paths});
      if (next != kNoPath) return next;
      known_ &= ~plane_bit(preferred);
    }
    return paths.random_usable(preferred, random);
  }

  /// The same for a response to what was sent again, or to a probe. Without a path that is known to
  /// work, each takes another one of the plane, bad ones included: nothing else finds the last one.
  [[nodiscard]] PathIndex pick_again(Plane preferred, PlaneMask free, const PathSet& paths,
                                     Random& random) noexcept {
    const PathIndex usual = pick(preferred, free, paths, random);
    if (usual == kNoPath) return usual;
    const Plane plane = paths[usual].plane;
    if (works(plane)) return usual;
    const PathIndex next = paths.next_of_plane(plane, next_path_);
    // Not strictly in turn: kinds of responses that alternate would take half of the paths each.
    next_path_ = next + 1u + random.below(2);
    return next;
  }

  // ---- inputs

  /// The path works: a SACK reflected it, or a probe was answered. To be told before
  /// PathSet revives it.
  void on_working(PathIndex path, Time now, const PathSet& paths) noexcept {
    if (path >= paths.size()) return;
    const Plane plane = paths[path].plane;
    if (plane >= of_.size()) return;
    PlaneState& of = of_[plane];
    of.paths.add(path, !usable(paths.health(path)));
    known_ |= plane_bit(plane);
    of.unanswered = 0;
    of.settled_until = now + options_.confirmed;
  }
  /// The peer's packets arrived in this plane; called once per packet or per burst.
  void on_inbound(Plane plane, Time now) noexcept {
    if (plane >= kMaxPlanes) return;
    // After a silence, wait one full interval: own data may confirm a path without a probe.
    if (inbound_ == 0 && next_ <= now) {
      outbound_ = 0;
      next_ = now + interval_;
    }
    inbound_ |= plane_bit(plane);
  }
  /// The peer probes this plane, perhaps because no answer reaches it: as on_inbound(), but only
  /// while no path is known to work, or two idle peers would probe each other for ever.
  void on_probed(Plane plane, Time now) noexcept {
    if (plane < kMaxPlanes && !works(plane)) on_inbound(plane, now);
  }
  /// The peer sends again, or asks again with nothing new in between: a part of the network may
  /// have failed, which answers do not show. Confirmed paths are tested, once each.
  void on_repeated() noexcept {
    for (PlaneMask m = known_; m != 0; m &= m - 1) {
      PlaneState& of = of_[static_cast<std::size_t>(std::countr_zero(m))];
      if (of.doubted == 0) of.doubted = static_cast<std::uint8_t>(of.paths.size());
    }
  }
  /// Own data was sent to the peer in this plane: its SACKs make probes unnecessary.
  void on_outbound(Plane plane, Time) noexcept {
    if (plane < kMaxPlanes) outbound_ |= plane_bit(plane);
  }
  /// Sets the probe interval: the round-trip time, from the floor to one minute.
  void set_rtt(Duration rtt) noexcept {
    interval_ = std::max(options_.probe_floor, std::min<Duration>(rtt, std::chrono::minutes{1}));
  }

  // ---- probes

  /// When to call poll_probe() next; kNever without incoming traffic since the last probes.
  [[nodiscard]] Time next_probe() const noexcept { return inbound_ == 0 ? kNever : next_; }

  /// The path to probe now, or kNoPath; the probe counts as sent. In a plane that in this interval
  /// had incoming traffic and no outgoing data, and is not settled.
  [[nodiscard]] PathIndex poll_probe(Time now, const PathSet& paths, Random& random) noexcept {
    if (now < next_probe()) return kNoPath;
    next_ = now + interval_;
    PlaneMask planes = std::exchange(inbound_, 0) & ~std::exchange(outbound_, 0);
    planes &= paths.usable_planes();
    if (of_.size() < kMaxPlanes) planes &= plane_bit(static_cast<Plane>(of_.size())) - 1;
    planes &= ~settled(now, planes, paths);
    if (planes == 0) return kNoPath;
    const Plane plane = next_plane(planes);
    PlaneState& of = of_[plane];
    if (of.unanswered >= options_.max_unanswered)
      forget(plane);
    else
      ++of.unanswered;
    of.settled_until = Time::min();  // until the answer
    // Every second probe tests a path in use: others that are not answered say nothing of it.
    const bool test = of.doubted > 0 || of.unanswered % 2 == 0;
    if (!test || of.paths.empty()) {
      if (of.searches < kMostSearches) ++of.searches;
      const PathIndex other = another(plane, paths, random);
      if (other != kNoPath) return other;
    }
    return tested(of);
  }

  // ---- getters

  /// The plane's path that was confirmed last, or kNoPath.
  [[nodiscard]] PathIndex confirmed(Plane plane) const noexcept {
    return plane < of_.size() ? of_[plane].paths.newest() : kNoPath;
  }
  /// The plane's confirmed path that was confirmed while it was ASSUMED_BAD, or kNoPath.
  [[nodiscard]] PathIndex answered_though_bad(Plane plane, const PathSet& paths) noexcept {
    if (plane >= of_.size()) return kNoPath;
    prune(plane, paths);
    return of_[plane].paths.worked_though_bad();
  }

 private:
  static constexpr std::uint8_t kMostSearches = ReversePaths::kMost;

  struct PlaneState {
    ReversePaths paths;                ///< those that are confirmed
    std::uint8_t unanswered = 0;       ///< consecutive unanswered probes
    std::uint8_t doubted = 0;          ///< so many of the oldest are to be tested
    std::uint8_t searches = 0;         ///< probes that looked for further paths
    Time settled_until = Time::min();  ///< confirmed, and not probed until then
  };

  /// Is a path known to work? Of several, those on test are left out; of one, the newest probe may
  /// be under way.
  [[nodiscard]] bool works(Plane plane) const noexcept {
    if (plane >= of_.size() || of_[plane].paths.empty()) return false;
    return of_[plane].paths.size() > 1 || of_[plane].unanswered <= 1;
  }
  void forget(Plane plane) noexcept {
    of_[plane].paths = {};
    of_[plane].doubted = of_[plane].searches = 0;
    known_ &= ~plane_bit(plane);
  }
  /// Whether a path of the plane may still be used: entries may have been replaced or changed
  /// health. One that was ASSUMED_BAD when it worked may stay so.
  struct Fits {
    Plane plane;
    const PathSet& paths;

    bool operator()(PathIndex path, bool& though_bad) const noexcept {
      if (path >= paths.size() || paths[path].plane != plane) return false;
      const Health health = paths.health(path);
      if (usable(health)) though_bad = false;
      return usable(health) || (though_bad && health == Health::assumed_bad);
    }
  };
  void prune(Plane plane, const PathSet& paths) noexcept {
    of_[plane].paths.keep(Fits{plane, paths});
    if (of_[plane].paths.empty()) known_ &= ~plane_bit(plane);
  }
  /// Those of these planes with a path confirmed lately and none to test: enough are known, or
  /// enough probes have looked for more.
  [[nodiscard]] PlaneMask settled(Time now, PlaneMask planes, const PathSet& paths) noexcept {
    PlaneMask found = 0;
    for (PlaneMask m = planes & known_; m != 0; m &= m - 1) {
      const auto plane = static_cast<Plane>(std::countr_zero(m));
      const PlaneState& of = of_[plane];
      prune(plane, paths);
      if (of.paths.empty() || of.doubted > 0 || now >= of.settled_until) continue;
      const std::size_t enough = std::min(ReversePaths::kMost, paths.usable_paths(plane).size());
      if (of.paths.size() >= enough || of.searches >= kMostSearches) found |= plane_bit(plane);
    }
    return found;
  }
  /// A random usable path that is not confirmed; kNoPath when there is none.
  [[nodiscard]] PathIndex another(Plane plane, const PathSet& paths,
                                  Random& random) const noexcept {
    const std::span<const PathIndex> all = paths.usable_paths(plane);
    if (all.empty()) return kNoPath;
    const std::size_t from = random.below(static_cast<std::uint32_t>(all.size()));
    // More than are confirmed: one of them is another.
    for (std::size_t i = 0; i < std::min(all.size(), ReversePaths::kMost + 1); ++i) {
      const PathIndex path = all[(from + i) % all.size()];
      if (!of_[plane].paths.contains(path)) return path;
    }
    return kNoPath;
  }
  /// The confirmed path to test; it is not used until the answer, unless it is the last one.
  [[nodiscard]] static PathIndex tested(PlaneState& of) noexcept {
    const PathIndex oldest = of.paths.oldest();
    if (of.paths.size() > 1) of.paths.remove(oldest);
    if (of.doubted > 0) --of.doubted;
    return oldest;
  }
  [[nodiscard]] static Plane random_plane(PlaneMask mask, Random& random) noexcept {
    for (auto n = random.below(static_cast<std::uint32_t>(std::popcount(mask))); n > 0; --n)
      mask &= mask - 1;
    return static_cast<Plane>(std::countr_zero(mask));
  }
  /// The next of these planes after the one probed last.
  [[nodiscard]] Plane next_plane(PlaneMask planes) noexcept {
    const PlaneMask after = planes & ~(plane_bit(last_) | (plane_bit(last_) - 1));
    last_ = static_cast<Plane>(std::countr_zero(after != 0 ? after : planes));
    return last_;
  }

  ReverseSetOptions options_;
  Duration interval_;
  Time next_ = Time::min();
  PlaneMask inbound_ = 0;   ///< traffic came in during this interval
  PlaneMask outbound_ = 0;  ///< own data went out in this interval
  PlaneMask known_ = 0;     ///< planes with a confirmed path
  Plane last_ = kMaxPlanes - 1;
  std::uint32_t next_path_ = 0;  ///< where pick_again() goes on
  std::vector<PlaneState> of_;   ///< by plane
};

}  // namespace mrc::inline v0_1::path
