// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "mrc/core/types.hpp"

namespace mrc::inline v0_1::sim {

/// The `p`-th percentile (p: 0 .. 100) of `sorted` by nearest rank (exact: one of its elements).
/// Zero if empty. `sorted` must be in ascending order.
[[nodiscard]] inline Duration percentile(std::span<const Duration> sorted, double p) noexcept {
  if (sorted.empty()) return Duration{};
  const double n = static_cast<double>(sorted.size());
  const double exact = std::clamp(p, 0.0, 100.0) * n / 100.0;
  auto rank = static_cast<std::size_t>(exact);
  if (static_cast<double>(rank) < exact) ++rank;
  return sorted[std::clamp<std::size_t>(rank, 1, sorted.size()) - 1];
}

/// Arithmetic mean, rounded down to whole nanoseconds. Zero if empty.
[[nodiscard]] inline Duration mean(std::span<const Duration> times) noexcept {
  Duration sum{};
  for (const Duration t : times) sum += t;
  return times.empty() ? sum : sum / static_cast<Duration::rep>(times.size());
}

/// Bytes in a time as Gb/s (10^9 bits per second). Zero if the time is not positive.
[[nodiscard]] inline double gbps(double bytes, Duration time) noexcept {
  return time > Duration{} ? bytes * 8.0 / static_cast<double>(time.count()) : 0.0;
}

/// Jain's fairness index: 1 when all shares are equal, 1/n when one has everything. 1 if empty or
/// all zero.
[[nodiscard]] inline double jain_index(std::span<const double> shares) noexcept {
  double sum = 0, squares = 0;
  for (const double share : shares) {
    sum += share;
    squares += share * share;
  }
  return squares > 0 ? sum * sum / (static_cast<double>(shares.size()) * squares) : 1.0;
}

}  // namespace mrc::inline v0_1::sim
