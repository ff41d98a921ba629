// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "mrc/core/types.hpp"

namespace mrc::tools {

/// A point of a cumulative distribution: `percent` of the samples are at most `value`.
struct DistributionPoint {
  Duration value{};
  double percent = 0;

  friend bool operator==(const DistributionPoint&, const DistributionPoint&) = default;
};

/// The cumulative distribution of samples in ascending order, from the smallest one at 0 % to the
/// largest one at 100 %. Every point is exact. There are at most `resolution` + 2 of them: among
/// many distinct values, those closer than 100 / `resolution` % to the last point are left out.
[[nodiscard]] inline std::vector<DistributionPoint> distribution(std::span<const Duration> sorted,
                                                                 std::size_t resolution = 1000) {
  std::vector<DistributionPoint> points;
  if (sorted.empty()) return points;
  points.push_back({sorted.front(), 0});
  const std::size_t count = sorted.size();
  const double step = static_cast<double>(count) / static_cast<double>(resolution);
  double next = std::min(step, 1.0);  // the first value always
  for (std::size_t i = 0; i < count; ++i) {
    const bool last = i + 1 == count;
    if (!last && sorted[i + 1] == sorted[i]) continue;
    const auto below = static_cast<double>(i + 1);
    if (!last && below < next) continue;
    points.push_back({sorted[i], 100 * below / static_cast<double>(count)});
    next = below + step;
  }
  return points;
}

}  // namespace mrc::tools
