// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>

#include "mrc/core/types.hpp"

namespace mrc::inline v0_1::path::detail {

/// Limits planes that have lost some of their paths while others have all of theirs.
///
/// Where the host's ports are the limit, such a plane gets too much: each destination sends it a
/// little less, so its port is free most often, and takes what comes next from any of them. The
/// paths that are left are then overloaded (docs/results.md, 10). So while packets in the plane are
/// marked, it may carry a sixteenth less per path than the planes that are whole do on average: the
/// queues that have grown have to drain.
///
/// Progress is counted in passes over a plane's paths, as SprayOrder does: the turn of a path that
/// is passed over (SKIP) counts as well. One thread at a time.
class PlaneShares {
 public:
  static constexpr std::uint64_t kPass = std::uint64_t{1} << 32;  ///< progress: one pass

  /// What a step in `plane` adds to its progress.
  void set_step(unsigned plane, std::uint64_t progress) noexcept {
    planes_[plane].step = static_cast<std::int64_t>(progress);
  }

  /// The planes with paths, and those of them that have lost some.
  void set(PlaneMask planes, PlaneMask reduced) noexcept {
    reduced &= planes;
    if (reduced == planes) reduced = 0;
    for (PlaneMask m = reduced & ~reduced_; m != 0; m &= m - 1)
      planes_[static_cast<unsigned>(std::countr_zero(m))].behind = 0;
    reduced_ = reduced;
    whole_ = static_cast<std::uint32_t>(std::popcount(planes & ~reduced));
  }

  /// Some planes have lost paths, others have not: steps have to be counted.
  [[nodiscard]] bool apply() const noexcept { return reduced_ != 0; }

  /// A step was made in `plane`.
  void count_step(unsigned plane) noexcept {
    const std::int64_t step = planes_[plane].step;
    if ((reduced_ >> plane & 1) == 0) {
      const std::int64_t credit = (step - step / 16) / whole_;
      for (PlaneMask m = reduced_; m != 0; m &= m - 1) {
        State& s = planes_[static_cast<unsigned>(std::countr_zero(m))];
        s.behind = std::min(s.behind + credit, s.step);
      }
      return;
    }
    State& s = planes_[plane];
    s.behind = std::max(s.behind - step, -kMostAhead * step);
    s.calm = std::min(s.calm + step, kCalm);
  }

  /// A packet sent in `plane` was marked.
  void on_mark(Plane plane) noexcept { planes_[plane].calm = 0; }

  /// Those of `planes` that may carry a new packet.
  [[nodiscard]] PlaneMask within_limits(PlaneMask planes) const noexcept {
    PlaneMask ahead = 0;
    for (PlaneMask m = planes & reduced_; m != 0; m &= m - 1) {
      const auto p = static_cast<Plane>(std::countr_zero(m));
      if (planes_[p].behind <= 0 && planes_[p].calm < kCalm) ahead |= plane_bit(p);
    }
    return planes & ~ahead;
  }

 private:
  static constexpr std::int64_t kMostAhead = 64;     ///< steps that it makes up for, at most
  static constexpr std::int64_t kCalm = kPass << 6;  ///< progress without a mark that ends a limit

  struct State {
    std::int64_t step = 0;      ///< progress of one step
    std::int64_t behind = 0;    ///< progress it may still make; negative: it has made too much
    std::int64_t calm = kCalm;  ///< progress since the last mark, while reduced
  };

  std::array<State, kMaxPlanes> planes_{};
  PlaneMask reduced_ = 0;
  std::uint32_t whole_ = 0;  ///< number of planes that have all their paths
};

}  // namespace mrc::inline v0_1::path::detail
