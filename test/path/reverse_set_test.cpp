// SPDX-License-Identifier: Apache-2.0
#include "mrc/path/reverse_paths.hpp"

#include <doctest/doctest.h>

#include <map>
#include <set>
#include <vector>

#include "fixture.hpp"

namespace mrc::path::reverse_set_test {
namespace {

using namespace testing;

struct Peer {
  PathSet paths{universe(4, 8), {}, 1};
  ReverseSet reverse;
  Random random{2};
};

TEST_CASE("reverse set: same plane when it is up and free, its confirmed path when known [O-18]") {
  Peer p;
  std::set<PathIndex> seen;
  for (int i = 0; i < 500; ++i) {
    const PathIndex path = p.reverse.pick(2, kAllPlanes, p.paths, p.random);
    REQUIRE(p.paths[path].plane == 2);
    seen.insert(path);
  }
  CHECK(seen.size() == 8);  // nothing confirmed: a random one
  p.reverse.on_working(6, at(0ms), p.paths);
  CHECK(p.reverse.confirmed(2) == 6);
  for (int i = 0; i < 50; ++i) CHECK(p.reverse.pick(2, kAllPlanes, p.paths, p.random) == 6);
  p.reverse.on_working(10, at(1ms), p.paths);  // they take turns
  for (int i = 0; i < 50; ++i)
    CHECK(p.reverse.pick(2, kAllPlanes, p.paths, p.random) == (i % 2 == 0 ? 10 : 6));

  SUBCASE("plane busy or down: another, with a confirmed path first") {
    for (int i = 0; i < 50; ++i)
      CHECK(p.paths[p.reverse.pick(1, 0b1001, p.paths, p.random)].plane != 1);
    for (int i = 0; i < 50; ++i)
      CHECK(p.paths[p.reverse.pick(1, 0b1100, p.paths, p.random)].plane == 2);
    p.paths.set_plane_up(2, false);
    for (int i = 0; i < 50; ++i)
      CHECK(p.paths[p.reverse.pick(2, kAllPlanes, p.paths, p.random)].plane != 2);
    CHECK(p.reverse.pick(2, 0b0100, p.paths, p.random) == kNoPath);
    CHECK(p.reverse.pick(99, kAllPlanes, p.paths, p.random) != kNoPath);
  }
  SUBCASE("a confirmed path turns bad: it has to be confirmed again") {
    p.paths.on_timeout(10, at(2ms));
    for (int i = 0; i < 50; ++i) CHECK(p.reverse.pick(2, kAllPlanes, p.paths, p.random) == 6);
    REQUIRE(p.paths.set_health(10, Health::good) == Errc::ok);
    for (int i = 0; i < 50; ++i) CHECK(p.reverse.pick(2, kAllPlanes, p.paths, p.random) == 6);
    p.paths.on_timeout(6, at(3ms));
    CHECK(p.reverse.pick(2, kAllPlanes, p.paths, p.random) != 6);
    CHECK(p.reverse.confirmed(2) == kNoPath);
  }
  SUBCASE("the entry comes to be in another plane") {
    REQUIRE(p.paths.replace(10, {Ev{5}, 3, 0}, Health::good) == Errc::ok);
    for (int i = 0; i < 50; ++i)
      CHECK(p.paths[p.reverse.pick(2, kAllPlanes, p.paths, p.random)].plane == 2);
  }
  p.reverse.on_working(kNoPath, at(0ms), p.paths);
  p.reverse.on_inbound(77, at(0ms));
  p.reverse.on_outbound(77, at(0ms));
}

TEST_CASE("reverse set: silent without traffic, also after traffic has ended") {
  Peer p;
  CHECK(p.reverse.next_probe() == kNever);
  CHECK(p.reverse.poll_probe(at(1h), p.paths, p.random) == kNoPath);
  p.reverse.on_inbound(1, at(10ms));
  p.reverse.on_inbound(3, at(10ms));
  unsigned probes = 0;
  while (p.reverse.next_probe() != kNever)
    probes += p.reverse.poll_probe(p.reverse.next_probe(), p.paths, p.random) != kNoPath;
  CHECK(probes == 1);  // an interval after it began
}

TEST_CASE(
    "reverse set: a confirmed plane is probed every 100 ms at most, unless the peer repeats") {
  Peer p;
  auto probes_in = [&p, now = at(0ms)](Duration time, bool answered = true) mutable {
    std::map<Plane, std::vector<PathIndex>> probes;
    for (const Time end = now + time; now < end; now += 100us) {
      p.reverse.on_inbound(0, now);
      p.reverse.on_inbound(2, now);
      const PathIndex path = p.reverse.poll_probe(now, p.paths, p.random);
      if (path == kNoPath) continue;
      probes[p.paths[path].plane].push_back(path);
      if (answered) p.reverse.on_working(path, now, p.paths);
    }
    return probes;
  };
  // Eight paths of each are found first, one probe for each.
  auto probes = probes_in(20ms);
  for (const Plane plane : {Plane{0}, Plane{2}}) {
    CHECK(probes[plane].size() == 8);
    CHECK(std::set<PathIndex>(probes[plane].begin(), probes[plane].end()).size() == 8);
  }
  std::set<PathIndex> used;
  for (int i = 0; i < 8; ++i) used.insert(p.reverse.pick(0, kAllPlanes, p.paths, p.random));
  CHECK(used.size() == 8);
  probes = probes_in(1s);
  for (const Plane plane : {Plane{0}, Plane{2}})
    CHECK((probes[plane].size() >= 9 && probes[plane].size() <= 10));

  SUBCASE("the peer sends again: each path is tested once") {
    (void)probes_in(50ms);
    p.reverse.on_repeated();
    p.reverse.on_repeated();
    probes = probes_in(50ms);
    for (const Plane plane : {Plane{0}, Plane{2}}) {
      CHECK(probes[plane].size() == 8);
      CHECK(std::set<PathIndex>(probes[plane].begin(), probes[plane].end()).size() == 8);
    }
  }
  SUBCASE("a path that is tested is not used until the answer") {
    p.reverse.on_repeated();
    probes = probes_in(2ms, false);
    for (int i = 0; i < 50; ++i)
      CHECK(p.reverse.pick(0, kAllPlanes, p.paths, p.random) != probes.at(0).front());
  }
  SUBCASE("a probe is not answered") {
    probes = probes_in(200ms, false);
    CHECK((probes.at(0).size() >= 45 && probes.at(2).size() >= 45));  // one per millisecond
  }
  SUBCASE("no path can be used any more but one") {
    for (PathIndex path = 0; path < p.paths.size(); ++path)
      if (path % 4 == 0 && path != 28) p.paths.on_timeout(path, at(2s));
    for (int i = 0; i < 50; ++i) CHECK(p.reverse.pick(0, kAllPlanes, p.paths, p.random) == 28);
    CHECK(probes_in(90ms)[0].size() <= 1);  // nothing is left to be found
  }
}

TEST_CASE("reverse set: eight probes look for more than one path, not more") {
  Peer p;
  p.reverse.on_working(4, at(0ms), p.paths);
  unsigned probes = 0;
  for (Time now = at(0ms); now < at(1s); now += 100us) {
    p.reverse.on_inbound(0, now);
    const PathIndex path = p.reverse.poll_probe(now, p.paths, p.random);
    probes += path != kNoPath;
    if (path == 4) p.reverse.on_working(path, now, p.paths);  // others are not answered
  }
  CHECK(probes <= 36);  // 8 and one every 100 ms, each with a test of the path that works
  CHECK(p.reverse.pick(0, kAllPlanes, p.paths, p.random) == 4);
}

TEST_CASE("reverse set: one probe per max(RTT, floor), planes in turn, random paths") {
  for (const Duration rtt : {Duration{10us}, Duration{5ms}}) {
    Peer p;
    p.reverse.set_rtt(rtt);
    const Duration interval = std::max<Duration>(rtt, 1ms);
    std::map<Plane, unsigned> planes;
    std::set<PathIndex> paths;
    Time last = Time::min();
    for (Time now = at(0ms); now < at(400 * interval); now += interval / 10) {
      for (Plane plane = 0; plane < 3; ++plane) p.reverse.on_inbound(plane, now);
      if (now < p.reverse.next_probe()) {
        CHECK(p.reverse.poll_probe(now, p.paths, p.random) == kNoPath);
        continue;
      }
      const PathIndex path = p.reverse.poll_probe(now, p.paths, p.random);
      REQUIRE(path != kNoPath);  // nothing is answered
      if (last != Time::min()) CHECK(now - last == interval);
      last = now;
      ++planes[p.paths[path].plane];
      paths.insert(path);
    }
    CHECK(planes.size() == 3);
    for (const auto& [plane, n] : planes) CHECK((n >= 132 && n <= 134));
    CHECK(paths.size() == 24);
  }
}

TEST_CASE("reverse set: own data makes probes needless, plane by plane") {
  Peer p;
  unsigned probes = 0;
  for (Time now = at(0ms); now < at(100ms); now += 100us) {
    p.reverse.on_inbound(0, now);
    p.reverse.on_inbound(1, now);
    p.reverse.on_outbound(0, now);
    const PathIndex path = p.reverse.poll_probe(now, p.paths, p.random);
    if (path == kNoPath) continue;
    CHECK(p.paths[path].plane == 1);
    ++probes;
  }
  CHECK((probes >= 95 && probes <= 100));
  // Own data ends: plane 0 is probed as well.
  bool zero = false;
  for (Time now = at(100ms); now < at(110ms); now += 100us) {
    p.reverse.on_inbound(0, now);
    const PathIndex path = p.reverse.poll_probe(now, p.paths, p.random);
    zero = zero || (path != kNoPath && p.paths[path].plane == 0);
  }
  CHECK(zero);
}

TEST_CASE("reverse set: a path whose confirmations stop is dropped after 8 probes") {
  Peer p;
  p.reverse.on_working(4, at(0ms), p.paths);
  const auto probe = [&p] {
    p.reverse.on_inbound(0, at(1s));
    return p.reverse.poll_probe(p.reverse.next_probe(), p.paths, p.random);
  };
  for (int i = 1; i <= 8; ++i) {
    const PathIndex path = probe();
    REQUIRE(path != kNoPath);
    if (i % 2 == 0) CHECK(path == 4);  // every second one asks about the path in use
  }
  CHECK(p.reverse.confirmed(0) == 4);
  REQUIRE(probe() != kNoPath);
  CHECK(p.reverse.confirmed(0) == kNoPath);
  p.reverse.on_working(8, at(2ms), p.paths);  // an answer brings the next one
  CHECK(p.reverse.confirmed(0) == 8);
  CHECK(p.reverse.pick(0, kAllPlanes, p.paths, p.random) == 8);
}

TEST_CASE("reverse paths: eight at most, the newest stay, those that do not fit go") {
  ReversePaths paths;
  const auto all = [](PathIndex, bool&) { return true; };
  CHECK(paths.next(all) == kNoPath);
  for (PathIndex path = 0; path < 10; ++path) paths.add(path, path == 5);
  paths.add(7, false);  // it is known
  CHECK(paths.size() == 8);
  CHECK(paths.oldest() == 2);
  CHECK(paths.newest() == 9);
  CHECK(paths.worked_though_bad() == 5);
  for (PathIndex path = 2; path < 10; ++path) CHECK(paths.next(all) == path);
  CHECK(paths.next(all) == 2);
  paths.remove(2);
  CHECK(!paths.contains(2));
  CHECK(paths.worked_though_bad() == 5);
  CHECK(paths.next([](PathIndex path, bool&) { return path % 2 == 0; }) == 4);
  CHECK(!paths.contains(3));
  paths.keep([](PathIndex path, bool& though_bad) { return path != 9 && !(though_bad = false); });
  CHECK(paths.size() == 5);
  CHECK(paths.worked_though_bad() == kNoPath);
  CHECK(paths.next([](PathIndex, bool&) { return false; }) == kNoPath);
  CHECK(paths.empty());
}

TEST_CASE("reverse set: no probe into a plane that can't be used; bad settings are refused") {
  Peer p;
  p.paths.set_plane_up(1, false);
  p.reverse.on_inbound(1, at(0ms));
  CHECK(p.reverse.poll_probe(at(10ms), p.paths, p.random) == kNoPath);
  CHECK(p.reverse.next_probe() == kNever);
  CHECK_THROWS_AS(ReverseSet({.probe_floor = 0ns}), Error);
  CHECK_THROWS_AS(ReverseSet({.max_unanswered = 0}), Error);
}

}  // namespace
}  // namespace mrc::path::reverse_set_test
