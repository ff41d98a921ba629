// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <set>

#include "mrc/core/random.hpp"
#include "mrc/path/trials.hpp"

namespace mrc::path::piece_trials_test {
namespace {

using namespace std::chrono_literals;

constexpr Duration kRtt = 10us;
constexpr Plane kPlane = 3;

/// A plane through which these pieces arrive, and the time.
struct Rig {
  /// Runs for so long; answers come at once. Returns the number of rounds.
  unsigned run(Duration d) {
    unsigned rounds = 0;
    for (const Time end = now + d;;) {
      const auto probes = trials.poll(now, kRtt, full_size);
      if (!probes) {
        if (trials.next_probe() > end) break;
        now = std::max(now, trials.next_probe());
        continue;
      }
      CHECK(probes->plane == kPlane);
      last = *probes;
      ++rounds;
      const Time asked = now;
      const auto answer = [&](bool sent, Piece piece) {
        if (sent && arrive.count(piece) != 0 && random.below(100) < answered)
          trials.on_answer(kPlane, piece, asked, now);
      };
      answer(probes->equal, Piece::equal);
      answer(probes->shorter_end, Piece::shorter_end);
      answer(true, Piece::single);
    }
    now = std::max(now, Time{});
    return rounds;
  }
  PieceTrials trials{plane_bit(kPlane)};
  PieceTrials::Probes last;
  Time now{1s};
  PlaneMask full_size = ~PlaneMask{0};
  std::set<Piece> arrive{Piece::single, Piece::equal, Piece::shorter_end};
  unsigned answered = 100;  ///< of 100 that arrive
  Random random{1};
};

TEST_CASE("piece trials: pieces that arrive are tried once with small packets, then after losses") {
  Rig rig;
  CHECK(rig.trials.next_probe() == kNever);
  rig.trials.start(plane_bit(kPlane), rig.now);
  CHECK(rig.run(10s) == 1);
  CHECK_FALSE(rig.last.full);
  CHECK(rig.last.equal);
  CHECK_FALSE(rig.last.shorter_end);  // small packets have one size
  rig.now += 10s;
  (void)rig.trials.on_loss(kPlane, rig.now);
  CHECK(rig.run(10s) == 1);
  CHECK(rig.last.full);
  CHECK(rig.last.shorter_end);
  CHECK(rig.trials.singly() == 0);
  unsigned rounds = 0;
  for (const Time end = rig.now + 10s; rig.now < end; rig.now += 1ms) {
    (void)rig.trials.on_loss(kPlane, rig.now);
    rounds += rig.run(0s);
  }
  CHECK(rounds <= 101);  // ten in a second
}

TEST_CASE("piece trials: pieces that vanish beside single packets are found in eight rounds") {
  for (const Piece gone : {Piece::equal, Piece::shorter_end}) {
    Rig rig;
    rig.arrive.erase(gone);
    (void)rig.trials.on_loss(kPlane, rig.now);
    CHECK(rig.run(1s) == PieceTrials::kRounds);
    CHECK(rig.trials.singly() == plane_bit(kPlane));
    (void)rig.trials.on_loss(kPlane, rig.now);
    rig.trials.start(plane_bit(kPlane), rig.now);
    CHECK(rig.run(1min) == 0);
    CHECK(rig.run(20 * PieceTrials::kRetry) <= 20 * PieceTrials::kRounds);
    CHECK(rig.trials.singly() == plane_bit(kPlane));
    rig.arrive.insert(gone);
    CHECK(rig.run(PieceTrials::kRetry) == 1);
    CHECK(rig.trials.singly() == 0);
    CHECK(rig.trials.next_probe() == kNever);
  }
}

TEST_CASE("piece trials: silence shows nothing, nor do single packets of an earlier round") {
  Rig rig;
  rig.arrive.clear();
  rig.trials.start(plane_bit(kPlane), rig.now);
  CHECK(rig.run(10s) == PieceTrials::kSilentRounds);
  CHECK(rig.trials.singly() == 0);
  CHECK(rig.trials.next_probe() == kNever);
  rig.now += 10s;
  (void)rig.trials.on_loss(kPlane, rig.now);
  Time before = rig.now;
  while (rig.trials.next_probe() != kNever) {
    const Time asked = rig.now;
    (void)rig.trials.poll(rig.now, kRtt, rig.full_size);
    rig.trials.on_answer(kPlane, Piece::single, before - 1us, rig.now);
    before = asked;
    rig.now = rig.trials.next_probe() == kNever ? rig.now : rig.trials.next_probe();
  }
  CHECK(rig.trials.singly() == 0);
}

TEST_CASE("piece trials: where most packets are lost, pieces do not stand out") {
  Rig rig;
  for (const unsigned answered : {2u, 10u, 20u, 30u, 50u}) {
    CAPTURE(answered);
    rig.answered = answered;
    for (int i = 0; i < 2000; ++i) {
      rig.now += 1s;
      (void)rig.trials.on_loss(kPlane, rig.now);
      CHECK(rig.run(10s) < PieceTrials::kSilentRounds + PieceTrials::kMostRounds);
      REQUIRE(rig.trials.singly() == 0);
    }
  }
  // Those that vanish do, where a fifth of all is lost.
  rig.answered = 80;
  rig.arrive.erase(Piece::equal);
  for (int i = 0; i < 10 && rig.trials.singly() == 0; ++i) {
    rig.now += 1s;
    (void)rig.trials.on_loss(kPlane, rig.now);
    (void)rig.run(10s);
  }
  CHECK(rig.trials.singly() != 0);
}

TEST_CASE("piece trials: planes without segmentation, or out of use, are left alone") {
  PieceTrials none;
  none.start(plane_bit(kPlane), Time{1s});
  (void)none.on_loss(kPlane, Time{1s});
  CHECK(none.next_probe() == kNever);
  Rig rig;
  (void)rig.trials.on_loss(kPlane, rig.now);
  rig.trials.stop(kPlane, rig.now);
  CHECK(rig.trials.next_probe() == kNever);
  rig.arrive.erase(Piece::equal);
  rig.now += 10s;
  (void)rig.trials.on_loss(kPlane, rig.now);
  rig.run(1s);
  REQUIRE(rig.trials.singly() != 0);
  rig.trials.stop(kPlane, rig.now);
  CHECK(rig.trials.singly() != 0);
  CHECK(rig.trials.next_probe() > rig.now);
  // Where packets of full size can't be probed, pieces have no shorter end.
  rig.full_size = 0;
  rig.arrive = {Piece::single, Piece::equal};
  rig.run(2 * PieceTrials::kRetry);
  CHECK(rig.trials.singly() == 0);
}

}  // namespace
}  // namespace mrc::path::piece_trials_test
