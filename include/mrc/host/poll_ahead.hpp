// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

#include "mrc/core/types.hpp"

namespace mrc::inline v0_1::detail {

/// Decides whether a poll that found completions should stay and receive before it returns.
///
/// Some programs wait for the peer by watching memory and call nothing meanwhile (ib_write_lat).
/// Then only the helper thread can receive. It waits for helper_takeover first, and often shares a
/// processor with the thread that watches. A poll that stays until the next data packet has come
/// spares that; in vain, it costs up to `limit`. So a poll stays only while it paid off lately:
/// each time that data came soon after the program had left counts for it, each stay in vain counts
/// four times against it.
///
/// Thread contract: under the lane's lock. `data` is the number of data packets received so far.
class PollAhead {
 public:
  /// `limit`: how long a poll stays at most; 0: it never does.
  explicit PollAhead(Duration limit) noexcept : limit_(limit) {}

  [[nodiscard]] bool enabled() const noexcept { return limit_ > Duration{0}; }

  /// The program polls. `now` is called only if it matters.
  template <class Now>
  void program_came(std::uint64_t data, Now&& now) noexcept {
    if (!std::exchange(away_, false)) return;
    const bool expected = std::exchange(answer_expected_, false);
    if (data == seen_ && !expected) return;
    const Duration away = now() - left_;
    if (expected && away > limit_)
      count_against();
    else if (data != seen_ && away < limit_ * kAway)
      count_for();
  }
  /// A poll has completions for the program: whether it should stay. Not if the program has yet to
  /// see what came since its last poll.
  [[nodiscard]] bool should_stay(std::uint64_t data) const noexcept {
    return paid_off_ >= kEnough && data == seen_;
  }
  /// A poll has completions, and data that the program has yet to see: whether the program is
  /// likely to answer at once, so that what is to be sent can wait for that.
  [[nodiscard]] bool expects_answer(std::uint64_t data) const noexcept {
    return paid_off_ >= kEnough && data != seen_;
  }
  /// How long.
  [[nodiscard]] Duration limit() const noexcept { return limit_; }
  /// It stayed, and data `came` or not.
  void stayed(bool came) noexcept {
    if (came)
      count_for();
    else
      count_against();
  }
  /// The poll returns completions.
  void program_leaves(std::uint64_t data, Time now) noexcept {
    away_ = true;
    answer_expected_ = expects_answer(data);
    seen_ = data;
    left_ = now;
  }

 private:
  static constexpr unsigned kEnough = 3, kMost = 12, kInVain = 4;
  /// A program away for longer, in limits, would have gained nothing worth mentioning.
  static constexpr int kAway = 50;

  void count_for() noexcept { paid_off_ = std::min(paid_off_ + 1, kMost); }
  void count_against() noexcept { paid_off_ -= std::min(paid_off_, kInVain); }

  const Duration limit_;
  unsigned paid_off_ = 0;
  std::uint64_t seen_ = 0;        ///< data packets when the program left
  Time left_{};                   ///< when that was
  bool away_ = false;             ///< the program has not polled since
  bool answer_expected_ = false;  ///< of the program, as it left
};

}  // namespace mrc::inline v0_1::detail
