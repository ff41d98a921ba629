// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "mrc/path/trials.hpp"

using namespace mrc;
using namespace std::chrono_literals;
using path::PlaneTrials;

namespace plane_trials_test {
constexpr Duration kRtt = 20us;
constexpr Time kStart{1s};

TEST_CASE(
    "plane trials: a plane that is back is withheld until three probes in a row were answered") {
  PlaneTrials t;
  CHECK(t.next_probe() == kNever);
  t.withhold(2, kStart);
  CHECK(t.withheld() == plane_bit(2));
  CHECK(t.next_probe() == kStart);
  Time now = kStart;
  for (int i = 0; i < 3; ++i) {
    CHECK(t.poll_probe(now, kRtt) == Plane{2});
    CHECK_FALSE(t.poll_probe(now, kRtt));
    now += kRtt;
    CHECK(t.on_answer(2, now) == (i == 2));  // the next probe follows at once
  }
  CHECK(t.withheld() == 0);
  CHECK(t.next_probe() == kNever);
  CHECK_FALSE(t.on_answer(2, now));
}

TEST_CASE("plane trials: a missed answer starts the count over") {
  PlaneTrials t;
  t.withhold(0, kStart);
  Time now = kStart;
  for (int i = 0; i < 20; ++i) {
    for (int answered = 0; answered < 2; ++answered) {
      REQUIRE(t.poll_probe(now, kRtt));
      CHECK_FALSE(t.on_answer(0, now += kRtt));
    }
    REQUIRE(t.poll_probe(now, kRtt));
    now = t.next_probe();
  }
  CHECK(t.withheld() == 1);
}

TEST_CASE("plane trials: unanswered probes are repeated for ever, at growing intervals") {
  PlaneTrials t;
  t.withhold(0, kStart);
  Time now = kStart;
  Duration last{};
  for (int i = 0; i < 50; ++i) {
    REQUIRE(t.poll_probe(now, kRtt));
    const Duration wait = t.next_probe() - now;
    CHECK(wait >= last);
    CHECK(wait >= 100us);
    CHECK(wait <= 100ms);
    last = wait;
    now = t.next_probe();
  }
  CHECK(last == 100ms);
  // Something arrived from there: at once, but not at once again.
  t.hurry(0, now - 50ms);
  CHECK(t.next_probe() == now - 50ms);
  REQUIRE(t.poll_probe(now - 50ms, kRtt));
  CHECK(t.next_probe() > now - 50ms);
}

TEST_CASE("plane trials: traffic from a plane that is dead in this direction makes few probes") {
  PlaneTrials t;
  t.withhold(0, kStart);
  int probes = 0;
  for (Time now = kStart; now < kStart + 1s; now += 10us) {
    t.hurry(0, now);
    if (now >= t.next_probe()) probes += t.poll_probe(now, kRtt).has_value();
  }
  CHECK(probes < 100);
}

TEST_CASE("plane trials: a suspected plane is used on, and withheld after three silences") {
  PlaneTrials t;
  t.suspect(1, kStart);
  CHECK(t.suspected() == plane_bit(1));
  CHECK(t.withheld() == 0);
  Time now = kStart;
  for (int i = 0; i < 3; ++i) {
    REQUIRE(t.poll_probe(now, kRtt));
    CHECK(t.withheld() == 0);
    t.suspect(1, now);  // saying it again changes nothing
    now = t.next_probe();
  }
  REQUIRE(t.poll_probe(now, kRtt));
  CHECK(t.withheld() == plane_bit(1));
  CHECK(t.suspected() == 0);
  // It is probed on, and comes back like any other.
  for (int i = 0; i < 3; ++i) {
    now = t.next_probe();
    REQUIRE(t.poll_probe(now, kRtt));
    t.on_answer(1, now);
  }
  CHECK(t.withheld() == 0);
}

TEST_CASE("plane trials: an answer refutes a suspicion") {
  PlaneTrials t;
  t.suspect(1, kStart);
  Time now = kStart;
  for (int i = 0; i < 3; ++i) {
    REQUIRE(t.poll_probe(now, kRtt));
    CHECK(t.on_answer(1, now += kRtt) == (i == 2));
    CHECK(t.withheld() == 0);
  }
  CHECK(t.suspected() == 0);
}

TEST_CASE("plane trials: several planes take turns, and each can be stopped") {
  PlaneTrials t;
  t.withhold(0, kStart);
  t.suspect(31, kStart);
  CHECK(t.poll_probe(kStart, kRtt) == Plane{0});
  CHECK(t.poll_probe(kStart, kRtt) == Plane{31});
  CHECK_FALSE(t.poll_probe(kStart, kRtt));
  t.stop(0);
  t.stop(31);
  CHECK(t.next_probe() == kNever);
}

}  // namespace plane_trials_test
