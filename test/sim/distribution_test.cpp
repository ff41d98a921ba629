// SPDX-License-Identifier: Apache-2.0
#include "mrc_sim/distribution.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

#include "mrc/core/random.hpp"

using mrc::Duration;
using mrc::tools::distribution;
using mrc::tools::DistributionPoint;
using Points = std::vector<DistributionPoint>;

namespace distribution_test {

Points of(const std::vector<int>& sorted, std::size_t resolution = 1000) {
  std::vector<Duration> samples;
  for (const int ns : sorted) samples.emplace_back(ns);
  return distribution(samples, resolution);
}

TEST_CASE("distribution: from the smallest sample at 0 % to the largest at 100 %") {
  CHECK(of({}).empty());
  CHECK(of({7}) == Points{{Duration{7}, 0}, {Duration{7}, 100}});
  CHECK(of({7, 7, 7}) == Points{{Duration{7}, 0}, {Duration{7}, 100}});
  CHECK(of({1, 2, 2, 3}) ==
        Points{{Duration{1}, 0}, {Duration{1}, 25}, {Duration{2}, 75}, {Duration{3}, 100}});
}

TEST_CASE("distribution: many values become few points, each of them exact") {
  mrc::Random random(1);
  std::vector<Duration> samples;
  for (int i = 0; i < 100'000; ++i) samples.emplace_back(random.below(1'000'000'000));
  samples.emplace_back(5'000'000'000);  // the slowest by far
  std::sort(samples.begin(), samples.end());
  for (const std::size_t resolution : {1, 10, 1000}) {
    const Points points = distribution(samples, resolution);
    CHECK(points.size() <= resolution + 2);
    CHECK(points.front() == DistributionPoint{samples.front(), 0});
    CHECK(points.back() == DistributionPoint{Duration{5'000'000'000}, 100});
    for (std::size_t i = 1; i < points.size(); ++i) {
      const auto at_most =
          std::upper_bound(samples.begin(), samples.end(), points[i].value) - samples.begin();
      CHECK(points[i].percent == doctest::Approx(100.0 * static_cast<double>(at_most) / 100'001));
      // No gap is wider than the resolution and the next value.
      CHECK(points[i].percent - points[i - 1].percent <=
            100.0 / static_cast<double>(resolution) + 0.002);
    }
  }
}

TEST_CASE("distribution: a value that many samples have is kept, whatever the resolution") {
  std::vector<int> samples(1000, 50);
  samples.insert(samples.begin(), {10, 20, 30});
  CHECK(of(samples, 2) ==
        Points{{Duration{10}, 0}, {Duration{10}, 100.0 / 1003}, {Duration{50}, 100}});
}

}  // namespace distribution_test
