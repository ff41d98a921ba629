// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "mrc/core/types.hpp"

namespace mrc::inline v0_1::engine {

/// Gives turns to those who want to send something that is not urgent: so many per second, after a
/// burst of a sixth as many, but of kLeastBurst at least. A turn is a time in the future, each is
/// given once, so that thousands who wait need not ask again. One thread.
class ProbePacer {
 public:
  /// A burst lets a few peers begin at once, whatever the rate.
  static constexpr std::uint32_t kLeastBurst = 64;

  /// `rate`: turns per second; 0: no limit.
  explicit ProbePacer(std::uint32_t rate) noexcept
      : interval_(rate == 0 ? 0 : std::chrono::nanoseconds(std::chrono::seconds(1)).count() / rate),
        burst_(interval_ * std::max(rate / 6, kLeastBurst)) {}

  /// The first free turn, now or later.
  [[nodiscard]] Time take(Time now) noexcept {
    const Time turn = std::max(now, spent_until_ - burst_);
    spent_until_ = std::max(spent_until_, now) + interval_;
    return turn;
  }

 private:
  Duration interval_;
  Duration burst_;
  Time spent_until_{};  ///< the turns until then are given, and a burst
};

}  // namespace mrc::inline v0_1::engine
