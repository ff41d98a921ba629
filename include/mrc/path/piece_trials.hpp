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

/// What leaves a port in one piece, to be cut into packets by the kernel or the NIC.
enum class Piece : std::uint8_t {
  single = 0,       ///< one packet, which nothing cuts
  equal = 1,        ///< packets of one length
  shorter_end = 2,  ///< the same with a shorter one at the end
};

/// In which planes towards one destination what leaves in one piece (segmentation offload) vanishes
/// although single packets arrive: a kernel, a NIC or a host below this one cuts pieces wrongly,
/// and says nothing.
///
/// A plane is tried when the destination is first connected to, with small packets, and when
/// packets are lost in it, or the peer sends again what had arrived, with those of full size.
/// Rounds of probes decide: pieces of both kinds, and a single packet of the same size on the same
/// path. kRounds rounds in which the single one was answered, and of one kind never any packet,
/// show that such pieces vanish; a round in which the single one was lost, too, asks for kPerLoss
/// more of them. One answer to each kind ends the trial: a queue that overflows takes the ends of
/// pieces, or whatever comes. So do kMostRounds without a verdict: where most packets are lost (a
/// firewall that tracks no more connections), those of pieces are. From a loss of a fifth on most
/// trials end so.
///
/// Planes in which pieces vanish are tried again every kRetry.
///
/// Sans-IO: the caller sends the probes. No allocation. One thread at a time.
class PieceTrials {
 public:
  /// Rounds that decide.
  static constexpr std::uint8_t kRounds = 8;
  /// So many more for each in which the single packet was not answered.
  static constexpr std::uint8_t kPerLoss = 3;
  /// Rounds after which a trial ends.
  static constexpr std::uint8_t kMostRounds = 40;
  /// Silent rounds in a row after which a trial ends.
  static constexpr std::uint8_t kSilentRounds = 10;
  /// Shortest time of a round, whatever the round-trip time.
  static constexpr Duration kShortestWait = std::chrono::milliseconds(1);
  /// The longest one.
  static constexpr Duration kLongestWait = std::chrono::milliseconds(100);
  /// From the end of a trial with packets of full size to the next one for the sake of losses.
  static constexpr Duration kPause = std::chrono::milliseconds(100);
  /// From a trial in which pieces vanish to the next.
  static constexpr Duration kRetry = std::chrono::minutes(5);

  /// What to send now, on one path: these pieces, and a single packet.
  struct Probes {
    Plane plane = 0;           ///< where
    bool full = false;         ///< of full size, but for the shorter end
    bool equal = false;        ///< Piece::equal
    bool shorter_end = false;  ///< Piece::shorter_end
  };

  /// `segmenting`: planes in which bursts leave in one piece; others are never tried.
  explicit PieceTrials(PlaneMask segmenting = 0) noexcept : segmenting_(segmenting) {}

  /// The destination is connected to by these planes; once more if it was before.
  void start(PlaneMask planes, Time now) noexcept {
    const PlaneMask known = started_ | on_trial_ | singly_;
    for (PlaneMask m = planes & segmenting_ & ~known; m != 0; m &= m - 1)
      begin(static_cast<Plane>(std::countr_zero(m)), now, false);
    started_ |= planes;
  }
  /// A packet was lost in the plane, or the peer does not seem to have heard an answer. True if a
  /// trial begins.
  bool on_loss(Plane plane, Time now) noexcept {
    if ((segmenting_ & ~on_trial_ & ~singly_ & plane_bit(plane)) == 0) return false;
    if (now < trials_[plane].rest) return false;
    begin(plane, now, true);
    return true;
  }
  /// The plane is out of use.
  void stop(Plane plane, Time now) noexcept { end(plane, now); }

  /// The probes to send now; nothing if none are due. They count as sent. `round_trip`: expected
  /// time to an answer. `full_size`: planes in which probes can have full size; in others there is
  /// no shorter end.
  [[nodiscard]] std::optional<Probes> poll(Time now, Duration round_trip,
                                           PlaneMask full_size) noexcept {
    for (PlaneMask m = on_trial_ | singly_; m != 0; m &= m - 1) {
      const auto plane = static_cast<Plane>(std::countr_zero(m));
      Trial& t = trials_[plane];
      if (now < t.next) continue;
      if ((on_trial_ >> plane & 1) == 0) begin(plane, now, true);
      if (t.pending && judge(plane, now)) continue;
      const bool full = t.thorough && (full_size >> plane & 1) != 0;
      if (!full) t.unproved &= bit(Piece::equal);
      if (t.unproved == 0) {
        prove(plane, now);
        continue;
      }
      t.pending = true;
      t.single_answered = false;
      t.asked = now;
      const Duration wait = std::max(kShortestWait, 2 * round_trip);
      t.next = now + std::min(kLongestWait, wait * (1 << t.silent_rounds));
      return Probes{plane, full, (t.unproved & bit(Piece::equal)) != 0,
                    (t.unproved & bit(Piece::shorter_end)) != 0};
    }
    return std::nullopt;
  }
  /// A packet of a probe, which was sent at `sent`, was answered.
  void on_answer(Plane plane, Piece piece, Time sent, Time now) noexcept {
    if ((on_trial_ >> plane & 1) == 0) return;
    Trial& t = trials_[plane];
    if (piece == Piece::single) {
      // An earlier one says nothing of this round: its pieces may be on their way, too. But it was
      // late, not lost.
      if (t.pending && sent >= t.asked)
        t.single_answered = true;
      else if (t.losses > 0)
        --t.losses;
    } else {
      t.unproved &= static_cast<std::uint8_t>(~bit(piece));
      if (t.unproved == 0) prove(plane, now);
    }
  }
  /// When to call poll(); kNever if no plane is on trial.
  [[nodiscard]] Time next_probe() const noexcept {
    Time next = kNever;
    for (PlaneMask m = on_trial_ | singly_; m != 0; m &= m - 1)
      next = std::min(next, trials_[static_cast<std::size_t>(std::countr_zero(m))].next);
    return next;
  }

  /// Planes in which packets have to leave one by one.
  [[nodiscard]] PlaneMask singly() const noexcept { return singly_; }

 private:
  struct Trial {
    Time next{};                           ///< when to probe
    Time asked{};                          ///< when the present round began
    Time rest{Duration::min() / 2};        ///< until when losses start no trial
    std::array<std::uint8_t, 2> rounds{};  ///< in which only the single packet was answered
    std::uint8_t unproved = 0;             ///< kinds of which nothing was answered
    std::uint8_t silent_rounds = 0;        ///< in a row
    std::uint8_t losses = 0, judged = 0;   ///< from the first answer on: rounds without one, all
    bool thorough = false;                 ///< with probes of full size
    bool pending = false, single_answered = false;  ///< of the present round
  };

  /// For sets of the kinds that are cut.
  [[nodiscard]] static constexpr std::uint8_t bit(Piece piece) noexcept {
    return static_cast<std::uint8_t>(piece);
  }

  void begin(Plane plane, Time now, bool thorough) noexcept {
    on_trial_ |= plane_bit(plane);
    Trial& t = trials_[plane];
    t = {};
    t.next = now;
    t.thorough = thorough;
    t.unproved = bit(Piece::equal) | bit(Piece::shorter_end);
  }
  /// A round is over. True if that ends the trial.
  bool judge(Plane plane, Time now) noexcept {
    Trial& t = trials_[plane];
    const bool answered = t.single_answered;
    t.silent_rounds = answered ? std::uint8_t{0} : static_cast<std::uint8_t>(t.silent_rounds + 1);
    if (answered || t.judged > 0) ++t.judged;  // before, the peer may not be connected yet
    if (!answered && t.judged > 0) ++t.losses;
    bool over = t.silent_rounds >= kSilentRounds || t.judged >= kMostRounds;
    for (const Piece piece : {Piece::equal, Piece::shorter_end}) {
      if (!answered || (t.unproved & bit(piece)) == 0) continue;
      if (++t.rounds[bit(piece) - 1u] < kRounds + kPerLoss * t.losses) continue;
      singly_ |= plane_bit(plane);
      over = true;
    }
    if (over) end(plane, now);
    return over;
  }
  void prove(Plane plane, Time now) noexcept {
    singly_ &= ~plane_bit(plane);
    end(plane, now);
  }
  void end(Plane plane, Time now) noexcept {
    on_trial_ &= ~plane_bit(plane);
    if (trials_[plane].thorough) trials_[plane].rest = now + kPause;
    trials_[plane].next = now + kRetry;  // where they vanish
  }

  PlaneMask segmenting_;
  PlaneMask started_ = 0;
  PlaneMask on_trial_ = 0;
  PlaneMask singly_ = 0;
  std::array<Trial, kMaxPlanes> trials_{};
};

}  // namespace mrc::inline v0_1::path
