// SPDX-License-Identifier: Apache-2.0
#include "mrc/path/trials.hpp"

#include <doctest/doctest.h>

#include "fixture.hpp"

namespace mrc::path::narrow_path_test {
namespace {

using namespace testing;

TEST_CASE("narrow path: three rounds in which only small probes are answered, and each once") {
  NarrowPath trial;
  Time now = at(1s);
  CHECK_FALSE(trial.on_full_probe(5, 10us, now));
  CHECK_FALSE(trial.on_full_probe(5, 10us, now + 19ms));  // it may be an outage
  now += 20ms;
  for (unsigned round = 0; round < NarrowPath::kRounds; ++round, now += 10ms) {
    REQUIRE(trial.on_full_probe(5, 10us, now));
    CHECK_FALSE(trial.on_full_probe(5, 10us, now + 500us));  // the round is too young
    CHECK_FALSE(trial.on_full_probe(6, 10us, now + 1ms));    // one path at a time
    trial.on_answer(5, false, now);
    CHECK_FALSE(trial.found());
  }
  CHECK_FALSE(trial.on_full_probe(5, 10us, now));
  CHECK(trial.found());
  CHECK_FALSE(trial.on_full_probe(6, 10us, now));  // until it is taken
  CHECK(trial.take() == 5);
  CHECK(trial.take() == kNoPath);
  for (const PathIndex path : {PathIndex{5}, PathIndex{6}}) {
    CHECK_FALSE(trial.on_full_probe(path, 10us, now));
    CHECK(trial.on_full_probe(path, 10us, now + 20ms) == (path == 6));
  }
}

TEST_CASE("narrow path: dead paths, those that carry all, and late answers are none") {
  NarrowPath trial;
  Time now = at(1s);
  const auto rounds = [&](bool small, unsigned full_every) {
    for (unsigned i = 1; i <= 30; ++i, now += 10ms) {
      (void)trial.on_full_probe(3, 10us, now);
      if (small) trial.on_answer(3, false, now);
      if (full_every != 0 && i % full_every == 0) trial.on_answer(3, true, now);
      trial.on_answer(4, false, now);
    }
    return trial.found();
  };
  CHECK_FALSE(rounds(false, 0));
  CHECK_FALSE(rounds(true, 1));
  CHECK_FALSE(rounds(true, 4));
  now += NarrowPath::kLongestWait;
  CHECK_FALSE(trial.on_full_probe(7, 10us, now));  // the other has not been probed for long
  for (unsigned i = 0; i < 20; ++i, now += 20ms) {
    trial.on_answer(7, false, at(1s));  // to what was sent before the trial
    (void)trial.on_full_probe(7, 10us, now);
  }
  CHECK_FALSE(trial.found());
  now += NarrowPath::kLongestWait;
  CHECK(rounds(true, 0));
  CHECK(trial.take() == 3);
}

}  // namespace
}  // namespace mrc::path::narrow_path_test
