// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>

namespace mrc::inline v0_1 {

/// A span of time in nanoseconds, signed.
using Duration = std::chrono::nanoseconds;

/// The clock that time points belong to. It has no now(): the engine takes the time as an argument,
/// CLOCK_MONOTONIC with real ports and virtual time in the simulator.
struct Clock {
  /// As std::chrono requires of a clock, like the names below.
  using duration = Duration;
  /// Integer type of the count.
  using rep = duration::rep;
  /// Nanoseconds.
  using period = duration::period;
  /// A point in time of this clock.
  using time_point = std::chrono::time_point<Clock, duration>;
  /// Time never goes back.
  static constexpr bool is_steady = true;
};

/// A point in time, in nanoseconds since an origin that the caller chooses.
using Time = Clock::time_point;

/// The deadline of a timer that is not running.
inline constexpr Time kNever = Time::max();

/// Real time for programs and ports (CLOCK_MONOTONIC). Not called by the engine.
[[nodiscard]] inline Time monotonic_now() noexcept {
  return Time{
      std::chrono::duration_cast<Duration>(std::chrono::steady_clock::now().time_since_epoch())};
}

}  // namespace mrc::inline v0_1
