// SPDX-License-Identifier: Apache-2.0
#include "mrc/path/reverse_set.hpp"

#include <doctest/doctest.h>

#include <map>
#include <set>

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
  p.reverse.on_working(10, at(1ms), p.paths);  // the newest counts
  CHECK(p.reverse.pick(2, kAllPlanes, p.paths, p.random) == 10);

  SUBCASE("plane busy or down: another, with a confirmed path first") {
    for (int i = 0; i < 50; ++i)
      CHECK(p.paths[p.reverse.pick(1, 0b1001, p.paths, p.random)].plane != 1);
    for (int i = 0; i < 50; ++i) CHECK(p.reverse.pick(1, 0b1100, p.paths, p.random) == 10);
    p.paths.set_plane_up(2, false);
    for (int i = 0; i < 50; ++i)
      CHECK(p.paths[p.reverse.pick(2, kAllPlanes, p.paths, p.random)].plane != 2);
    CHECK(p.reverse.pick(2, 0b0100, p.paths, p.random) == kNoPath);
    CHECK(p.reverse.pick(99, kAllPlanes, p.paths, p.random) != kNoPath);
  }
  SUBCASE("the confirmed path turns bad") {
    p.paths.on_timeout(10, at(2ms));
    CHECK(p.reverse.pick(2, kAllPlanes, p.paths, p.random) != 10);
    REQUIRE(p.paths.set_health(10, Health::good) == Errc::ok);
    CHECK(p.reverse.pick(2, kAllPlanes, p.paths, p.random) == 10);
    p.reverse.on_bad(10);
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
  std::set<Plane> probed;
  while (p.reverse.next_probe() != kNever) {
    const PathIndex path = p.reverse.poll_probe(p.reverse.next_probe(), p.paths, p.random);
    if (path != kNoPath) CHECK(probed.insert(p.paths[path].plane).second);
  }
  CHECK(probed == std::set<Plane>{1, 3});  // once each, and no more
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
      REQUIRE(path != kNoPath);
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
    p.reverse.on_inbound(0, at(1ms));
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
  for (int i = 0; i < 30; ++i) {
    const PathIndex path = probe();
    p.reverse.on_working(path, at(2ms), p.paths);
    CHECK(p.reverse.confirmed(0) == path);
  }
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
