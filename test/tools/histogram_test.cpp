// SPDX-License-Identifier: Apache-2.0
#include "histogram.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "mrc/core/random.hpp"

using mrc::Duration;
using mrc::Histogram;
using namespace std::chrono_literals;

namespace histogram_test {

double relative_error(Duration measured, Duration exact) {
  return std::abs(static_cast<double>((measured - exact).count())) /
         static_cast<double>(std::max<Duration::rep>(exact.count(), 1));
}

TEST_CASE("histogram: an empty one answers zero") {
  const Histogram h;
  CHECK(h.count() == 0);
  CHECK(h.min() == 0ns);
  CHECK(h.max() == 0ns);
  CHECK(h.mean() == 0ns);
  CHECK(h.percentile(99) == 0ns);
}

TEST_CASE("histogram: a single value at every magnitude comes back within 1 %") {
  for (Duration v = 1ns; v < 1000s; v = v * 17 / 16 + 1ns) {
    Histogram h;
    h.record(v - v / 3);
    h.record(v);
    h.record(v + v / 3);
    REQUIRE(relative_error(h.percentile(50), v) <= 0.01);
  }
}

TEST_CASE("histogram: percentiles of a wide distribution are within 2 % of the sorted values") {
  mrc::Random random(3);
  Histogram h;
  std::vector<Duration> sorted;
  double sum = 0;
  for (int i = 0; i < 50'000; ++i) {
    const Duration v{static_cast<Duration::rep>(random.next() >> (25 + random.below(36)))};
    h.record(v);
    sorted.push_back(v);
    sum += static_cast<double>(v.count());
  }
  std::sort(sorted.begin(), sorted.end());
  for (const double p : {0.0, 1.0, 10.0, 50.0, 90.0, 99.0, 99.9, 99.99, 100.0}) {
    CAPTURE(p);
    const auto rank = static_cast<std::size_t>(std::ceil(50'000 * p / 100));
    const Duration exact = sorted[std::max<std::size_t>(rank, 1) - 1];
    CHECK(relative_error(h.percentile(p), exact) <= 0.02);
  }
  CHECK(h.min() == sorted.front());
  CHECK(h.max() == sorted.back());
  CHECK(h.percentile(0) == sorted.front());
  CHECK(h.percentile(100) == sorted.back());
  CHECK(h.percentile(1e9) == sorted.back());
  CHECK(h.percentile(std::nan("")) == sorted.front());
  CHECK(relative_error(h.mean(), Duration{std::llround(sum / 50'000)}) < 1e-9);
}

TEST_CASE("histogram: out-of-range values are clamped") {
  Histogram h;
  h.record(-5ns);
  h.record(Duration::max());
  h.record(Duration::min());
  CHECK(h.count() == 3);
  CHECK(h.min() == 0ns);
  CHECK(h.max() == 1000s);
  CHECK(h.percentile(50) == 0ns);
}

TEST_CASE("histogram: merge is as if all had been recorded in one") {
  mrc::Random random(9);
  Histogram a, b, all;
  for (int i = 0; i < 10'000; ++i) {
    const Duration v{random.below(1'000'000)};
    (i % 3 == 0 ? a : b).record(v);
    all.record(v);
  }
  a.merge(b);
  a.merge(Histogram{});
  CHECK(a.count() == all.count());
  CHECK(a.min() == all.min());
  CHECK(a.max() == all.max());
  CHECK(a.mean() == all.mean());
  for (double p = 0; p <= 100; p += 2.5) CHECK(a.percentile(p) == all.percentile(p));
  a.clear();
  CHECK(a.count() == 0);
  CHECK(a.max() == 0ns);
}

TEST_CASE("histogram: stays small") {
  CHECK(sizeof(Histogram) <= 18 * 1024);
}

}  // namespace histogram_test
