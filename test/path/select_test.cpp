// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <set>

#include "fixture.hpp"
#include "support/brief.hpp"

namespace mrc::path::select_test {
namespace {

using namespace testing;

TEST_CASE("select: each full pass uses every path exactly once, always in the same order") {
  struct Shape {
    unsigned planes, per_plane;
  };
  for (const Shape s : {Shape{1, 1}, Shape{1, 2}, Shape{2, 3}, Shape{3, 7}, Shape{8, 16},
                        Shape{4, 256}, Shape{7, 13}}) {
    CAPTURE(s.planes);
    PathSet set(universe(s.planes, s.per_plane), {}, 42);
    const std::size_t n = set.size();
    std::set<std::vector<PathIndex>> orders;
    for (int pass = 0; pass < 8; ++pass) {
      std::vector<PathIndex> order;
      for (std::size_t i = 0; i < n; ++i) order.push_back(set.select(kAllPlanes));
      orders.insert(order);
      CHECK(std::set<PathIndex>(order.begin(), order.end()).size() == n);
    }
    CHECK(orders.size() == 1);
  }
}

TEST_CASE("select: within a pass the planes alternate, so a short burst is balanced as well") {
  constexpr unsigned kPlanes = 8;
  PathSet set(universe(kPlanes, 16), {}, 3);
  for (int run = 0; run < 500; ++run) {
    PlaneMask seen = 0;
    for (unsigned i = 0; i < kPlanes; ++i) seen |= plane_bit(set[set.select(kAllPlanes)].plane);
    CHECK(seen == 0xFF);
  }
}

TEST_CASE("select: walks to different destinations start at different places") {
  const auto specs = universe(4, 32);
  std::vector<unsigned> first(specs.size());
  constexpr unsigned kSets = 128 * 32;
  for (unsigned i = 0; i < kSets; ++i) {
    PathSet set(specs, {}, i);
    ++first[set.select(kAllPlanes)];
  }
  double chi2 = 0;
  for (const unsigned n : first) chi2 += (n - 32.0) * (n - 32.0) / 32.0;
  CHECK(chi2 < 200);  // 127 degrees of freedom: above 200 less than once in 10,000
}

TEST_CASE("select: whichever planes are free, the paths of each are used evenly") {
  PathSet set(universe(4, 8), {}, 2);
  Random random(7);
  std::vector<unsigned> n(set.size());
  for (int i = 0; i < 20'000; ++i) {
    const auto free = static_cast<PlaneMask>(1 + random.below(15));
    const PathIndex path = set.select(free);
    REQUIRE((free >> set[path].plane & 1) == 1);
    ++n[path];
  }
  for (PathIndex i = 4; i < set.size(); ++i) {
    CAPTURE(i);
    const unsigned other = n[i % 4];  // of the same plane
    CHECK((n[i] >= other ? n[i] - other : other - n[i]) <= 1);
  }
  CHECK(set.select(0) == kNoPath);
  CHECK(set.select(0xFF00) == kNoPath);
}

TEST_CASE("select: planes that were not free make up for a few packets, not for all") {
  for (const unsigned planes : {2u, 8u}) {
    PathSet set(universe(planes, 64), {}, 2);
    counts(set, 10'000, 0b01);
    const auto n = counts(set, planes * 100);
    unsigned other = 0;
    for (PathIndex i = 0; i < set.size(); ++i) other += set[i].plane == 0 ? n[i] : 0;
    CHECK(other <= 100);
    CHECK(other >= 96);
  }
}

TEST_CASE("select: a plane is not forgotten, however many packets the others carry" *
          doctest::skip(test::kBrief)) {  // millions of the same
  PathSet set(universe(2, 1), {}, 2);
  for (std::uint32_t i = 0; i < (1u << 25) - 1000; ++i) (void)set.select(kAllPlanes);
  for (int i = 0; i < 2000; ++i) (void)set.select(0b01);  // counts anew meanwhile
  for (int i = 0; i < 2000; ++i) (void)set.select(0b10);
  const auto n = counts(set, 1000);
  CHECK(n[0] >= 495);
  CHECK(n[1] >= 495);
}

TEST_CASE("select: free planes only, whatever waits to become GOOD") {
  PathSet set(universe(3, 3), {}, 6);
  Random random(3);
  for (int i = 0; i < 50'000; ++i) {
    for (unsigned marks = random.below(4); marks > 0; --marks)
      set.on_trimmed(static_cast<PathIndex>(random.below(9)), at(i * 1us));
    const auto free = static_cast<PlaneMask>(1 + random.below(7));
    const auto avoid = static_cast<PathIndex>(random.below(2) == 0 ? kNoPath : random.below(9));
    const PathIndex path = set.select(free, avoid);
    REQUIRE(path != kNoPath);
    REQUIRE((free >> set[path].plane & 1) == 1);
    REQUIRE(path != avoid);  // each plane has three paths
  }
  PathSet single(universe(3, 1), {}, 1);
  single.on_trimmed(1, at(0ms));
  single.on_trimmed(2, at(0ms));
  for (int i = 0; i < 3; ++i) (void)single.select(kAllPlanes);
  CHECK(single.select(0b001, 0) == 0);
}

TEST_CASE("select: what a lost path carried is shared by the paths of all planes") {
  PathSet set(universe(4, 8), {}, 5);
  set.on_timeout(1, at(0ms));
  set.on_timeout(5, at(0ms));
  const auto n = counts(set, 30 * 100);
  for (PathIndex i = 0; i < set.size(); ++i) {
    CAPTURE(i);
    if (i == 1 || i == 5)
      CHECK(n[i] == 0);
    else
      CHECK((n[i] >= 99 && n[i] <= 101));
  }
}

TEST_CASE("select: the others keep their order while a path is away") {
  PathSet set(universe(1, 16), {}, 11);
  const auto pass = [&](unsigned length) {
    std::vector<PathIndex> order;
    for (unsigned i = 0; i < length; ++i) order.push_back(set.select(kAllPlanes));
    return order;
  };
  const auto turned = [](std::vector<PathIndex> order) {  // begins with the smallest
    std::rotate(order.begin(), std::min_element(order.begin(), order.end()), order.end());
    return order;
  };
  auto whole = turned(pass(16));
  set.on_timeout(9, at(0ms));
  auto rest = whole;
  std::erase(rest, PathIndex{9});
  (void)pass(3);
  CHECK(turned(pass(15)) == rest);
  REQUIRE(set.set_health(9, Health::good) == Errc::ok);
  (void)pass(3);
  CHECK(turned(pass(16)) == whole);
}

TEST_CASE("select: same seed, same choice; another seed, another") {
  const auto run = [](std::uint64_t seed) {
    PathSet set(universe(4, 16), {}, seed);
    std::vector<PathIndex> out;
    for (int i = 0; i < 500; ++i) {
      out.push_back(set.select(kAllPlanes));
      if (i % 50 == 49) set.on_timeout(out.back(), at(i * 1us));
      if (i % 7 == 0) set.on_mark(out.back(), Mark::skip_once, at(i * 1us));
    }
    return out;
  };
  CHECK(run(5) == run(5));
  CHECK(run(5) != run(6));
}

TEST_CASE("select: a SKIP path is passed over exactly once") {
  PathSet set(universe(2, 8), {}, 4);
  set.on_mark(5, Mark::skip_once, at(0ms));
  // One pass: 15 of 16 positions give a packet, and path 5 none.
  const auto pass = counts(set, 15);
  CHECK(pass[5] == 0);
  for (PathIndex i = 0; i < 16; ++i)
    if (i != 5) CHECK(pass[i] == 1);
  // The next packet is the next pass's first; by then the mark is gone wherever path 5 stood.
  const PathIndex first = set.select(kAllPlanes);
  CHECK(set.health(5) == Health::good);
  CHECK(counts(set, 15)[5] + (first == 5) == 1);
}

TEST_CASE("select: a path that is marked far more than others is skipped for round trips [O-25]") {
  PathSet set(universe(1, 4), {}, 1);
  set.set_probe_spacing(10us);
  // As in a network: what is sent on path 0 is marked, and the sender hears of it 10 us later.
  const auto share = [&](Time from, bool all_marked) {
    std::vector<Time> heard;
    unsigned n = 0, marks = 0;
    constexpr unsigned kPackets = 4000;
    for (unsigned i = 0; i < kPackets; ++i) {
      const Time now = from + i * 500ns;
      while (!heard.empty() && heard.front() <= now) {
        set.on_mark(all_marked ? static_cast<PathIndex>(marks++ % 4) : PathIndex{0},
                    Mark::skip_once, now);
        heard.erase(heard.begin());
      }
      const PathIndex path = set.select(kAllPlanes);
      set.on_delivered(path, now, now);
      n += path == 0;
      if (path == 0 || all_marked) heard.push_back(now + 10us);
    }
    return static_cast<double>(n) / kPackets;
  };
  CHECK(share(at(1ms), false) < 0.05);
  // It is used again when nobody marks it any more.
  unsigned n = 0;
  for (unsigned i = 0; i < 4000; ++i) {
    const PathIndex path = set.select(kAllPlanes);
    set.on_delivered(path, at(4ms + i * 500ns), at(4ms + i * 500ns));
    n += path == 0;
  }
  CHECK(n > 900);
  // Marks on all paths alike say nothing of one of them.
  CHECK(share(at(20ms), true) > 0.15);

  PathSet brief(universe(1, 4), {.hold_marks = 0}, 1);  // one turn only
  brief.set_probe_spacing(10us);
  set = std::move(brief);
  CHECK(share(at(1ms), false) > 0.1);
}

TEST_CASE("select: at most one SKIP turns GOOD per packet") {
  PathSet set(universe(4, 64), {}, 4);
  const auto skips = [&set] {
    unsigned n = 0;
    for (PathIndex i = 0; i < set.size(); ++i) n += set.health(i) == Health::skip;
    return n;
  };
  for (unsigned keep = 0; keep <= 8; ++keep) {  // so many stay GOOD
    for (PathIndex i = static_cast<PathIndex>(keep); i < set.size(); ++i)
      set.on_trimmed(i, at(0ms));
    for (int packet = 0; packet < 2000; ++packet) {
      const unsigned before = skips();
      std::vector<Health> was;
      for (PathIndex i = 0; i < set.size(); ++i) was.push_back(set.health(i));
      const PathIndex path = set.select(kAllPlanes);
      REQUIRE(path != kNoPath);
      CHECK(before - skips() <= 1);
      // The one just restored carries this packet only when nothing else could.
      if (was[path] == Health::skip) CHECK(before == set.size());
    }
    CHECK(skips() == 0);
  }
}

TEST_CASE("select: ends when all are SKIP, also in the free planes only") {
  PathSet set(universe(2, 512), {}, 4);
  for (PathIndex i = 0; i < set.size(); ++i) set.on_mark(i, Mark::skip_once, at(0ms));
  std::set<PathIndex> used;
  for (int i = 0; i < 100; ++i) {
    for (PathIndex p = 0; p < set.size(); ++p) set.on_mark(p, Mark::skip_once, at(0ms));
    const PathIndex path = set.select(0b10);
    REQUIRE(path != kNoPath);
    CHECK(set[path].plane == 1);
    used.insert(path);
  }
  CHECK(used.size() > 80);  // and it is not always the same one
}

TEST_CASE("select: a retransmission takes another path, of another plane if it can") {
  PathSet set(universe(2, 3), {}, 4);
  for (int i = 0; i < 200; ++i) CHECK(set[set.select(kAllPlanes, 0)].plane == 1);
  for (int i = 0; i < 200; ++i) {  // only its own plane is free: another path of it
    const PathIndex path = set.select(0b01, 0);
    CHECK(path != 0);
    CHECK(set[path].plane == 0);
  }
  // The others are SKIP: still one of them.
  for (int i = 0; i < 200; ++i) {
    set.on_trimmed(2, at(0ms));
    set.on_trimmed(4, at(0ms));
    CHECK(set.select(0b01, 0) != 0);
  }
  REQUIRE(set.set_health(2, Health::denied) == Errc::ok);
  REQUIRE(set.set_health(4, Health::denied) == Errc::ok);
  CHECK(set.select(0b01, 0) == 0);  // there is no other
  set.on_trimmed(0, at(0ms));
  CHECK(set.select(0b01, 0) == 0);
  // A path that is out of the walk, or no path, can be named as well.
  CHECK(set.select(0b01, 2) == 0);
  CHECK(set.select(kAllPlanes, 6000) != kNoPath);
}

TEST_CASE("select: retransmissions are spread, not sent to one neighbour") {
  PathSet set(universe(4, 16), {}, 4);
  std::vector<unsigned> n(set.size());
  for (int i = 0; i < 4800; ++i) ++n[set.select(kAllPlanes, 0)];
  for (PathIndex i = 0; i < set.size(); ++i) {
    if (set[i].plane == 0)
      CHECK(n[i] == 0);
    else
      CHECK((n[i] > 50 && n[i] < 150));
  }
}

TEST_CASE("select: uneven planes share by path, not by plane") {
  auto specs = universe(2, 8);
  for (unsigned i = 0; i < 3; ++i) specs.push_back({Ev{900 + i}, 2, 0});
  PathSet set(specs, {}, 8);
  for (const unsigned n : counts(set, set.size() * 100)) CHECK((n >= 99 && n <= 101));
}

TEST_CASE("select: 1,024 paths, coming and going") {
  PathSet set(universe(8, 128), {.active = 896}, 77);
  CHECK(set.active_count() == 896);
  std::array<std::uint64_t, 8> plane{};
  for (int i = 0; i < 200'000; ++i) {
    const PathIndex path = set.select(kAllPlanes);
    REQUIRE(path < set.size());
    REQUIRE(set.active(path));
    ++plane[set[path].plane];
    if (i % 500 == 0) set.on_timeout(path, at(i * 1us));
    if (i % 3 == 0) set.on_mark(path, Mark::skip_once, at(i * 1us));
    if (i % 1000 == 0) {
      const PathIndex probe = set.poll_probe(at(i * 1us));
      if (probe != kNoPath) set.on_probe_answer(probe, Mark::none, at(i * 1us));
    }
  }
  double chi2 = 0;
  for (const std::uint64_t n : plane) {
    const double d = static_cast<double>(n) - 25'000.0;
    chi2 += d * d / 25'000.0;
  }
  CHECK(chi2 < 200);  // shares differ a little while planes lack paths, but no more
}

TEST_CASE("find: by EV, by low half where the upper half is zero, nothing for strangers") {
  std::vector<PathSpec> specs;
  for (unsigned i = 0; i < 1024; ++i)
    specs.push_back({Ev{0xABC0'0000 + i * 7}, static_cast<Plane>(i % 8), 0});
  specs.push_back({Ev{14}, 3, 0});  // the same low half as entry 2
  specs.push_back({Ev{0xABC0'0000}, 5, 0});
  PathSet set(specs, {}, 1);
  for (PathIndex i = 0; i < 1024; ++i) CHECK(set[set.find(specs[i].ev)].ev == specs[i].ev);
  CHECK(set.find(Ev{14}) == 1024);  // all 32 bits come first
  CHECK(set.find(Ev{21}) == 3);     // low half only [O-29]
  CHECK(set.find(Ev{0xFFFF}) == kNoPath);
  CHECK(set.find(Ev{0xABC0'0001}) == kNoPath);
  CHECK(set.find(Ev{0xDEAD'0015}) == kNoPath);  // an upper half that is there must be right
  REQUIRE(set.replace(3, {Ev{0x7777'7777}, 3, 9}, Health::good) == Errc::ok);
  CHECK(set.find(Ev{0x7777'7777}) == 3);
  CHECK(set.find(Ev{0xABC0'0015}) == kNoPath);
}

}  // namespace
}  // namespace mrc::path::select_test
