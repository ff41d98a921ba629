// SPDX-License-Identifier: Apache-2.0
#include "mrc_probe/report.hpp"

#include <doctest/doctest.h>

#include "fixture.hpp"

using namespace mrc::probe;
using namespace mrc::probe::testing;

TEST_CASE(
    "report: where switches choose, the EVs of a way that are dead or lossy make one trouble") {
  const Description d = make_fabric(2, 2, 2, 2, R"("forwarding": "ecmp",)");
  Report r;
  r.link_up = {true, true};
  r.paths = PathMaker(d, 0).paths_to(1, 8);
  for (const ProbePath& path : r.paths) {
    PathResult result;
    result.tries = 24;
    result.answered = path.uplink % 2 == 0 ? 24 : path.plane == 1 ? 0 : 12;
    r.results.push_back(result);
  }
  r.verdict = judge(r.paths, r.results);
  CHECK(r.verdict.dead_paths.size() == 4);
  CHECK(r.verdict.lossy_paths.size() == 4);
  const std::vector<Trouble> all = troubles(d, r);
  REQUIRE(all.size() == 2);
  CHECK(all[0].kind == Trouble::Kind::dead);
  CHECK(all[0].what == "path h0 p1t0-0 ? p1t0-1 h1");
  CHECK(all[0].detail == "4 of 8 EVs, by which switches choose a T1, there or on the way back");
  CHECK(all[1].kind == Trouble::Kind::lossy);
  CHECK(all[1].what == "path h0 p0t0-0 ? p0t0-1 h1");
  CHECK(all[1].detail == "50.0 % of 96 probes over it lost");
}
