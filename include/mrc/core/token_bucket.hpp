// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "mrc/core/time.hpp"

namespace mrc::inline v0_1 {

/// Limits how often something is done: `rate` times per second on average, and `burst` times at
/// once. One thread at a time.
class TokenBucket {
 public:
  /// Full at first. Both at least 1; `rate` at most 10^9.
  constexpr TokenBucket(std::uint32_t rate, std::uint32_t burst) noexcept
      : TokenBucket(std::chrono::nanoseconds(1'000'000'000 / rate), burst) {}
  /// The same, by the time in which one token arrives: for what is done less than once per second.
  constexpr TokenBucket(Duration interval, std::uint32_t burst) noexcept
      : interval_(interval), depth_(interval_ * burst) {}

  /// May it be done now? If so, it counts as done.
  constexpr bool take(Time now) noexcept {
    const Time earliest = now - depth_;  // a bucket that has been full since
    const Time from = std::max(spent_, earliest);
    if (from + interval_ > now) return false;
    spent_ = from + interval_;
    return true;
  }

 private:
  Duration interval_;                       ///< in which one token arrives
  Duration depth_;                          ///< in which the bucket fills
  Time spent_ = Time{Duration::min() / 2};  ///< tokens up to this time are used
};

}  // namespace mrc::inline v0_1
