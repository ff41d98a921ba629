// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

#include "mrc/cc/host_link.hpp"
#include "mrc/core/types.hpp"

/// The two quantities that every congestion control algorithm maintains. One thread at a time.
namespace mrc::inline v0_1::cc {

/// Bytes in flight (mrc-1.0 §6.2): those of the packets that are outstanding by the sender's own
/// records, so an idle connection has none. It saturates instead of wrapping, whatever it is given.
class Inflight {
 public:
  /// Lower bound of bytes().
  static constexpr std::int64_t kLowest = 0;
  /// Upper bound of bytes().
  static constexpr std::int64_t kHighest = std::int64_t{1} << 48;

  /// From now on counts as a destination of `link` while there are bytes in flight. To be called
  /// before there are any; the link must outlive this object.
  void share(HostLink& link) noexcept { link_ = &link; }
  /// The link shared with others; nullptr: not known.
  [[nodiscard]] const HostLink* link() const noexcept { return link_; }

  /// Adds sent bytes.
  void add(std::uint32_t bytes) noexcept {
    if (bytes_ == 0 && bytes > 0 && link_ != nullptr) link_->enter();
    bytes_ = std::min(bytes_ + bytes, kHighest);
  }
  /// Subtracts bytes that were received, lost or refused.
  void subtract(std::uint64_t bytes) noexcept {
    if (bytes_ == 0) return;
    const auto n = static_cast<std::int64_t>(std::min<std::uint64_t>(bytes, kHighest));
    bytes_ = std::max(bytes_ - n, kLowest);
    if (bytes_ == 0 && link_ != nullptr) link_->leave();
  }
  /// Bytes in flight, in [kLowest, kHighest].
  [[nodiscard]] std::int64_t bytes() const noexcept { return bytes_; }

 private:
  std::int64_t bytes_ = 0;
  HostLink* link_ = nullptr;
};

/// Round-trip time without queueing: the configured value, then the smallest measured one (mrc-1.0
/// §6.3).
class BaseRtt {
 public:
  /// Longer samples are rejected: they measure a stalled host, not the network.
  static constexpr Duration kLargest = std::chrono::seconds(1);

  /// Measurements lower `configured`, but not below `floor`.
  constexpr BaseRtt(Duration configured, Duration floor) noexcept
      : value_(configured), floor_(floor) {}

  /// Whether `rtt` can be a round-trip time.
  [[nodiscard]] static constexpr bool plausible(Duration rtt) noexcept {
    return rtt > Duration::zero() && rtt <= kLargest;
  }
  /// Adds a plausible sample; true if it lowered the value.
  constexpr bool observe(Duration rtt) noexcept {
    const Duration candidate = std::max(rtt, floor_);
    if (candidate >= value_) return false;
    value_ = candidate;
    return true;
  }
  /// The current base round-trip time.
  [[nodiscard]] constexpr Duration value() const noexcept { return value_; }

 private:
  Duration value_;
  Duration floor_;
};

}  // namespace mrc::inline v0_1::cc
