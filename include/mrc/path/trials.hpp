// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "mrc/core/types.hpp"
#include "mrc/path/path_entry.hpp"

namespace mrc::inline v0_1::path {

/// The earliest time to probe among these planes; kNever if there are none.
template <class Trials>
[[nodiscard]] Time earliest_probe(PlaneMask planes, const Trials& trials) noexcept {
  Time next = kNever;
  for (; planes != 0; planes &= planes - 1)
    next = std::min(next, trials[static_cast<std::size_t>(std::countr_zero(planes))].next);
  return next;
}

/// Which planes towards one destination have too small an MTU: they carry small packets, probes
/// among them, and not those of full size.
///
/// * suspected: full-size packets were lost in a row. Each round has a full-size and a small probe.
///   kRounds rounds in which only the small one was answered make the plane narrow, one answer to a
///   full-size probe clears it. Answers to small probes of earlier rounds do not count: in a long
///   queue they come while the full-size one is still on its way.
/// * narrow: probed in full size at doubling intervals. Wide after kAnswers answers in a row.
///
/// Data that arrives clears a plane, too, unless bursts leave it in one piece: virtual interfaces
/// pass such a piece on although its packets alone would be too long. To peers without full-size
/// probes data is the probe in all planes.
///
/// The caller sends the probes, the full-size one first. No allocation. One thread at a time.
class SizeTrials {
 public:
  /// `segmenting`: planes in which bursts leave in one piece.
  explicit SizeTrials(PlaneMask segmenting = 0) noexcept : segmenting_(segmenting) {}

  static constexpr std::uint8_t kLosses = 2;  ///< in a row, of full size: suspected
  /// The same where full-size packets can't be probed.
  static constexpr std::uint8_t kUnprobedLosses = 64;
  /// And over this time: the receive buffer of a busy host may lose as many in a row.
  static constexpr Duration kUnprobedTime = std::chrono::milliseconds(100);
  static constexpr std::uint8_t kRounds = 3;   ///< make a suspected plane narrow
  static constexpr std::uint8_t kAnswers = 3;  ///< in a row: make a narrow plane wide
  /// Shortest time of a round, for hosts that are late.
  static constexpr Duration kShortestWait = std::chrono::milliseconds(1);
  /// Least time from a round to the next trial.
  static constexpr Duration kPause = std::chrono::milliseconds(10);
  /// Longest interval between probes of a suspected plane.
  static constexpr Duration kLongestWait = std::chrono::milliseconds(100);
  /// Intervals between probes of a narrow plane.
  static constexpr Duration kFirstRetry = std::chrono::milliseconds(10);
  static constexpr Duration kLastRetry = std::chrono::seconds(1);
  /// Intervals between trials with data.
  static constexpr Duration kFirstDataRetry = std::chrono::seconds(1);
  static constexpr Duration kLastDataRetry = std::chrono::seconds(64);

  /// What to send now.
  struct Probes {
    Plane plane = 0;     ///< where
    bool full = false;   ///< a probe of full size
    bool small = false;  ///< a small one
  };

  /// Full-size packets can be probed, from now on: all queue pairs to the destination are of one
  /// program.
  void allow_probes() noexcept { probed_ = true; }
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
  /// Nothing that was sent to the destination arrives: suspects these planes.
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

  /// The probes to send now, if any are due; they count as sent. `round_trip`: expected.
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
  /// A probe sent at `sent` was answered.
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
    return earliest_probe(suspected_ | narrow_, trials_);
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

/// What leaves a port at once, to be cut into packets by the kernel or the NIC.
enum class Piece : std::uint8_t {
  single = 0,       ///< one packet, which nothing cuts
  equal = 1,        ///< packets of one length
  shorter_end = 2,  ///< the same with a shorter one at the end
};

/// In which planes towards one destination pieces (segmentation offload) vanish although single
/// packets arrive: a kernel, a NIC or a host below this one cuts them wrongly.
///
/// A plane is tried with small packets when the destination is first connected to, and in full size
/// when packets are lost or the peer repeats itself. A round has pieces of both kinds and a single
/// packet of the same size on one path. Pieces of a kind vanish if kRounds rounds answered the
/// single packet and never a piece; each round that lost the single packet, too, asks for kPerLoss
/// more. One answer to each kind ends the trial (a full queue takes some of any piece), and so do
/// kMostRounds without a verdict: where most packets are lost, pieces are, too.
///
/// Planes in which pieces vanish are tried again every kRetry. The caller sends the probes. No
/// allocation. One thread at a time.
class PieceTrials {
 public:
  static constexpr std::uint8_t kRounds = 8;         ///< decide
  static constexpr std::uint8_t kPerLoss = 3;        ///< more, for each lost single packet
  static constexpr std::uint8_t kMostRounds = 40;    ///< end a trial
  static constexpr std::uint8_t kSilentRounds = 10;  ///< in a row: end a trial
  /// Time of a round.
  static constexpr Duration kShortestWait = std::chrono::milliseconds(1);
  static constexpr Duration kLongestWait = std::chrono::milliseconds(100);
  /// From the end of a trial in full size to the next one because of losses.
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
  /// A packet was lost, or the peer seems to have missed an answer. True if a trial begins.
  bool on_loss(Plane plane, Time now) noexcept {
    if ((segmenting_ & ~on_trial_ & ~singly_ & plane_bit(plane)) == 0) return false;
    if (now < trials_[plane].rest) return false;
    begin(plane, now, true);
    return true;
  }
  /// The plane is out of use.
  void stop(Plane plane, Time now) noexcept { end(plane, now); }

  /// The probes to send now, if any are due; they count as sent. `round_trip`: expected.
  /// `full_size`: planes whose probes can have full size; others have no shorter end.
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
  /// A packet of a probe sent at `sent` was answered.
  void on_answer(Plane plane, Piece piece, Time sent, Time now) noexcept {
    if ((on_trial_ >> plane & 1) == 0) return;
    Trial& t = trials_[plane];
    if (piece == Piece::single) {
      // An earlier one was late, not lost, and says nothing of this round.
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
    return earliest_probe(on_trial_ | singly_, trials_);
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

/// The planes towards one destination that have to prove by answered EV probes that they work:
///
/// * withheld: it was down and may be back; carrier comes long before the network behind it
///   forwards. Not used until kAnswers probes in a row were answered.
/// * suspected: an unauthenticated message reports it down. In use until kMisses probes in a row
///   were not answered; then withheld.
///
/// Unanswered probes are repeated with doubling intervals, for ever. The caller sends the probes,
/// each on another path of the plane. No allocation. One thread at a time.
class PlaneTrials {
 public:
  static constexpr std::uint8_t kAnswers = 3;  ///< in a row: the plane is trusted again
  static constexpr std::uint8_t kMisses = 3;   ///< in a row: a suspected plane is withheld
  /// Intervals between probes of a plane.
  static constexpr Duration kShortestWait = std::chrono::microseconds(100);
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
  /// Something arrived from there: a withheld plane is probed at once. Once per kLongestWait, since
  /// it may be dead in this direction only.
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

  /// The plane to probe now, if a probe is due; it counts as sent. `round_trip`: expected.
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
    return earliest_probe(withheld_ | suspected_, trials_);
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

/// Finds bad paths towards one destination that carry small packets and not those of full size,
/// while others of their plane carry both: one hop has too small an MTU. Only to tell people; data
/// avoids such a path as any bad one.
///
/// Bad paths are probed in full size. For one of them at a time a small probe goes beside it:
/// kRounds rounds in a row in which only that is answered find the path. Each is found once. The
/// caller sends the probes. No allocation. One thread.
class NarrowPath {
 public:
  static constexpr std::uint8_t kRounds = 3;  ///< find a path
  /// What fails for a shorter time is no matter of MTUs.
  static constexpr Duration kFirstWait = std::chrono::milliseconds(20);
  /// Shortest time of a round, for hosts that are late.
  static constexpr Duration kShortestWait = std::chrono::milliseconds(1);
  /// A path that was not probed for so long is on trial no more.
  static constexpr Duration kLongestWait = std::chrono::seconds(1);

  /// A bad path is probed in full size now. True: a small probe is to be sent by it, too.
  [[nodiscard]] bool on_full_probe(PathIndex path, Duration round_trip, Time now) noexcept {
    if (found_ != kNoPath || told(path)) return false;
    if (path != path_) {
      if (path_ != kNoPath && now - seen_ < kLongestWait) return false;
      path_ = path;
      since_ = seen_ = now;
      rounds_ = 0;
      asking_ = false;
      return false;
    }
    seen_ = now;
    if (now - since_ < kFirstWait) return false;
    if (asking_) {
      if (now - asked_ < std::max(kShortestWait, 2 * round_trip)) return false;
      if (!small_answered_) {  // it is dead: another one's turn
        path_ = kNoPath;
        return false;
      }
      if (++rounds_ >= kRounds) {
        found_ = std::exchange(path_, kNoPath);
        told_ |= bit(found_);
        return false;
      }
    }
    asking_ = true;
    small_answered_ = false;
    asked_ = now;
    return true;
  }
  /// A single probe on that path, sent at `sent`, was answered.
  void on_answer(PathIndex path, bool full, Time sent) noexcept {
    if (path != path_) return;
    if (full)
      path_ = kNoPath;
    else if (asking_ && sent >= asked_)
      small_answered_ = true;
  }

  /// Was one found since take()?
  [[nodiscard]] bool found() const noexcept { return found_ != kNoPath; }
  /// The path that was found, or kNoPath. The next one is looked for after that.
  [[nodiscard]] PathIndex take() noexcept { return std::exchange(found_, kNoPath); }

 private:
  // Beyond 64 paths, some stand for others: enough to tell people where to look.
  [[nodiscard]] static std::uint64_t bit(PathIndex path) noexcept {
    return std::uint64_t{1} << (path % 64);
  }
  [[nodiscard]] bool told(PathIndex path) const noexcept { return (told_ & bit(path)) != 0; }

  Time since_{};                 ///< when the trial of the path began
  Time seen_{};                  ///< when it was last probed in full size
  Time asked_{};                 ///< when the present round began
  std::uint64_t told_ = 0;       ///< those that were found, modulo 64
  PathIndex path_ = kNoPath;     ///< on trial
  PathIndex found_ = kNoPath;    ///< until take()
  std::uint8_t rounds_ = 0;      ///< in which only the small probe was answered
  bool asking_ = false;          ///< a round has begun
  bool small_answered_ = false;  ///< in the present one
};

/// Schedules the probes of ASSUMED_BAD paths (mrc-1.0 §5, [O-6]). The next try of a path follows
/// after an eighth of its outage so far, so that outages last hardly longer for the sender and dead
/// paths cost little; but never before the shortest interval, which doubles each time that a path
/// fails soon after it has come back. An indexed heap: O(log n), no allocation. Not thread-safe.
class ProbeSchedule {
 public:
  /// Room for paths 0 .. paths-1. No interval is longer than `max`, except the shortest one.
  ProbeSchedule(std::size_t paths, Duration max) : slots_(paths), max_(max) {
    heap_.reserve(paths);
  }

  /// Starts, or restarts, probing `path`, which has failed `now`. `shortest`: the shortest interval
  /// of a path that does not fail often; the first try is due after it.
  void start(PathIndex path, Time now, Duration shortest) noexcept {
    Slot& slot = slots_[path];
    const bool again = slot.ended + kSoon * least(slot, shortest) > now;
    slot.relapses = again ? std::min<std::uint8_t>(slot.relapses + 1, kMostRelapses) : 0;
    begin(path, now, now + least(slot, shortest));
  }
  /// The same, but the first try is due at once, and it does not count as a failure.
  void resume(PathIndex path, Time now) noexcept { begin(path, now, now); }

  /// Stops probing `path`: it is good again, or nobody wants to know. No effect if not running.
  void stop(PathIndex path, Time now) noexcept {
    const PathIndex at = std::exchange(slots_[path].heap_at, kNoPath);
    if (at == kNoPath) return;
    slots_[path].ended = now;
    const PathIndex last = heap_.back();
    heap_.pop_back();
    if (last == path) return;
    place(at, last);
    sift(last);
  }

  /// Stops probing `path` and knows nothing of its past any more: another path takes its place.
  void forget(PathIndex path) noexcept {
    stop(path, Time{});
    slots_[path] = {};
  }

  /// When the next try is due; kNever when no path is being probed.
  [[nodiscard]] Time next() const noexcept {
    return heap_.empty() ? kNever : slots_[heap_.front()].due;
  }

  /// The path to probe now, or kNoPath. Ends the run of successes if the previous try is
  /// unanswered, so an answer should take less than `shortest`.
  [[nodiscard]] PathIndex poll(Time now, Duration shortest) noexcept {
    if (heap_.empty() || next() > now) return kNoPath;
    const PathIndex path = heap_.front();
    Slot& slot = slots_[path];
    if (slot.awaiting) slot.successes = 0;
    slot.awaiting = true;
    const Duration interval = std::min((now - slot.since) / kPart, max_);
    reschedule(path, now + std::max(interval, least(slot, shortest)));
    return path;
  }

  /// The outstanding try succeeded: the next one follows after the shortest interval. Returns the
  /// number of consecutive successes; 0 if no try was outstanding.
  unsigned succeeded(PathIndex path, Time now, Duration shortest) noexcept {
    Slot& slot = slots_[path];
    if (slot.heap_at == kNoPath || !std::exchange(slot.awaiting, false)) return 0;
    if (slot.successes < 255) ++slot.successes;
    reschedule(path, now + least(slot, shortest));
    return slot.successes;
  }

  /// The outstanding try of `path` was answered with ALWAYS_SKIP: no success.
  void failed(PathIndex path) noexcept {
    slots_[path].awaiting = false;
    slots_[path].successes = 0;
  }

 private:
  static constexpr int kPart = 8;  ///< an interval is this part of the time that has passed
  /// A path fails soon if it was good for fewer than so many of its shortest intervals.
  static constexpr int kSoon = 64;
  static constexpr std::uint8_t kMostRelapses = 16;

  struct Slot {
    Time due{};
    Time since{};                     ///< bad since then
    Time ended{Duration::min() / 2};  ///< when probing ended last
    PathIndex heap_at = kNoPath;      ///< kNoPath: not probed
    std::uint8_t relapses = 0;        ///< failures soon after it had come back
    std::uint8_t successes = 0;       ///< consecutive answers
    bool awaiting = false;            ///< the last try is unanswered so far
  };

  [[nodiscard]] Duration least(const Slot& slot, Duration usual) const noexcept {
    return std::max(usual, std::min(usual * (1 << slot.relapses), max_));
  }
  void begin(PathIndex path, Time now, Time due) noexcept {
    Slot& slot = slots_[path];
    slot.since = now;
    slot.successes = 0;
    slot.awaiting = false;
    if (slot.heap_at == kNoPath) {
      slot.heap_at = static_cast<PathIndex>(heap_.size());
      heap_.push_back(path);  // within the reserved capacity: each path is in the heap at most once
    }
    reschedule(path, due);
  }
  void place(PathIndex at, PathIndex path) noexcept {
    heap_[at] = path;
    slots_[path].heap_at = at;
  }
  void reschedule(PathIndex path, Time due) noexcept {
    slots_[path].due = due;
    sift(path);
  }
  /// Ties go to the lower index, for reproducible runs.
  [[nodiscard]] bool earlier(PathIndex a, PathIndex b) const noexcept {
    return slots_[a].due != slots_[b].due ? slots_[a].due < slots_[b].due : a < b;
  }
  /// Restores the heap order after the due time of `path` changed.
  void sift(PathIndex path) noexcept {
    std::size_t at = slots_[path].heap_at;
    while (at > 0 && earlier(path, heap_[(at - 1) / 2])) {
      place(static_cast<PathIndex>(at), heap_[(at - 1) / 2]);
      at = (at - 1) / 2;
    }
    for (;;) {
      std::size_t child = 2 * at + 1;
      if (child >= heap_.size()) break;
      if (child + 1 < heap_.size() && earlier(heap_[child + 1], heap_[child])) ++child;
      if (!earlier(heap_[child], path)) break;
      place(static_cast<PathIndex>(at), heap_[child]);
      at = child;
    }
    place(static_cast<PathIndex>(at), path);
  }

  std::vector<Slot> slots_;
  std::vector<PathIndex> heap_;
  Duration max_;
};

}  // namespace mrc::inline v0_1::path
