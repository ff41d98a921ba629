// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <deque>

#include "mrc/path/trials.hpp"

namespace mrc::path::size_trials_test {
namespace {

using namespace std::chrono_literals;

constexpr Duration kRtt = 10us;

/// A plane 3 that answers as told, and the time.
struct Rig {
  explicit Rig(bool probed = true, PlaneMask segmenting = 0) : trials(segmenting) {
    if (probed) trials.allow_probes();
  }
  void lose(unsigned n) {
    for (unsigned i = 0; i < n; ++i) (void)trials.on_loss(3, now);
  }
  /// Runs for so long; answers come at once. Returns the number of probes, both sizes.
  unsigned run(Duration d) {
    unsigned probes = 0;
    for (const Time end = now + d;;) {
      const auto p = trials.poll(now, kRtt);
      if (!p) {
        if (trials.next_probe() > end) break;
        now = std::max(now, trials.next_probe());
        continue;
      }
      CHECK(p->plane == 3);
      probes += p->full + p->small;
      if (p->full && answers_full) trials.on_answer(3, true, now, now);
      if (p->small && answers_small) trials.on_answer(3, false, now, now);
    }
    return probes;
  }
  SizeTrials trials;
  Time now{1s};
  bool answers_full = false, answers_small = true;
};

TEST_CASE("size trials: a plane that answers small probes only is narrow after three rounds") {
  Rig rig;
  CHECK(rig.trials.next_probe() == kNever);
  rig.lose(1);
  CHECK(rig.trials.next_probe() == kNever);
  rig.lose(1);
  CHECK(rig.trials.next_probe() == rig.now);
  const Time begin = rig.now;
  CHECK(rig.run(3 * SizeTrials::kShortestWait) == 6);
  CHECK(rig.trials.narrow() == plane_bit(3));
  CHECK(rig.now - begin == 3 * SizeTrials::kShortestWait);
}

TEST_CASE("size trials: one answer to a full-size probe, or data that arrives, clears a plane") {
  for (const bool by_data : {false, true}) {
    Rig rig;
    rig.lose(5);
    rig.run(2 * SizeTrials::kShortestWait);
    if (by_data)
      rig.trials.on_delivered(3);
    else
      rig.trials.on_answer(3, true, rig.now, rig.now);
    CHECK(rig.trials.next_probe() == kNever);
    CHECK(rig.trials.doubted() == 0);
    CHECK(rig.run(10s) == 0);
    CHECK(rig.trials.narrow() == 0);
    rig.lose(1);  // losses count from the beginning
    CHECK(rig.trials.next_probe() == kNever);
  }
}

TEST_CASE("size trials: where bursts leave in one piece, only probes clear a plane") {
  Rig rig(true, plane_bit(3));
  rig.lose(1);
  rig.trials.on_delivered(3);
  rig.lose(1);
  rig.trials.on_delivered(3);
  CHECK(rig.trials.next_probe() == rig.now);
  rig.answers_full = true;
  CHECK(rig.run(10s) == 2);
  CHECK(rig.trials.doubted() == 0);
  // Losses go on: a round in ten milliseconds at most.
  unsigned probes = 0;
  for (const Time end = rig.now + 100ms; rig.now < end; rig.now += 20us) {
    rig.lose(2);
    rig.trials.on_delivered(3);
    probes += rig.run(0s);
  }
  CHECK(probes <= 2 * 11);
  CHECK(rig.trials.narrow() == 0);
  Rig data(false, plane_bit(3));  // without probes of full size data must do
  data.lose(1);
  data.trials.on_delivered(3);
  CHECK(data.trials.doubted() == 0);
}

TEST_CASE("size trials: answers to small probes from before a round do not count for it") {
  // Packets queue for 8 ms, and other parts of the engine probe the plane, too, every 100 us.
  constexpr Duration kQueue = 8ms;
  for (const bool narrow : {false, true}) {
    CAPTURE(narrow);
    Rig rig;
    struct Sent {
      bool full;
      Time at;
    };
    std::deque<Sent> flying;
    const Time suspected = rig.now + 2 * kQueue;
    for (const Time end = rig.now + 1s; rig.now < end && rig.trials.narrow() == 0;
         rig.now += 100us) {
      if (rig.now == suspected) rig.lose(2);
      if (const auto p = rig.trials.poll(rig.now, kRtt)) {
        if (p->full && !narrow) flying.push_back({true, rig.now});
        if (p->small) flying.push_back({false, rig.now});
      }
      flying.push_back({false, rig.now});
      for (; flying.front().at + kQueue <= rig.now; flying.pop_front())
        rig.trials.on_answer(3, flying.front().full, flying.front().at, rig.now);
    }
    CHECK(rig.trials.narrow() == (narrow ? plane_bit(3) : 0));
    CHECK((rig.trials.doubted() != 0) == narrow);
  }
}

TEST_CASE("size trials: a dead plane is not narrow, and is probed at growing intervals") {
  Rig rig;
  rig.answers_small = false;
  rig.lose(100);
  const unsigned probes = rig.run(10s);
  CHECK(rig.trials.narrow() == 0);
  CHECK(probes < 250);
  rig.answers_small = true;  // it is back, narrow
  rig.run(1s);
  CHECK(rig.trials.narrow() == plane_bit(3));
}

TEST_CASE(
    "size trials: a narrow plane is probed in full size, ever more seldom, until it is wide") {
  Rig rig;
  rig.lose(2);
  rig.run(10ms);
  REQUIRE(rig.trials.narrow() == plane_bit(3));
  CHECK(rig.run(10s) < 20);
  CHECK(rig.trials.narrow() == plane_bit(3));
  rig.answers_full = true;
  CHECK(rig.run(2s) == SizeTrials::kAnswers);
  CHECK(rig.trials.narrow() == 0);
  CHECK(rig.trials.next_probe() == kNever);
}

TEST_CASE("size trials: lost answers of a narrow plane start the count again") {
  Rig rig;
  rig.lose(2);
  rig.run(10ms);
  for (unsigned i = 0; i < 5; ++i) {
    rig.answers_full = true;
    while (!rig.trials.poll(rig.now, kRtt)) rig.now = std::max(rig.now, rig.trials.next_probe());
    rig.trials.on_answer(3, true, rig.now, rig.now);
    (void)rig.trials.poll(rig.now, kRtt);  // this one's answer is lost
    rig.now = rig.trials.next_probe();
  }
  CHECK(rig.trials.narrow() == plane_bit(3));
}

TEST_CASE("size trials: without full-size probes data is the probe") {
  Rig rig(false);
  const auto lose_for_long = [&] {
    rig.lose(1);
    rig.now += SizeTrials::kUnprobedTime;
    rig.lose(SizeTrials::kUnprobedLosses - 1);
  };
  rig.lose(1);
  rig.now += SizeTrials::kUnprobedTime;
  rig.lose(SizeTrials::kUnprobedLosses - 2);
  CHECK(rig.trials.next_probe() == kNever);
  rig.lose(1);
  CHECK(rig.run(10ms) == 3);  // small ones
  CHECK(rig.trials.narrow() == plane_bit(3));
  Duration before{};
  for (unsigned i = 0; i < 4; ++i) {  // each trial by data comes later than the one before
    const Duration pause = rig.trials.next_probe() - rig.now;
    CHECK(pause > before);
    before = pause;
    rig.run(pause);
    REQUIRE(rig.trials.narrow() == 0);
    lose_for_long();
    rig.run(4ms);
    REQUIRE(rig.trials.narrow() == plane_bit(3));
  }
  rig.run(64s);
  rig.lose(1);
  rig.trials.on_delivered(3);  // it is wide again: the next time begins with the first interval
  lose_for_long();
  rig.run(4ms);
  CHECK(rig.trials.next_probe() - rig.now <= SizeTrials::kFirstDataRetry);
}

TEST_CASE("size trials: without full-size probes a burst that a busy host loses tells nothing") {
  Rig rig(false);
  for (unsigned i = 0; i < 5; ++i) {
    rig.lose(10 * SizeTrials::kUnprobedLosses);
    rig.now += SizeTrials::kUnprobedTime - 1ms;
    rig.lose(1);
    CHECK(rig.trials.next_probe() == kNever);
    rig.trials.on_delivered(3);
  }
  rig.lose(SizeTrials::kUnprobedLosses);
  rig.now += SizeTrials::kUnprobedTime;
  CHECK(rig.trials.next_probe() == kNever);
  rig.lose(1);
  CHECK(rig.trials.next_probe() == rig.now);
}

TEST_CASE("size trials: silence suspects planes whose probes can tell, a stop forgets them") {
  Rig blind(false);
  blind.trials.on_silence(plane_bit(3), blind.now);
  CHECK(blind.trials.next_probe() == kNever);
  Rig rig;
  rig.trials.on_silence(plane_bit(3), rig.now);
  CHECK(rig.trials.next_probe() == rig.now);
  rig.trials.stop(3);
  CHECK(rig.trials.next_probe() == kNever);
}

}  // namespace
}  // namespace mrc::path::size_trials_test
