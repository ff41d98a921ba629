// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cstdint>
#include <optional>

#include "mrc/core/types.hpp"

namespace mrc::inline v0_1::path {

/// Which planes towards one destination carry small packets and not those of full size: a switch or
/// an interface there has too small an MTU. Such a plane answers probes, so nothing else tells.
///
/// * suspected: full-size packets were lost in a row. Rounds of probes decide, one of full size and
///   a small one: kRounds rounds in which only the small one was answered make the plane narrow,
///   one answer to a full-size probe clears it. A plane that answers neither is dead, not narrow.
///   Answers to small probes that were sent before the round say nothing: where packets queue for
///   long, they come while that to the full-size one is still on its way.
/// * narrow: probed in full size, at intervals that double. Wide again after kAnswers answers in a
///   row.
///
/// Data that arrives clears a plane as well, but not where a burst leaves in one piece
/// (segmentation offload): between virtual interfaces such a piece passes links that are too narrow
/// for its packets one by one, and single ones, such as retransmissions, never would.
///
/// To peers that know no full-size probes data is the probe in all planes: many packets have to be
/// lost in a row, and for a while, before the plane is suspected, and a narrow plane is tried again
/// with data.
///
/// Sans-IO: the caller sends the probes, the full-size one first, on any path of the plane. No
/// allocation. One thread at a time.
class SizeTrials {
 public:
  /// `segmenting`: planes in which bursts leave in one piece.
  explicit SizeTrials(PlaneMask segmenting = 0) noexcept : segmenting_(segmenting) {}

  /// Full-size packets lost in a row that make a plane suspected.
  static constexpr std::uint8_t kLosses = 2;
  /// The same where full-size packets can't be probed.
  static constexpr std::uint8_t kUnprobedLosses = 64;
  /// And the least time from the first of these to the last: a receive buffer that overflows while
  /// a busy host does not run loses as many in a row.
  static constexpr Duration kUnprobedTime = std::chrono::milliseconds(100);
  /// Rounds that make a suspected plane narrow.
  static constexpr std::uint8_t kRounds = 3;
  /// Answers in a row that make a narrow plane wide again.
  static constexpr std::uint8_t kAnswers = 3;
  /// Shortest time of a round, whatever the round-trip time: hosts are late at times.
  static constexpr Duration kShortestWait = std::chrono::milliseconds(1);
  /// From a round to the first one of another trial, at least.
  static constexpr Duration kPause = std::chrono::milliseconds(10);
  /// Longest interval between probes of a suspected plane.
  static constexpr Duration kLongestWait = std::chrono::milliseconds(100);
  /// First interval between probes of a narrow plane.
  static constexpr Duration kFirstRetry = std::chrono::milliseconds(10);
  /// The longest one.
  static constexpr Duration kLastRetry = std::chrono::seconds(1);
  /// First interval between trials with data.
  static constexpr Duration kFirstDataRetry = std::chrono::seconds(1);
  /// The longest one.
  static constexpr Duration kLastDataRetry = std::chrono::seconds(64);

  /// What to send now.
  struct Probes {
    Plane plane = 0;     ///< where
    bool full = false;   ///< a probe of full size
    bool small = false;  ///< a small one
  };

  /// Can full-size packets be probed? Once true it stays so: all queue pairs to the destination are
  /// of one program.
  void allow_probes() noexcept { probed_ = true; }
  /// See allow_probes().
  [[nodiscard]] bool probed() const noexcept { return probed_; }

  /// A full-size packet was lost in the plane. True if it is suspected from now on.
  bool on_loss(Plane plane, Time now) noexcept {
    Trial& t = trials_[plane];
    if (!probed_ && t.losses == 0) t.next = now;
    if (t.losses < 0xFF) ++t.losses;
    doubted_ |= plane_bit(plane);
    if (t.losses < (probed_ ? kLosses : kUnprobedLosses)) return false;
    if (!probed_ && now - t.next < kUnprobedTime) return false;
    return suspect(plane, now);
  }
  /// Nothing that was sent to the destination arrives: all planes of these are suspected.
  void on_silence(PlaneMask planes, Time now) noexcept {
    if (!probed_) return;
    for (PlaneMask m = planes; m != 0; m &= m - 1)
      (void)suspect(static_cast<Plane>(std::countr_zero(m)), now);
  }
  /// A full-size packet that was sent in the plane has arrived.
  void on_delivered(Plane plane) noexcept {
    if ((doubted_ >> plane & 1) == 0 || (narrow_ >> plane & 1) != 0) return;
    if (probed_ && (segmenting_ >> plane & 1) != 0) return;
    clear(plane);
    trials_[plane].doublings = 0;
  }
  /// The plane is down: what it carries is found out when it is back.
  void stop(Plane plane) noexcept { clear(plane); }

  /// The probes to send now; nothing if none are due. They count as sent. May make planes narrow or
  /// wide. `round_trip`: expected time to an answer.
  [[nodiscard]] std::optional<Probes> poll(Time now, Duration round_trip) noexcept {
    for (PlaneMask m = suspected_ | narrow_; m != 0; m &= m - 1) {
      const auto plane = static_cast<Plane>(std::countr_zero(m));
      Trial& t = trials_[plane];
      if (now < t.next) continue;
      const Duration wait = std::max(kShortestWait, 2 * round_trip);
      if ((narrow_ >> plane & 1) != 0) {
        if (!probed_) {  // data tries it
          clear(plane);
          continue;
        }
        if (t.pending) t.answers = 0;
        t.pending = true;
        t.next = now + std::max(wait, doubled(kFirstRetry, kLastRetry, t.doublings));
        return Probes{plane, true, false};
      }
      if (t.small_answered) ++t.rounds;
      const bool silent = t.pending && !t.small_answered;
      t.pending = true;
      t.small_answered = false;
      t.asked = now;
      if (t.rounds >= kRounds) {
        make_narrow(plane, now);
        continue;
      }
      t.silent_rounds = static_cast<std::uint8_t>(silent ? std::min(t.silent_rounds + 1, 16) : 0);
      t.next = now + std::min(kLongestWait, wait * (1 << t.silent_rounds));
      return Probes{plane, probed_, true};
    }
    return std::nullopt;
  }
  /// A probe in this plane, which was sent at `sent`, was answered.
  void on_answer(Plane plane, bool full, Time sent, Time now) noexcept {
    Trial& t = trials_[plane];
    if ((suspected_ >> plane & 1) != 0) {
      if (full)
        clear(plane);
      else if (t.pending && sent >= t.asked)
        t.small_answered = true;
    } else if ((narrow_ >> plane & 1) != 0 && full && t.pending) {
      t.pending = false;
      t.next = now;
      if (++t.answers < kAnswers) return;
      clear(plane);
      t.doublings = 0;
    }
  }
  /// When to call poll(); kNever if no plane is on trial.
  [[nodiscard]] Time next_probe() const noexcept {
    Time next = kNever;
    for (PlaneMask m = suspected_ | narrow_; m != 0; m &= m - 1)
      next = std::min(next, trials_[static_cast<std::size_t>(std::countr_zero(m))].next);
    return next;
  }

  /// Planes that carry small packets only.
  [[nodiscard]] PlaneMask narrow() const noexcept { return narrow_; }
  /// Planes in which full-size packets were lost since the last one arrived.
  [[nodiscard]] PlaneMask doubted() const noexcept { return doubted_; }

 private:
  struct Trial {
    Time next{};  ///< when to probe; unprobed: before, time of the first loss
    Time asked = Time{Duration::min() / 2};  ///< when the present round began, or the last one
    std::uint8_t losses = 0;                 ///< in a row
    std::uint8_t rounds = 0;                 ///< in which only the small probe was answered
    std::uint8_t silent_rounds = 0;          ///< in a row
    std::uint8_t answers = 0;                ///< narrow: in a row
    std::uint8_t doublings = 0;              ///< narrow: of the interval; outlives trials with data
    bool pending = false;         ///< probes were sent, and a narrow plane's is unanswered
    bool small_answered = false;  ///< of the present round
  };

  /// The interval, which is twice as long the next time.
  [[nodiscard]] static Duration doubled(Duration first, Duration last,
                                        std::uint8_t& doublings) noexcept {
    const Duration now = std::min(last, first * (1 << doublings));
    if (now < last) ++doublings;
    return now;
  }
  bool suspect(Plane plane, Time now) noexcept {
    if (((suspected_ | narrow_) >> plane & 1) != 0) return false;
    suspected_ |= plane_bit(plane);
    trials_[plane].rounds = trials_[plane].silent_rounds = 0;
    trials_[plane].pending = trials_[plane].small_answered = false;
    // Where only probes clear a plane, it is suspected as often as packets are lost.
    trials_[plane].next = std::max(now, trials_[plane].asked + kPause);
    return true;
  }
  void make_narrow(Plane plane, Time now) noexcept {
    suspected_ &= ~plane_bit(plane);
    narrow_ |= plane_bit(plane);
    Trial& t = trials_[plane];
    t.answers = 0;
    t.pending = false;
    t.next = now + (probed_ ? doubled(kFirstRetry, kLastRetry, t.doublings)
                            : doubled(kFirstDataRetry, kLastDataRetry, t.doublings));
  }
  void clear(Plane plane) noexcept {
    suspected_ &= ~plane_bit(plane);
    narrow_ &= ~plane_bit(plane);
    doubted_ &= ~plane_bit(plane);
    const Trial before = trials_[plane];
    trials_[plane] = {};
    trials_[plane].doublings = before.doublings;
    trials_[plane].asked = before.asked;
  }

  PlaneMask segmenting_;
  bool probed_ = false;
  PlaneMask suspected_ = 0;
  PlaneMask narrow_ = 0;
  PlaneMask doubted_ = 0;
  std::array<Trial, kMaxPlanes> trials_{};
};

}  // namespace mrc::inline v0_1::path
