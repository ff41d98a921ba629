// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <algorithm>

#include "fixture.hpp"

namespace mrc::path::probe_test {
namespace {

using namespace testing;

/// Runs the probe timer in virtual time until `end`, and gives the times of the probes.
std::vector<std::pair<Time, PathIndex>> run_probes(PathSet& set, Time end) {
  std::vector<std::pair<Time, PathIndex>> out;
  while (set.next_probe() <= end) {
    const Time now = set.next_probe();
    CHECK(set.poll_probe(now - 1ns) == kNoPath);
    const PathIndex path = set.poll_probe(now);
    REQUIRE(path != kNoPath);
    out.emplace_back(now, path);
  }
  return out;
}

TEST_CASE("probes: at first after four round trips, then after an eighth of the outage [O-6]") {
  PathSet set(universe(1, 4), {}, 1);
  set.set_probe_spacing(10us);
  CHECK(set.next_probe() == kNever);
  CHECK(set.poll_probe(at(1ms)) == kNoPath);
  set.on_timeout(2, at(5ms));
  Time expected = at(5ms) + 40us;
  for (const auto& [time, path] : run_probes(set, at(5s))) {
    CHECK(time == expected);
    CHECK(path == 2);
    expected += std::clamp<Duration>((time - at(5ms)) / 8, 40us, 100ms);
  }
  CHECK(expected > at(5s));
  CHECK(set.stats(2).probes_sent < 120);
}

TEST_CASE("probes: every millisecond while no round trip is known, or as configured") {
  PathSet set(universe(1, 4), {}, 1);
  set.on_timeout(2, at(5ms));
  CHECK(set.next_probe() == at(6ms));
  PathSet slow(universe(1, 4), {.probe_first = 3ms}, 1);
  slow.set_probe_spacing(10us);
  slow.on_timeout(2, at(5ms));
  CHECK(slow.next_probe() == at(8ms));
}

TEST_CASE("probes: a path that fails again and again is tried ever less often") {
  PathSet set(universe(1, 4), {}, 1);
  set.set_probe_spacing(10us);
  Time now = at(1s);
  const auto time_to_revive = [&] {
    const Time failed = now;
    set.on_timeout(2, now);
    while (set.health(2) == Health::assumed_bad) {
      now = set.next_probe();
      REQUIRE(set.poll_probe(now) == 2);
      set.on_probe_answer(2, Mark::none, now);
    }
    return now - failed;
  };
  CHECK(time_to_revive() == 120us);
  for (int i = 1; i <= 10; ++i) {
    now += 100us;
    CHECK(time_to_revive() == 120us * (1 << i));
  }
  for (int i = 0; i < 20; ++i) (void)time_to_revive();
  CHECK(time_to_revive() == 300ms);
  now += 64 * 100ms - 1ms;
  CHECK(time_to_revive() == 300ms);
  now += 64 * 100ms + 1ms;  // it has worked for long enough
  CHECK(time_to_revive() == 120us);
  // The one that takes its place has no past.
  for (int i = 0; i < 5; ++i) (void)time_to_revive();
  REQUIRE(set.replace(2, {Ev{77}, 0, 9}, Health::good, now) == Errc::ok);
  CHECK(time_to_revive() == 120us);
}

TEST_CASE("probes: an answer starts the intervals over; three in a row revive the path") {
  PathSet set(universe(1, 4), {}, 1);
  set.on_timeout(2, at(0ms));
  const Time last = run_probes(set, at(200ms)).back().first;
  CHECK(set.next_probe() > last + 20ms);
  set.on_probe_answer(2, Mark::none, last + 50us);
  CHECK(set.next_probe() == last + 1050us);
  for (int i = 0; i < 2; ++i) {
    CHECK(set.health(2) == Health::assumed_bad);
    const Time now = set.next_probe();
    REQUIRE(set.poll_probe(now) == 2);
    set.on_probe_answer(2, Mark::none, now + 50us);
  }
  CHECK(set.health(2) == Health::good);
}

TEST_CASE("probes: successes must be consecutive, each answer counts once") {
  PathSet set(universe(1, 4), {}, 1);
  set.on_timeout(2, at(0ms));
  const auto probe = [&set](bool answered, Mark mark = Mark::none) {
    const Time now = set.next_probe();
    REQUIRE(set.poll_probe(now) == 2);
    if (answered) set.on_probe_answer(2, mark, now);
  };
  SUBCASE("an unanswered one between") {
    for (const bool answered : {true, true, false, true, true}) probe(answered);
    CHECK(set.health(2) == Health::assumed_bad);
    probe(true);
    CHECK(set.health(2) == Health::good);
  }
  SUBCASE("an answer that says ALWAYS_SKIP between") {
    probe(true);
    probe(true);
    probe(true, Mark::always_skip);
    CHECK(set.health(2) == Health::assumed_bad);
    probe(true);
    probe(true);
    CHECK(set.health(2) == Health::assumed_bad);
    probe(true);
    CHECK(set.health(2) == Health::good);
  }
  SUBCASE("repeated and unasked answers") {
    probe(true);
    for (int i = 0; i < 10; ++i) set.on_probe_answer(2, Mark::none, at(2ms));
    CHECK(set.health(2) == Health::assumed_bad);
  }
}

TEST_CASE("probes: at most one per RTT and destination") {
  PathSet set(universe(4, 16), {}, 1);
  set.set_probe_spacing(300us);
  for (PathIndex i = 0; i < 40; ++i) set.on_timeout(i, at(0ms));
  const auto probes = run_probes(set, at(500ms));
  REQUIRE(probes.size() > 200);
  for (std::size_t i = 1; i < probes.size(); ++i)
    CHECK(probes[i].first - probes[i - 1].first >= 300us);
  for (PathIndex i = 0; i < 40; ++i) CHECK(set.stats(i).probes_sent >= 4);  // no path starves
}

TEST_CASE("probes: a long round trip does not make answers look missing") {
  PathSet set(universe(1, 4), {}, 1);
  const Duration rtt = 20ms;
  set.set_probe_spacing(rtt);
  set.on_timeout(2, at(0ms));
  Time answer = kNever;
  for (int i = 0; i < 20 && set.health(2) == Health::assumed_bad; ++i) {
    const Time next = std::min(answer, set.next_probe());
    if (next == answer) {
      set.on_probe_answer(2, Mark::none, next);
      answer = kNever;
    } else {
      REQUIRE(set.poll_probe(next) == 2);
      answer = next + rtt + 5ms;  // and a little late, too
    }
  }
  CHECK(set.health(2) == Health::good);
}

TEST_CASE("probe schedule: as a sorted list would do it, under random operations") {
  constexpr PathIndex kPaths = 40;
  ProbeSchedule schedule(kPaths, 100ms);
  std::vector<Time> due(kPaths, kNever);  // the model; intervals are taken from the answers
  Random random(7);
  Time now = at(0ms);
  for (int i = 0; i < 20'000; ++i) {
    const auto path = static_cast<PathIndex>(random.below(kPaths));
    switch (random.below(4)) {
      case 0:
        schedule.start(path, now, random.below(5000) * 1us);
        break;
      case 1:
        schedule.stop(path, now);
        due[path] = kNever;
        break;
      default: {
        const Time next = schedule.next();
        if (next == kNever) break;
        now = std::max(now, next);
        const PathIndex probed = schedule.poll(now, 1ms);
        REQUIRE(probed != kNoPath);
        CHECK(schedule.poll(at(-1h), 1ms) == kNoPath);
        if (random.chance(0.3)) schedule.succeeded(probed, now, 1ms);
        break;
      }
    }
  }
  for (PathIndex p = 0; p < kPaths; ++p) schedule.stop(p, now);
  CHECK(schedule.next() == kNever);
  // What comes out is in order of its due time.
  for (PathIndex p = 0; p < kPaths; ++p) {
    due[p] = now + random.below(900) * 1us;
    schedule.resume(p, due[p]);
  }
  std::vector<Time> sorted = due;
  std::sort(sorted.begin(), sorted.end());
  for (const Time t : sorted) {
    CHECK(schedule.next() == t);
    CHECK(due[schedule.poll(t, 1ms)] == t);
  }
}

}  // namespace
}  // namespace mrc::path::probe_test
