// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "fabric/fixture.hpp"
#include "mrc/fabric/json.hpp"
#include "support/json_schema.hpp"

// docs/fabric.schema.json and docs/fabric.md name the fields that the reader knows, and no others.

namespace mrc::fabric::testing::schema_test {
namespace {

std::string text_of(const std::string& name) {
  std::ifstream in(source_file(name));
  std::stringstream text;
  text << in.rdbuf();
  REQUIRE_MESSAGE(in.good(), name);
  return text.str();
}

/// What the reader knows in an object: it says so when it meets a field that is like no other.
std::string known_to_reader(const std::string& before, const std::string& after) {
  const std::string error = parse_error(before + "\"????????????\": 0" + after);
  const std::string mark = "known here: ";
  const auto at = error.find(mark);
  REQUIRE_MESSAGE(at != std::string::npos, error);
  return error.substr(at + mark.size());
}

std::string known_to_schema(const nlohmann::json& object) {
  CHECK(object.at("additionalProperties") == false);
  json_file::Names names;
  for (const auto& [name, value] : object.at("properties").items()) names.insert(name);
  return json_file::joined(names);
}

}  // namespace

TEST_CASE("schema: the same fields as the reader's") {
  const nlohmann::json schema = nlohmann::json::parse(text_of("docs/fabric.schema.json"));
  const nlohmann::json& fields = schema.at("properties");
  CHECK(known_to_schema(schema) == known_to_reader("{", "}"));
  CHECK(known_to_schema(fields.at("usids")) == known_to_reader("{\"usids\": {", "}}"));
  CHECK(known_to_schema(fields.at("dscp")) == known_to_reader("{\"dscp\": {", "}}"));
  CHECK(known_to_schema(fields.at("templates").at("items")) ==
        known_to_reader("{\"templates\": [{", "}]}"));
  CHECK(known_to_schema(fields.at("hosts").at("oneOf").at(1).at("items")) ==
        known_to_reader("{\"hosts\": [{", "}]}"));
  CHECK(known_to_schema(fields.at("deny").at("items")) == known_to_reader("{\"deny\": [{", "}]}"));
}

TEST_CASE("schema: its defaults are the reader's") {
  const nlohmann::json schema = nlohmann::json::parse(text_of("docs/fabric.schema.json"));
  nlohmann::json written = {{"hosts", 1}};
  for (const auto& [name, field] : schema.at("properties").items()) {
    if (field.contains("default")) written[name] = field.at("default");
    if (!field.contains("properties")) continue;
    for (const auto& [inner, value] : field.at("properties").items())
      written[name][inner] = value.at("default");
  }
  const Description d = parse("f.json", written.dump()), usual = parse("f.json", R"({"hosts": 1})");
  CHECK((d.name == usual.name && d.forwarding == usual.forwarding && d.blocks == usual.blocks));
  CHECK((d.planes == usual.planes && d.t0 == usual.t0 && d.t1 == usual.t1 && d.mtu == usual.mtu));
  CHECK((d.dscp == usual.dscp && d.link_speed == usual.link_speed));
  CHECK(d.base_rtt == usual.base_rtt);
  const UsidPlan &a = d.usids, &b = usual.usids;
  CHECK((a.t0 == b.t0 && a.t1 == b.t1 && a.host == b.host && a.plane.mask() == b.plane.mask()));
  CHECK((a.t0_number.mask() == b.t0_number.mask() && a.t1_number.mask() == b.t1_number.mask()));
  CHECK((a.host_t0.mask() == b.host_t0.mask() && a.downlink.mask() == b.downlink.mask()));
}

TEST_CASE("schema: the fabrics of the repository are valid, wrong ones are not") {
  const test::JsonSchema schema(source_file("docs/fabric.schema.json"));
  test::JsonSchema::Documents documents(schema);
  for (const char* name : {"tools/fabrics/demo.json", "tools/fabrics/larger.json"})
    documents.accepts(nlohmann::json::parse(text_of(name), nullptr, true, true));
  for (const char* wrong :
       {R"({"planes": 1})", R"({"hosts": 0})", R"({"hosts": 1, "plnes": 2})",
        R"({"hosts": 1, "usids": {"t0": "0x10000"}})", R"({"hosts": 1, "base_rtt": "5"})",
        R"({"hosts": [{"name": "-h"}]})", R"({"hosts": 1, "deny": [{"t0": 1}]})"}) {
    CAPTURE(wrong);
    documents.refuses(nlohmann::json::parse(wrong));
    CHECK(parse_error(wrong) != "no error");
  }
}

TEST_CASE("schema: docs/fabric.md has all fields") {
  const nlohmann::json schema = nlohmann::json::parse(text_of("docs/fabric.schema.json"));
  const std::string page = text_of("docs/fabric.md");
  const auto check = [&](const std::string& field) {
    CHECK_MESSAGE(page.find('`' + field + '`') != std::string::npos, field);
  };
  const auto check_all = [&](const std::string& start, const nlohmann::json& object) {
    for (const auto& item : object.at("properties").items()) check(start + item.key());
  };
  const nlohmann::json& fields = schema.at("properties");
  check_all("", schema);
  check_all("usids.", fields.at("usids"));
  check_all("dscp.", fields.at("dscp"));
  check_all("templates[].", fields.at("templates").at("items"));
  check_all("hosts[].", fields.at("hosts").at("oneOf").at(1).at("items"));
  check_all("deny[].", fields.at("deny").at("items"));
}

}  // namespace mrc::fabric::testing::schema_test
