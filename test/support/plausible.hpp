// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>

namespace mrc::test {

/// Within five standard deviations of the mean of n draws with probability p.
[[nodiscard]] inline bool plausible(std::uint64_t hits, double n, double p) {
  return std::abs(static_cast<double>(hits) - n * p) <= 5 * std::sqrt(n * p * (1 - p));
}

}  // namespace mrc::test
