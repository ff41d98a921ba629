// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "fixture.hpp"

using namespace mrc::probe;
using namespace mrc::probe::testing;

namespace paths_test {

ProbePath find(const std::vector<ProbePath>& paths, PathKind kind, unsigned plane, unsigned uplink,
               unsigned far = 0) {
  const auto path = std::find_if(paths.begin(), paths.end(), [&](const ProbePath& p) {
    return p.kind == kind && p.plane == plane && p.uplink == uplink && p.far == far;
  });
  REQUIRE(path != paths.end());
  return *path;
}

std::string part_names(const Description& d, const ProbePath& path) {
  std::string names;
  for (const Part& part : path.parts)
    if (part.direction == Direction::both)
      names += (names.empty() ? "" : ", ") + part_name(d, part);
  return names;
}

/// The directions of links among them.
std::string one_way_names(const Description& d, const std::vector<Part>& parts) {
  std::string names;
  for (const Part& part : parts)
    if (part.direction != Direction::both)
      names += (names.empty() ? "" : ", ") + part_name(d, part);
  return names;
}

TEST_CASE("probe paths: loops lead back to the host, over every link between switches") {
  const Description d = make_fabric(2, 3, 2, 6);
  const PathMaker maker(d, 0);
  const auto loops = maker.loops();
  CHECK(loops.size() == 2 * (1 + 2 + 2 * 2));
  const ProbePath near = find(loops, PathKind::t0_loop, 1, 0);
  CHECK(path_name(d, near) == "h0 p1t0-0 h0");
  CHECK(near.route.destination == mrc::fabric::parse_ipv6("fcbb:0:3100::"));
  const ProbePath middle = find(loops, PathKind::t1_loop, 1, 1);
  CHECK(path_name(d, middle) == "h0 p1t0-0 p1t1-1 p1t0-0 h0");
  CHECK(middle.route.destination == mrc::fabric::parse_ipv6("fcbb:0:1100:2101:3100::"));
  CHECK(part_names(d, middle) ==
        "link h0 - p1t0-0, link p1t0-0 - p1t1-1, switch p1t0-0, switch p1t1-1, plane 1, host h0");
  const ProbePath far = find(loops, PathKind::far_loop, 0, 1, 2);
  CHECK(path_name(d, far) == "h0 p0t0-0 p0t1-1 p0t0-2 p0t1-1 p0t0-0 h0");
  CHECK(far.route.destination == mrc::fabric::parse_ipv6("fcbb:0:1000:2001:1002:2001:3000:0"));
  std::set<Part> links;
  for (const ProbePath& path : loops)
    for (const Part& part : path.parts)
      if (part.kind == PartKind::switch_link) links.insert(part);
  CHECK(links.size() == 2 * 3 * 2 * 3);  // both directions, and the link as such
}

TEST_CASE("probe paths: a turn passes two links in one direction each, an answer comes back") {
  const Description d = make_fabric(2, 2, 2, 4);
  const PathMaker maker(d, 0);
  const ProbePath turn = maker.turn(1, 0, 1, 1);
  CHECK(path_name(d, turn) == "h0 p1t0-0 p1t1-0 p1t0-1 p1t1-1 p1t0-0 h0");
  CHECK(turn.route.destination == mrc::fabric::parse_ipv6("fcbb:0:1100:2100:1101:2101:3100:0"));
  CHECK(one_way_names(d, turn.parts) ==
        "link h0 > p1t0-0, link p1t0-0 > h0, link p1t0-0 > p1t1-0, link p1t1-1 > p1t0-0, "
        "link p1t1-0 > p1t0-1, link p1t0-1 > p1t1-1");
  CHECK(turn.there == turn.parts);
  const ProbePath peer = maker.paths_to(2)[1];
  CHECK(path_name(d, peer) == "h0 p1t0-0 p1t1-0 p1t0-1 h2");
  CHECK(one_way_names(d, peer.there) ==
        "link h0 > p1t0-0, link p1t0-1 > h2, link p1t0-0 > p1t1-0, link p1t1-0 > p1t0-1");
  CHECK(one_way_names(d, peer.parts) ==
        "link h0 > p1t0-0, link p1t0-0 > h0, link h2 > p1t0-1, link p1t0-1 > h2, "
        "link p1t0-0 > p1t1-0, link p1t1-0 > p1t0-0, link p1t0-1 > p1t1-0, link p1t1-0 > p1t0-1");
}

TEST_CASE("probe paths: to other hosts they are those of the fabric") {
  const Description d = make_fabric(2, 2, 2, 4);
  const PathMaker maker(d, 1);
  const auto remote = maker.paths_to(3);
  REQUIRE(remote.size() == 4);
  CHECK(path_name(d, remote[3]) == "h1 p1t0-0 p1t1-1 p1t0-1 h3");
  CHECK(part_names(d, remote[3]) ==
        "link h1 - p1t0-0, link h3 - p1t0-1, link p1t0-0 - p1t1-1, link p1t0-1 - p1t1-1, "
        "switch p1t0-0, switch p1t0-1, switch p1t1-1, plane 1, host h1, host h3");
  const auto local = maker.paths_to(0);
  REQUIRE(local.size() == 2);
  CHECK(path_name(d, local[0]) == "h1 p0t0-0 h0");
}

TEST_CASE("probe paths: planes that only their blocks tell apart") {
  const Description d = make_fabric(
      2, 2, 2, 2, R"("blocks": ["fcbb:1::/32", "fcbb:2::/32"], "usids": {"plane": 0},)");
  const ProbePath loop = find(PathMaker(d, 0).loops(), PathKind::t1_loop, 1, 1);
  CHECK(loop.route.destination == mrc::fabric::parse_ipv6("fcbb:2:1000:2001:3000::"));
  CHECK(path_name(d, loop) == "h0 p1t0-0 p1t1-1 p1t0-0 h0");
}

TEST_CASE("probe paths: over uSIDs of links, each of one switch") {
  const Description d =
      make_fabric(2, 3, 2, 3, R"("blocks": ["fcbb:1::/32", "fcbb:2::/32"], "usids": { "plane": 0,
      "t0": "0xe000", "t1": "0xf000", "host": "0xe000", "host_t0": 0 }, "templates": [{
      "remote": ["t1", "host_t0", "host", "0xd001"], "local": ["host", "0xd001"] }],)");
  const PathMaker maker(d, 1);
  const auto loops = maker.loops();
  CHECK(loops.size() == 2 * (1 + 2 + 2 * 2));
  const auto check = [&](const ProbePath& path, const char* route, const char* name) {
    CHECK(path.route.destination == mrc::fabric::parse_ipv6(route));
    CHECK(path_name(d, path) == name);
  };
  check(find(loops, PathKind::t0_loop, 1, 0, 1), "fcbb:2:e000:d001::", "h1 p1t0-1 h1");
  check(find(loops, PathKind::t1_loop, 1, 1, 1),
        "fcbb:2:f001:e001:e000:d001::", "h1 p1t0-1 p1t1-1 p1t0-1 h1");
  check(find(loops, PathKind::far_loop, 0, 1, 2), "fcbb:1:f001:e002:f001:e001:e000:d001",
        "h1 p0t0-1 p0t1-1 p0t0-2 p0t1-1 p0t0-1 h1");
  check(maker.paths_to(2)[3], "fcbb:2:f001:e002:e000:d001::", "h1 p1t0-1 p1t1-1 p1t0-2 h2");
  // Eight uSIDs: two of them are in the segment routing header.
  const ProbePath detour = maker.detour(0, 1, 2, 0);
  CHECK(detour.route.has_srh);
  check(detour, "fcbb:1:f000:e002:f001:e002:f000:e001",
        "h1 p0t0-1 p0t1-0 p0t0-2 p0t1-1 p0t0-2 p0t1-0 p0t0-1 h1");
}

TEST_CASE("probe paths: a detour gets to a T1 around the own uplink") {
  const Description d = make_fabric(1, 2, 3, 2);
  const ProbePath path = PathMaker(d, 0).detour(0, 2, 1, 1);
  CHECK(path_name(d, path) == "h0 p0t0-0 p0t1-1 p0t0-1 p0t1-2 p0t0-1 p0t1-1 p0t0-0 h0");
  CHECK_FALSE(path.route.has_srh);
}

TEST_CASE("probe paths: uSIDs of a template that nobody is known to have join nothing") {
  const Description d =
      make_fabric(1, 2, 2, 2, R"("templates": [{"remote": ["t0", "t1", "0x4001", "host"]}],)");
  const auto paths = PathMaker(d, 0).paths_to(1);
  CHECK(path_name(d, paths[0]) == "h0 p0t0-0 p0t1-0 ? p0t0-1 h1");
  CHECK(part_names(d, paths[0]) ==
        "link h0 - p0t0-0, link h1 - p0t0-1, link p0t0-0 - p0t1-0, switch p0t0-0, switch p0t0-1, "
        "switch p0t1-0, plane 0, host h0, host h1");
}

TEST_CASE("probe paths: where switches choose, they are EVs, whose T1 nobody knows") {
  const Description d = make_fabric(2, 2, 2, 4, R"("forwarding": "ecmp",)");
  const PathMaker maker(d, 0);
  const auto remote = maker.paths_to(2, 8);
  REQUIRE(remote.size() == 2 * 8);
  std::set<mrc::Ev> evs;
  for (const ProbePath& path : remote) evs.insert(path.ev);
  CHECK(evs.size() == remote.size());
  CHECK(way_name(d, remote[3]) == "h0 p1t0-0 ? p1t0-1 h2");
  CHECK(path_name(d, remote[3]) == "h0 p1t0-0 ? p1t0-1 h2 by EV 0x2c001");
  CHECK(part_names(d, remote[3]) ==
        "link h0 - p1t0-0, link h2 - p1t0-1, switch p1t0-0, switch p1t0-1, plane 1, host h0, "
        "host h2");
  CHECK(way_name(d, maker.paths_to(1, 8)[0]) == "h0 p0t0-0 h1");
}

TEST_CASE("probe paths: what the description denies is marked") {
  const Description d = make_fabric(
      2, 2, 2, 2, R"("deny": [{"plane": 1, "t0": 1, "t1": 0}, {"plane": 0, "host": "h1"}],)");
  unsigned denied = 0;
  for (const ProbePath& path : all_paths(PathMaker(d, 0))) {
    const bool expected =
        goes_over(path, {{PartKind::switch_link, 1, 1, 0}, {PartKind::host_link, 0, 1}});
    CHECK(path.denied == expected);
    denied += path.denied;
  }
  CHECK(denied == 2 + 2);
}

TEST_CASE("probe paths: what is denied for a part keeps just the paths over it off") {
  const Description d = make_fabric(2, 2, 2, 4);
  const auto paths = all_paths(PathMaker(d, 0));
  std::set<Part> parts;
  for (const ProbePath& path : paths) parts.insert(path.parts.begin(), path.parts.end());
  for (const Part& part : parts) {
    Description denying = d;
    const auto denial = denial_of(part);
    CHECK(denial.has_value() == (part.kind != PartKind::host));
    if (!denial) continue;
    denying.denied.push_back(*denial);
    INFO(part_name(d, part));
    for (unsigned k = 1; k < d.hosts.size(); ++k) {
      const auto fabric_paths = mrc::fabric::paths(denying, denying.hosts[0], denying.hosts[k]);
      const auto mine = PathMaker(d, 0).paths_to(k);
      REQUIRE(fabric_paths.size() == mine.size());
      for (std::size_t i = 0; i < mine.size(); ++i)
        CHECK(fabric_paths[i].denied == goes_over(mine[i], {part}));
    }
  }
}

}  // namespace paths_test
