// SPDX-License-Identifier: Apache-2.0
#include "mrc/path/path_entry.hpp"

#include <doctest/doctest.h>

#include "fixture.hpp"

namespace mrc::path::health_test {
namespace {

using namespace testing;
using In = HealthInput;

constexpr Health G = Health::good;
constexpr Health S = Health::skip;
constexpr Health B = Health::assumed_bad;
constexpr Health D = Health::denied;

TEST_CASE("path health: the whole table of mrc-1.0 §3.4") {
  struct Row {
    In input;
    Health from_good, from_skip, from_bad, from_denied;
  };
  const Row rows[] = {
      {In::skip_once, S, S, B, D},
      {In::always_skip, B, B, B, D},
      {In::trimmed, S, S, B, D},
      {In::timeout, B, B, B, D},
      {In::loss, G, S, B, D},
      {In::loss_limit, B, B, B, D},
      {In::rotation, G, G, B, D},
      {In::revived, G, S, G, D},
      {In::revived_marked, G, S, S, D},
      {In::refused, S, S, B, D},
      {In::released, G, S, S, D},
      {In::administer_good, G, G, G, G},
      {In::administer_denied, D, D, D, D},
  };
  static_assert(std::size(rows) == kHealthInputs);
  for (const Row& row : rows) {
    CAPTURE(static_cast<int>(row.input));
    CHECK(next_health(G, row.input) == row.from_good);
    CHECK(next_health(S, row.input) == row.from_skip);
    CHECK(next_health(B, row.input) == row.from_bad);
    CHECK(next_health(D, row.input) == row.from_denied);
  }
}

TEST_CASE("path health: API values, SKIP reported as GOOD [C-11]") {
  CHECK(to_api(G) == 1);
  CHECK(to_api(S) == 1);
  CHECK(to_api(B) == 2);
  CHECK(to_api(D) == 4);
}

/// A set whose path 0 is brought into `state`.
PathSet set_in(Health state) {
  PathSet set(universe(2, 4), {}, 1);
  if (state == S) set.on_mark(0, Mark::skip_once, at(0ms));
  if (state == B) set.on_mark(0, Mark::always_skip, at(0ms));
  if (state == D) REQUIRE(set.set_health(0, D) == Errc::ok);
  REQUIRE(set.health(0) == state);
  return set;
}

TEST_CASE("path set: every feedback call in every state does what the table says") {
  struct Row {
    const char* name;
    void (*act)(PathSet&);
    Health from_good, from_skip, from_bad, from_denied;
  };
  const Row rows[] = {
      {"m = 00", [](PathSet& s) { s.on_mark(0, Mark::none, at(1ms)); }, G, S, B, D},
      {"m = 01", [](PathSet& s) { s.on_mark(0, Mark::skip_once, at(1ms)); }, S, S, B, D},
      {"m = 10", [](PathSet& s) { s.on_mark(0, Mark::always_skip, at(1ms)); }, B, B, B, D},
      {"trimmed", [](PathSet& s) { s.on_trimmed(0, at(1ms)); }, S, S, B, D},
      {"timeout", [](PathSet& s) { s.on_timeout(0, at(1ms)); }, B, B, B, D},
      {"one loss", [](PathSet& s) { s.on_inferred_loss(0, at(1ms)); }, G, S, B, D},
      {"three losses",
       [](PathSet& s) {
         for (int i = 0; i < 3; ++i) s.on_inferred_loss(0, at(1ms));
       },
       B, B, B, D},
      {"delivery", [](PathSet& s) { s.on_delivered(0, at(1ms), at(1ms)); }, G, S, B, D},
      {"unsolicited probe answer", [](PathSet& s) { s.on_probe_answer(0, Mark::none, at(1ms)); }, G,
       S, B, D},
      {"marked probe answer", [](PathSet& s) { s.on_probe_answer(0, Mark::skip_once, at(1ms)); }, S,
       S, B, D},
      {"plane down",
       [](PathSet& s) {
         s.set_plane_up(0, false);
         s.on_timeout(0, at(1ms));
         for (int i = 0; i < 3; ++i) s.on_inferred_loss(0, at(1ms));
       },
       G, S, B, D},
      {"controller writes GOOD", [](PathSet& s) { CHECK(s.set_health(0, G) == Errc::ok); }, G, G, G,
       G},
      {"controller writes DENIED", [](PathSet& s) { CHECK(s.set_health(0, D) == Errc::ok); }, D, D,
       D, D},
  };
  for (const Row& row : rows) {
    CAPTURE(row.name);
    const Health expected[] = {row.from_good, row.from_skip, row.from_bad, row.from_denied};
    for (const Health from : {G, S, B, D}) {
      CAPTURE(to_string(from));
      PathSet set = set_in(from);
      row.act(set);
      CHECK(set.health(0) == expected[static_cast<int>(from)]);
      // Whatever happened, the walk agrees with the state, and no other path was touched.
      const auto n = counts(set, 64);
      CHECK((n[0] > 0) == set.selectable(0));
      for (PathIndex i = 1; i < set.size(); ++i) CHECK(set.health(i) == G);
    }
  }
}

TEST_CASE("path set: revived by probes, to GOOD or, if the last answer was marked, to SKIP") {
  for (const bool marked : {false, true}) {
    PathSet set = set_in(B);
    Time now = at(0ms);
    for (int i = 0; i < 3; ++i) {
      CHECK(set.health(0) == B);
      now = set.next_probe();
      REQUIRE(set.poll_probe(now) == 0);
      set.on_probe_answer(0, marked && i == 2 ? Mark::skip_once : Mark::none, now);
    }
    CHECK(set.health(0) == (marked ? S : G));
    CHECK(set.next_probe() == kNever);
  }
}

TEST_CASE("path set: a delivery between losses keeps a path in use [O-4]") {
  PathSet set(universe(1, 4), {}, 1);
  for (int i = 0; i < 20; ++i) {
    set.on_inferred_loss(0, at(1ms));
    set.on_inferred_loss(0, at(1ms));
    set.on_delivered(0, at(1ms), at(1ms));
  }
  CHECK(set.health(0) == G);
  for (int i = 0; i < 3; ++i) set.on_inferred_loss(0, at(1ms));
  CHECK(set.health(0) == B);

  PathSet tolerant(universe(1, 4), {.loss_strikes = 0}, 1);
  for (int i = 0; i < 1000; ++i) tolerant.on_inferred_loss(0, at(1ms));
  CHECK(tolerant.health(0) == G);
  CHECK(tolerant.stats(0).losses == 1000);
}

TEST_CASE("path set: round-trip times of a path are smoothed, and forgotten with its EV") {
  PathSet set(universe(1, 4), {}, 1);
  CHECK(set.stats(0).rtt_ns == 0);
  set.on_rtt(0, 1ms);
  CHECK(set.stats(0).rtt_ns == 1'000'000);
  set.on_rtt(0, 9ms);
  CHECK(set.stats(0).rtt_ns == 2'000'000);
  for (int i = 0; i < 200; ++i) set.on_rtt(0, 500us);
  CHECK(set.stats(0).rtt_ns < 501'000);
  CHECK(set.stats(0).rtt_ns >= 500'000);
  set.on_rtt(1, 1h);  // more than is kept
  set.on_rtt(1, -1ms);
  CHECK(set.stats(1).rtt_ns > 3'000'000'000);
  CHECK(set.stats(2).rtt_ns == 0);
  set.on_rtt(kNoPath, 1ms);
  CHECK(set.replace(0, {Ev{99}, 0, 0}, Health::good) == Errc::ok);
  CHECK(set.stats(0).rtt_ns == 0);
}

TEST_CASE(
    "path set: a packet that was sent twice counts, but proves nothing about the path [O-4]") {
  const Duration start = 1s;
  PathSet set(universe(1, 4), {}, 1);
  set.on_delivered(0, at(start), at(start + 1ms), false);
  CHECK(set.stats(0).delivered == 1);
  CHECK_FALSE(set.passed(0, at(start - 1ms)));
  set.on_delivered(0, at(start + 1ms), at(start + 2ms));
  CHECK(set.passed(0, at(start)));
  set.on_delivered(0, at(start + 5ms), at(start + 6ms), false);
  CHECK_FALSE(set.passed(0, at(start + 4ms)));
  CHECK(set.stats(0).delivered == 3);

  set.on_inferred_loss(0, at(start + 7ms));
  set.on_inferred_loss(0, at(start + 7ms));
  set.on_delivered(0, at(start + 6ms), at(start + 7ms), false);
  CHECK(set.health(0) == G);
  set.on_inferred_loss(0, at(start + 7ms));
  CHECK(set.health(0) == B);
}

TEST_CASE("path set: what passed before a long silence passes nothing after it") {
  // Where clocks of 32 bits start over.
  constexpr Duration kWraps[] = {Duration{std::int64_t{1} << 32}, Duration{std::int64_t{16} << 32}};
  for (const Duration start : {0ns, Duration{1h}, kWraps[1] - 1ns}) {
    for (const Duration silence : {Duration{10s}, Duration{34s}, Duration{35s}, Duration{60s},
                                   kWraps[0] + 50us, kWraps[1] + 50us, 3 * kWraps[1] + 50us}) {
      INFO("start ", start.count(), " silence ", silence.count());
      PathSet set(universe(1, 4), {}, 1);
      set.on_delivered(0, at(start), at(start + 10us));
      const Time now = at(start + silence);
      for (const Duration age : {0ns, Duration{1us}, Duration{100us}, Duration{100ms}})
        CHECK_FALSE(set.passed(0, now - age));
      // The next delivery is as good as the first.
      set.on_delivered(0, now - 20us, now);
      CHECK(set.passed(0, now - 30us));
      CHECK_FALSE(set.passed(0, now - 20us));
      CHECK_FALSE(set.passed(0, now - 10us));
      // One that had been sent before it takes nothing away.
      set.on_delivered(0, now - 40us, now);
      CHECK(set.passed(0, now - 30us));
      CHECK_FALSE(set.passed(1, now - 30us));
    }
  }
}

TEST_CASE("path set: set_health takes GOOD and DENIED only") {
  PathSet set(universe(1, 2), {}, 1);
  CHECK(set.set_health(0, S) == Errc::invalid_argument);
  CHECK(set.set_health(0, B) == Errc::invalid_argument);
  CHECK(set.set_health(2, G) == Errc::invalid_argument);
  CHECK(set.set_health(kNoPath, D) == Errc::invalid_argument);
  CHECK(set.health(0) == G);
}

}  // namespace
}  // namespace mrc::path::health_test
