// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <array>

#include "fixture.hpp"
#include "mrc/core/random.hpp"

namespace mrc::path::plane_shares_test {
namespace {

using namespace testing;

constexpr unsigned kShared = 4, kEach = 8;
constexpr PlaneMask kAll = (1u << kShared) - 1;
constexpr PathIndex kLost = 1;  // a path of plane 1

/// Packets per plane.
using Counts = std::array<unsigned, kShared>;

/// `tries` times a packet could go out. The port of plane 1 always has room, each of the others a
/// quarter of the time. Each `marked`th packet of plane 1 is marked; 0: none.
Counts carry(PathSet& set, unsigned tries, unsigned marked) {
  Random random(5);
  Counts sent{};
  for (unsigned i = 0; i < tries; ++i) {
    PlaneMask free = 0b0010;
    for (const Plane p : {0, 2, 3})
      if (random.below(4) == 0) free |= plane_bit(p);
    const PlaneMask within = set.within_limits(free);
    if (within == 0) continue;  // waits
    const PathIndex path = set.select(within);
    const Plane plane = set[path].plane;
    ++sent[plane];
    if (plane == 1 && marked != 0 && sent[1] % marked == 0)
      set.on_mark(path, Mark::skip_once, at(1ms));
  }
  return sent;
}

double per_whole_plane(const Counts& sent) {
  return (sent[0] + sent[2] + sent[3]) / 3.0;
}

TEST_CASE("plane shares: a plane with a lost path and marks carries no more per path than others") {
  PathSet set(universe(kShared, kEach), {}, 1);
  set.on_timeout(kLost, at(1ms));
  REQUIRE(set.health(kLost) == Health::assumed_bad);
  carry(set, 2'000, 64);  // it was ahead before the first mark, and makes up for that
  const Counts sent = carry(set, 20'000, 64);
  CHECK(sent[1] <= per_whole_plane(sent) * 7 / 8 * 15 / 16 + 2);
  CHECK(sent[1] >= per_whole_plane(sent) * 7 / 8 * 0.9);
  // The turn of a path that is passed over counts as well.
  const Counts more = carry(set, 20'000, 4);
  CHECK(more[1] < per_whole_plane(more) * 7 / 8 * 0.9);
}

TEST_CASE("plane shares: nothing is limited without a lost path, or without marks") {
  SUBCASE("no path lost") {
    PathSet set(universe(kShared, kEach), {}, 1);
    CHECK(carry(set, 20'000, 4)[1] > 8'000);
  }
  SUBCASE("no marks") {
    PathSet set(universe(kShared, kEach), {}, 1);
    set.on_timeout(kLost, at(1ms));
    CHECK(carry(set, 20'000, 0)[1] > 8'000);
  }
}

TEST_CASE("plane shares: 64 passes after the last mark the limit ends") {
  PathSet set(universe(kShared, kEach), {}, 1);
  set.on_timeout(kLost, at(1ms));
  carry(set, 2'000, 4);
  REQUIRE(set.within_limits(kAll) == (kAll & ~0b0010u));
  set.on_mark(5, Mark::skip_once, at(1ms));
  unsigned sent = 0, when_last_limited = 0;
  for (int tries = 0; tries < 10'000; ++tries) {
    if (set.within_limits(0b0010) == 0) {
      when_last_limited = sent;
      (void)set.select(0b0001);  // pays for a packet of plane 1
      continue;
    }
    (void)set.select(0b0010);
    ++sent;
  }
  // All of its seven paths but the marked one, whose turn counts, carry one packet in a pass.
  CHECK(when_last_limited <= 64 * 7);
  CHECK(when_last_limited >= 64 * 7 - 10);
}

TEST_CASE("plane shares: what others carry is paid once, and pays for one packet at most") {
  PathSet set(universe(kShared, kEach), {}, 1);
  set.on_timeout(kLost, at(1ms));
  carry(set, 2'000, 4);
  for (int i = 0; i < 10'000; ++i) (void)set.select(0b1101);
  REQUIRE(set.within_limits(0b0010) == 0b0010);
  (void)set.select(0b0010);
  CHECK(set.within_limits(0b0010) == 0);
}

TEST_CASE("plane shares: a path that is lost anew begins without debts") {
  PathSet set(universe(kShared, kEach), {}, 1);
  set.on_timeout(kLost, at(1ms));
  for (int i = 0; i < 1'000; ++i) (void)set.select(0b0010);
  set.on_mark(5, Mark::skip_once, at(1ms));
  (void)set.select(0b0001);
  REQUIRE(set.within_limits(0b0010) == 0);
  REQUIRE(set.set_health(kLost, Health::good) == Errc::ok);
  set.on_timeout(kLost, at(2ms));
  REQUIRE(set.within_limits(0b0010) == 0);
  (void)set.select(0b0001);
  CHECK(set.within_limits(0b0010) == 0b0010);
}

TEST_CASE("plane shares: no plane waits for planes that are down, or have lost paths themselves") {
  PathSet set(universe(kShared, kEach), {}, 1);
  set.on_timeout(kLost, at(1ms));
  carry(set, 2'000, 4);
  REQUIRE(set.within_limits(0b0010) == 0);
  SUBCASE("down") {
    for (const Plane p : {0, 2, 3}) set.set_plane_up(p, false);
    CHECK(set.within_limits(0b0010) == 0b0010);
    for (const Plane p : {0, 2, 3}) set.set_plane_up(p, true);
    CHECK(set.within_limits(0b1111) != 0);
  }
  SUBCASE("each has lost one") {
    for (const PathIndex path : {0, 2, 3}) set.on_timeout(path, at(1ms));
    CHECK(set.within_limits(0b0010) == 0b0010);
  }
  SUBCASE("the lost path is back") {
    CHECK(set.set_health(kLost, Health::good) == Errc::ok);
    CHECK(set.within_limits(0b0010) == 0b0010);
  }
}

TEST_CASE("plane shares: a backup in place of the lost path keeps the plane whole") {
  PathSet set(universe(kShared, kEach), {.active = kShared * kEach / 2}, 1);
  set.on_timeout(kLost, at(1ms));
  REQUIRE(set.health(kLost) == Health::assumed_bad);
  CHECK(carry(set, 20'000, 4)[1] > 8'000);
}

}  // namespace
}  // namespace mrc::path::plane_shares_test
