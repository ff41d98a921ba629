// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "mrc/core/types.hpp"
#include "mrc/path/path_entry.hpp"

namespace mrc::inline v0_1::path {

/// An event mask has the API's state values as bits (mrc-1.0 §3.7). Other states make no events.
inline constexpr std::uint8_t kEventGood = 1;
/// ASSUMED_BAD.
inline constexpr std::uint8_t kEventAssumedBad = 2;

/// A change of a path's state (mrc-1.0 §3.7).
struct PathEvent {
  std::uint32_t dropped = 0;     ///< events dropped right before this one because the ring was full
  Ev ev{};                       ///< EV of the path
  PathIndex path = kNoPath;      ///< the path
  Plane plane = 0;               ///< its plane
  Health health = Health::good;  ///< the new state; SKIP is reported as GOOD (mrc-1.0 [C-11])
};

/// A ring of fixed size between a path set and the reader of its events. A full ring neither blocks
/// nor overwrites: the new event is dropped and counted. Not thread-safe.
class EventRing {
 public:
  /// Allocates room for `capacity` events (0: every event is dropped and counted).
  explicit EventRing(std::size_t capacity) : events_(capacity) {}

  /// Appends an event, or counts it as dropped if the ring is full.
  void push(PathEvent event) noexcept {
    if (count_ == events_.size()) {
      // Saturates.
      if (dropped_ != std::numeric_limits<std::uint32_t>::max()) ++dropped_;
      return;
    }
    event.dropped = dropped_;
    dropped_ = 0;
    std::size_t at = head_ + count_++;
    if (at >= events_.size()) at -= events_.size();
    events_[at] = event;
  }

  /// Removes the oldest event; false when there is none.
  [[nodiscard]] bool pop(PathEvent& event) noexcept {
    if (count_ == 0) return false;
    event = events_[head_];
    if (++head_ == events_.size()) head_ = 0;
    --count_;
    return true;
  }

 private:
  std::vector<PathEvent> events_;
  std::size_t head_ = 0;
  std::size_t count_ = 0;
  std::uint32_t dropped_ = 0;
};

}  // namespace mrc::inline v0_1::path
