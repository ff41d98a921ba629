// SPDX-License-Identifier: Apache-2.0
#include "mrc/probe/report.hpp"

#include <doctest/doctest.h>

#include "fixture.hpp"

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

}  // namespace report_test
