// SPDX-License-Identifier: Apache-2.0
#include "mrc_sim/scenario_file.hpp"

#include <doctest/doctest.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "mrc/core/random.hpp"
#include "support/errors.hpp"

using namespace std::chrono_literals;
using mrc::Duration;
using mrc::bench::ScenarioError;
using mrc::bench::ScenarioFile;
using mrc::bench::ScenarioObject;

namespace {

ScenarioObject root_of(std::string_view text) {
  return ScenarioFile::parse("s.json", text).root();
}

template <class F>
std::string error_of(F f) {
  return mrc::test::error_of<ScenarioError>(f);
}

std::string parse_error(std::string_view text) {
  return error_of([&] { (void)root_of(text); });
}

const char* const kScenario = R"(// Two planes.
{
  "name": "two planes", /* a comment
     over two lines */
  "topology": {
    "planes": 2,
    "gbps": 100.5,
    "host_delay": "1.5us",
    "queue": "64KiB",
    "mode": "srv6"
  },
  "pfc": true,
  "faults": [
    { "at": "2ms", "kind": "down" },
    { "at": 0,
      "kind": "up" }
  ],
  "loss": [0, 0.001, 1e-2],
  "sizes": ["4KiB", 1000]
}
)";

}  // namespace

TEST_CASE("scenario: values are read") {
  const ScenarioObject root = root_of(kScenario);
  CHECK(root.text("name") == "two planes");
  const ScenarioObject topology = root.object("topology");
  CHECK(topology.integer("planes", 1, 32, 8) == 2);
  CHECK(topology.number("gbps", 0.001, 10000, 100) == 100.5);
  CHECK(topology.duration("host_delay", 0ns, 1s) == 1500ns);
  CHECK(topology.bytes("queue", 0, 1 << 20) == 65536);
  CHECK(topology.choice("mode", {"srv6", "stev", "udp"}, "udp") == "srv6");
  CHECK(root.boolean("pfc", false));
  const std::vector<ScenarioObject> faults = root.array("faults");
  REQUIRE(faults.size() == 2);
  CHECK(faults[0].duration("at", 0ns, 1s) == 2ms);
  CHECK(faults[1].duration("at", 0ns, 1s) == 0ns);
  CHECK(faults[0].text("kind") == "down");
  CHECK(faults[1].text("kind") == "up");
  CHECK(root.numbers("loss", 0, 1) == std::vector<double>{0, 0.001, 0.01});
  CHECK(root.sizes("sizes", 1, 1 << 20) == std::vector<std::uint64_t>{4096, 1000});
  CHECK_NOTHROW(root.finish());
}

TEST_CASE("scenario: what is missing has its default") {
  const ScenarioObject root = root_of("{}");
  const ScenarioObject topology = root.object("topology");
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

TEST_CASE("scenario: errors name file, line and field") {
  const ScenarioObject root = root_of(kScenario);
  const ScenarioObject topology = root.object("topology");
  const std::vector<ScenarioObject> faults = root.array("faults");
  CHECK(error_of([&] { (void)topology.integer("planes", 4, 32); }) ==
        "s.json:6: topology.planes: is 2, must be 4 to 32");
  CHECK(error_of([&] { (void)topology.integer("gbps", 0, 1000); }) ==
        "s.json:7: topology.gbps: is 100.5, must be a whole number, 0 to 1000");
  CHECK(error_of([&] { (void)topology.number("gbps", 0.25, 50); }) ==
        "s.json:7: topology.gbps: is 100.5, must be 0.25 to 50");
  CHECK(error_of([&] { (void)topology.number("mode", 0, 1); }) ==
        "s.json:10: topology.mode: is \"srv6\", must be a number, 0 to 1");
  CHECK(error_of([&] { (void)topology.duration("host_delay", 2us, 1ms); }) ==
        "s.json:8: topology.host_delay: is \"1.5us\", must be 2us to 1ms");
  CHECK(error_of([&] { (void)topology.duration("planes", 0ns, Duration::max()); }) ==
        "s.json:6: topology.planes: is 2, must be a time with its unit (ns, us, ms, s), 0 or more");
  CHECK(error_of([&] { (void)topology.bytes("queue", 100, 4096); }) ==
        "s.json:9: topology.queue: is \"64KiB\", must be 100B to 4KiB");
  CHECK(
      error_of([&] { (void)topology.bytes("mode", 0, 1); }) ==
      "s.json:10: topology.mode: is \"srv6\", must be a size (4096, \"64KiB\", \"1MB\"), 0B to 1B");
  CHECK(error_of([&] {
          (void)topology.choice("mode", {"stev", "udp"}, "udp");
        }) == "s.json:10: topology.mode: is \"srv6\", must be one of stev, udp");
  CHECK(error_of([&] { (void)topology.boolean("planes"); }) ==
        "s.json:6: topology.planes: is 2, must be true or false");
  CHECK(error_of([&] { (void)topology.text("planes"); }) ==
        "s.json:6: topology.planes: is 2, must be a text");
  CHECK(error_of([&] { (void)root.text("topology"); }) ==
        "s.json:5: topology: is an object, must be a text");
  CHECK(error_of([&] { (void)root.object("pfc"); }) ==
        "s.json:12: pfc: is true, must be an object");
  CHECK(error_of([&] { (void)root.array("pfc"); }) ==
        "s.json:12: pfc: is true, must be a list of objects");
  CHECK(error_of([&] { (void)root.array("loss"); }) ==
        "s.json:18: loss[0]: is 0, must be an object");
  CHECK(error_of([&] { (void)root.array("faults", 3, 9); }) ==
        "s.json:13: faults: has 2 elements, must have 3 to 9");
  CHECK(error_of([&] { (void)root.numbers("loss", 0, 0.005); }) ==
        "s.json:18: loss[2]: is 1e-2, must be 0 to 0.005");
  CHECK(error_of([&] { (void)faults[1].choice("kind", {"down"}); }) ==
        "s.json:16: faults[1].kind: is \"up\", must be down");
  CHECK(error_of([&] { faults[1].fail("kind", "has nothing to bring up"); }) ==
        "s.json:16: faults[1].kind: has nothing to bring up");
  CHECK(error_of([&] { root.fail("", "is too large"); }) == "s.json:2: is too large");
}

TEST_CASE("scenario: errors of what is missing") {
  const ScenarioObject root = root_of("{\n\"a\": {\n\"b\": {}}}");
  CHECK(error_of([&] { (void)root.integer("n", 0, 1); }) == "s.json:1: n: is missing");
  const ScenarioObject b = root.object("a").object("b");
  CHECK(error_of([&] { (void)b.text("name"); }) == "s.json:3: a.b.name: is missing");
  CHECK(error_of([&] { (void)root.object("a").object("x").text("y"); }) ==
        "s.json:2: a.x.y: is missing");
  CHECK(error_of([&] { (void)root.array("runs", 1); }) == "s.json:1: runs: is missing");
}

TEST_CASE("scenario: unknown fields") {
  const ScenarioObject root =
      root_of("{ \"topology\": {\n\"plans\": 2,\n\"zebra\":\n\n3 },\n\"other\": [{}] }");
  const ScenarioObject topology = root.object("topology");
  (void)topology.integer("planes", 1, 32, 8);
  (void)topology.number("gbps", 1, 800, 100);
  CHECK(error_of([&] { root.finish(); }) ==
        "s.json:2: topology.plans: unknown field; did you mean \"planes\"?");
  (void)topology.has("plans");
  CHECK(error_of([&] { topology.finish(); }) ==
        "s.json:3: topology.zebra: unknown field; known here: gbps, planes, plans");
  (void)topology.has("zebra");
  CHECK(error_of([&] { root.finish(); }) == "s.json:6: other: unknown field; known here: topology");
  (void)root.array("other");
  CHECK(error_of([&] { root.finish(); }) == "no error");
  // In a list, and slips of other kinds.
  for (const char* slip : {"kidn", "Kind", "kin", "kinds"}) {
    const ScenarioObject other =
        root_of(std::string("{\"l\": [{}, {\"kind\": 1, \"") + slip + "\": 2}]}");
    for (const ScenarioObject& item : other.array("l")) (void)item.has("kind");
    CHECK(error_of([&] { other.finish(); }) ==
          std::string("s.json:1: l[1].") + slip + ": unknown field; did you mean \"kind\"?");
  }
}

TEST_CASE("scenario: a name given twice") {
  CHECK(parse_error("{\"a\": {\n\"x\": 1,\n\"y\": 2,\n\"x\": 3}}") ==
        "s.json:4: a.x: is given twice, first in line 2");
  CHECK(parse_error("{\"a\": {\"x\": 1}, \"b\": {\"x\": 1}}") == "no error");
}

TEST_CASE("scenario: lines with numbers at their ends") {
  const ScenarioObject root =
      root_of("{\r\n\"a\": 1\r\n,\n\"b\":\n2.5\n\n,\"c\": [\n1,\n2\n],\"d\":true\n}");
  CHECK(error_of([&] { (void)root.text("a"); }) == "s.json:2: a: is 1, must be a text");
  CHECK(error_of([&] { (void)root.text("b"); }) == "s.json:5: b: is 2.5, must be a text");
  CHECK(error_of([&] { (void)root.integers("c", 0, 1); }) ==
        "s.json:9: c[1]: is 2, must be 0 to 1");
  CHECK(error_of([&] { (void)root.text("c"); }) == "s.json:7: c: is a list, must be a text");
  CHECK(error_of([&] { (void)root.text("d"); }) == "s.json:10: d: is true, must be a text");
}

TEST_CASE("scenario: errors of JSON have a column") {
  CHECK(parse_error("{\n  \"a\": 1,\n}") == "s.json:3:1: unexpected '}'; expected string literal");
  CHECK(parse_error("{\"a\": 1\n  \"bc\": 2}") ==
        "s.json:2:3: unexpected string literal; expected '}'");
  CHECK(parse_error("{\"a\": 1 23}") == "s.json:1:9: unexpected number literal; expected '}'");
  CHECK(parse_error("{\"a\": [1, 2") == "s.json:1:12: unexpected end of input; expected ']'");
  CHECK(parse_error("{\"a\": tru}") == "s.json:1:10: invalid literal");
  CHECK(parse_error("{} x").substr(0, 12) == "s.json:1:4: ");
  CHECK(parse_error("{} {}") == "s.json:1:4: unexpected '{'; expected end of input");
  CHECK(parse_error("{\"a\": 1 /* no end").substr(0, 9) == "s.json:1:");
  CHECK(parse_error("{\"a\": nan}").substr(0, 9) == "s.json:1:");
  CHECK(parse_error("{\"a\": -Infinity}").substr(0, 9) == "s.json:1:");
  CHECK(parse_error("{\n\"a\": 1e999}") == "s.json:2:6: number overflow parsing '1e999'");
  CHECK(parse_error("{\"a\": \"\xff\"}") == "s.json:1:8: invalid string: ill-formed UTF-8 byte");
  CHECK(parse_error(std::string_view("{}\0{}", 5)) == "s.json:1:3: unexpected zero byte");
}

TEST_CASE("scenario: hostile text is an error, nothing worse") {
  CHECK(parse_error("") == "s.json:1: is empty, must have an object");
  CHECK(parse_error(" \n\t\r\n") == "s.json:1: is empty, must have an object");
  CHECK(parse_error("// only this").substr(0, 10) == "s.json:1:1");
  CHECK(parse_error("\n[1]") == "s.json:2: is a list, must be an object");
  CHECK(parse_error("7") == "s.json:1: is 7, must be an object");
  CHECK(parse_error(std::string(1'000'000, '[')) == "s.json:1: is nested deeper than 32 levels");
  std::string deep;
  for (int i = 0; i < 100'000; ++i) deep += "{\"a\":\n";
  CHECK(parse_error(deep) == "s.json:33: is nested deeper than 32 levels");
  // Every prefix of a good scenario: an error, or the same scenario.
  const std::string_view scenario = kScenario;
  for (std::size_t n = 0; n + 3 < scenario.size(); ++n)
    CHECK(parse_error(scenario.substr(0, n)).starts_with("s.json:"));
}

TEST_CASE("scenario: spoilt text is an error or a scenario") {
  mrc::Random random(11);
  const std::string good = kScenario;
  unsigned errors = 0;
  for (int round = 0; round < 3000; ++round) {
    std::string text = good;
    for (unsigned spots = 1 + random.below(4); spots > 0; --spots) {
      const std::size_t at = random.below(static_cast<std::uint32_t>(text.size()));
      const std::uint32_t way = random.below(4);
      if (way == 0)
        text[at] = static_cast<char>(random.below(256));
      else if (way == 1)
        text.erase(at, 1 + random.below(20));
      else if (way == 2)
        text.insert(at, 1, "{}[]\",:/*\\0-.e\n"[random.below(15)]);
      else
        text.insert(at, good, random.below(static_cast<std::uint32_t>(good.size())), 30);
    }
    const std::string error = error_of([&] {
      const ScenarioObject root = root_of(text);
      (void)root.text("name", "");
      (void)root.boolean("pfc", false);
      (void)root.object("topology").integer("planes", 1, 32, 8);
      (void)root.object("topology").bytes("queue", 0, 1 << 20, 0);
      (void)root.object("topology").duration("host_delay", 0ns, 1s, 0ns);
      for (const ScenarioObject& fault : root.array("faults")) (void)fault.has("at");
      (void)root.numbers("loss", 0, 1);
      root.finish();
    });
    const bool named = error.starts_with("s.json:") || error == "no error";
    CHECK_MESSAGE(named, error);
    errors += error != "no error";
  }
  CHECK(errors > 1000);
}

TEST_CASE("scenario: numbers at the edges of their types") {
  const ScenarioObject root = root_of(
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
  CHECK(error_of([&] { (void)root.integer("u", 0, kMaxI); }) ==
        "s.json:1: u: is 18446744073709551615, must be 0 or more");
  CHECK(error_of([&] { (void)root.integer<std::uint64_t>("huge", 1, kMaxU); }) ==
        "s.json:1: huge: is 99999999999999999999, must be 1 or more");
  CHECK(error_of([&] { (void)root.integer<unsigned>("minus", 0, 9); }) ==
        "s.json:1: minus: is -1, must be 0 to 9");
  CHECK(error_of([&] { (void)root.integer("minus", -9, -2); }) ==
        "s.json:1: minus: is -1, must be -9 to -2");
  CHECK(error_of([&] { (void)root.integer("neg_real", 0, 9); }) ==
        "s.json:1: neg_real: is -2.0, must be 0 to 9");
  CHECK(error_of([&] { (void)root.bytes("minus", 0, 9); }).starts_with("s.json:1: minus: is -1, "));
  CHECK(error_of([&] { (void)root.bytes("half", 0, 9); }).starts_with("s.json:1: half: is 0.5, "));
}

TEST_CASE("scenario: sizes and times as text") {
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
    CHECK(error_of([&] { (void)bytes(bad); }) != "no error");
  const auto time = [](const std::string& text) {
    return root_of("{\"x\": " + text + "}").duration("x", 0ns, 10s);
  };
  CHECK(time("\"500ns\"") == 500ns);
  CHECK(time("\"2ms\"") == 2ms);
  CHECK(time("\"3s\"") == 3s);
  for (const char* bad : {"5", "\"5\"", "\"5 us\"", "\"-5us\"", "\"11s\"", "\"nans\"", "\"infs\"",
                          "\"1e300s\"", "null", "[]", "\"\""})
    CHECK(error_of([&] { (void)time(bad); }) != "no error");
}

TEST_CASE("scenario: fields set on the command line") {
  ScenarioFile file = ScenarioFile::parse("s.json", kScenario);
  file.override("topology.planes", "4");
  file.override("topology.mode", "udp");
  file.override("topology.host_delay", "7us");
  file.override("faults[1].at", "9ms");
  file.override("faults[2].at", "1s");
  file.override("faults[2].kind", "\"slow\"");
  file.override("name", "42");
  file.override("new.deep.flag", "true");
  file.override("loss", "[0.5, 0.25]");
  const ScenarioObject root = file.root();
  const ScenarioObject topology = root.object("topology");
  CHECK(topology.integer("planes", 1, 32) == 4);
  CHECK(topology.choice("mode", {"srv6", "udp"}) == "udp");
  CHECK(topology.duration("host_delay", 0ns, 1s) == 7us);
  CHECK(topology.number("gbps", 0, 1000) == 100.5);
  CHECK(root.text("name") == "42");
  CHECK(root.object("new").object("deep").boolean("flag"));
  CHECK(root.numbers("loss", 0, 1) == std::vector<double>{0.5, 0.25});
  const std::vector<ScenarioObject> faults = root.array("faults");
  REQUIRE(faults.size() == 3);
  CHECK(faults[1].duration("at", 0ns, 1s) == 9ms);
  CHECK(faults[1].text("kind") == "up");
  CHECK(faults[2].text("kind") == "slow");

  CHECK(error_of([&] { (void)topology.integer("planes", 5, 32); }) ==
        "--set: topology.planes: is 4, must be 5 to 32");
  CHECK(error_of([&] { (void)faults[1].duration("at", 0ns, 1ms); }) ==
        "--set: faults[1].at: is \"9ms\", must be 0 to 1ms");
  CHECK(error_of([&] { (void)topology.number("gbps", 0, 1); }) ==
        "s.json:7: topology.gbps: is 100.5, must be 0 to 1");
  CHECK(error_of([&] { (void)root.object("new").text("name"); }) == "--set: new.name: is missing");
  (void)root.has("pfc");
  (void)root.has("sizes");
  (void)topology.has("queue");
  for (const ScenarioObject& fault : faults) (void)fault.has("kind"), (void)fault.has("at");
  CHECK_NOTHROW(root.finish());
}

TEST_CASE("scenario: errors of what the command line sets") {
  const auto set = [](std::string_view path, std::string_view text) {
    return error_of([&] {
      ScenarioFile file = ScenarioFile::parse("s.json", kScenario);
      file.override(path, text);
      const ScenarioObject root = file.root();
      (void)root.object("topology").has("planes");
      for (const char* name : {"name", "topology", "pfc", "faults", "loss", "sizes"})
        (void)root.has(name);
      for (const char* name : {"gbps", "host_delay", "queue", "mode"})
        (void)root.object("topology").has(name);
      for (const ScenarioObject& fault : root.array("faults")) {
        (void)fault.has("at");
        (void)fault.has("kind");
      }
      root.finish();
    });
  };
  CHECK(set("topology.planes", "4") == "no error");
  CHECK(set("topology.plane", "4") ==
        "--set: topology.plane: unknown field; did you mean \"planes\"?");
  CHECK(set("topology.planes.x", "4") == "--set: topology.planes: is 2, not an object");
  CHECK(set("topology[0]", "4") == "--set: topology: is an object, not a list");
  CHECK(set("faults[5].at", "4") == "--set: faults[5]: the list has 2 elements");
  CHECK(set("topology", "{\"planes\": }").starts_with("--set: topology: unexpected '}'"));
  CHECK(set("topology", "{\"a\":1,\"a\":2}") == "--set: topology: a: is given twice");
  for (const char* path : {"", ".", "a.", ".a", "a..b", "[0]", "a[", "a[x]", "a[1", "a[-1]",
                           "a[1]b", "a[99999999999999999999999]"})
    CHECK(set(path, "1") ==
          "--set: '" + std::string(path) + "' is no path of a field, such as faults[0].at");
}

TEST_CASE("scenario: files that can't be read") {
  CHECK(error_of([] { (void)ScenarioFile::read("/nonexistent/s.json"); }) ==
        "/nonexistent/s.json: can't be read: No such file or directory");
  CHECK(error_of([] { (void)ScenarioFile::read("/"); }) == "/: can't be read: Is a directory");
  CHECK(error_of([] { (void)ScenarioFile::read("/dev/zero"); }) ==
        "/dev/zero: is longer than 1 MiB, so it is no scenario");
  CHECK(error_of([] { (void)ScenarioFile::read("/dev/null"); }) ==
        "/dev/null:1: is empty, must have an object");

  const std::string name = "/tmp/mrc_scenario_test_" + std::to_string(::getpid()) + ".json";
  std::FILE* file = std::fopen(name.c_str(), "w");
  REQUIRE(file != nullptr);
  std::fputs("{\n\"n\": 5 }", file);
  std::fclose(file);
  const ScenarioObject root = ScenarioFile::read(name).root();
  std::remove(name.c_str());
  CHECK(root.integer("n", 0, 9) == 5);
  CHECK(error_of([&] { (void)root.integer("n", 6, 9); }) == name + ":2: n: is 5, must be 6 to 9");
}
