// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cstdint>
#include <string>

#include "mrc/core/error.hpp"
#include "mrc/core/random.hpp"
#include "mrc/core/time.hpp"
#include "mrc/core/types.hpp"
#include "mrc/path/path_set.hpp"

namespace mrc::inline v0_1::path {

/// Settings of a ReverseSet.
struct ReverseSetOptions {
  /// Shortest interval between probes; the interval is max(RTT, this).
  Duration probe_floor = std::chrono::milliseconds{1};
  /// Consecutive unanswered probes of a plane after which its reverse path is dropped.
  std::uint8_t max_unanswered = 8;
};

/// Paths for responses to a peer: SACK, NACK, Transport ACK (mrc-1.0 §3.6, [O-18]). Keeps the last
/// confirmed path of each plane. Outgoing data confirms paths through its SACKs. In a plane with
/// incoming traffic only, one probe per interval on a random path finds one; planes alternate.
/// While probes stay unanswered, every second one tests the path in use, which is dropped after
/// max_unanswered. No probes without incoming traffic.
///
/// One per destination, beside its PathSet, which is passed as an argument (always the same one).
/// No allocation. A few nanoseconds per call. One thread at a time.
class ReverseSet {
 public:
  /// Throws mrc::Error (invalid_argument) unless both options are above 0.
  explicit ReverseSet(const ReverseSetOptions& options = {})
      : options_(options), interval_(options.probe_floor) {
    if (options.probe_floor <= Duration::zero())
      throw Error(Errc::invalid_argument, "reverse set: probe_floor must be above 0");
    if (options.max_unanswered == 0)
      throw Error(Errc::invalid_argument, "reverse set: max_unanswered must be above 0");
    reverse_.fill(kNoPath);
  }

  /// A path for a response to a packet received in plane `preferred`: in that plane if it is up and
  /// in `free`, else in any such plane, those with a confirmed path first. Within the plane the
  /// confirmed path, else a random usable one. kNoPath when no plane qualifies.
  [[nodiscard]] PathIndex pick(Plane preferred, PlaneMask free, const PathSet& paths,
                               Random& random) const noexcept {
    PlaneMask mask = free & paths.usable_planes();
    if (mask == 0) return kNoPath;
    if (preferred >= kMaxPlanes || (mask >> preferred & 1) == 0) {
      if ((mask & known_) != 0) mask &= known_;
      preferred = random_plane(mask, random);
    }
    const PathIndex confirmed = reverse_[preferred];
    if (confirmed != kNoPath && fits(confirmed, preferred, paths)) return confirmed;
    return paths.random_usable(preferred, random);
  }

  /// The same for a response to what was sent again, or to a probe: earlier responses may have been
  /// lost. Without a path that is known to work, each takes another one of the plane in turn, bad
  /// ones included: where nearly all are dead, nothing else finds the one that is left.
  [[nodiscard]] PathIndex pick_again(Plane preferred, PlaneMask free, const PathSet& paths,
                                     Random& random) noexcept {
    const PathIndex usual = pick(preferred, free, paths, random);
    if (usual == kNoPath) return usual;
    const Plane plane = paths[usual].plane;
    if (usual == reverse_[plane] && works(plane)) return usual;
    const PathIndex next = paths.next_of_plane(plane, next_path_);
    // Not strictly in turn: kinds of responses that alternate would take half of the paths each.
    next_path_ = next + 1u + random.below(2);
    return next;
  }

  // ---- inputs

  /// The path works: a SACK reflected it, or a probe on it was answered. That is known before the
  /// path is used for data again.
  void on_working(PathIndex path, Time, const PathSet& paths) noexcept {
    if (path >= paths.size()) return;
    const Plane plane = paths[path].plane;
    reverse_[plane] = path;
    if (usable(paths.health(path)))
      despite_ &= ~plane_bit(plane);
    else
      despite_ |= plane_bit(plane);
    known_ |= plane_bit(plane);
    unanswered_[plane] = 0;
  }
  /// The path does not work (it became ASSUMED_BAD or DENIED).
  void on_bad(PathIndex path) noexcept {
    for (PlaneMask m = known_; m != 0; m &= m - 1) {
      const auto plane = static_cast<Plane>(std::countr_zero(m));
      if (reverse_[plane] == path) forget(plane);
    }
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
  /// The peer probes paths of this plane, perhaps because no answer reaches it: as on_inbound(),
  /// but only while no path is known to work, or two idle peers would probe each other for ever.
  void on_probed(Plane plane, Time now) noexcept {
    if (plane < kMaxPlanes && !works(plane)) on_inbound(plane, now);
  }
  /// Own data was sent to the peer in this plane: its SACKs make probes unnecessary.
  void on_outbound(Plane plane, Time) noexcept {
    if (plane < kMaxPlanes) outbound_ |= plane_bit(plane);
  }
  /// Sets the probe interval to the round-trip time, but at least to the floor and at most to one
  /// minute.
  void set_rtt(Duration rtt) noexcept {
    interval_ = std::max(options_.probe_floor, std::min<Duration>(rtt, std::chrono::minutes{1}));
  }

  // ---- probes

  /// When to call poll_probe() next; kNever without incoming traffic since the last probes.
  [[nodiscard]] Time next_probe() const noexcept { return inbound_ == 0 ? kNever : next_; }

  /// The path to probe now, or kNoPath; the probe counts as sent. One probe per interval, in a
  /// plane that had incoming traffic since its last probe and no outgoing data in the interval.
  [[nodiscard]] PathIndex poll_probe(Time now, const PathSet& paths, Random& random) noexcept {
    if (now < next_probe()) return kNoPath;
    next_ = now + interval_;
    // Planes confirmed by own data, or unusable, are considered again only after new traffic.
    inbound_ &= ~outbound_ & paths.usable_planes();
    outbound_ = 0;
    if (inbound_ == 0) return kNoPath;
    const Plane plane = next_plane();
    inbound_ &= ~plane_bit(plane);
    if (unanswered_[plane] >= options_.max_unanswered)
      forget(plane);
    else
      ++unanswered_[plane];
    // Where most paths are dead, unanswered probes of other paths give no information about the one
    // in use: every second probe tests that one.
    const PathIndex used = reverse_[plane];
    if (used != kNoPath && unanswered_[plane] % 2 == 0 && fits(used, plane, paths)) return used;
    return paths.random_usable(plane, random);
  }

  // ---- getters

  /// The plane's confirmed path, or kNoPath.
  [[nodiscard]] PathIndex confirmed(Plane plane) const noexcept {
    return plane < kMaxPlanes ? reverse_[plane] : kNoPath;
  }
  /// The plane's confirmed path if it was confirmed while it was ASSUMED_BAD, or kNoPath.
  [[nodiscard]] PathIndex answered_though_bad(Plane plane, const PathSet& paths) const noexcept {
    const bool despite = plane < kMaxPlanes && (despite_ & plane_bit(plane)) != 0;
    return despite && fits(reverse_[plane], plane, paths) ? reverse_[plane] : kNoPath;
  }

 private:
  /// Is a path known to work? The newest probe may be under way.
  [[nodiscard]] bool works(Plane plane) const noexcept {
    return reverse_[plane] != kNoPath && unanswered_[plane] <= 1;
  }
  void forget(Plane plane) noexcept {
    reverse_[plane] = kNoPath;
    known_ &= ~plane_bit(plane);
    despite_ &= ~plane_bit(plane);
  }
  /// Whether the path is still usable: its entry may have been replaced or changed health
  /// meanwhile.
  [[nodiscard]] bool fits(PathIndex path, Plane plane, const PathSet& paths) const noexcept {
    if (path >= paths.size() || paths[path].plane != plane) return false;
    const Health health = paths.health(path);
    return usable(health) || (health == Health::assumed_bad && (despite_ & plane_bit(plane)) != 0);
  }
  [[nodiscard]] static Plane random_plane(PlaneMask mask, Random& random) noexcept {
    for (auto n = random.below(static_cast<std::uint32_t>(std::popcount(mask))); n > 0; --n)
      mask &= mask - 1;
    return static_cast<Plane>(std::countr_zero(mask));
  }
  /// The next plane with incoming traffic after the one probed last.
  [[nodiscard]] Plane next_plane() noexcept {
    const PlaneMask after = inbound_ & ~(plane_bit(last_) | (plane_bit(last_) - 1));
    last_ = static_cast<Plane>(std::countr_zero(after != 0 ? after : inbound_));
    return last_;
  }

  ReverseSetOptions options_;
  Duration interval_;
  Time next_ = Time::min();
  PlaneMask inbound_ = 0;   ///< traffic came in since the plane's last probe
  PlaneMask outbound_ = 0;  ///< own data went out in this interval
  PlaneMask known_ = 0;     ///< planes with a confirmed path
  PlaneMask despite_ = 0;   ///< of these, those whose path was confirmed while it was ASSUMED_BAD
  Plane last_ = kMaxPlanes - 1;
  std::uint32_t next_path_ = 0;  ///< where pick_again() goes on
  std::array<PathIndex, kMaxPlanes> reverse_;
  std::array<std::uint8_t, kMaxPlanes> unanswered_{};  ///< consecutive unanswered probes
};

}  // namespace mrc::inline v0_1::path
