// SPDX-License-Identifier: Apache-2.0
#include "probe/verdict.hpp"

#include <doctest/doctest.h>

#include <array>

#include "fixture.hpp"

using namespace mrc::probe;
using namespace mrc::probe::testing;

namespace verdict_test {

/// Everything on a path of the host, but hosts as a whole.
std::vector<Part> breakable(const Description& d, unsigned self) {
  std::set<Part> parts;
  for (const ProbePath& path : all_paths(PathMaker(d, self)))
    for (const Part& part : path.parts)
      if (part.kind != PartKind::host) parts.insert(part);
  return {parts.begin(), parts.end()};
}

bool names(const std::vector<Finding>& findings, const Part& part) {
  return std::any_of(findings.begin(), findings.end(), [&](const Finding& f) {
    return f.part == part || f.part == both_ways(part) ||
           std::find(f.alike.begin(), f.alike.end(), part) != f.alike.end() ||
           std::find(f.alike.begin(), f.alike.end(), both_ways(part)) != f.alike.end();
  });
}

TEST_CASE("verdict: nothing is wrong with a whole fabric") {
  const Description d = make_fabric(4, 2, 2, 4);
  Broken broken;
  const Look look(d, 0, broken);
  CHECK(look.verdict.all_alive());
  CHECK(look.verdict.lossy.empty());
}

TEST_CASE("verdict: one fault is found exactly") {
  const Description d = make_fabric(4, 2, 2, 2);
  CHECK(dead_parts(d, {{PartKind::switch_link, 1, 0, 1}}) == "link p1t0-0 - p1t1-1");
  CHECK(dead_parts(d, {{PartKind::switch_link, 1, 1, 0}}) == "link p1t0-1 - p1t1-0");
  CHECK(dead_parts(d, {{PartKind::t1, 2, 1}}) == "switch p2t1-1");
  CHECK(dead_parts(d, {{PartKind::t0, 3, 1}}) == "switch p3t0-1");
  CHECK(dead_parts(d, {{PartKind::host_link, 0, 1}}) == "link h1 - p0t0-1");
}

TEST_CASE("verdict: what looks the same from a host is said to") {
  const Description d = make_fabric(4, 2, 2, 2);
  for (const Part& truth :
       {Part{PartKind::host_link, 1, 0}, Part{PartKind::t0, 1, 0}, Part{PartKind::plane, 1}}) {
    Broken broken{{truth}, {}};
    const auto dead = Look(d, 0, broken).verdict.dead;
    REQUIRE(dead.size() == 1);
    CHECK(dead[0].part == Part{PartKind::host_link, 1, 0});
    CHECK(dead[0].alike == std::vector<Part>{{PartKind::t0, 1, 0}, {PartKind::plane, 1}});
    CHECK(dead[0].paths == 7);
  }
  // Without another way to it, a T1 is only as good as the one link to it.
  const Description narrow = make_fabric(2, 2, 1, 2);
  Broken broken{{{PartKind::t1, 0, 0}}, {}};
  const auto dead = Look(narrow, 0, broken).verdict.dead;
  REQUIRE(dead.size() == 1);
  CHECK(dead[0].part == Part{PartKind::switch_link, 0, 0, 0});
  CHECK(dead[0].alike == std::vector<Part>{{PartKind::t1, 0, 0}});
}

TEST_CASE("verdict: every single fault is named, in fabrics of many sizes") {
  for (const std::array<unsigned, 4>& size :
       {std::array{2u, 2u, 2u, 2u}, {2u, 1u, 2u, 2u}, {3u, 4u, 3u, 8u}, {2u, 3u, 1u, 6u}}) {
    const Description d = make_fabric(size[0], size[1], size[2], size[3]);
    for (const Part& part : breakable(d, 0)) {
      INFO(size[0], "/", size[1], "/", size[2], "/", size[3], ": ", part_name(d, part));
      Broken broken{{part}, {}};
      const Verdict v = Look(d, 0, broken).verdict;
      CHECK(v.dead.size() == 1);
      CHECK(names(v.dead, part));
      CHECK(v.silent.empty());
      CHECK(v.dead_paths.empty());
      CHECK(v.lossy.empty());
    }
  }
}

TEST_CASE("verdict: what dies in one direction names the direction, between switches") {
  const Description d = make_fabric(2, 3, 3, 6);
  for (const Part& part : breakable(d, 0)) {
    if (part.kind != PartKind::switch_link) continue;
    INFO(part_name(d, part));
    CHECK(dead_parts(d, {part}) == part_name(d, part));
  }
  CHECK(dead_parts(d, {{PartKind::switch_link, 1, 2, 1, Direction::down}}) ==
        "link p1t1-1 > p1t0-2");
  // One T1, or T0s with one host each way: nothing passes a link in one direction alone.
  const Description narrow = make_fabric(2, 2, 1, 2);
  CHECK(dead_parts(narrow, {{PartKind::switch_link, 1, 1, 0, Direction::up}}) ==
        "link p1t0-1 - p1t1-0");
}

TEST_CASE("verdict: what loses in one direction names the direction, never the wrong one") {
  const Description d = make_fabric(2, 2, 2, 2);
  unsigned named = 0, rounds = 0;
  for (const double loss : {0.3, 0.1, 0.05})
    for (const Direction direction : {Direction::both, Direction::up, Direction::down})
      for (const unsigned t0 : {0u, 1u})
        for (unsigned seed = 0; seed < 50; ++seed) {
          const Part part{PartKind::switch_link, 1, t0, 1, direction};
          Broken broken{{}, {part}, loss, mrc::Random(seed)};
          const Verdict v = Look(d, 0, broken).verdict;
          if (v.lossy.empty()) continue;  // no loss in the first look
          ++rounds;
          INFO(part_name(d, part), " ", loss, ": ", names_of(d, v.lossy));
          for (const Finding& f : v.lossy)
            if (both_ways(f.part) == both_ways(part) && f.part.direction != Direction::both)
              CHECK(f.part == part);
          named += names_of(d, v.lossy) == part_name(d, part);
        }
  CHECK(named > rounds * 85 / 100);
}

TEST_CASE("verdict: packets that fare badly on the way there only") {
  const Description d = make_fabric(2, 2, 2, 2);
  const auto paths = all_paths(PathMaker(d, 0));
  const auto verdict = [&](const Part& part) {
    std::vector<PathResult> results;
    for (const ProbePath& path : paths) {
      const bool dead = std::count(path.there.begin(), path.there.end(), part) > 0;
      results.push_back({3, dead ? 0u : 3u, {}});
    }
    return names_of(d, judge(paths, results, Extent::there).dead);
  };
  // Answers are small: paths to h1 do not pass these.
  CHECK(verdict({PartKind::switch_link, 0, 0, 1, Direction::down}) == "link p0t1-1 > p0t0-0");
  CHECK(verdict({PartKind::switch_link, 0, 1, 1, Direction::up}) == "link p0t0-1 > p0t1-1");
  CHECK(verdict({PartKind::host_link, 0, 0, 0, Direction::down}) == "link p0t0-0 > h0");
  CHECK(verdict({PartKind::host_link, 0, 1, 0, Direction::up}).empty());
}

TEST_CASE("verdict: random faults are explained with no more parts than there are") {
  mrc::Random random(11);
  for (unsigned round = 0; round < 200; ++round) {
    const Description d =
        make_fabric(2 + random.below(2), 1 + random.below(4), 1 + random.below(4), 6);
    const unsigned self = random.below(6);
    const auto parts = breakable(d, self);
    std::set<Part> dead;
    for (unsigned n = 1 + random.below(4); n > 0; --n)
      dead.insert(parts[random.below(static_cast<std::uint32_t>(parts.size()))]);
    Broken broken{dead, {}};
    const Look look(d, self, broken);
    const Verdict& v = look.verdict;
    INFO("round ", round, ": ", names_of(d, v.dead));
    CHECK(v.dead.size() <= dead.size());
    CHECK(v.dead_paths.empty());
    std::set<Part> found;
    for (const Finding& f : v.dead) found.insert(f.part);
    for (std::size_t i = 0; i < look.paths.size(); ++i) {
      const ProbePath& path = look.paths[i];
      const bool silent =
          path.kind == PathKind::peer && std::count(v.silent.begin(), v.silent.end(), path.to) > 0;
      if (!silent) CHECK(goes_over(path, found) == (look.results[i].answered == 0));
    }
  }
}

TEST_CASE("verdict: hosts where nobody answers are told apart from dead paths") {
  const Description d = make_fabric(2, 2, 2, 4);
  Broken broken{{{PartKind::host, 0, 1}, {PartKind::host, 0, 3}, {PartKind::switch_link, 1, 0, 1}},
                {}};
  const Verdict v = Look(d, 0, broken).verdict;
  CHECK(v.silent == std::vector<unsigned>{1, 3});
  CHECK(names_of(d, v.dead) == "link p1t0-0 - p1t1-1");
  CHECK_FALSE(v.all_alive());

  // A host behind switches that are known to be dead is no riddle.
  Broken cut{{{PartKind::t0, 0, 1}, {PartKind::t0, 1, 1}}, {}};
  const Verdict behind = Look(d, 0, cut).verdict;
  CHECK(behind.silent.empty());
  CHECK(names_of(d, behind.dead) == "switch p0t0-1, switch p1t0-1");
}

TEST_CASE("verdict: a host without any way out") {
  const Description d = make_fabric(2, 2, 2, 2);
  Broken broken{{{PartKind::host, 0, 0}}, {}};
  CHECK(names_of(d, Look(d, 0, broken).verdict.dead) == "host h0");
}

TEST_CASE("verdict: a dead path of which every part works elsewhere is named as it is") {
  const Description d = make_fabric(2, 2, 2, 2);
  const auto paths = all_paths(PathMaker(d, 0));
  std::vector<PathResult> results(paths.size(), {27, 27, {}});
  for (std::size_t i = 0; i < paths.size(); ++i)
    if (paths[i].kind == PathKind::peer && paths[i].plane == 1 && paths[i].uplink == 1)
      results[i].answered = 0;
  const Verdict v = judge(paths, results);
  CHECK(v.dead.empty());
  REQUIRE(v.dead_paths.size() == 1);
  CHECK(path_name(d, paths[v.dead_paths[0]]) == "h0 p1t0-0 p1t1-1 p1t0-1 h1");
  CHECK_FALSE(v.all_alive());
}

TEST_CASE("verdict: paths that were not tried say nothing") {
  const Description d = make_fabric(2, 2, 2, 2);
  const auto paths = all_paths(PathMaker(d, 0));
  CHECK(judge(paths, std::vector<PathResult>(paths.size())).all_alive());
  CHECK(judge(paths, {}).all_alive());
  CHECK(judge({}, {}).all_alive());
}

TEST_CASE("verdict: a part that loses some is lossy, with its share, and not dead") {
  const Description d = make_fabric(4, 2, 2, 2);
  unsigned exact = 0, rounds = 0;
  for (const Part& part :
       {Part{PartKind::switch_link, 1, 0, 1}, Part{PartKind::switch_link, 1, 1, 0},
        Part{PartKind::t1, 2, 1}, Part{PartKind::host_link, 3, 1}})
    for (unsigned seed = 0; seed < 100; ++seed, ++rounds) {
      Broken broken{{}, {part}, 0.3, mrc::Random(seed)};
      const Verdict v = Look(d, 0, broken).verdict;
      CHECK(v.all_alive());
      if (v.lossy.empty()) continue;  // three answers in a row on all paths, by luck
      exact += names_of(d, v.lossy) == part_name(d, part);
      CHECK(v.lossy[0].lost > 0);
      if (v.lossy[0].part == part) {
        const double share = double(v.lossy[0].lost) / v.lossy[0].tries;
        CHECK(share > 0.51 - 0.25);
        CHECK(share < 0.51 + 0.25);
      }
    }
  CHECK(exact > rounds * 97 / 100);
}

TEST_CASE("verdict: dead and lossy parts at once") {
  const Description d = make_fabric(2, 3, 3, 6);
  for (unsigned seed = 0; seed < 20; ++seed) {
    Broken broken{
        {{PartKind::t1, 0, 2}}, {{PartKind::switch_link, 0, 1, 0}}, 0.3, mrc::Random(seed)};
    const Verdict v = Look(d, 0, broken).verdict;
    CHECK(names_of(d, v.dead) == "switch p0t1-2");
    CHECK(names_of(d, v.lossy) == "link p0t0-1 - p0t1-0");
  }
}

TEST_CASE("verdict: large fabrics with many faults are judged soon") {
  const Description d = make_fabric(8, 8, 8, 32);
  mrc::Random random(5);
  const auto parts = breakable(d, 0);
  std::set<Part> dead;
  for (unsigned n = 0; n < 40; ++n)
    dead.insert(parts[random.below(static_cast<std::uint32_t>(parts.size()))]);
  Broken broken{dead, {}};
  const Verdict v = Look(d, 0, broken).verdict;
  CHECK(v.dead.size() <= dead.size());
  CHECK(v.dead_paths.empty());
}

}  // namespace verdict_test
