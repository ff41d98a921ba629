// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

#include "mrc/core/time.hpp"

/// The two quantities that every congestion control algorithm keeps. One thread at a time.
namespace mrc::inline v0_1::cc {

/// Bytes on their way (mrc-1.0 §6.2). Signed: responders report received bytes rounded up to 256 B,
/// so an idle account rests a little below zero, and must be allowed to: lifting it to zero each
/// time would add up. It saturates instead of wrapping, whatever a peer claims to have received.
class Inflight {
 public:
  /// The rounding (255 B) of 65,536 queue pairs that share a context. Below that a peer lies, and
  /// gains nothing by it.
  static constexpr std::int64_t kLowest = -255 * 65'536;
  static constexpr std::int64_t kHighest = std::int64_t{1} << 48;

  void add(std::uint32_t bytes) noexcept { bytes_ = std::min(bytes_ + bytes, kHighest); }
  void subtract(std::uint64_t bytes) noexcept {
    const auto n = static_cast<std::int64_t>(std::min<std::uint64_t>(bytes, kHighest));
    bytes_ = std::max(bytes_ - n, kLowest);
  }
  [[nodiscard]] std::int64_t bytes() const noexcept { return bytes_; }

 private:
  std::int64_t bytes_ = 0;
};

/// The round trip without queues: configured, then the least that was measured (mrc-1.0 §6.3).
class BaseRtt {
 public:
  /// Samples beyond this say nothing about a network (a host slept) and are refused.
  static constexpr Duration kLargest = std::chrono::seconds(1);

  /// Measurements lower `configured`, but not under `floor`.
  constexpr BaseRtt(Duration configured, Duration floor) noexcept
      : value_(configured), floor_(floor) {}

  /// Whether `rtt` can be a round trip at all.
  [[nodiscard]] static constexpr bool plausible(Duration rtt) noexcept {
    return rtt > Duration::zero() && rtt <= kLargest;
  }
  /// Takes a plausible sample; true if it lowered the value.
  constexpr bool observe(Duration rtt) noexcept {
    const Duration candidate = std::max(rtt, floor_);
    if (candidate >= value_) return false;
    value_ = candidate;
    return true;
  }
  [[nodiscard]] constexpr Duration value() const noexcept { return value_; }

 private:
  Duration value_;
  Duration floor_;
};

}  // namespace mrc::inline v0_1::cc
