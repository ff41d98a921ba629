// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace mrc::inline v0_1::cc {

/// The link of a host, which all its congestion control contexts send over: counts the
/// destinations to which packets are in flight. Every engine has one, and those of a device's lanes
/// know nothing of each other. One thread at a time.
class HostLink {
 public:
  /// Packets to one more destination are in flight.
  void enter() noexcept { ++destinations_; }
  /// No packet to a destination that had entered is in flight any more.
  void leave() noexcept { --destinations_; }
  /// Destinations to which packets are in flight.
  [[nodiscard]] std::uint32_t destinations() const noexcept { return destinations_; }

 private:
  std::uint32_t destinations_ = 0;
};

}  // namespace mrc::inline v0_1::cc
