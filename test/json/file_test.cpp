// SPDX-License-Identifier: Apache-2.0
#include "mrc/fabric/json.hpp"

#include <doctest/doctest.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "json/fixture.hpp"
#include "mrc/core/random.hpp"

using namespace std::chrono_literals;
using mrc::json_file::File;
using mrc::json_file::Object;
using mrc::test::file_error;
using mrc::test::kText;
using mrc::test::parse_error;
using mrc::test::root_of;

TEST_CASE("json file: a name given twice") {
  CHECK(parse_error("{\"a\": {\n\"x\": 1,\n\"y\": 2,\n\"x\": 3}}") ==
        "s.json:4: a.x: is given twice, first in line 2");
  CHECK(parse_error("{\"a\": {\"x\": 1}, \"b\": {\"x\": 1}}") == "no error");
}

TEST_CASE("json file: lines with numbers at their ends") {
  const Object root =
      root_of("{\r\n\"a\": 1\r\n,\n\"b\":\n2.5\n\n,\"c\": [\n1,\n2\n],\"d\":true\n}");
  CHECK(file_error([&] { (void)root.text("a"); }) == "s.json:2: a: is 1, must be a text");
  CHECK(file_error([&] { (void)root.text("b"); }) == "s.json:5: b: is 2.5, must be a text");
  CHECK(file_error([&] { (void)root.integers("c", 0, 1); }) ==
        "s.json:9: c[1]: is 2, must be 0 to 1");
  CHECK(file_error([&] { (void)root.text("c"); }) == "s.json:7: c: is a list, must be a text");
  CHECK(file_error([&] { (void)root.text("d"); }) == "s.json:10: d: is true, must be a text");
}

TEST_CASE("json file: errors of JSON have a column") {
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

TEST_CASE("json file: hostile text is an error, nothing worse") {
  CHECK(parse_error("") == "s.json:1: is empty, must have an object");
  CHECK(parse_error(" \n\t\r\n") == "s.json:1: is empty, must have an object");
  CHECK(parse_error("// only this").substr(0, 10) == "s.json:1:1");
  CHECK(parse_error("\n[1]") == "s.json:2: is a list, must be an object");
  CHECK(parse_error("7") == "s.json:1: is 7, must be an object");
  CHECK(parse_error(std::string(1'000'000, '[')) == "s.json:1: is nested deeper than 32 levels");
  std::string deep;
  for (int i = 0; i < 100'000; ++i) deep += "{\"a\":\n";
  CHECK(parse_error(deep) == "s.json:33: is nested deeper than 32 levels");
  // Every prefix of a good file is an error.
  const std::string_view good = kText;
  for (std::size_t n = 0; n + 3 < good.size(); ++n)
    CHECK(parse_error(good.substr(0, n)).starts_with("s.json:"));
}

TEST_CASE("json file: spoilt text is an error or still good") {
  mrc::Random random(11);
  const std::string good = kText;
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
    const std::string error = file_error([&] {
      const Object root = root_of(text);
      (void)root.text("name", "");
      (void)root.boolean("pfc", false);
      (void)root.object("topology").integer("planes", 1, 32, 8);
      (void)root.object("topology").bytes("queue", 0, 1 << 20, 0);
      (void)root.object("topology").duration("host_delay", 0ns, 1s, 0ns);
      for (const Object& fault : root.array("faults")) (void)fault.has("at");
      (void)root.numbers("loss", 0, 1);
      root.finish();
    });
    const bool named = error.starts_with("s.json:") || error == "no error";
    CHECK_MESSAGE(named, error);
    errors += error != "no error";
  }
  CHECK(errors > 1000);
}

TEST_CASE("json file: fields set on the command line") {
  File file = File::parse("s.json", kText);
  file.override("topology.planes", "4");
  file.override("topology.mode", "udp");
  file.override("topology.host_delay", "7us");
  file.override("faults[1].at", "9ms");
  file.override("faults[2].at", "1s");
  file.override("faults[2].kind", "\"slow\"");
  file.override("name", "42");
  file.override("new.deep.flag", "true");
  file.override("loss", "[0.5, 0.25]");
  const Object root = file.root();
  const Object topology = root.object("topology");
  CHECK(topology.integer("planes", 1, 32) == 4);
  CHECK(topology.choice("mode", {"srv6", "udp"}) == "udp");
  CHECK(topology.duration("host_delay", 0ns, 1s) == 7us);
  CHECK(topology.number("gbps", 0, 1000) == 100.5);
  CHECK(root.text("name") == "42");
  CHECK(root.object("new").object("deep").boolean("flag"));
  CHECK(root.numbers("loss", 0, 1) == std::vector<double>{0.5, 0.25});
  const std::vector<Object> faults = root.array("faults");
  REQUIRE(faults.size() == 3);
  CHECK(faults[1].duration("at", 0ns, 1s) == 9ms);
  CHECK(faults[1].text("kind") == "up");
  CHECK(faults[2].text("kind") == "slow");

  CHECK(file_error([&] { (void)topology.integer("planes", 5, 32); }) ==
        "--set: topology.planes: is 4, must be 5 to 32");
  CHECK(file_error([&] { (void)faults[1].duration("at", 0ns, 1ms); }) ==
        "--set: faults[1].at: is \"9ms\", must be 0 to 1ms");
  CHECK(file_error([&] { (void)topology.number("gbps", 0, 1); }) ==
        "s.json:7: topology.gbps: is 100.5, must be 0 to 1");
  CHECK(file_error([&] { (void)root.object("new").text("name"); }) ==
        "--set: new.name: is missing");
  (void)root.has("pfc");
  (void)root.has("sizes");
  (void)topology.has("queue");
  for (const Object& fault : faults) (void)fault.has("kind"), (void)fault.has("at");
  CHECK_NOTHROW(root.finish());
}

TEST_CASE("json file: errors of what the command line sets") {
  const auto set = [](std::string_view path, std::string_view text) {
    return file_error([&] {
      File file = File::parse("s.json", kText);
      file.override(path, text);
      const Object root = file.root();
      (void)root.object("topology").has("planes");
      for (const char* name : {"name", "topology", "pfc", "faults", "loss", "sizes"})
        (void)root.has(name);
      for (const char* name : {"gbps", "host_delay", "queue", "mode"})
        (void)root.object("topology").has(name);
      for (const Object& fault : root.array("faults")) {
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

TEST_CASE("json file: files that can't be read") {
  CHECK(file_error([] { (void)File::read("/nonexistent/s.json", "scenario"); }) ==
        "/nonexistent/s.json: can't be read: No such file or directory");
  CHECK(file_error([] { (void)File::read("/", "scenario"); }) ==
        "/: can't be read: Is a directory");
  CHECK(file_error([] { (void)File::read("/dev/zero", "scenario"); }) ==
        "/dev/zero: is longer than 1 MiB, so it is no scenario");
  CHECK(file_error([] { (void)File::read("/dev/null", "scenario"); }) ==
        "/dev/null:1: is empty, must have an object");

  const std::string name = "/tmp/mrc_json_test_" + std::to_string(::getpid()) + ".json";
  std::FILE* file = std::fopen(name.c_str(), "w");
  REQUIRE(file != nullptr);
  std::fputs("{\n\"n\": 5 }", file);
  std::fclose(file);
  const Object root = File::read(name, "scenario").root();
  std::remove(name.c_str());
  CHECK(root.integer("n", 0, 9) == 5);
  CHECK(file_error([&] { (void)root.integer("n", 6, 9); }) == name + ":2: n: is 5, must be 6 to 9");
}
