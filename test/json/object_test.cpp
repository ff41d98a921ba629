// SPDX-License-Identifier: Apache-2.0
#include "mrc/fabric/json.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "json/fixture.hpp"

using namespace std::chrono_literals;
using mrc::json_file::Object;
using mrc::test::file_error;
using mrc::test::kText;
using mrc::test::root_of;

TEST_CASE("json object: values are read") {
  const Object root = root_of(kText);
  CHECK(root.text("name") == "two planes");
  const Object topology = root.object("topology");
  CHECK(topology.integer("planes", 1, 32, 8) == 2);
  CHECK(topology.number("gbps", 0.001, 10000, 100) == 100.5);
  CHECK(topology.duration("host_delay", 0ns, 1s) == 1500ns);
  CHECK(topology.bytes("queue", 0, 1 << 20) == 65536);
  CHECK(topology.choice("mode", {"srv6", "stev", "udp"}, "udp") == "srv6");
  CHECK(root.boolean("pfc", false));
  const std::vector<Object> faults = root.array("faults");
  REQUIRE(faults.size() == 2);
  CHECK(faults[0].duration("at", 0ns, 1s) == 2ms);
  CHECK(faults[1].duration("at", 0ns, 1s) == 0ns);
  CHECK(faults[0].text("kind") == "down");
  CHECK(faults[1].text("kind") == "up");
  CHECK(root.numbers("loss", 0, 1) == std::vector<double>{0, 0.001, 0.01});
  CHECK(root.sizes("sizes", 1, 1 << 20) == std::vector<std::uint64_t>{4096, 1000});
  CHECK_NOTHROW(root.finish());
}

TEST_CASE("json object: what is missing has its default") {
  const Object root = root_of("{}");
  const Object topology = root.object("topology");
  CHECK(topology.integer("planes", 1, 32, 8) == 8);
  CHECK(topology.number("gbps", 0.001, 10000, 100) == 100);
  CHECK(topology.duration("delay", 0ns, 1s, 3us) == 3us);
  CHECK(topology.bytes("queue", 0, 10, 77) == 77);
  CHECK(topology.choice("mode", {"srv6", "udp"}, "udp") == "udp");
  CHECK(topology.text("name", "none") == "none");
  CHECK(topology.boolean("pfc", true));
  CHECK_FALSE(topology.has("pfc"));
  CHECK(topology.array("faults").empty());
  CHECK(topology.numbers("loss", 0, 1, {0.5}) == std::vector<double>{0.5});
  CHECK_NOTHROW(root.finish());
}

TEST_CASE("json object: errors name file, line and field") {
  const Object root = root_of(kText);
  const Object topology = root.object("topology");
  const std::vector<Object> faults = root.array("faults");
  CHECK(file_error([&] { (void)topology.integer("planes", 4, 32); }) ==
        "s.json:6: topology.planes: is 2, must be 4 to 32");
  CHECK(file_error([&] { (void)topology.integer("gbps", 0, 1000); }) ==
        "s.json:7: topology.gbps: is 100.5, must be a whole number, 0 to 1000");
  CHECK(file_error([&] { (void)topology.number("gbps", 0.25, 50); }) ==
        "s.json:7: topology.gbps: is 100.5, must be 0.25 to 50");
  CHECK(file_error([&] { (void)topology.number("mode", 0, 1); }) ==
        "s.json:10: topology.mode: is \"srv6\", must be a number, 0 to 1");
  CHECK(file_error([&] { (void)topology.duration("host_delay", 2us, 1ms); }) ==
        "s.json:8: topology.host_delay: is \"1.5us\", must be 2us to 1ms");
  CHECK(file_error([&] { (void)topology.duration("planes", 0ns, mrc::Duration::max()); }) ==
        "s.json:6: topology.planes: is 2, must be a time with its unit (ns, us, ms, s), 0 or more");
  CHECK(file_error([&] { (void)topology.bytes("queue", 100, 4096); }) ==
        "s.json:9: topology.queue: is \"64KiB\", must be 100B to 4KiB");
  CHECK(
      file_error([&] { (void)topology.bytes("mode", 0, 1); }) ==
      "s.json:10: topology.mode: is \"srv6\", must be a size (4096, \"64KiB\", \"1MB\"), 0B to 1B");
  CHECK(file_error([&] {
          (void)topology.choice("mode", {"stev", "udp"}, "udp");
        }) == "s.json:10: topology.mode: is \"srv6\", must be one of stev, udp");
  CHECK(file_error([&] { (void)topology.boolean("planes"); }) ==
        "s.json:6: topology.planes: is 2, must be true or false");
  CHECK(file_error([&] { (void)topology.text("planes"); }) ==
        "s.json:6: topology.planes: is 2, must be a text");
  CHECK(file_error([&] { (void)root.text("topology"); }) ==
        "s.json:5: topology: is an object, must be a text");
  CHECK(file_error([&] { (void)root.object("pfc"); }) ==
        "s.json:12: pfc: is true, must be an object");
  CHECK(file_error([&] { (void)root.array("pfc"); }) ==
        "s.json:12: pfc: is true, must be a list of objects");
  CHECK(file_error([&] { (void)root.array("loss"); }) ==
        "s.json:18: loss[0]: is 0, must be an object");
  CHECK(file_error([&] { (void)root.array("faults", 3, 9); }) ==
        "s.json:13: faults: has 2 elements, must have 3 to 9");
  CHECK(file_error([&] { (void)root.numbers("loss", 0, 0.005); }) ==
        "s.json:18: loss[2]: is 1e-2, must be 0 to 0.005");
  CHECK(file_error([&] { (void)faults[1].choice("kind", {"down"}); }) ==
        "s.json:16: faults[1].kind: is \"up\", must be down");
  CHECK(file_error([&] { faults[1].fail("kind", "has nothing to bring up"); }) ==
        "s.json:16: faults[1].kind: has nothing to bring up");
  CHECK(file_error([&] { root.fail("", "is too large"); }) == "s.json:2: is too large");
}

TEST_CASE("json object: names with a number") {
  const Object root =
      root_of(R"({"a": "h12", "b": 3, "list": ["h0", 1], "one": "h7", "real": 1.5})");
  CHECK(root.index("a", "h", 12) == 12);
  CHECK(root.index("b", "h", 12) == 3);
  CHECK(root.index("none", "h", 12, 5) == 5);
  CHECK(root.indices("list", "h", 12) == std::vector<unsigned>{0, 1});
  CHECK(root.indices("one", "h", 12) == std::vector<unsigned>{7});
  CHECK(root.indices("none", "h", 12).empty());
  CHECK((root.is_number("b") && root.is_number("real") && !root.is_number("a")));
  CHECK_FALSE(root.is_number("none"));
  const auto error = [&](const char* name, const char* prefix, unsigned max) {
    return file_error([&] { (void)root.indices(name, prefix, max); });
  };
  CHECK(error("a", "h", 11) == "s.json:1: a: is \"h12\", must be h0 to h11");
  CHECK(error("b", "h", 2) == "s.json:1: b: is 3, must be h0 to h2");
  CHECK(error("list", "h", 0) == "s.json:1: list[1]: is 1, must be h0 to h0");
  CHECK(error("a", "p", 99) == "s.json:1: a: is \"h12\", must be p0 to p99");
  CHECK(error("real", "h", 9) == "s.json:1: real: is 1.5, must be h0 to h9");
  for (const std::string text : {"h", "", "12", "h-1", "h0x1", "h1K", "h1 ", "h4294967296", "hh1"})
    CHECK(file_error([&] { (void)root_of("{\"n\": \"" + text + "\"}").index("n", "h", ~0u); }) ==
          "s.json:1: n: is \"" + text + "\", must be h0 to h4294967295");
}

TEST_CASE("json object: errors of what is missing") {
  const Object root = root_of("{\n\"a\": {\n\"b\": {}}}");
  CHECK(file_error([&] { (void)root.integer("n", 0, 1); }) == "s.json:1: n: is missing");
  const Object b = root.object("a").object("b");
  CHECK(file_error([&] { (void)b.text("name"); }) == "s.json:3: a.b.name: is missing");
  CHECK(file_error([&] { (void)root.object("a").object("x").text("y"); }) ==
        "s.json:2: a.x.y: is missing");
  CHECK(file_error([&] { (void)root.array("runs", 1); }) == "s.json:1: runs: is missing");
}

TEST_CASE("json object: unknown fields") {
  const Object root =
      root_of("{ \"topology\": {\n\"plans\": 2,\n\"zebra\":\n\n3 },\n\"other\": [{}] }");
  const Object topology = root.object("topology");
  (void)topology.integer("planes", 1, 32, 8);
  (void)topology.number("gbps", 1, 800, 100);
  CHECK(file_error([&] { root.finish(); }) ==
        "s.json:2: topology.plans: unknown field; did you mean \"planes\"?");
  (void)topology.has("plans");
  CHECK(file_error([&] { topology.finish(); }) ==
        "s.json:3: topology.zebra: unknown field; known here: gbps, planes, plans");
  (void)topology.has("zebra");
  CHECK(file_error([&] { root.finish(); }) ==
        "s.json:6: other: unknown field; known here: topology");
  (void)root.array("other");
  CHECK(file_error([&] { root.finish(); }) == "no error");
  // In a list, and slips of other kinds.
  for (const char* slip : {"kidn", "Kind", "kin", "kinds"}) {
    const Object other = root_of(std::string("{\"l\": [{}, {\"kind\": 1, \"") + slip + "\": 2}]}");
    for (const Object& item : other.array("l")) (void)item.has("kind");
    CHECK(file_error([&] { other.finish(); }) ==
          std::string("s.json:1: l[1].") + slip + ": unknown field; did you mean \"kind\"?");
  }
}

TEST_CASE("json object: numbers at the edges of their types") {
  const Object root = root_of(
      "{\"u\": 18446744073709551615, \"i\": -9223372036854775808, \"huge\": 99999999999999999999,"
      "\"million\": 1e6, \"minus\": -1, \"zero\": -0, \"half\": 0.5, \"neg_real\": -2.0}");
  constexpr std::uint64_t kMaxU = std::numeric_limits<std::uint64_t>::max();
  constexpr std::int64_t kMinI = std::numeric_limits<std::int64_t>::min();
  constexpr std::int64_t kMaxI = std::numeric_limits<std::int64_t>::max();
  CHECK(root.integer<std::uint64_t>("u", 0, kMaxU) == kMaxU);
  CHECK(root.integer("i", kMinI, kMaxI) == kMinI);
  CHECK(root.integer("million", 0, 2'000'000) == 1'000'000);
  CHECK(root.integer("minus", -1, 0) == -1);
  CHECK(root.integer("minus", -5, -1) == -1);
  CHECK(root.integer("zero", 0, 5) == 0);
  CHECK(root.integer("neg_real", -3, 5) == -2);
  CHECK(root.bytes("u", 0, kMaxU) == kMaxU);
  CHECK(file_error([&] { (void)root.integer("u", 0, kMaxI); }) ==
        "s.json:1: u: is 18446744073709551615, must be 0 or more");
  CHECK(file_error([&] { (void)root.integer<std::uint64_t>("huge", 1, kMaxU); }) ==
        "s.json:1: huge: is 99999999999999999999, must be 1 or more");
  CHECK(file_error([&] { (void)root.integer<unsigned>("minus", 0, 9); }) ==
        "s.json:1: minus: is -1, must be 0 to 9");
  CHECK(file_error([&] { (void)root.integer("minus", -9, -2); }) ==
        "s.json:1: minus: is -1, must be -9 to -2");
  CHECK(file_error([&] { (void)root.integer("neg_real", 0, 9); }) ==
        "s.json:1: neg_real: is -2.0, must be 0 to 9");
  CHECK(
      file_error([&] { (void)root.bytes("minus", 0, 9); }).starts_with("s.json:1: minus: is -1, "));
  CHECK(
      file_error([&] { (void)root.bytes("half", 0, 9); }).starts_with("s.json:1: half: is 0.5, "));
}

TEST_CASE("json object: sizes and times as text") {
  const auto bytes = [](const std::string& text) {
    return root_of("{\"x\": \"" + text + "\"}").bytes("x", 0, std::uint64_t{1} << 50);
  };
  CHECK(bytes("512B") == 512);
  CHECK(bytes("512") == 512);
  CHECK(bytes("64KiB") == 65536);
  CHECK(bytes("64K") == 65536);
  CHECK(bytes("64KB") == 64000);
  CHECK(bytes("64kB") == 64000);
  CHECK(bytes("1MB") == 1'000'000);
  CHECK(bytes("1.5MiB") == 1'572'864);
  CHECK(bytes("2GiB") == std::uint64_t{2} << 30);
  CHECK(bytes("1TB") == 1'000'000'000'000);
  for (const char* bad : {"", "B", "-1B", "1.5B", "1 KiB", "1XB", "1Ki", "nan", "inf", "1e400",
                          "9e18", "0x10", "KiB"})
    CHECK(file_error([&] { (void)bytes(bad); }) != "no error");
  const auto time = [](const std::string& text) {
    return root_of("{\"x\": " + text + "}").duration("x", 0ns, 10s);
  };
  CHECK(time("\"500ns\"") == 500ns);
  CHECK(time("\"2ms\"") == 2ms);
  CHECK(time("\"3s\"") == 3s);
  for (const char* bad : {"5", "\"5\"", "\"5 us\"", "\"-5us\"", "\"11s\"", "\"nans\"", "\"infs\"",
                          "\"1e300s\"", "null", "[]", "\"\""})
    CHECK(file_error([&] { (void)time(bad); }) != "no error");
}

TEST_CASE("json object: hexadecimal numbers") {
  const Object root = root_of("{\"a\": \"0x0f00\", \"b\": 256, \"c\": \"0x10000\", \"d\": \"12\"}");
  CHECK(root.hex("a", 1) == 0x0f00);
  CHECK(root.hex("b", 1) == 256);
  CHECK(root.hex("none", 7) == 7);
  for (const char* field : {"c", "d"})
    CHECK(file_error([&] {
            (void)root.hex(field, 1);
          }).ends_with("must be a number or a text, \"0x0000\" to \"0xffff\""));
  CHECK(file_error([] { (void)root_of("{\"x\": 65536}").hex("x", 1); }) ==
        "s.json:1: x: is 65536, must be 0 to 65535");
  for (const char* bad : {"-1", "1.5", "true", "\"0x\"", "\"0xfg\"", "\"0x-1\"", "\"0x1K\"", "[]"})
    CHECK(file_error([&] { (void)root_of(std::string("{\"x\": ") + bad + "}").hex("x", 1); }) !=
          "no error");
}

TEST_CASE("json object: an element of a list, a number of any size") {
  const Object root = root_of("{\"l\": [1,\n2], \"n\": 3}");
  CHECK(root.is_list("l"));
  CHECK_FALSE((root.is_list("n") || root.is_list("none")));
  CHECK(file_error([&] { root.fail("l", 1, "is twice"); }) == "s.json:2: l[1]: is twice");
  CHECK(file_error([&] { root.fail("l", 2, "is twice"); }) == "s.json:1: l: is twice");
  CHECK(file_error([&] { root.fail("n", 0, "is twice"); }) == "s.json:2: n: is twice");
  CHECK(file_error([&] { (void)root.number("n", 1e-5, 0.0001); }) ==
        "s.json:2: n: is 3, must be 1e-05 to 0.0001");
  CHECK(file_error([&] { (void)root.number("n", 100'000, 2.5e20); }) ==
        "s.json:2: n: is 3, must be 100000 to 2.5e+20");
}
