// SPDX-License-Identifier: Apache-2.0
#include "probe/report.hpp"

#include <doctest/doctest.h>

#include "fixture.hpp"
#include "support/errors.hpp"

using namespace mrc::probe;
using namespace mrc::probe::testing;

namespace report_test {

/// What one sweep finds: of each path so many of 24 probes are answered.
template <class F>
Report make_report(const Description& d, F&& answered) {
  Report r;
  r.link_up.assign(d.planes, true);
  for (unsigned host = 1; host < d.hosts.size(); ++host)
    for (ProbePath& path : PathMaker(d, 0).paths_to(host, 8)) r.paths.push_back(std::move(path));
  for (const ProbePath& path : r.paths) {
    PathResult result;
    result.tries = 24;
    result.answered = answered(path);
    r.results.push_back(result);
  }
  r.verdict = judge(r.paths, r.results);
  return r;
}

constexpr const char* kEcmp = R"("forwarding": "ecmp",)";

TEST_CASE("report: where switches choose, the EVs of a way that fail make one trouble") {
  const Description d = make_fabric(3, 2, 2, 2, kEcmp);
  const Report r = make_report(d, [](const ProbePath& path) {
    if (path.uplink % 2 == 0) return 24u;
    if (path.plane == 2) return path.uplink == 1 ? 4u : 0u;
    return path.plane == 1 ? 0u : 12u;
  });
  const std::vector<Trouble> all = troubles(d, r);
  REQUIRE(all.size() == 3);
  const std::string why = ": a T1 or its link, there or on the way back";
  CHECK(all[0].kind == Trouble::Kind::dead);
  CHECK(all[0].what == "path h0 p1t0-0 ? p1t0-1 h1");
  CHECK(all[0].detail == "4 of 8 EVs" + why);
  CHECK(all[1].kind == Trouble::Kind::dead);
  CHECK(all[1].what == "path h0 p2t0-0 ? p2t0-1 h1");
  CHECK(all[1].detail == "3 of 8 EVs, 1 more with 83.3 % of probes lost" + why);
  CHECK(all[2].kind == Trouble::Kind::lossy);
  CHECK(all[2].what == "path h0 p0t0-0 ? p0t0-1 h1");
  CHECK(all[2].detail == "4 of 8 EVs with 50.0 % of probes lost" + why);
}

TEST_CASE("report: a T0 that no EV gets to may be well, if only switches know the way") {
  const Description d = make_fabric(2, 2, 2, 4, kEcmp);
  const Report r = make_report(
      d, [](const ProbePath& path) { return path.plane == 1 && path.to >= 2 ? 0u : 24u; });
  const std::vector<Trouble> all = troubles(d, r);
  REQUIRE(all.size() == 1);
  CHECK(all[0].what == "switch p1t0-1");
  CHECK(all[0].detail == "16 of 16 paths over it; or the T1s on the way");
}

TEST_CASE("report: of source routes each is a trouble by itself, dead ones before lossy ones") {
  const Description d = make_fabric(1, 2, 4, 2);
  Report r = make_report(d, [](const ProbePath& path) { return path.uplink < 2 ? 0u : 18u; });
  r.verdict = {};
  r.verdict.dead_paths = {0, 1};
  r.verdict.lossy_paths = {2};
  const std::vector<Trouble> all = troubles(d, r);
  REQUIRE(all.size() == 3);
  CHECK(all[0].kind == Trouble::Kind::dead);
  CHECK(all[0].what == "path h0 p0t0-0 p0t1-0 p0t0-1 h1");
  CHECK(all[1].what == "path h0 p0t0-0 p0t1-1 p0t0-1 h1");
  CHECK(all[1].detail == "all of its parts work on other paths");
  CHECK(all[2].kind == Trouble::Kind::lossy);
  CHECK(all[2].what == "path h0 p0t0-0 p0t1-2 p0t0-1 h1");
  CHECK(all[2].detail == "25.0 % of 24 probes over it lost");
}

/// The same report, of a fabric where packets of full size pass where `passes` says so.
template <class F>
Report with_full_size(Report r, F&& passes) {
  r.full_size = 4231;
  for (const ProbePath& path : r.paths) {
    PathResult result;
    result.tries = 24;
    result.answered = passes(path) ? 24 : 0;
    r.full.push_back(result);
  }
  r.narrow = judge(r.paths, r.full);
  return r;
}

TEST_CASE("report: a link that only small packets pass, with the size of the others") {
  const Description d = make_fabric(2, 2, 2, 4);
  const Part link{PartKind::switch_link, 1, 0, 1};
  const auto fine = [](const ProbePath&) { return 24u; };
  const Report r = with_full_size(make_report(d, fine),
                                  [&](const ProbePath& path) { return !goes_over(path, {link}); });
  CHECK(r.verdict.all_alive());
  CHECK_FALSE(r.all_alive());
  const std::vector<Trouble> all = troubles(d, r);
  REQUIRE(all.size() == 1);
  CHECK(all[0].kind == Trouble::Kind::narrow);
  CHECK(all[0].what == part_name(d, link));
  CHECK(mrc::test::contains(all[0].detail,
                            "packets of 4231 bytes do not pass, small ones do; 2 of 2"));

  // A host of which nothing but small packets is answered may be another implementation.
  const Report host =
      with_full_size(make_report(d, fine), [](const ProbePath& path) { return path.to != 2; });
  const std::vector<Trouble> of_host = troubles(d, host);
  REQUIRE(of_host.size() == 1);
  CHECK(of_host[0].kind == Trouble::Kind::narrow);
  CHECK(of_host[0].what == "host h2");
  CHECK_FALSE(host.all_alive());
}

TEST_CASE("report: a loss in one direction is a trouble of the link, and names the direction") {
  const Description d = make_fabric(2, 2, 2, 2);
  Broken broken{{{PartKind::switch_link, 0, 1, 0, Direction::down}},
                {{PartKind::switch_link, 1, 0, 1, Direction::up}}};
  Look look(d, 0, broken);
  Report r;
  r.link_up.assign(d.planes, true);
  r.paths = std::move(look.paths);
  r.results = std::move(look.results);
  r.verdict = std::move(look.verdict);
  const std::vector<Trouble> all = troubles(d, r);
  REQUIRE(all.size() == 2);
  CHECK(all[0].what == "link p0t0-1 - p0t1-0");
  CHECK(mrc::test::contains(all[0].detail, "from p0t1-0 to p0t0-1 only; "));
  CHECK(all[1].what == "link p1t0-0 - p1t1-1");
  CHECK(mrc::test::contains(all[1].detail, "from p1t0-0 to p1t1-1 only; "));
}

TEST_CASE("report: a slow link, with what it carries and what its neighbours do") {
  const Description d = make_fabric(2, 2, 2, 4);
  const Part link{PartKind::switch_link, 1, 0, 1};
  Report r = with_full_size(make_report(d, [](const ProbePath&) { return 24u; }),
                            [](const ProbePath&) { return true; });
  for (const ProbePath& path : r.paths) {
    PathLoad load;
    load.trains = 2;
    load.rates = {goes_over(path, {link}) ? 300.0 : 6000.0, 100.0};
    r.loads.push_back(load);
  }
  r.slow = judge_standings(r.paths, compare_loads(r.paths, r.loads));
  CHECK_FALSE(r.all_alive());
  const std::vector<Trouble> all = troubles(d, r);
  REQUIRE(all.size() == 1);
  CHECK(all[0].kind == Trouble::Kind::slow);
  CHECK(all[0].what == part_name(d, link));
  CHECK(mrc::test::contains(all[0].detail, "carries 10.2 Mb/s, neighbours carry 203.1 Mb/s; 2 of"));

  // With ECMP, a way of which some EVs are slow.
  const Description chosen = make_fabric(2, 2, 2, 4, kEcmp);
  Report evs = with_full_size(make_report(chosen, [](const ProbePath&) { return 24u; }),
                              [](const ProbePath&) { return true; });
  for (const ProbePath& path : evs.paths) {
    const bool slow = path.plane == 1 && path.to == 2 && path.uplink % 2 == 0;
    evs.loads.push_back({1, {slow ? 300.0 : 6000.0}});
  }
  evs.slow = judge_standings(evs.paths, compare_loads(evs.paths, evs.loads));
  const std::vector<Trouble> ways = troubles(chosen, evs);
  REQUIRE(ways.size() == 1);
  CHECK(ways[0].kind == Trouble::Kind::slow);
  CHECK(ways[0].what == "path h0 p1t0-0 ? p1t0-1 h2");
  CHECK(ways[0].detail == "4 of 8 EVs: a T1 or its link, there or on the way back");
}

TEST_CASE("report: EVs that only small packets pass; a part that loses small ones is told once") {
  const Description d = make_fabric(1, 2, 2, 2, kEcmp);
  const Report r = with_full_size(make_report(d, [](const ProbePath&) { return 24u; }),
                                  [](const ProbePath& path) { return path.uplink % 2 == 0; });
  const std::vector<Trouble> all = troubles(d, r);
  REQUIRE(all.size() == 1);
  CHECK(all[0].kind == Trouble::Kind::narrow);
  CHECK(all[0].what == "path h0 p0t0-0 ? p0t0-1 h1");
  CHECK(mrc::test::contains(all[0].detail, "small ones do; 4 of 8 EVs"));

  const Description routed = make_fabric(1, 2, 2, 2);
  const Part link{PartKind::switch_link, 0, 0, 1};
  const auto over = [&](const ProbePath& path) { return goes_over(path, {link}); };
  const Report both = with_full_size(
      make_report(routed, [&](const ProbePath& path) { return over(path) ? 20u : 24u; }),
      [&](const ProbePath& path) { return !over(path); });
  REQUIRE(both.verdict.lossy.size() == 1);
  REQUIRE(troubles(routed, both).size() == 1);
  CHECK(troubles(routed, both)[0].kind == Trouble::Kind::narrow);
}

}  // namespace report_test
