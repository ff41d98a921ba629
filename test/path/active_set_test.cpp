// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <array>
#include <string>

#include "fixture.hpp"

namespace mrc::path::active_set_test {
namespace {

using namespace testing;

/// Places of the active set by plane.
std::array<unsigned, 4> places(const PathSet& set) {
  std::array<unsigned, 4> n{};
  for (PathIndex i = 0; i < set.size(); ++i)
    if (set.active(i)) ++n[set[i].plane];
  return n;
}

void revive(PathSet& set, PathIndex path) {
  for (int i = 0; i < 1000 && set.health(path) == Health::assumed_bad; ++i) {
    const Time now = set.next_probe();
    const PathIndex probe = set.poll_probe(now);
    if (probe == path) set.on_probe_answer(path, Mark::none, now);
  }
  REQUIRE(set.health(path) == Health::good);
}

TEST_CASE("active set: places are shared out evenly, whatever the order of the list") {
  auto specs = universe(4, 8);
  std::stable_sort(specs.begin(), specs.end(),
                   [](const PathSpec& a, const PathSpec& b) { return a.plane < b.plane; });
  PathSet set(specs, {.active = 20}, 1);
  CHECK(places(set) == std::array<unsigned, 4>{5, 5, 5, 5});
  CHECK(set.active_count() == 20);
}

TEST_CASE("active set: a bad path is replaced by a backup of its plane, then the set shrinks") {
  PathSet set(universe(2, 4), {.active = 4}, 1);  // active 0..3, backup 4..7; plane = index % 2
  set.on_timeout(0, at(0ms));
  CHECK_FALSE(set.active(0));
  CHECK((set.active(4) && set.active_count() == 4));
  set.on_timeout(2, at(0ms));
  CHECK((set.active(6) && set.active_count() == 4));
  CHECK(places(set) == std::array<unsigned, 4>{2, 2});
  set.on_timeout(4, at(0ms));  // plane 0 has no backup left; plane 1's are not touched
  CHECK(set.active(4));
  CHECK(set.active_count() == 3);
  CHECK_FALSE((set.active(5) || set.active(7)));
  const auto n = counts(set, 300);
  CHECK((n[6] == 100 && n[1] == 100 && n[3] == 100));

  SUBCASE("a revived path takes the idle place ...") {
    revive(set, 0);
    CHECK((set.active(0) && !set.active(4) && set.active_count() == 4));
    SUBCASE("... and the next one is a backup") {
      revive(set, 2);
      CHECK_FALSE(set.active(2));
      CHECK(set.active_count() == 4);
      revive(set, 4);
      CHECK_FALSE(set.active(4));
      CHECK(places(set) == std::array<unsigned, 4>{2, 2});
    }
  }
  SUBCASE("the oldest bad place is released first") {
    set.on_timeout(6, at(1ms));  // now 4 (older) and 6 hold places of plane 0
    CHECK(set.active_count() == 2);
    REQUIRE(set.set_health(2, Health::good) == Errc::ok);
    CHECK((set.active(2) && !set.active(4) && set.active(6)));
    REQUIRE(set.set_health(0, Health::good) == Errc::ok);
    CHECK((set.active(0) && !set.active(6)));
    CHECK(set.active_count() == 4);
  }
}

TEST_CASE(
    "active set: EVs that share routes stand in for other routes, and give their places back") {
  // One plane, routes 0 and 1, with two EVs each: 0 and 2 are of route 0, 1 and 3 of route 1.
  std::vector<PathSpec> specs;
  for (std::uint32_t i = 0; i < 4; ++i)
    specs.push_back({Ev{i}, 0, static_cast<std::uint16_t>(i % 2)});
  PathSet set(specs, {.active = 2, .shared_routes = true}, 1);
  const auto in_use = [&] {
    std::vector<int> paths;
    for (PathIndex p = 0; p < 4; ++p)
      if (set.selectable(p)) paths.push_back(p);
    return paths;
  };
  CHECK(in_use() == std::vector<int>{0, 1});
  set.on_timeout(0, at(0ms));
  CHECK(in_use() == std::vector<int>{1, 3});  // not 2, which fails like 0
  revive(set, 0);
  const auto back = in_use();
  REQUIRE(back.size() == 2);
  CHECK(back[0] == 0);  // route 0 carries again, and one EV of route 1 is a backup again
  // A second fault, of the other route.
  const auto other = static_cast<PathIndex>(back[1]);
  set.on_timeout(other, at(3ms));
  CHECK(in_use() == std::vector<int>{0, 2});
  revive(set, other);
  CHECK(in_use().size() == 2);
  CHECK(set.selectable(other));
}

TEST_CASE("active set: a GOOD backup is preferred to a SKIP one") {
  PathSet set(universe(1, 3), {.active = 1}, 1);
  set.on_trimmed(1, at(0ms));
  set.on_timeout(0, at(0ms));
  CHECK(set.active(2));
}

TEST_CASE("min_active: marking is refused, the path becomes SKIP, the refusal is counted [O-14]") {
  PathSet set(universe(2, 4), {.min_active = 6}, 1);
  for (PathIndex i = 0; i < 8; ++i) set.on_timeout(i, at(0ms));
  CHECK(set.active_count() == 6);
  CHECK(set.refusals() == 6);
  for (PathIndex i = 0; i < 8; ++i)
    CHECK(set.health(i) == (i < 2 ? Health::assumed_bad : Health::skip));
  for (int i = 0; i < 100; ++i) CHECK(set.select(kAllPlanes) >= 2);
  for (int i = 0; i < 2; ++i) set.on_inferred_loss(7, at(0ms));
  CHECK(set.refusals() == 6);
  set.on_inferred_loss(7, at(0ms));  // strikes and m = 10 are refused as well
  CHECK(set.refusals() == 7);
  set.on_inferred_loss(7, at(0ms));  // a refusal uses the strikes up
  CHECK(set.refusals() == 7);
  set.on_mark(7, Mark::always_skip, at(0ms));
  CHECK(set.refusals() == 8);
  revive(set, 0);  // one more path: one more may go
  set.on_timeout(7, at(1s));
  CHECK(set.health(7) == Health::assumed_bad);
  CHECK(set.active_count() == 6);
}

TEST_CASE("min_active: a replacement from the backup is not refused") {
  PathSet set(universe(1, 4), {.active = 2, .min_active = 2}, 1);
  set.on_timeout(0, at(0ms));
  set.on_timeout(1, at(0ms));
  CHECK((set.health(0) == Health::assumed_bad && set.health(1) == Health::assumed_bad));
  CHECK((set.active_count() == 2 && set.refusals() == 0));
  set.on_timeout(2, at(0ms));
  CHECK((set.health(2) == Health::skip && set.refusals() == 1));
}

TEST_CASE("min_active: the default never leaves a destination without a path") {
  PathSet set(universe(4, 16), {.active = 48}, 1);
  for (int round = 0; round < 3; ++round)
    for (PathIndex i = 0; i < set.size(); ++i) set.on_timeout(i, at(0ms));
  CHECK(set.active_count() == 1);
  CHECK(set.select(kAllPlanes) != kNoPath);
}

TEST_CASE("min_active: denial is not refused, but the oldest bad paths are released") {
  PathSet set(universe(1, 4), {.min_active = 2}, 1);
  set.on_timeout(1, at(0ms));
  set.on_timeout(0, at(1ms));
  REQUIRE(set.set_health(2, Health::denied) == Errc::ok);
  CHECK(set.health(2) == Health::denied);
  CHECK(set.health(1) == Health::skip);
  CHECK(set.health(0) == Health::assumed_bad);
  CHECK((set.releases() == 1 && set.active_count() == 2));
}

TEST_CASE(
    "min_active: released paths when a plane goes down; no path of another plane is used up") {
  PathSet set(universe(2, 2), {.min_active = 2}, 1);
  set.on_timeout(1, at(0ms));
  CHECK(set.health(1) == Health::assumed_bad);
  set.set_plane_up(0, false);
  CHECK(set.health(1) == Health::skip);
  CHECK(set.active_count() == 2);
}

TEST_CASE("planes: down takes the paths out of the walk and keeps their health") {
  PathSet set(universe(2, 4), {}, 1);
  set.on_trimmed(0, at(0ms));
  set.on_timeout(2, at(0ms));
  REQUIRE(set.set_health(4, Health::denied) == Errc::ok);
  set.set_plane_up(0, false);
  set.set_plane_up(0, false);
  CHECK((set.planes_up() & 0b11) == 0b10);
  CHECK(set.usable_planes() == 0b10);
  CHECK(set.active_count() == 4);
  for (int i = 0; i < 100; ++i) CHECK(set[set.select(kAllPlanes)].plane == 1);
  CHECK(set.select(0b01) == kNoPath);
  CHECK(set.next_probe() == kNever);  // no probes into a plane that is down
  CHECK(set.health(0) == Health::skip);
  CHECK(set.health(2) == Health::assumed_bad);
  CHECK(set.health(4) == Health::denied);
  CHECK(set.health(6) == Health::good);
  set.set_plane_up(1, false);
  CHECK(set.select(kAllPlanes) == kNoPath);
  CHECK(set.active_count() == 0);
  set.set_plane_up(1, true);
  set.set_plane_up(0, true);
  CHECK(set.active_count() == 6);
  CHECK(set.health(0) == Health::skip);
  CHECK(set.health(2) == Health::assumed_bad);
  CHECK(set.next_probe() <= at(0ms));  // probing goes on at once
  set.set_plane_up(200, false);        // no such plane: nothing happens
}

TEST_CASE("planes: timeouts of a plane that is down cost no path its health") {
  PathSet set(universe(2, 4), {}, 1);
  set.set_plane_up(0, false);
  for (PathIndex i = 0; i < 8; i = static_cast<PathIndex>(i + 2)) set.on_timeout(i, at(1ms));
  set.set_plane_up(0, true);
  CHECK(set.active_count() == 8);
  CHECK(set.stats(0).timeouts == 1);
}

TEST_CASE("replace: another EV in the entry, also in another plane") {
  PathSet set(universe(2, 4), {.active = 4}, 1);
  set.on_sent(0, 100);
  set.on_timeout(0, at(0ms));
  REQUIRE(set.replace(0, {Ev{77}, 1, 5}, Health::good) == Errc::ok);
  CHECK(set[0] == PathSpec{Ev{77}, 1, 5});
  CHECK(set.health(0) == Health::good);
  CHECK(set.stats(0).sent_packets == 0);
  CHECK(set.next_probe() == kNever);
  CHECK_FALSE(set.active(0));  // its place went to a backup when it turned bad
  REQUIRE(set.replace(1, {Ev{78}, 0, 5}, Health::denied) == Errc::ok);
  CHECK(set.health(1) == Health::denied);
  CHECK(set.replace(0, {Ev{1}, 32, 0}, Health::good) == Errc::invalid_argument);
  CHECK(set.replace(0, {Ev{1}, 0, 0}, Health::skip) == Errc::invalid_argument);
  CHECK(set.replace(8, {Ev{1}, 0, 0}, Health::good) == Errc::invalid_argument);
}

TEST_CASE("replace: what was sent before is not the new path's fault") {
  PathSet set(universe(1, 4), {}, 1);
  REQUIRE(set.replace(2, {Ev{77}, 0, 2}, Health::good, at(5ms)) == Errc::ok);
  for (int i = 0; i < 5; ++i) set.on_inferred_loss(2, at(6ms), at(4ms));
  set.on_timeout(2, at(6ms), at(4ms));
  CHECK(set.health(2) == Health::good);
  CHECK(set.stats(2).losses == 0);
  set.on_timeout(2, at(7ms), at(5ms));
  CHECK(set.health(2) == Health::assumed_bad);
}

TEST_CASE("events: GOOD and ASSUMED_BAD by mask, SKIP makes none") {
  PathSet set(universe(1, 4), {}, 1);
  PathEvent e;
  set.on_trimmed(1, at(0ms));
  (void)counts(set, 16);
  CHECK_FALSE(set.poll_event(e));
  set.on_timeout(1, at(0ms));
  REQUIRE(set.poll_event(e));
  CHECK((e.path == 1 && e.ev == Ev{0x10001} && e.health == Health::assumed_bad && e.dropped == 0));
  REQUIRE(set.set_health(1, Health::denied) == Errc::ok);
  CHECK_FALSE(set.poll_event(e));
  REQUIRE(set.set_health(1, Health::good) == Errc::ok);
  REQUIRE(set.poll_event(e));
  CHECK(e.health == Health::good);
  CHECK_FALSE(set.poll_event(e));

  PathSet quiet(universe(1, 4), {.event_mask = kEventGood}, 1);
  quiet.on_timeout(1, at(0ms));
  CHECK_FALSE(quiet.poll_event(e));
  REQUIRE(quiet.set_health(1, Health::good) == Errc::ok);
  CHECK(quiet.poll_event(e));
}

TEST_CASE("events: a full ring drops, counts, and says so with the next event") {
  PathSet set(universe(1, 16), {.event_capacity = 4}, 1);
  for (PathIndex i = 0; i < 10; ++i) set.on_timeout(i, at(0ms));
  PathEvent e;
  for (PathIndex i = 0; i < 4; ++i) {
    REQUIRE(set.poll_event(e));
    CHECK((e.path == i && e.dropped == 0));
  }
  CHECK_FALSE(set.poll_event(e));
  set.on_timeout(12, at(0ms));
  set.on_timeout(13, at(0ms));
  REQUIRE(set.poll_event(e));
  CHECK((e.path == 12 && e.dropped == 6));
  REQUIRE(set.poll_event(e));
  CHECK((e.path == 13 && e.dropped == 0));
}

TEST_CASE("statistics: every counter") {
  PathSet set(universe(1, 2), {}, 1);
  set.on_sent(0, 4096);
  set.on_sent(0, 1000);
  set.on_delivered(0, at(0ms), at(0ms));
  set.on_mark(0, Mark::skip_once, at(0ms));
  set.on_trimmed(0, at(0ms));
  set.on_inferred_loss(0, at(0ms));
  set.on_timeout(0, at(0ms));
  REQUIRE(set.poll_probe(at(1ms)) == 0);
  set.on_probe_answer(0, Mark::none, at(1ms));
  const PathStats s = set.stats(0);
  CHECK((s.sent_packets == 2 && s.sent_bytes == 5096 && s.delivered == 1));
  CHECK((s.marks == 1 && s.trims == 1 && s.losses == 1 && s.timeouts == 1));
  CHECK((s.probes_sent == 1 && s.probes_answered == 1 && s.times_bad == 1));
}

TEST_CASE("feedback for no path does nothing") {
  PathSet set(universe(1, 2), {}, 1);
  for (const PathIndex i : {PathIndex{2}, kNoPath}) {
    set.on_sent(i, 1);
    set.on_delivered(i, at(0ms), at(0ms));
    set.on_mark(i, Mark::always_skip, at(0ms));
    set.on_trimmed(i, at(0ms));
    set.on_inferred_loss(i, at(0ms));
    set.on_timeout(i, at(0ms));
    set.on_probe_answer(i, Mark::none, at(0ms));
  }
  CHECK(set.active_count() == 2);
}

TEST_CASE("path set: bad settings are named") {
  const auto message = [](std::vector<PathSpec> specs, PathSetOptions options) -> std::string {
    try {
      PathSet set(specs, options, 1);
    } catch (const Error& e) {
      CHECK(e.code() == Errc::invalid_argument);
      return e.what();
    }
    return "";
  };
  CHECK(message({}, {}).find("number of paths is 0") != std::string::npos);
  CHECK(message({{Ev{1}, 32, 0}}, {}).find("plane 32") != std::string::npos);
  CHECK(message(universe(1, 4), {.active = 5}).find("active is 5") != std::string::npos);
  CHECK(message(universe(1, 4), {.min_active = 5}).find("min_active is 5") != std::string::npos);
  CHECK(message(universe(1, 4), {.probe_successes = 0}).find("probe_successes") !=
        std::string::npos);
  CHECK(message(universe(1, 4), {.probe_first = -1ns}).find("probe_first") != std::string::npos);
  CHECK(message(universe(1, 4), {.event_mask = 4}).find("event_mask is 4") != std::string::npos);
  CHECK(message(universe(1, 4), {}).empty());
}

}  // namespace
}  // namespace mrc::path::active_set_test
