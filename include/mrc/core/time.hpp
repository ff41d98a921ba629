// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>

namespace mrc::inline v0_1 {

/// A span of time in nanoseconds, signed.
using Duration = std::chrono::nanoseconds;

/// The clock that time points belong to. It has no now(): the engine never asks for the time, it
/// is told. A port passes CLOCK_MONOTONIC, the simulator its virtual time.
struct Clock {
  /// As std::chrono asks of a clock.
  using duration = Duration;
  /// As std::chrono asks of a clock.
  using rep = duration::rep;
  /// As std::chrono asks of a clock.
  using period = duration::period;
  /// As std::chrono asks of a clock.
  using time_point = std::chrono::time_point<Clock, duration>;
  /// Never goes back.
  static constexpr bool is_steady = true;
};

/// A point in time, in nanoseconds since an origin that the caller chooses.
using Time = Clock::time_point;

/// "Never": the deadline of something that has no timer running.
inline constexpr Time kNever = Time::max();

/// Real time for programs and ports (CLOCK_MONOTONIC). Never called by the engine.
[[nodiscard]] inline Time monotonic_now() noexcept {
  return Time{
      std::chrono::duration_cast<Duration>(std::chrono::steady_clock::now().time_since_epoch())};
}

}  // namespace mrc::inline v0_1
