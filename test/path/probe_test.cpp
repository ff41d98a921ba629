// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <algorithm>

#include "fixture.hpp"

namespace mrc::path {
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

TEST_CASE("probes: first after 1 ms, then doubling to 100 ms [O-6]") {
  PathSet set(universe(1, 4), {}, 1);
  CHECK(set.next_probe() == kNever);
  CHECK(set.poll_probe(at(1ms)) == kNoPath);
  set.on_timeout(2, at(5ms));
  std::vector<Time> expected;
  Time t = at(6ms);
  for (const int gap : {2, 4, 8, 16, 32, 64, 100, 100, 100}) {
    expected.push_back(t);
    t += gap * 1ms;
  }
  const auto probes = run_probes(set, expected.back());
  REQUIRE(probes.size() == expected.size());
  for (std::size_t i = 0; i < probes.size(); ++i) {
    CHECK(probes[i].first == expected[i]);
    CHECK(probes[i].second == 2);
  }
  CHECK(set.stats(2).probes_sent == expected.size());
}

TEST_CASE("probes: an answer starts the intervals over; three in a row revive the path") {
  PathSet set(universe(1, 4), {}, 1);
  set.on_timeout(2, at(0ms));
  const Time last = run_probes(set, at(200ms)).back().first;
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
  ProbeSchedule schedule(kPaths, 1ms, 100ms);
  std::vector<Time> due(kPaths, kNever);  // the model; intervals are taken from the answers
  Random random(7);
  Time now = at(0ms);
  for (int i = 0; i < 20'000; ++i) {
    const auto path = static_cast<PathIndex>(random.below(kPaths));
    switch (random.below(4)) {
      case 0:
        schedule.start(path, now + random.below(5000) * 1us);
        break;
      case 1:
        schedule.stop(path);
        due[path] = kNever;
        break;
      default: {
        const Time next = schedule.next();
        if (next == kNever) break;
        now = std::max(now, next);
        const PathIndex probed = schedule.poll(now, 0ns);
        REQUIRE(probed != kNoPath);
        CHECK(schedule.poll(at(-1h), 0ns) == kNoPath);
        if (random.chance(0.3)) schedule.succeeded(probed, now);
        break;
      }
    }
  }
  for (PathIndex p = 0; p < kPaths; ++p) schedule.stop(p);
  CHECK(schedule.next() == kNever);
  // What comes out is in order of its due time.
  for (PathIndex p = 0; p < kPaths; ++p) {
    due[p] = now + random.below(900) * 1us;
    schedule.start(p, due[p]);
  }
  std::vector<Time> sorted = due;
  std::sort(sorted.begin(), sorted.end());
  for (const Time t : sorted) {
    CHECK(schedule.next() == t);
    CHECK(due[schedule.poll(t, 0ns)] == t);
  }
}

}  // namespace
}  // namespace mrc::path
