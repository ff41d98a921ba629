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
  /// Probes of a plane in a row without an answer after which its reverse path is forgotten.
  std::uint8_t max_unanswered = 8;
};

/// Paths for what answers a peer: SACK, NACK, Transport ACK (mrc-1.0 §3.6, [O-18]). For each plane
/// the path that worked last. Own data keeps this current: each SACK for it names a working path.
/// In a plane where traffic comes in but none goes out, a probe on a random path per interval
/// finds one; planes take turns. While probes go unanswered, every second one goes by the path in
/// use, which is forgotten after max_unanswered. Nothing is probed while nothing comes in.
///
/// One per destination, beside its PathSet, which is passed in where needed (the same one always).
/// No allocation. A few nanoseconds per call. One thread at a time.
class ReverseSet {
 public:
  /// Throws mrc::Error (invalid_argument) when the interval or the limit is not above 0.
  explicit ReverseSet(const ReverseSetOptions& options = {})
      : options_(options), interval_(options.probe_floor) {
    if (options.probe_floor <= Duration::zero())
      throw Error(Errc::invalid_argument, "reverse set: probe_floor must be above 0");
    if (options.max_unanswered == 0)
      throw Error(Errc::invalid_argument, "reverse set: max_unanswered must be above 0");
    reverse_.fill(kNoPath);
  }

  /// A path for an answer to a packet that came in by `preferred`: of that plane if it is up and
  /// in `free`, else of any such plane, those with a confirmed path first. In the plane, the
  /// confirmed path, else a random usable one. kNoPath when no plane will do.
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

  // ---- inputs

  /// The path works: a SACK reflected it, or a probe on it was answered.
  void on_working(PathIndex path, Time, const PathSet& paths) noexcept {
    if (path >= paths.size()) return;
    const Plane plane = paths[path].plane;
    reverse_[plane] = path;
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
  /// Packets of the peer came in by this plane; once per packet or per burst.
  void on_inbound(Plane plane, Time now) noexcept {
    if (plane >= kMaxPlanes) return;
    // After silence a whole interval passes first: own data may be about to answer the question.
    if (inbound_ == 0 && next_ <= now) {
      outbound_ = 0;
      next_ = now + interval_;
    }
    inbound_ |= plane_bit(plane);
  }
  /// Own data to the peer went out by this plane: its SACKs do what probes would.
  void on_outbound(Plane plane, Time) noexcept {
    if (plane < kMaxPlanes) outbound_ |= plane_bit(plane);
  }
  /// The round-trip time, if it is longer than the floor, is the interval between probes (values
  /// over a minute are cut to that).
  void set_rtt(Duration rtt) noexcept {
    interval_ = std::max(options_.probe_floor, std::min<Duration>(rtt, std::chrono::minutes{1}));
  }

  // ---- probes

  /// When poll_probe() is to be called next; kNever when nothing came in since the last probes.
  [[nodiscard]] Time next_probe() const noexcept { return inbound_ == 0 ? kNever : next_; }

  /// The path to probe now, or kNoPath; the call counts as sending the probe. One probe per
  /// interval, in a plane that had inbound traffic since its last probe and no outbound traffic in
  /// the interval.
  [[nodiscard]] PathIndex poll_probe(Time now, const PathSet& paths, Random& random) noexcept {
    if (now < next_probe()) return kNoPath;
    next_ = now + interval_;
    // What own data covers, or what can't be reached, needs traffic again to be looked at again.
    inbound_ &= ~outbound_ & paths.usable_planes();
    outbound_ = 0;
    if (inbound_ == 0) return kNoPath;
    const Plane plane = next_plane();
    inbound_ &= ~plane_bit(plane);
    if (unanswered_[plane] >= options_.max_unanswered)
      forget(plane);
    else
      ++unanswered_[plane];
    // Where most paths are dead, silence on others says nothing of the one in use: every second
    // probe asks about that one.
    const PathIndex used = reverse_[plane];
    if (used != kNoPath && unanswered_[plane] % 2 == 0 && fits(used, plane, paths)) return used;
    return paths.random_usable(plane, random);
  }

  // ---- getters

  /// The plane's confirmed path, or kNoPath.
  [[nodiscard]] PathIndex confirmed(Plane plane) const noexcept {
    return plane < kMaxPlanes ? reverse_[plane] : kNoPath;
  }

 private:
  void forget(Plane plane) noexcept {
    reverse_[plane] = kNoPath;
    known_ &= ~plane_bit(plane);
  }
  /// Still good for use: an entry can be replaced or lose its health behind our back.
  [[nodiscard]] static bool fits(PathIndex path, Plane plane, const PathSet& paths) noexcept {
    return path < paths.size() && paths[path].plane == plane && usable(paths.health(path));
  }
  [[nodiscard]] static Plane random_plane(PlaneMask mask, Random& random) noexcept {
    for (auto n = random.below(static_cast<std::uint32_t>(std::popcount(mask))); n > 0; --n)
      mask &= mask - 1;
    return static_cast<Plane>(std::countr_zero(mask));
  }
  /// The next plane with inbound traffic after the one probed last.
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
  Plane last_ = kMaxPlanes - 1;
  std::array<PathIndex, kMaxPlanes> reverse_;
  std::array<std::uint8_t, kMaxPlanes> unanswered_{};  ///< probes since the last confirmation
};

}  // namespace mrc::inline v0_1::path
