// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "mrc/core/types.hpp"

namespace mrc::inline v0_1::engine {

/// What a responder asks of the requesters that send to it because its own resources run short: the
/// receiver's penalty (mrc-1.0 §6.7, [O-8]) and the MPR of its SACKs (§2.4).
///
/// The penalty follows the fill of the ports' receive buffers: 0 up to three quarters, then growing
/// to 64, half a window per round trip, for a full one. It is lifted as soon as the buffer is below
/// three quarters again, and restore_cwnd then gives senders their windows back: the buffer says
/// nothing about the network. An application can ask for a penalty of its own; the greater counts.
///
/// The MPR is halved each time that the free part of a resource has halved, from a quarter on, down
/// to one unit; it grows back as that part does. Nothing is remembered, so that it can't stay
/// small.
///
/// One thread.
class ReceivePressure {
 public:
  /// Fill of a full buffer, see set_fill().
  static constexpr std::uint32_t kFull = 128;
  /// Fill from which on there is a penalty.
  static constexpr std::uint32_t kHigh = 96;

  /// The part of a plane's receive buffer that is in use, 0 .. kFull.
  void set_fill(Plane plane, std::uint32_t fill) noexcept {
    fill = std::min(fill, kFull);
    if (fill_[plane] == fill) return;
    fill_[plane] = static_cast<std::uint8_t>(fill);
    highest_ = *std::max_element(fill_.begin(), fill_.end());
    if (own_penalty() > 0) own_seen_ = true;
  }
  /// The application's penalty, 0 .. 127, and its restore flag.
  void set_asked(std::uint8_t penalty, bool restore) noexcept {
    asked_ = penalty;
    asked_restore_ = restore;
  }

  /// rcv_cwnd_pen of the next SACK.
  [[nodiscard]] std::uint8_t penalty() const noexcept { return std::max(asked_, own_penalty()); }
  /// restore_cwnd of the next SACK: with a penalty, that the window is to be remembered; without
  /// one, that the window remembered is to be restored.
  [[nodiscard]] bool restore() const noexcept {
    if (asked_ > own_penalty()) return asked_restore_;
    return own_seen_ || asked_restore_;
  }

  /// The MPR to announce where `limit` is that of the queue pair (0: Dynamic MPR is off, and stays
  /// off), and `free` of `all` items of a pool that it draws on are left.
  [[nodiscard]] std::uint8_t mpr(std::uint8_t limit, std::size_t free,
                                 std::size_t all) const noexcept {
    const unsigned halved = std::max(halvings(free, all), halvings(kFull - highest_, kFull));
    return limit == 0 ? limit : std::max<std::uint8_t>(1, halved < 8 ? limit >> halved : 0);
  }

 private:
  /// How often the free part has halved, counted from a quarter on.
  [[nodiscard]] static unsigned halvings(std::size_t free, std::size_t all) noexcept {
    if (free == 0) return 8;
    const auto width = static_cast<unsigned>(std::bit_width(all / free));
    return width > 2 ? width - 2 : 0;
  }
  [[nodiscard]] std::uint8_t own_penalty() const noexcept {
    return static_cast<std::uint8_t>(highest_ > kHigh ? (highest_ - kHigh) * 2 : 0);
  }

  std::array<std::uint8_t, kMaxPlanes> fill_{};
  std::uint32_t highest_ = 0;  ///< greatest fill of a plane
  std::uint8_t asked_ = 0;
  bool asked_restore_ = false;
  bool own_seen_ = false;  ///< there has been a penalty of our own: senders may have windows saved
};

}  // namespace mrc::inline v0_1::engine
