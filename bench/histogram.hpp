// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "mrc/core/types.hpp"

namespace mrc {

/// A latency histogram of fixed size (about 17 KiB): exact below 64 ns, then 64 buckets for each
/// doubling up to 1000 s. A percentile is off by at most 0.8 % of its value; minimum, maximum and
/// mean are exact. Values outside 0 .. 1000 s are clamped. record() takes a few nanoseconds and
/// does not allocate. One thread at a time; merge() joins the histograms of several.
class Histogram {
 public:
  /// Larger values are recorded as this.
  static constexpr Duration kLargest = std::chrono::seconds(1000);

  /// Adds one value.
  void record(Duration value) noexcept {
    const auto ns =
        static_cast<std::uint64_t>(std::clamp(value, Duration::zero(), kLargest).count());
    ++buckets_[bucket_of(ns)];
    ++count_;
    sum_ += static_cast<double>(ns);
    min_ = std::min(min_, ns);
    max_ = std::max(max_, ns);
  }

  /// Number of values recorded.
  [[nodiscard]] std::uint64_t count() const noexcept { return count_; }
  /// Smallest value; zero when nothing was recorded, as are max(), mean() and percentile().
  [[nodiscard]] Duration min() const noexcept { return count_ == 0 ? Duration{0} : as_time(min_); }
  /// Largest value.
  [[nodiscard]] Duration max() const noexcept { return as_time(max_); }
  /// Arithmetic mean, rounded to nanoseconds.
  [[nodiscard]] Duration mean() const noexcept {
    return count_ == 0 ? Duration{0} : Duration{std::llround(sum_ / static_cast<double>(count_))};
  }

  /// The `p`-th percentile (p: 0 .. 100) by nearest rank.
  [[nodiscard]] Duration percentile(double p) const noexcept {
    if (count_ == 0) return Duration{0};
    const double rank = std::ceil(static_cast<double>(count_) * (p > 0 ? p : 0) / 100.0);
    if (rank <= 1) return min();
    if (rank >= static_cast<double>(count_)) return max();
    auto left = static_cast<std::uint64_t>(rank);
    for (std::size_t i = 0; i < kBuckets; ++i) {
      if (buckets_[i] >= left) return as_time(std::clamp(middle_of(i), min_, max_));
      left -= buckets_[i];
    }
    return max();
  }

  /// Adds everything that `other` recorded.
  void merge(const Histogram& other) noexcept {
    for (std::size_t i = 0; i < kBuckets; ++i) buckets_[i] += other.buckets_[i];
    count_ += other.count_;
    sum_ += other.sum_;
    min_ = std::min(min_, other.min_);
    max_ = std::max(max_, other.max_);
  }

  /// Removes all values.
  void clear() noexcept { *this = Histogram{}; }

 private:
  // Values below 2^kPrecision have a bucket each; a value with highest bit h keeps its top
  // kPrecision + 1 bits, so its bucket is 2^(h - kPrecision) wide.
  static constexpr unsigned kPrecision = 6;
  static constexpr std::uint64_t kExact = std::uint64_t{1} << kPrecision;

  [[nodiscard]] static constexpr std::size_t bucket_of(std::uint64_t ns) noexcept {
    if (ns < kExact) return static_cast<std::size_t>(ns);
    const auto drop = static_cast<unsigned>(std::bit_width(ns)) - 1 - kPrecision;
    return static_cast<std::size_t>(drop * kExact + (ns >> drop));
  }
  [[nodiscard]] static constexpr std::uint64_t middle_of(std::size_t bucket) noexcept {
    if (bucket < kExact) return bucket;
    const auto drop = bucket / kExact - 1;
    return ((bucket - drop * kExact) << drop) + ((std::uint64_t{1} << drop) >> 1);
  }
  [[nodiscard]] static constexpr Duration as_time(std::uint64_t ns) noexcept {
    return Duration{static_cast<Duration::rep>(ns)};
  }

  static constexpr unsigned kHighestBit = 39;  // of 1000 s in ns
  static constexpr std::size_t kBuckets = (kHighestBit - kPrecision + 2) * kExact;
  static_assert(std::bit_width(static_cast<std::uint64_t>(kLargest.count())) - 1 == kHighestBit);

  std::array<std::uint64_t, kBuckets> buckets_{};
  std::uint64_t count_ = 0;
  double sum_ = 0;
  std::uint64_t min_ = static_cast<std::uint64_t>(kLargest.count());
  std::uint64_t max_ = 0;
};

}  // namespace mrc
