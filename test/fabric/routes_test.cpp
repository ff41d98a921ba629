// SPDX-License-Identifier: Apache-2.0
#include "mrc/fabric/routes.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "fabric/fixture.hpp"
#include "mrc/fabric/description.hpp"

namespace mrc::fabric::testing::routes_test {
namespace {

/// What a packet goes through in one plane when every node does what its uSID says, such as
/// "t0-0 t1-1 t0-1 h1"; "lost" at the end where a node has no route.
class Walk {
 public:
  Walk(const Description& d, Plane plane) : d_(d), plane_(plane) {}

  std::string run(const Host& from, path::UsidRoute route) {
    std::string way;
    std::optional<Switch> at = Switch{false, from.t0};
    for (unsigned hops = 0; hops < 40; ++hops) {
      way += (at->is_t1 ? "t1-" : "t0-") + std::to_string(at->number) + " ";
      Usid active = path::usid_at(route.destination, 0);
      if (path::usid_block(route.destination) != d_.blocks[plane_]) return way + "lost";
      if (active == own(*at)) {
        if (path::step(route) == path::UsidStep::last) return way + "lost";
        active = path::usid_at(route.destination, 0);
      }
      if (path::is_local(active)) {  // out by a link of this switch, or not at all
        if (const auto host = host_at(*at, active)) return way + *host;
        at = over_link(*at, active);
        if (!at || path::step(route) == path::UsidStep::last) return way + "lost";
        continue;
      }
      for (const Host& h : d_.hosts) {
        if (d_.usids.of_host(plane_, h.t0, h.downlink) != active) continue;
        if (!at->is_t1 && at->number == h.t0) return way + h.name;
      }
      at = next(*at, active);
      if (!at) return way + "lost";
    }
    return way + "lost";
  }

 private:
  struct Switch {
    bool is_t1;
    unsigned number;
  };

  /// 0: it has none.
  [[nodiscard]] Usid own(const Switch& s) const {
    if (path::is_local(s.is_t1 ? d_.usids.t1 : d_.usids.t0)) return 0;
    return s.is_t1 ? d_.usids.of_t1(plane_, s.number) : d_.usids.of_t0(plane_, s.number);
  }
  [[nodiscard]] std::optional<std::string> host_at(const Switch& at, Usid link) const {
    for (const Host& h : d_.hosts)
      if (!at.is_t1 && at.number == h.t0 && d_.usids.of_host(plane_, h.t0, h.downlink) == link)
        return h.name;
    return std::nullopt;
  }
  [[nodiscard]] std::optional<Switch> over_link(const Switch& at, Usid link) const {
    for (unsigned j = 0; !at.is_t1 && j < d_.t1; ++j)
      if (d_.usids.of_t1(plane_, j) == link) return Switch{true, j};
    for (unsigned i = 0; at.is_t1 && i < d_.t0; ++i)
      if (d_.usids.of_t0(plane_, i) == link) return Switch{false, i};
    return std::nullopt;
  }
  /// A T0 knows the T1s, a T1 knows the T0s and their hosts.
  [[nodiscard]] std::optional<Switch> next(const Switch& at, Usid active) const {
    for (unsigned j = 0; !at.is_t1 && j < d_.t1; ++j)
      if (d_.usids.of_t1(plane_, j) == active) return Switch{true, j};
    for (unsigned i = 0; at.is_t1 && i < d_.t0; ++i)
      if (d_.usids.of_t0(plane_, i) == active) return Switch{false, i};
    for (const Host& h : d_.hosts)
      if (at.is_t1 && d_.usids.of_host(plane_, h.t0, h.downlink) == active)
        return Switch{false, h.t0};
    return std::nullopt;
  }

  const Description& d_;
  Plane plane_;
};

std::string walk(const Description& d, const Host& from, const Path& p) {
  return Walk(d, p.plane).run(from, p.route);
}

/// The paths that are denied, as "p0:1 p2:0": plane and uplink.
std::string denied_of(const Description& d, const std::string& from = "h0",
                      const std::string& to = "h1") {
  std::string text;
  for (const Path& p : paths(d, *d.find_host(from), *d.find_host(to)))
    if (p.denied)
      text +=
          (text.empty() ? "p" : " p") + std::to_string(p.plane) + ":" + std::to_string(p.uplink);
  return text;
}

/// Two planes told apart by their blocks, three T0s with up to sixteen hosts, and whatever else.
Description linked(const std::string& usids, const std::string& more = "") {
  return parse("f.json", R"({ "planes": 2, "t0": 3, "t1": 2, "blocks": ["fc00::/32", "fc00:1::/32"],
    "hosts": [{ "t0": 0, "downlink": 9 }, { "t0": 1, "downlink": 9 }, { "t0": 1, "downlink": 10 },
              { "t0": 2, "downlink": 9 }],
    "usids": { "plane": 0, )" +
                             usids + " }" + more + " }");
}
const std::string kAllLinks = R"("t0": "0xe000", "t1": "0xf000", "host": "0xe000", "host_t0": 0)";

}  // namespace

TEST_CASE("routes: the demo fabric, planes in turn") {
  const Description d = small_fabric();
  const auto all = paths(d, d.hosts[0], d.hosts[1]);
  REQUIRE(all.size() == 8);
  for (std::size_t i = 0; i < all.size(); ++i) {
    CHECK(all[i].plane == i % 4);
    CHECK(all[i].uplink == i / 4);
    CHECK(value(all[i].ev) == 1 + (i % 4) * 2 + i / 4);
    CHECK(uplink_of(d, all[i].ev) == i / 4);
    CHECK(uplink_of(d, Ev{value(all[i].ev) | 1u << 16}) == i / 4);  // its second EV
    CHECK_FALSE((all[i].denied || all[i].route.has_srh));
    CHECK(walk(d, d.hosts[0], all[i]) == "t0-0 t1-" + std::to_string(all[i].uplink) + " t0-1 h1");
  }
  CHECK(all[0].route.destination == address("fcbb:0:1000:2000:3010::"));
  CHECK(all[6].route.destination == address("fcbb:0:1200:2201:3210::"));  // docs/fabric.md
}

TEST_CASE("routes: every pair of a larger fabric, each path once") {
  const Description d = read(source_file("tools/fabrics/larger.json").string());
  for (const Host& from : d.hosts)
    for (const Host& to : d.hosts) {
      const auto all = paths(d, from, to);
      const bool is_near = from.t0 == to.t0;
      REQUIRE(all.size() == (is_near ? 8 : 32));
      std::set<path::Ipv6> destinations;
      std::set<Ev> evs;
      for (const Path& p : all) {
        destinations.insert(p.route.destination);
        evs.insert(p.ev);
        const std::string middle =
            is_near ? "" : "t1-" + std::to_string(p.uplink) + " t0-" + std::to_string(to.t0) + " ";
        CHECK(walk(d, from, p) == "t0-" + std::to_string(from.t0) + " " + middle + to.name);
      }
      CHECK((destinations.size() == all.size() && evs.size() == all.size()));
    }
}

TEST_CASE("routes: the EVs of the largest fabric fit 16 bits") {
  std::string blocks;
  for (unsigned p = 0; p < 32; ++p)
    blocks += (p == 0 ? "\"fcbb:" : ", \"fcbb:") + std::to_string(p) + "::/32\"";
  const Description d = parse("f.json", R"({ "planes": 32, "t0": 2, "t1": 1024, "hosts": 2,
    "usids": { "plane": 0, "t1": "0x4000", "t1_number": "0x03ff" }, "blocks": [)" +
                                            blocks + "] }");
  const auto all = paths(d, d.hosts[0], d.hosts[1]);
  CHECK(all.size() == path::kMaxPaths);
  CHECK(value(all.back().ev) == 0x8000);
  CHECK(uplink_of(d, all.back().ev) == 1023);
  for (const Path& p : all) CHECK((value(p.ev) & 0xFFFF) != 0);  // the UDP source port
  CHECK(walk(d, d.hosts[0], all.back()) == "t0-0 t1-1023 t0-1 h1");
}

TEST_CASE("routes: what a route leads over is what the list deny keeps paths off") {
  const auto check = [](Description d) {
    std::vector<Denied> parts;
    for (unsigned plane = 0; plane < d.planes; ++plane) {
      const auto p = static_cast<Plane>(plane);
      const auto any = Denied::kAny;
      parts.push_back({p, any, any, any});
      for (unsigned i = 0; i < d.t0; ++i) parts.push_back({p, i, any, any});
      for (unsigned j = 0; j < d.t1; ++j) parts.push_back({p, any, j, any});
      for (unsigned i = 0; i < d.t0; ++i)
        for (unsigned j = 0; j < d.t1; ++j) parts.push_back({p, i, j, any});
      for (unsigned k = 0; k < d.hosts.size(); ++k) parts.push_back({p, any, any, k});
    }
    std::size_t denied = 0, wrong = 0;
    for (const Denied& part : parts) {
      d.denied = {part};
      for (const Host& from : d.hosts)
        for (const Host& to : d.hosts)
          for (const Path& path : plane_paths(d, part.plane, from, to)) {
            denied += path.denied;
            wrong += path.denied != leads_over(d, part, from, to, path.route);
          }
    }
    CHECK(denied > 0);
    CHECK(wrong == 0);
  };
  check(small_fabric());
  check(read(source_file("tools/fabrics/larger.json").string()));
  check(small_fabric(R"("forwarding": "ecmp",)"));
  check(linked(kAllLinks));
  // More uSIDs than one address holds: the rest is in the segment routing header.
  check(small_fabric(R"("templates": [{ "remote": ["t0", "t1", "0x1001", "0x2001", "0x1000",
    "0x2000", "host"] }],)"));
}

TEST_CASE("routes: planes told apart by their blocks, a single T1") {
  const Description d = parse("f.json", R"({ "planes": 2, "t0": 2, "t1": 1, "hosts": 2,
    "blocks": ["fcbb:1::/32", "fcbb:2::/32"], "usids": { "plane": 0, "t1_number": 0 } })");
  const auto all = paths(d, d.hosts[0], d.hosts[1]);
  REQUIRE(all.size() == 2);
  CHECK(all[1].route.destination == address("fcbb:2:1000:2000:3010::"));
  CHECK((value(all[0].ev) == 1 && value(all[1].ev) == 2));
  for (const Path& p : all) CHECK(walk(d, d.hosts[0], p) == "t0-0 t1-0 t0-1 h1");
}

TEST_CASE("routes: templates by the destination's T0, literal uSIDs, a routing header") {
  const Description d = parse("f.json", R"({ "planes": 2, "t0": 3, "t1": 2, "hosts": 6,
    "templates": [
      { "t0s": [1], "remote": ["t1", "host"], "local": ["t0", "t1", "host"] },
      { "t0s": [2],
        "remote": ["t0", "t1", "0x1001", "0x2000", "0x1000", "0x2001", "0x1002", "host"] }
    ] })");
  const auto first = [&](unsigned from, unsigned to) {
    const auto all = paths(d, d.hosts[from], d.hosts[to]);
    return std::to_string(all.size()) + ": " + walk(d, d.hosts[from], all.front());
  };
  CHECK(first(0, 1) == "2: t0-0 h1");
  CHECK(first(0, 2) == "4: t0-0 t1-0 t0-1 h2");
  CHECK(first(2, 3) == "4: t0-1 t1-0 t0-1 h3");
  CHECK(first(0, 4) == "4: t0-0 t1-0 t0-1 t1-0 t0-0 t1-1 t0-2 h4");
  const Path p = paths(d, d.hosts[0], d.hosts[4])[3];
  CHECK((p.plane == 1 && p.uplink == 1 && p.route.has_srh));
  CHECK(p.route.destination == address("fcbb:0:1100:2101:1101:2100:1100:2101"));
  CHECK(p.route.segment == address("fcbb:0:1102:3120::"));
  CHECK(walk(d, d.hosts[0], p) == "t0-0 t1-1 t0-1 t1-0 t0-0 t1-1 t0-2 h4");
}

TEST_CASE("routes: uSIDs of links, each of one switch") {
  // The T1s are uplinks of T0s, the T0s links of T1s, and a host is the downlink of its T0: 0xe001
  // is the link to T0 1 at a T1, 0xe009 that to downlink 9 at each T0.
  const Description d = linked(kAllLinks);
  CHECK(paths(d, d.hosts[0], d.hosts[1])[3].route.destination ==
        address("fc00:1:f001:e001:e009::"));
  CHECK(paths(d, d.hosts[1], d.hosts[2])[0].route.destination == address("fc00:0:e00a::"));
  for (const Host& from : d.hosts)
    for (const Host& to : d.hosts) {
      const auto all = paths(d, from, to);
      REQUIRE(all.size() == (from.t0 == to.t0 ? 2 : 4));
      for (const Path& p : all) {
        const std::string middle = from.t0 == to.t0 ? ""
                                                    : "t1-" + std::to_string(p.uplink) + " t0-" +
                                                          std::to_string(to.t0) + " ";
        CHECK(walk(d, from, p) == "t0-" + std::to_string(from.t0) + " " + middle + to.name);
      }
    }
  // As public labs of SONiC have it: a uSID of the host's own ends the address.
  const Description lab =
      linked(kAllLinks, R"(, "templates": [{ "remote": ["t1", "host_t0", "host", "0xd001"],
                                      "local": ["host", "0xd001"] }])");
  CHECK(paths(lab, lab.hosts[0], lab.hosts[3])[2].route.destination ==
        address("fc00:0:f001:e002:e009:d001::"));
  CHECK(paths(lab, lab.hosts[1], lab.hosts[2])[0].route.destination ==
        address("fc00:0:e00a:d001::"));
  CHECK(walk(lab, lab.hosts[0], paths(lab, lab.hosts[0], lab.hosts[3])[2]) == "t0-0 t1-1 t0-2 h3");
  CHECK(usids_behind(lab, 0, lab.hosts[0], lab.hosts[3]) == std::vector<Usid>{0xD001});
  CHECK(usids_behind(d, 0, d.hosts[0], d.hosts[3]).empty());
}

TEST_CASE("routes: uSIDs of links beside those of nodes") {
  const auto first = [](const Description& d) {
    const Path p = paths(d, d.hosts[0], d.hosts[1])[2];
    const std::string way = walk(d, d.hosts[0], p);
    return fabric::format_ipv6(p.route.destination) + (way == "t0-0 t1-1 t0-1 h1" ? "" : way);
  };
  const std::string wide = R"(, "downlink": "0x000f")";
  CHECK(first(linked(R"("t1": "0xe000")" + wide)) == "fc00:0:1000:e001:3019::");
  CHECK(first(linked(R"("t0": "0xe000")" + wide)) == "fc00:0:2001:3019::");
  CHECK(first(linked(R"("host": "0xe000")" + wide)) == "fc00:0:1000:2001:1001:e019::");
  CHECK(first(linked(R"("t0": "0xe000", "host": "0xe100")" + wide)) == "fc00:0:2001:e001:e119::");
  // Written out, for one T0 each.
  CHECK(first(linked(kAllLinks, R"(, "templates": [{ "t0s": 1,
    "remote": ["t1", "0xe001", "host"] }])")) == "fc00:0:f001:e001:e009::");
}

TEST_CASE("routes: what is denied on uSIDs of links") {
  const auto denied = [](const std::string& deny, const char* from, const char* to) {
    return denied_of(linked(kAllLinks, R"(, "deny": [)" + deny + "]"), from, to);
  };
  CHECK(denied(R"({ "plane": 1, "t0": 1, "t1": 0 })", "h0", "h1") == "p1:0");
  CHECK(denied(R"({ "plane": 1, "t0": 1, "t1": 0 })", "h1", "h0") == "p1:0");
  CHECK(denied(R"({ "plane": 1, "t0": 1, "t1": 0 })", "h0", "h3").empty());
  CHECK(denied(R"({ "plane": 0, "t1": 1 })", "h0", "h1") == "p0:1");
  CHECK(denied(R"({ "plane": 0, "t1": 1 })", "h1", "h2").empty());
  CHECK(denied(R"({ "plane": 0, "t0": 2 })", "h0", "h3") == "p0:0 p0:1");
}

TEST_CASE("routes: what is denied") {
  const auto fabric = [](const std::string& deny) {
    return parse("f.json",
                 "{ \"planes\": 2, \"t0\": 3, \"t1\": 2, \"hosts\": 6, \"deny\": [" + deny + "] }");
  };
  CHECK(denied_of(fabric("")).empty());
  const Description link = fabric(R"({ "plane": 1, "t0": 1, "t1": 0 })");
  CHECK(denied_of(link, "h0", "h2") == "p1:0");
  CHECK(denied_of(link, "h2", "h0") == "p1:0");
  CHECK(denied_of(link, "h0", "h4").empty());
  CHECK(denied_of(link, "h2", "h3").empty());
  const Description t1 = fabric(R"({ "plane": 0, "t1": 1 })");
  CHECK(denied_of(t1, "h0", "h2") == "p0:1");
  CHECK(denied_of(t1, "h0", "h1").empty());
  const Description t0 = fabric(R"({ "plane": 0, "t0": 1 })");
  CHECK(denied_of(t0, "h0", "h2") == "p0:0 p0:1");
  CHECK(denied_of(t0, "h2", "h3") == "p0:0");
  CHECK(denied_of(t0, "h0", "h4").empty());
  const Description host = fabric(R"({ "plane": 1, "host": "h2" })");
  CHECK(denied_of(host, "h0", "h2") == "p1:0 p1:1");
  CHECK(denied_of(host, "h2", "h3") == "p1:0");
  CHECK(denied_of(host, "h0", "h3").empty());
  CHECK(denied_of(fabric(R"({ "plane": 1 }, { "plane": 0, "t1": 0 })"), "h0", "h2") ==
        "p0:0 p1:0 p1:1");
}

TEST_CASE("routes: what literal uSIDs touch can be denied, too") {
  const auto denied = [](const std::string& last_t1, const std::string& deny) {
    return denied_of(small_fabric(R"("templates": [{ "remote": ["t0", "t1", "0x1001", ")" +
                                  last_t1 + R"(", "host"] }], "deny": [)" + deny + "],"));
  };
  CHECK(denied("0x2001", R"({ "plane": 0, "t1": 1 })") == "p0:0 p0:1");
  CHECK(denied("0x2001", R"({ "plane": 0, "t0": 1, "t1": 0 })") == "p0:0");
  CHECK(denied("0x2001", R"({ "plane": 3, "t0": 0, "t1": 0 })") == "p3:0");
  // A switch that the description does not have can't be denied, and is in nobody's way.
  CHECK(denied("0x5001", R"({ "plane": 0, "t1": 1 })") == "p0:1");
}

TEST_CASE("routes: ECMP has structured EVs and no addresses") {
  const Description d = small_fabric(
      R"("forwarding": "ecmp", "deny": [{ "plane": 2, "t0": 1 }, { "plane": 3, "host": "h0" }],)");
  const auto all = paths(d, d.hosts[0], d.hosts[1]);
  REQUIRE(all.size() == 64);
  std::set<Ev> evs;
  for (std::size_t i = 0; i < all.size(); ++i) {
    CHECK((all[i].plane == i % 4 && all[i].uplink == i / 4));
    CHECK((value(all[i].ev) & 0xFFFF) == 0xC000 + i / 4);
    CHECK(all[i].route == path::UsidRoute{});
    CHECK(all[i].denied == (i % 4 >= 2));
    evs.insert(all[i].ev);
  }
  CHECK(evs.size() == 64);
  const Description udp = small_fabric(R"("forwarding": "ecmp", "entropy": "udp",)");
  evs.clear();
  for (const Path& path : paths(udp, udp.hosts[0], udp.hosts[1])) {
    CHECK(value(path.ev) == 0xC000u + path.plane * 16u + path.uplink);
    evs.insert(path.ev);
  }
  CHECK(evs.size() == 64);
  Description wide = udp;
  wide.planes = 32;
  CHECK(paths(wide, wide.hosts[0], wide.hosts[1], 512).size() == 16'384);
  CHECK(
      test::contains(test::error_of([&] { (void)paths(wide, wide.hosts[0], wide.hosts[1], 513); }),
                     "UDP source ports for 16384 together"));
  CHECK(paths(d, d.hosts[0], d.hosts[1], 3).size() == 12);
  for (const unsigned count : {0u, kMaxEcmpPaths + 1})
    CHECK(test::contains(
        test::error_of([&] { (void)paths(d, d.hosts[0], d.hosts[1], count); }),
        "f.json: " + std::to_string(count) + " paths per plane wanted, must be 1 to 1024"));
}

}  // namespace mrc::fabric::testing::routes_test
