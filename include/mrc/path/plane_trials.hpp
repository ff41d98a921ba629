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

/// The planes towards one destination that have to prove that they work, by answered EV probes:
///
/// * withheld: it was down and may be back. A port has carrier, or its owner says so, long before
///   the network behind it forwards. Not used until kAnswers probes in a row were answered.
/// * suspected: an unauthenticated message reports it down. Stays in use until kMisses probes in a
///   row were not answered; then withheld.
///
/// Unanswered probes are repeated with doubling intervals, for ever. Sans-IO: the caller sends the
/// probes, each on another path of the plane. No allocation. One thread at a time.
class PlaneTrials {
 public:
  /// Consecutive answers after which a plane is trusted again.
  static constexpr std::uint8_t kAnswers = 3;
  /// Consecutive unanswered probes after which a suspected plane is withheld.
  static constexpr std::uint8_t kMisses = 3;
  /// Shortest time that an answer may take, whatever the round-trip time.
  static constexpr Duration kShortestWait = std::chrono::microseconds(100);
  /// Longest interval between two probes of a plane.
  static constexpr Duration kLongestWait = std::chrono::milliseconds(100);

  /// The plane may be back: withheld from now on, and probed.
  void withhold(Plane plane, Time now) noexcept { start(plane, now, withheld_); }
  /// The plane is said to be down. Nothing changes if it is on trial already.
  void suspect(Plane plane, Time now) noexcept {
    if (!on_trial(plane)) start(plane, now, suspected_);
  }
  /// The plane is known to be down, or its trial is not needed any more.
  void stop(Plane plane) noexcept {
    withheld_ &= ~plane_bit(plane);
    suspected_ &= ~plane_bit(plane);
  }
  /// Something arrived from there: a withheld plane is probed at once, however long it was silent;
  /// but once per kLongestWait, since it may be dead in this direction only.
  void hurry(Plane plane, Time now) noexcept {
    Trial& t = trials_[plane];
    if ((withheld_ & plane_bit(plane)) == 0 || t.misses < kMisses) return;
    if (now - t.hurried < kLongestWait) return;
    t.hurried = now;
    t.misses = kMisses - 1;
    t.next = std::min(t.next, now);
  }
  /// A probe in this plane was answered. True if the plane is trusted from now on.
  bool on_answer(Plane plane, Time now) noexcept {
    if (!on_trial(plane)) return false;
    Trial& t = trials_[plane];
    t.pending = false;
    t.misses = 0;
    t.next = now;
    if (++t.answers < kAnswers) return false;
    stop(plane);
    return true;
  }

  /// The plane to probe now; nothing if no probe is due. It counts as sent. May withhold a
  /// suspected plane. `round_trip`: expected time to an answer.
  [[nodiscard]] std::optional<Plane> poll_probe(Time now, Duration round_trip) noexcept {
    for (PlaneMask m = withheld_ | suspected_; m != 0; m &= m - 1) {
      const auto plane = static_cast<Plane>(std::countr_zero(m));
      Trial& t = trials_[plane];
      if (now < t.next) continue;
      if (t.pending) {
        t.answers = 0;
        t.misses = static_cast<std::uint8_t>(std::min<unsigned>(t.misses + 1u, 32));
        if (t.misses >= kMisses && (suspected_ & plane_bit(plane)) != 0) {
          suspected_ &= ~plane_bit(plane);
          withheld_ |= plane_bit(plane);
        }
      }
      t.pending = true;
      const Duration wait = std::max(kShortestWait, 2 * round_trip);
      t.next = now + std::min(kLongestWait, wait * (1 << std::min<unsigned>(t.misses, 16)));
      return plane;
    }
    return std::nullopt;
  }
  /// When to call poll_probe(); kNever if no plane is on trial.
  [[nodiscard]] Time next_probe() const noexcept {
    Time next = kNever;
    for (PlaneMask m = withheld_ | suspected_; m != 0; m &= m - 1)
      next = std::min(next, trials_[static_cast<std::size_t>(std::countr_zero(m))].next);
    return next;
  }

  /// Planes that are not to be used.
  [[nodiscard]] PlaneMask withheld() const noexcept { return withheld_; }
  /// Planes that are said to be down, and used on.
  [[nodiscard]] PlaneMask suspected() const noexcept { return suspected_; }

 private:
  struct Trial {
    Time next{};                               ///< when to probe
    Time hurried = Time{Duration::min() / 2};  ///< newest call of hurry() that had an effect
    std::uint8_t answers = 0;                  ///< in a row
    std::uint8_t misses = 0;                   ///< likewise
    bool pending = false;                      ///< the newest probe is unanswered
  };

  [[nodiscard]] bool on_trial(Plane plane) const noexcept {
    return ((withheld_ | suspected_) & plane_bit(plane)) != 0;
  }
  void start(Plane plane, Time now, PlaneMask& kind) noexcept {
    stop(plane);
    kind |= plane_bit(plane);
    trials_[plane] = {};
    trials_[plane].next = now;
  }

  PlaneMask withheld_ = 0;
  PlaneMask suspected_ = 0;
  std::array<Trial, kMaxPlanes> trials_{};
};

}  // namespace mrc::inline v0_1::path
