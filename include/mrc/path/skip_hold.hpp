// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "mrc/core/types.hpp"
#include "mrc/path/path_entry.hpp"

namespace mrc::inline v0_1::path::detail {

/// How long a marked path stays SKIP (mrc-1.0 §3.4, [O-25]). One turn, in general: a queue that is
/// long for a moment marks every path now and then, and what is skipped is as good as the rest. But
/// a path that gets far more marks than the others leads over a link that others need. It is
/// skipped for a round trip, before which no mark can tell what skipping it has changed, and for
/// twice as long each time it is marked again soon after.
///
/// A mark counts less with time: half after kHalfLife round trips. Integers only, so that
/// simulations give the same on every machine. Allocates in the constructor only. One thread at a
/// time.
class SkipHold {
 public:
  /// Room for paths 0 .. paths-1. `marks`: a path with fewer recent marks is never held; 0: none
  /// is.
  SkipHold(std::size_t paths, unsigned marks) : paths_(paths), least_(marks * kOne) {}

  /// A mark or trim has made the path SKIP. `rtt`: round-trip time; `in_use`: paths that share the
  /// traffic.
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
  /// Whether the path is to be skipped although its turn has come.
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

  /// Adds a mark to what is left of the former ones: within a half-life they fade linearly.
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

}  // namespace mrc::inline v0_1::path::detail
