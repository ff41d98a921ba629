// SPDX-License-Identifier: Apache-2.0
#include "mrc/fabric/fabric_reader.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <string>
#include <vector>

#include "fabric/fixture.hpp"

namespace mrc::fabric::testing::reader_test {
namespace {

using namespace std::chrono_literals;

/// Every field, none of them as by default.
const char* const kFull = R"({
  "$schema": "../docs/fabric.schema.json",
  "name": "full_1-x",
  "forwarding": "srv6",
  "planes": 2, "t0": 3, "t1": 5,
  "blocks": ["fcbb:1::/32", "fcbb:2::/32"],
  "usids": { "plane": "0x1000", "t0": 256, "t0_number": "0x003", "t1": "0x0200",
             "t1_number": "0x0070", "host": "0x0400", "host_t0": "0x00f0", "downlink": "0x000f" },
  "templates": [
    { "t0s": [1, 2], "remote": ["t0", "t1", "0x0123", "host"], "local": ["t0", "host"] },
    { "remote": ["t1", "host"] }
  ],
  "hosts": [
    { "name": "left", "t0": 2, "downlink": 7, "addresses": ["2001:db8::1", "2001:db8::2"],
      "interfaces": ["eth0", "eth1"], "next_hops": ["02:00:00:00:00:0a", "FE:dc:ba:98:76:54"] },
    { "t0": 2 },
    {}
  ],
  "mtu": 4200,
  "dscp": { "no_trim": 1, "trimmable": 2, "trimmable_retx": 3, "control": 4, "trimmed": 5,
            "trimmed_last_hop": 6 },
  "link_speed": 12.5,
  "base_rtt": "20us",
  "deny": [{ "plane": 1, "t0": 0, "t1": 4 }, { "plane": 0, "t1": 3 }, { "plane": 0, "t0": 2 },
           { "plane": 1, "host": "left" }, { "plane": 1 }]
})";

bool same(const Denied& d, Plane plane, unsigned t0, unsigned t1, unsigned host) {
  return d.plane == plane && d.t0 == t0 && d.t1 == t1 && d.host == host;
}

}  // namespace

TEST_CASE("description: everything but the hosts has a default") {
  const Description d = parse("some/f.json", "{ \"hosts\": 1 }");
  CHECK(d.file == "some/f.json");
  CHECK(d.name == "fabric");
  CHECK(d.forwarding == Forwarding::srv6);
  CHECK(d.entropy == wire::EvFormat::stev);
  CHECK((d.planes == 1 && d.t0 == 1 && d.t1 == 1));
  CHECK(d.blocks == std::vector<std::uint32_t>{0xFCBB0000});
  CHECK((d.usids.plane.mask() == 0x0F00 && d.usids.t0 == 0x1000 && d.usids.t1 == 0x2000));
  CHECK((d.usids.t0_number.mask() == 0xFF && d.usids.t1_number.mask() == 0xFF));
  CHECK((d.usids.host == 0x3000 && d.usids.host_t0.mask() == 0xF0));
  CHECK(d.usids.downlink.mask() == 0x0F);
  REQUIRE(d.patterns.size() == 1);
  CHECK(d.patterns[0].t0s.empty());
  REQUIRE((d.patterns[0].remote.size() == 3 && d.patterns[0].local.size() == 1));
  CHECK(d.patterns[0].remote[0].kind == PatternStep::Kind::source_t0);
  CHECK(d.patterns[0].remote[1].kind == PatternStep::Kind::t1);
  CHECK(d.patterns[0].remote[2].kind == PatternStep::Kind::host);
  CHECK(d.patterns[0].local[0].kind == PatternStep::Kind::host);
  CHECK((d.mtu == 9216 && d.dscp == wire::DscpMap{} && d.link_speed == 100));
  CHECK(d.base_rtt == 200us);
  CHECK(d.denied.empty());
}

TEST_CASE("description: hosts that are only counted") {
  const Description d = parse("f.json", R"({ "planes": 3, "t0": 3, "hosts": 7 })");
  REQUIRE(d.hosts.size() == 7);
  const unsigned t0s[] = {0, 0, 0, 1, 1, 2, 2}, downlinks[] = {0, 1, 2, 0, 1, 0, 1};
  for (unsigned h = 0; h < 7; ++h) {
    CHECK(d.hosts[h].name == "h" + std::to_string(h));
    CHECK(d.hosts[h].t0 == t0s[h]);
    CHECK(d.hosts[h].downlink == downlinks[h]);
    CHECK(d.hosts[h].interfaces == std::vector<std::string>{"p0", "p1", "p2"});
  }
  CHECK(d.hosts[0].addresses[0] == address("fd00:1::1"));
  CHECK(d.hosts[6].addresses[2] == address("fd00:3::7"));
  CHECK(d.find_host("h3") == &d.hosts[3]);
  CHECK(d.find_host(2, address("fd00:3::7")) == &d.hosts[6]);
  CHECK(d.find_host("h7") == nullptr);
  // Numbers count in hexadecimal.
  const Description large = parse("f.json", R"({ "planes": 16, "t0": 2, "hosts": 32 })");
  CHECK(large.hosts[31].addresses[15] == address("fd00:10::20"));
}

TEST_CASE("description: every field") {
  const Description d = parse("f.json", kFull);
  CHECK(d.name == "full_1-x");
  CHECK((d.planes == 2 && d.t0 == 3 && d.t1 == 5));
  CHECK(d.blocks == std::vector<std::uint32_t>{0xFCBB0001, 0xFCBB0002});
  CHECK(d.usids.of_t0(1, 2) == 0x1102);
  CHECK(d.usids.of_t1(1, 4) == 0x1240);
  CHECK(d.usids.of_host(1, 2, 7) == 0x1427);
  REQUIRE(d.patterns.size() == 2);
  CHECK(d.patterns[0].t0s == std::vector<unsigned>{1, 2});
  REQUIRE(d.patterns[0].remote.size() == 4);
  CHECK(d.patterns[0].remote[2].kind == PatternStep::Kind::literal);
  CHECK(d.patterns[0].remote[2].literal == 0x0123);
  CHECK((d.patterns[0].local.size() == 2 && d.patterns[1].remote.size() == 2));
  REQUIRE(d.hosts.size() == 3);
  CHECK((d.hosts[0].name == "left" && d.hosts[0].t0 == 2 && d.hosts[0].downlink == 7));
  CHECK(d.hosts[0].addresses[1] == address("2001:db8::2"));
  CHECK(d.hosts[0].interfaces == std::vector<std::string>{"eth0", "eth1"});
  REQUIRE(d.hosts[0].next_hops.size() == 2);
  CHECK(d.hosts[0].next_hops[0] == wire::MacAddress{2, 0, 0, 0, 0, 10});
  CHECK(d.hosts[0].next_hops[1] == wire::MacAddress{0xFE, 0xDC, 0xBA, 0x98, 0x76, 0x54});
  CHECK(d.hosts[1].next_hops.empty());
  CHECK((d.hosts[1].name == "h1" && d.hosts[1].t0 == 2 && d.hosts[1].downlink == 1));
  CHECK((d.hosts[2].name == "h2" && d.hosts[2].t0 == 2 && d.hosts[2].downlink == 2));
  CHECK(d.hosts[2].addresses[0] == address("fd00:1::3"));
  CHECK((d.mtu == 4200 && d.link_speed == 12.5 && d.base_rtt == 20us));
  CHECK((d.dscp == wire::DscpMap{1, 2, 3, 5, 6, 4}));
  constexpr unsigned kAny = Denied::kAny;
  REQUIRE(d.denied.size() == 5);
  CHECK(same(d.denied[0], 1, 0, 4, kAny));
  CHECK(same(d.denied[1], 0, kAny, 3, kAny));
  CHECK(same(d.denied[2], 0, 2, kAny, kAny));
  CHECK(same(d.denied[3], 1, kAny, kAny, 0));
  CHECK(same(d.denied[4], 1, kAny, kAny, kAny));
}

TEST_CASE("description: planes told apart by their blocks alone") {
  const Description d = parse("f.json", R"({ "planes": 2, "t0": 2, "t1": 2, "hosts": 2,
    "blocks": ["fcbb:1::/32", "fcbb:2::/32"], "usids": { "plane": 0 } })");
  CHECK(d.usids.plane.width == 0);
  CHECK(d.usids.of_t0(1, 1) == 0x1001);
  CHECK(d.usid_prefix(1, 0x1001) == address("fcbb:2:1001::"));
}

TEST_CASE("description: the default template stands behind those that name T0s") {
  const Description d = small_fabric(R"("templates": [{ "t0s": 1, "remote": ["t1", "host"] }],)");
  REQUIRE(d.patterns.size() == 2);
  CHECK(d.patterns[0].t0s == std::vector<unsigned>{1});
  CHECK((d.patterns[1].t0s.empty() && d.patterns[1].remote.size() == 3));
}

TEST_CASE("description: the examples of tools/fabrics") {
  const Description demo = read(source_file("tools/fabrics/demo.json").string());
  CHECK((demo.hosts.size() == 2 && demo.planes == 4 && demo.t0 == 2 && demo.t1 == 2));
  const Description larger = read(source_file("tools/fabrics/larger.json").string());
  CHECK((larger.hosts.size() == 8 && larger.planes == 8 && larger.t0 == 4 && larger.t1 == 4));
  CHECK(larger.hosts[7].name == "white1");
  CHECK(larger.hosts[7].t0 == 3);
}

}  // namespace mrc::fabric::testing::reader_test
