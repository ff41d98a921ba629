// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <string>

#include "fabric/fixture.hpp"

// Everything that can be wrong with a description has an error with file, line, field and remedy.

namespace mrc::fabric::testing::errors_test {
namespace {

/// The error of a small fabric with more fields in its first line.
std::string error_with(const std::string& more) {
  return parse_error(small(more + ","));
}

}  // namespace

TEST_CASE("description: names and sizes that can't be") {
  CHECK(parse_error("{}") == "f.json:1: hosts: is missing");
  CHECK(parse_error("{\n \"host\": 2 }") ==
        "f.json:2: host: unknown field; did you mean \"hosts\"?");
  // The name is to blame, not what its default would break.
  CHECK(parse_error(R"({ "plane": 2, "blocks": ["fcbb:1::/32", "fcbb:2::/32"], "hosts": 2 })") ==
        "f.json:1: plane: unknown field; did you mean \"planes\"?");
  CHECK(error_with(R"("usids": { "t0_nunber": 1 })") ==
        "f.json:1: usids.t0_nunber: unknown field; did you mean \"t0_number\"?");
  CHECK(error_with(R"("name": "a b")") ==
        "f.json:1: name: is \"a b\", must be 1 to 12 letters, digits, '-' or '_', no '-' in front");
  for (const char* name : {"", "thirteen_long", "a/b", "ä", "a.b", "-a"})
    CHECK(
        test::contains(error_with("\"name\": \"" + std::string(name) + "\""), "f.json:1: name: "));
  CHECK(error_with(R"("forwarding": "udp")") ==
        "f.json:1: forwarding: is \"udp\", must be one of srv6, ecmp");
  CHECK(error_with(R"("entropy": "ecmp")") ==
        "f.json:1: entropy: is \"ecmp\", must be one of stev, udp");
  CHECK(
      test::contains(error_with(R"("entropy": "udp")"),
                     "f.json:1: entropy: is \"udp\", which is for \"forwarding\": \"ecmp\" only"));
  CHECK(parse_error("{ \"planes\": 33, \"hosts\": 1 }") ==
        "f.json:1: planes: is 33, must be 1 to 32");
  CHECK(parse_error("{ \"t0\": 0, \"hosts\": 1 }") == "f.json:1: t0: is 0, must be 1 to 1024");
  CHECK(parse_error("{ \"t1\": 1025, \"hosts\": 1 }") ==
        "f.json:1: t1: is 1025, must be 1 to 1024");
  CHECK(parse_error("{ \"hosts\": 4097 }") == "f.json:1: hosts: is 4097, must be 1 to 4096");
  CHECK(test::contains(parse_error("{ \"hosts\": [] }"), "hosts: has 0 elements"));
  CHECK(test::error_of<json_file::FileError>([] { (void)read("/nonexistent.json"); }) ==
        "/nonexistent.json: can't be read: No such file or directory");
  CHECK(test::error_of<json_file::FileError>([] { (void)read("/dev/zero"); }) ==
        "/dev/zero: is longer than 1 MiB, so it is no fabric description");
}

TEST_CASE("description: blocks that can't be") {
  for (const char* block : {"fcbb::", "fcbb::/48", "fcbb::1/32", "fcbb:0:1::/32", "::/32",
                            "ff02::/32", "fe80::/32", "10.0.0.0/32", "x/32", "/32", "fcbb::/32 "})
    CHECK(error_with("\"block\": \"" + std::string(block) + "\"") ==
          "f.json:1: block: is \"" + std::string(block) +
              "\", must be a unicast IPv6 prefix of 32 bits, such as \"fcbb::/32\"");
  CHECK(error_with(R"("blocks": ["fcbb::/32"])") ==
        "f.json:1: blocks: has 1 elements, must have one per plane: 4");
  CHECK(error_with("\"blocks\": [\"fcbb::/32\",\n\"no\", \"fcbb::/32\", \"fcbb::/32\"]") ==
        "f.json:2: blocks[1]: is \"no\", must be a unicast IPv6 prefix of 32 bits, such as "
        "\"fcbb::/32\"");
  CHECK(test::contains(error_with(R"("block": "fcbb::/32", "blocks": "fcbb::/32")"), "only one"));
  CHECK(
      parse_error(R"({ "planes": 2, "hosts": 2, "blocks": ["fcbb:1::/32", "fcbb:1::/32"],
                        "usids": { "plane": 0 } })") ==
      "f.json:1: blocks[1]: is the block of plane 0 as well: without usids.plane every plane needs "
      "its own");
}

TEST_CASE("description: uSIDs that can't be") {
  const auto error = [](const std::string& usids) {
    return error_with("\"usids\": {" + usids + "}");
  };
  CHECK(error(R"("plane": "0x0505")") ==
        "f.json:1: usids.plane: is 0x0505, must be a mask of bits side by side, such as 0x0ff0");
  CHECK(error(R"("t0_number": "0x01ff")") ==
        "f.json:1: usids.t0_number: overlaps plane (0x0f00) in the uSIDs of t0: give each bits of "
        "its own");
  CHECK(
      error(R"("downlink": "0x00ff")") ==
      "f.json:1: usids.downlink: overlaps host_t0 (0x00f0) in the uSIDs of host: give each bits of "
      "its own");
  CHECK(error(R"("t1": "0x2100")") ==
        "f.json:1: usids.t1: is 0x2100, must have zeros where plane (0x0f00) is filled in");
  CHECK(error(R"("host": "0x0000")") ==
        "f.json:1: usids.host: is 0x0000, must be 0x0001 to 0xdfff, the range of nodes, or from "
        "0xe000 on, that of links (mrc-1.0 §4.1)");
  CHECK(test::contains(error(R"("t0": "1000")"),
                       "f.json:1: usids.t0: is \"1000\", must be a number"));
  CHECK(test::contains(error(R"("t0": 65536)"), "is 65536, must be 0 to 65535"));
  // Numbers without a place in their field.
  CHECK(
      error(R"("plane": "0x0100")") ==
      "f.json:1: planes: is 4, but usids.plane (0x0100) has room for 2: widen it, or make it 0 and "
      "give each plane a block in \"blocks\"");
  CHECK(error(R"("t0_number": 0)") ==
        "f.json:1: t0: is 2, but usids.t0_number (0x0000) has room for 1: widen it");
  CHECK(test::contains(error(R"("t1_number": 0)"), "f.json:1: t1: is 2, but usids.t1_number"));
  CHECK(test::contains(error(R"("host_t0": 0)"), "f.json:1: t0: is 2, but usids.host_t0"));
}

TEST_CASE("description: two nodes with one uSID, and uSIDs outside the range of nodes") {
  const auto error = [](const std::string& usids) {
    return error_with("\"usids\": {" + usids + "}");
  };
  CHECK(error(R"("t1": "0x1000")") ==
        "f.json:1: usids.t1: gives T1 0 the uSID 0x1000, which is that of T0 0 in every plane");
  CHECK(
      error(R"("host": "0x2000", "host_t0": "0x0010", "downlink": "0x000f")") ==
      "f.json:1: usids.host: gives host h0 the uSID 0x2000, which is that of T1 0 in every plane");
  // No overlap at downlink 0, but at 1.
  CHECK(
      parse_error(R"({ "hosts": 2, "usids": { "host": "0x1ff0", "t0": "0x1ff1", "t0_number": 0,
                        "host_t0": 0, "plane": 0 } })") ==
      "f.json:1: usids.host: gives host h1 the uSID 0x1ff1, which is that of T0 0 in every plane");
  CHECK(error(R"("plane": "0xf000", "t0": "0x0100", "t1": "0x0200", "host": "0x0300")") ==
        "no error");
  CHECK(parse_error(R"({ "planes": 15, "hosts": 1, "usids":
                        { "plane": "0xf000", "t0": "0x0100", "t1": "0x0200", "host": 768 } })") ==
        "f.json:2: usids.t0: gives T0 0 of plane 14 the uSID 0xe100, outside 0x0001 to 0xdfff, the "
        "range of nodes (mrc-1.0 §4.1)");
}

TEST_CASE("description: uSIDs of links are unique at their switch, and stand where it has them") {
  const auto error = [](const std::string& usids, const std::string& more = "") {
    return error_with("\"usids\": {" + usids + "}" + (more.empty() ? "" : ", " + more));
  };
  const std::string all = R"("t0": "0xe000", "t1": "0xf000", "host": "0xe000", "host_t0": 0)";
  CHECK(error(all) == "no error");
  CHECK(
      error(R"("t1": "0xe000", "host": "0xe000", "host_t0": 0)") ==
      "f.json:1: usids.host: gives host h0 the uSID 0xe000, which is that of T1 0 at the same T0");
  CHECK(error(R"("host": "0xe000", "host_t0": "0x0010", "downlink": 0)") == "no error");
  CHECK(parse_error(R"({ "hosts": 2, "usids": { "host": "0xe000", "host_t0": 0, "downlink": 0 } })")
            .find("usids.downlink") != std::string::npos);
  const auto remote = [&](const std::string& steps) {
    return error(all, "\"templates\": [{ \"remote\": " + steps + " }]");
  };
  const std::string at = "f.json:1: templates[0].remote";
  CHECK(remote(R"(["t1", "host_t0", "host"])") == "no error");
  CHECK(remote(R"(["t0", "t1", "host_t0", "host"])") ==
        at + "[0]: can't stand here: usids.t0 (0xe000) is in the range of links, so a T1 must come "
             "before it");
  CHECK(remote(R"(["t1", "host"])") ==
        at + "[1]: can't stand here: usids.host (0xe000) is in the range of links, so the T0 of "
             "the host, \"host_t0\", must come before it");
  CHECK(remote(R"(["t1", "0xe004", "t1", "host"])") == at +
                                                           "[2]: is the second \"t1\": an EV names "
                                                           "one uplink");
  CHECK(remote(R"(["t1", "0xe004", "host"])") == "no error");
  CHECK(error(R"("t1": "0xf000")", R"("templates": [{ "local": ["t1", "t1", "host"] }])") ==
        "f.json:1: templates[0].local[1]: is the second \"t1\": an EV names one uplink");
}

TEST_CASE("description: templates that can't be") {
  const auto error = [](const std::string& steps) {
    return error_with("\"templates\": [{ \"remote\": " + steps + " }]");
  };
  const std::string at = "f.json:1: templates[0].remote";
  CHECK(error(R"(["t0", "t1"])") == at + "[1]: must be \"host\": all patterns lead to one");
  CHECK(error(R"(["t0", "host", "t1", "host"])") ==
        at + "[2]: must not come after \"host\": what follows is for the host itself, written out");
  CHECK(error(R"(["t0", "host"])") == at + ": lacks \"t1\": no other switch joins the 2 T0s");
  CHECK(error(R"(["t1", "t1", "host"])") ==
        at + "[1]: is the second \"t1\": an EV names one uplink");
  CHECK(error(R"(["t1", "spine", "host"])") ==
        at + "[1]: is \"spine\", must be \"t0\", \"t1\", \"host_t0\", \"host\" or a uSID such as "
             "\"0x1001\"");
  CHECK(error(R"(["t1", "0x1101", "host"])") ==
        at + "[1]: is \"0x1101\", must have zeros where usids.plane (0x0f00) is filled in");
  CHECK(test::contains(error(R"(["t1", "0x0000", "host"])"),
                       "must be 0x0001 to 0xdfff in every plane"));
  CHECK(error(R"(["t1", "0xe000", "host", "0xd001"])") == "no error");
  std::string many = R"(["t1", )";
  for (int i = 0; i < 10; ++i) many += "\"0x1001\", ";
  CHECK(error(many + "\"host\"]") == "no error");
  CHECK(error(many + "\"0x1001\", \"host\"]") ==
        at + ": has 13 uSIDs: 6 fit the address and 6 more a segment routing header");
  CHECK(test::contains(error("[]"), "is an empty list"));
  CHECK(test::contains(error("[4097]"), "must be a text"));
  CHECK(error_with("\"templates\": [{},\n{}]") ==
        "f.json:2: templates[1]: is never used: the one before has no t0s and takes all "
        "destinations");
  CHECK(error_with(R"("templates": [{ "t0s": [1] }, { "t0s": [0, 1] }])") ==
        "f.json:1: templates[1].t0s[1]: is T0 1, named before: the first counts");
  CHECK(error_with(R"("templates": [{ "t0s": [2] }])") ==
        "f.json:1: templates[0].t0s[0]: is 2, must be 0 to 1");
}

TEST_CASE("description: hosts that can't be") {
  const auto error = [](const std::string& hosts) {
    return parse_error("{ \"planes\": 2, \"t0\": 2, \"hosts\": [\n" + hosts + "] }");
  };
  CHECK(error("{}, {}") == "no error");
  CHECK(test::contains(error(R"({ "name": "a b" })"),
                       "f.json:2: hosts[0].name: is \"a b\", must be"));
  CHECK(error(R"({ "name": "p1t0-1" })") ==
        "f.json:2: hosts[0].name: is \"p1t0-1\", which names a switch");
  CHECK(error("{ \"name\": \"x\" },\n{ \"name\": \"x\" }") ==
        "f.json:3: hosts[1].name: is \"x\", like that of an earlier host");
  CHECK(error(R"({ "t0": 2 })") == "f.json:2: hosts[0].t0: is 2, must be 0 to 1");
  CHECK(error(R"({ "downlink": 16 })") ==
        "f.json:2: hosts[0].downlink: is 16 of T0 0, but usids.downlink (0x000f) has room for 0 to "
        "15: widen it, or spread the hosts over more T0s");
  CHECK(error(R"({ "t0": 1 }, { "t0": 1, "downlink": 0 })") ==
        "f.json:2: hosts[1].downlink: is 0 of T0 1, where host h0 is already");
  CHECK(parse_error("{ \"hosts\": 17 }") ==
        "f.json:1: hosts: h16's downlink is 16 of T0 0, but usids.downlink (0x000f) has "
        "room for 0 to 15: widen it, or spread the hosts over more T0s");
}

TEST_CASE("description: addresses and interfaces that can't be") {
  const auto error = [](const std::string& fields) {
    return parse_error("{ \"planes\": 2, \"hosts\": [{ " + fields + " }, {}] }");
  };
  const std::string at = "f.json:1: hosts[0].";
  CHECK(error(R"("addresses": ["fd00::1"])") ==
        at + "addresses: has 1 elements, must have one per plane: 2");
  for (const char* bad : {"x", "", "10.0.0.1", "ff02::1", "fe80::1", "::1", "::", "::ffff:10.0.0.1",
                          "fd00::1%eth0", "fd00::1/64", "fd00::1\\u0000"})
    CHECK(test::contains(error("\"addresses\": [\"fd00::9\", \"" + std::string(bad) + "\"]"),
                         "must be a unicast IPv6 address, not link-local"));
  CHECK(
      error(R"("addresses": ["fcbb::9", "fd00::1"])") ==
      at + "addresses[0]: is fcbb::9, which lies in plane 0's uSID block fcbb::/32: take addresses "
           "outside it");
  CHECK(error(R"("addresses": ["fd00::9", "fd00::9"])") ==
        at + "addresses[1]: is fd00::9, like that of host h0 in plane 0");
  CHECK(error(R"("addresses": ["fd00:1::2", "fd00::1"])") ==
        "f.json:1: hosts[1].addresses: is fd00:1::2, like that of host h0 in plane 0");
  CHECK(parse_error(R"({ "block": "fd00:1::/32", "hosts": 1 })") ==
        "f.json:1: hosts: h0's addresses[0] is fd00:1::1, which lies in plane 0's "
        "uSID block fd00:1::/32: take addresses outside it");

  CHECK(error(R"("interfaces": ["eth0", "eth0"])") ==
        at + "interfaces[1]: is \"eth0\", like that of another plane");
  CHECK(error(R"("interfaces": ["eth0"])") ==
        at + "interfaces: has 1 elements, must have one per plane: 2");
  for (const char* bad :
       {"", "sixteen_letters_", "a b", "a/b", "a:b", "a%b", ".", "..", "\\u0000", "ä"})
    CHECK(test::contains(error("\"interfaces\": [\"eth0\", \"" + std::string(bad) + "\"]"),
                         "must be 1 to 15 characters without blanks, '/', ':' and '%'"));
  CHECK(error(R"("interfaces": ["fifteen_letters", "eth1"])") == "no error");

  CHECK(error(R"("next_hops": ["02:00:00:00:00:01"])") ==
        at + "next_hops: has 1 elements, must have one per plane: 2");
  for (const char* bad :
       {"", "02:00:00:00:00", "02:00:00:00:00:01:02", "02-00-00-00-00-01", "02:00:00:00:00:0g",
        "00:00:00:00:00:00", "ff:ff:ff:ff:ff:ff", "33:33:00:00:00:01", "02:00:00:00:00:-1"})
    CHECK(test::contains(
        error("\"next_hops\": [\"02:00:00:00:00:01\", \"" + std::string(bad) + "\"]"),
        "must be the Ethernet address of one port"));
}

TEST_CASE("description: links and DSCPs that can't be") {
  CHECK(error_with(R"("mtu": 1279)") == "f.json:1: mtu: is 1279, must be 1280 to 65535");
  CHECK(error_with(R"("mtu": 65536)") == "f.json:1: mtu: is 65536, must be 1280 to 65535");
  CHECK(error_with(R"("link_speed": 0)") == "f.json:1: link_speed: is 0, must be 0.001 to 100000");
  CHECK(error_with(R"("base_rtt": 200)") ==
        "f.json:1: base_rtt: is 200, must be a time with its unit (ns, us, ms, s), 1us to 1s");
  CHECK(error_with(R"("dscp": { "control": 64 })") ==
        "f.json:1: dscp.control: is 64, must be 0 to 63");
  const std::string why = ": what switches set to say that they trimmed must say nothing else";
  CHECK(error_with(R"("dscp": { "control": 12 })") ==
        "f.json:1: dscp.control: is 12, and so is trimmed" + why);
  CHECK(error_with(R"("dscp": { "trimmed_last_hop": 0 })") ==
        "f.json:1: dscp.no_trim: is 0, and so is trimmed_last_hop" + why);
  CHECK(error_with(R"("dscp": { "trimmed_last_hop": 12, "no_trim": 4 })") == "no error");
}

TEST_CASE("description: what is denied has to be there") {
  const auto error = [](const std::string& deny) {
    return error_with("\"deny\": [{" + deny + "}]");
  };
  CHECK(error(R"("t0": 1)") == "f.json:1: deny[0].plane: is missing");
  CHECK(error(R"("plane": 4)") == "f.json:1: deny[0].plane: is 4, must be 0 to 3");
  CHECK(error(R"("plane": 0, "t0": 2)") == "f.json:1: deny[0].t0: is 2, must be 0 to 1");
  CHECK(error(R"("plane": 0, "t1": 2)") == "f.json:1: deny[0].t1: is 2, must be 0 to 1");
  CHECK(error(R"("plane": 0, "host": "h01")") ==
        "f.json:1: deny[0].host: is \"h01\", which is no host; did you mean \"h0\"?");
  CHECK(error(R"("plane": 0, "host": "elsewhere")") ==
        "f.json:1: deny[0].host: is \"elsewhere\", which is no host");
  CHECK(error(R"("plane": 0, "host": "h0", "t0": 0)") ==
        "f.json:1: deny[0].host: must stand alone: its port in this plane is meant");
  CHECK(error_with(R"("forwarding": "ecmp", "deny": [{ "plane": 0, "t1": 0 }])") ==
        "f.json:1: deny[0].t1: can't be avoided with \"ecmp\", where switches choose: deny a T0, "
        "host or plane");
}

}  // namespace mrc::fabric::testing::errors_test
