// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

#include "mrc/core/types.hpp"

namespace mrc::inline v0_1::sim::baseline {

/// The rate limiter of one queue pair: spaces the starts of packets by the time that the earlier
/// one takes at the set rate. In whole picoseconds, since at 800 Gb/s a packet takes 41.8 ns. A
/// packet that is late because the port was busy with another queue pair does not lower the rate:
/// up to one packet's time is credited. No further credit accrues: after idling, a queue pair sends
/// at most two packets back to back.
///
/// Times lie between 0 and 100 days. A plain value; one thread at a time.
class Pacer {
 public:
  /// Sets the rate in bits/s; 0: no limit. Also applies to the wait in progress.
  void set_rate(std::uint64_t bits_per_second) noexcept {
    if (rate_ == bits_per_second) return;
    rate_ = bits_per_second;
    gap_ = gap();
  }
  /// The rate in bits/s; 0: no limit.
  [[nodiscard]] std::uint64_t rate() const noexcept { return rate_; }

  /// When the next packet may start, rounded up to a nanosecond; immediately if not after now.
  [[nodiscard]] Time ready() const noexcept {
    return Time{Duration{(start_ + gap_ + kPerNs - 1) / kPerNs}};
  }

  /// A packet of this many bytes on the wire starts, not before ready().
  void on_send(Time now, std::uint32_t wire_bytes) noexcept {
    // ready() rounds up by less than a nanosecond, which is credited too.
    const std::int64_t credit = std::max(gap_, kPerNs);
    start_ = std::max(start_ + gap_, now.time_since_epoch().count() * kPerNs - credit);
    bits_ = std::uint64_t{wire_bytes} * 8;
    gap_ = gap();
  }

 private:
  static constexpr std::int64_t kPerNs = 1000;  // picoseconds
  static constexpr std::uint64_t kPerSecond = 1'000'000'000'000;

  // Rounded up: the rate is never exceeded. Packets are under 2^20 bytes, so nothing overflows.
  [[nodiscard]] std::int64_t gap() const noexcept {
    return rate_ == 0 ? 0 : static_cast<std::int64_t>((bits_ * kPerSecond + rate_ - 1) / rate_);
  }

  std::uint64_t rate_ = 0, bits_ = 0;  // bits/s; size of the last packet
  std::int64_t start_ = 0, gap_ = 0;   // ps: start of the last packet, time that it takes
};

}  // namespace mrc::inline v0_1::sim::baseline
