// SPDX-License-Identifier: Apache-2.0
// docs/scenario.schema.json and docs/simulator.md name the fields that the reader of scenario files
// knows, and no others; limits, words and defaults are the reader's.
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <sstream>
#include <vector>

#include "mrc/sim/simulation.hpp"
#include "mrc_sim/metrics.hpp"
#include "sim/scenario_rig.hpp"
#include "support/json_schema.hpp"

namespace mrc::tools::testing::scenario_schema_test {
namespace {

using test::contains;
using test::JsonSchema;

std::string text_of(const std::filesystem::path& file) {
  std::ifstream in(file);
  std::stringstream text;
  text << in.rdbuf();
  REQUIRE_MESSAGE(in.good(), file.string());
  return text.str();
}

const JsonSchema& schema() {
  static const JsonSchema s(source_file("docs/scenario.schema.json"));
  return s;
}

/// An object of scenarios: a valid scenario that has one, where it is, and its part of the schema.
struct Place {
  Json scenario;
  std::string pointer;
  Json known;
  [[nodiscard]] Json with(const std::string& name, const Json& value) const {
    Json changed = scenario;
    changed[Json::json_pointer(pointer)][name] = value;
    return changed;
  }
  [[nodiscard]] std::string path() const {
    std::string text;
    for (const char c : pointer.substr(pointer.empty() ? 0 : 1)) text += c == '/' ? '.' : c;
    for (const char* digit : {".0"})
      for (auto at = text.find(digit); at != std::string::npos; at = text.find(digit))
        text.replace(at, 2, "[0]");
    return text;
  }
};

Place at(const std::string& pointer, const Json& more, const Json& known) {
  Json scenario = small_scenario(more);
  Json& object = scenario[Json::json_pointer(pointer)];
  if (object.is_null()) object = Json::object();
  return {scenario, pointer, known};
}

/// `name` of "$defs".
const Json& part(const std::string& name) {
  return schema().root().at("$defs").at(name);
}

void add_traffic(std::vector<Place>& all, const ScenarioReader& reader) {
  const Json pair = {{"from", "h0"}, {"to", "h1"}};
  const auto add = [&](const Json& pattern) {
    all.push_back(at("/traffic/0", {{"traffic", {pattern}}}, part(pattern.at("kind"))));
  };
  add({{"kind", "streams"}, {"pairs", {pair}}});
  all.push_back(at("/traffic/0/pairs/0", {{"traffic", {{{"kind", "streams"}, {"pairs", {pair}}}}}},
                   part("streams").at("properties").at("pairs").at("items")));
  add({{"kind", "send_recv"}});
  all.push_back(at("/traffic/0/pairs/0",
                   {{"traffic", {{{"kind", "send_recv"}, {"pairs", {pair}}}}}}, part("pair")));
  add({{"kind", "permutation"}});
  add({{"kind", "incast"}});
  all.push_back(at("/traffic/0/victim", {{"traffic", {{{"kind", "incast"}, {"victim", pair}}}}},
                   part("pair")));
  add({{"kind", "all_reduce"}});
  add({{"kind", "all_to_all"}});
  add({{"kind", "trace"}, {"file", reader.file("t.csv", "0,h0,h1,4096\n")}});
}

void add_faults(std::vector<Place>& all) {
  const auto add = [&](const char* known, const Json& fault) {
    all.push_back(at("/faults/0", {{"faults", {fault}}}, part(known)));
  };
  for (const char* kind : {"down", "black_hole"}) add("outage", {{"kind", kind}, {"target", "h1"}});
  add("damage", {{"kind", "loss"}, {"target", "h1.p0"}, {"value", 0.1}});
  add("damage", {{"kind", "corruption"}, {"target", {"p1", "p0t1-1"}}, {"value", 0.1}});
  add("slow", {{"kind", "slow"}, {"target", "h1.p0>p0t0-0"}, {"value", 2}});
  add("slow", {{"kind", "slow"}, {"target", {"t1.0.1", "h1 - p0t0-0"}}, {"value", 2}});
  add("kill", {{"kind", "kill"}, {"target", "h3"}});
  add("flap", {{"kind", "flap"},
               {"target", "p0t0-0-p0t1-1"},
               {"until", "9us"},
               {"period", "2us"},
               {"down", "1us"}});
  for (const auto& [begin, end] : {std::pair("down", "up"), std::pair("black_hole", "heal")}) {
    const Json faults = {{{"kind", end}, {"target", "h1"}, {"at", "3us"}},
                         {{"kind", begin}, {"target", "h1"}}};
    all.push_back(at("/faults/0", {{"faults", faults}}, part("end")));
  }
}

std::vector<Place> all_places(const ScenarioReader& reader) {
  const Json& fields = schema().root().at("properties");
  const Json& topology = part("topology").at("properties");
  const Json sweep = {{{"name", "one"}, {"set", "seed=3"}}};
  std::vector<Place> all{
      at("", {}, schema().root()),
      at("/run", {}, fields.at("run")),
      at("/topology", {}, part("topology")),
      at("/topology/queue", {}, topology.at("queue")),
      at("/topology/pfc", {{"topology", {{"pfc", {{"xoff", "64KiB"}}}}}}, topology.at("pfc")),
      at("/transport", {{"transport", {{"kind", "mrc"}}}}, part("mrc")),
      at("/transport", {{"transport", {{"kind", "roce"}}}}, part("roce")),
      at("/random_faults", {{"random_faults", {{"end", "9us"}}}}, fields.at("random_faults")),
      at("/bad_cables", {}, fields.at("bad_cables")),
      at("/samples", {}, fields.at("samples")),
      at("/sweep/0", {{"sweep", sweep}}, fields.at("sweep").at("items")),
      at("/plots/0", {{"plots", {{{"show", "goodput"}}}}}, part("over_time")),
      at("/plots/0", {{"plots", {{{"show", "summary"}, {"metric", "p50"}}}}}, part("summary"))};
  add_traffic(all, reader);
  add_faults(all);
  return all;
}

/// The limits and words of a field; some are behind references.
Json rules_of(const Json& field) {
  Json rules = field.is_object() ? field : Json::object();
  if (rules.contains("$ref")) {
    Json found = rules_of(schema().target(rules));
    found.update(rules);
    rules = std::move(found);
  }
  return rules;
}

/// Every field that has `rule`, with its place.
template <class F>
void for_all(const ScenarioReader& reader, const char* rule, F&& check) {
  for (const Place& place : all_places(reader))
    for (const auto& [name, field] : schema().properties(place.known)) {
      const Json rules = rules_of(field);
      const std::string where = place.path() + ' ' + name;
      CAPTURE(where);
      if (rules.contains(rule)) check(place, name, rules.at(rule));
    }
}

std::uint64_t digest_of(const ScenarioReader& reader, const Json& scenario) {
  sim::Simulation simulation(reader.read(scenario).variants.at(0).scenario);
  simulation.run();
  return summarize(simulation).digest;
}

}  // namespace

TEST_CASE("scenario schema: the same fields as the reader's") {
  const ScenarioReader reader;
  JsonSchema::Documents documents(schema());
  for (const Place& place : all_places(reader)) {
    CAPTURE(place.scenario.dump());
    CHECK(reader.error(place.scenario) == "no error");
    documents.accepts(place.scenario);
    CHECK((place.known.value("additionalProperties", Json(true)) == false ||
           place.known.value("unevaluatedProperties", Json(true)) == false));
    json_file::Names names;
    for (const auto& [name, field] : schema().properties(place.known)) names.insert(name);
    const std::string path = place.path() + (place.pointer.empty() ? "" : ".");
    const std::string error = reader.error(place.with("????????????", 0));
    CHECK(error.substr(0, error.find(" (in variant")) ==
          path + "????????????: unknown field; known here: " + json_file::joined(names));
    documents.refuses(place.with("????????????", 0));
  }
}

TEST_CASE("scenario schema: its limits are the reader's") {
  const ScenarioReader reader;
  JsonSchema::Documents documents(schema());
  unsigned limits = 0;
  const auto check = [&](const Place& place, const std::string& name, const Json& limit, int step) {
    ++limits;
    const Json beyond = limit.is_number_integer() && !limit.is_number_unsigned()
                            ? Json(limit.get<std::int64_t>() + step)
                            : Json(limit.get<double>() + step);
    const std::string range = name + ": is ";
    documents.refuses(place.with(name, beyond));
    CHECK(contains(reader.error(place.with(name, beyond)), range));
    documents.accepts(place.with(name, limit));
    const std::string error = reader.error(place.with(name, limit));
    const bool in_range = !contains(error, range) || !contains(error, ", must be ");
    CHECK_MESSAGE(in_range, error);
  };
  for_all(reader, "minimum", [&](const Place& place, const std::string& name, const Json& limit) {
    check(place, name, limit, -1);
  });
  for_all(reader, "maximum", [&](const Place& place, const std::string& name, const Json& limit) {
    if (limit.is_number_unsigned() && limit == UINT64_MAX) return;  // the type's
    if (name == "sender_count") return;                             // fewer than hosts
    check(place, name, limit, std::abs(limit.get<double>()) < 1e9 ? 1 : 1'000'000);
  });
  CHECK(limits > 100);
}

TEST_CASE("scenario schema: its words are the reader's") {
  const ScenarioReader reader;
  JsonSchema::Documents documents(schema());
  for_all(reader, "enum", [&](const Place& place, const std::string& name, const Json& words) {
    CHECK(contains(reader.error(place.with(name, "no such word")),
                   "must be one of " + json_file::joined(words.get<std::vector<std::string>>())));
    documents.refuses(place.with(name, "no such word"));
  });
  for (const char* kinds : {"pattern", "fault"}) {
    const Json pattern = {{"kind", "no such word"}, {"target", "h0"}};
    const Json words = part(kinds).at("properties").at("kind").at("enum");
    const char* list = kinds[0] == 'p' ? "traffic" : "faults";
    CHECK(contains(reader.error(small_scenario({{list, {pattern}}})),
                   "must be one of " + json_file::joined(words.get<std::vector<std::string>>())));
  }
  const Json metrics = part("summary").at("properties").at("metric").at("anyOf").at(0).at("enum");
  std::vector<std::string> names = metrics.get<std::vector<std::string>>();
  names.insert(names.end(), {"\"flow N\"", "\"goodput hN\""});
  CHECK(names == metric_names());
}

TEST_CASE("scenario schema: its defaults are the reader's") {
  const ScenarioReader reader;
  JsonSchema::Documents documents(schema());
  for (const Place& place : all_places(reader)) {
    Json written = place.scenario;
    Json& object = written[Json::json_pointer(place.pointer)];
    for (const auto& [name, field] : schema().properties(place.known))
      if (field.is_object() && field.contains("default") && !object.contains(name))
        object[name] = field.at("default");
    CAPTURE(written.dump());
    documents.accepts(written);
    REQUIRE(reader.error(written) == "no error");
    CHECK(digest_of(reader, written) == digest_of(reader, place.scenario));
  }
}

TEST_CASE("scenario schema: its defaults of what a short run does not need") {
  const ScenarioReader reader;
  Json written = {{"transport", Json::object()}, {"topology", Json::object()}};
  const auto fill = [](Json& object, const std::map<std::string, Json>& fields) {
    for (const auto& [name, field] : fields)
      if (field.contains("default")) object[name] = field.at("default");
  };
  fill(written["transport"], schema().properties(part("mrc")));
  fill(written["topology"], schema().properties(part("topology")));
  const auto facts = [&](const Json& more) {
    const sim::Scenario s = reader.read(small_scenario(more)).variants.at(0).scenario;
    const auto& mrc = std::get<sim::MrcCluster::Settings>(s.transport);
    const auto& e = mrc.host.engine;
    const sim::FabricSettings& f = s.fabric;
    return std::tuple(e.paths.probe_first, e.paths.probe_max, e.paths.probe_successes,
                      e.paths.loss_strikes, e.paths.active, e.paths.min_active, e.sack_threshold,
                      e.max_qps, e.max_outstanding, e.burst, e.cc.nscc.gamma,
                      mrc.attributes.timeout, mrc.attributes.retry_linear,
                      mrc.attributes.retry_exponential, mrc.attributes.mpr, mrc.chunk, mrc.host.mtu,
                      mrc.host.nic_queue, mrc.host.carrier_delay, f.planes, f.hosts, f.hosts_per_t0,
                      f.t1s, f.host_gbps, f.fabric_gbps, f.host_delay, f.fabric_delay);
  };
  CHECK(facts(written) == facts({{"transport", Json::object()}, {"topology", Json::object()}}));
}

TEST_CASE("scenario schema: docs/simulator.md has all fields") {
  const ScenarioReader reader;
  const std::string page = text_of(source_file("docs/simulator.md"));
  CHECK(contains(page, "(scenario.schema.json)"));
  for (const Place& place : all_places(reader))
    for (const auto& [name, field] : schema().properties(place.known)) {
      const bool known = contains(page, '`' + name + '`') || contains(page, '.' + name + '`') ||
                         contains(page, '`' + name + '.');
      const std::string where = place.path() + ' ' + name;
      CHECK_MESSAGE(known, where);
    }
}

TEST_CASE("scenario schema: the scenarios of the repository are valid") {
  JsonSchema::Documents documents(schema());
  unsigned count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(source_file("tools/scenarios"))) {
    if (entry.path().extension() != ".json") continue;
    documents.accepts(Json::parse(text_of(entry.path()), nullptr, true, true));
    ++count;
  }
  CHECK(count >= 14);
}

TEST_CASE("scenario schema: both accept every form of a value") {
  const ScenarioReader reader;
  JsonSchema::Documents documents(schema());
  for (const char* time : {"500ns", "1.5us", "2ms", "0.5s", ".5us", "1e3us", "5.us"})
    for (const char* size : {"4096", "512B", "64KiB", "64K", "64k", "1MB", "1.5KiB", "1e6"}) {
      const Json scenario =
          small_scenario({{"run", {{"time", time}}}, {"topology", {{"queue", {{"limit", size}}}}}});
      CAPTURE(scenario.dump());
      documents.accepts(scenario);
      CHECK(contains(reader.error(scenario), "topology.queue") == (std::string(size) == "512B"));
    }
  for (const Json& pairs : {Json{{{"from", "h0"}, {"to", "h3"}}}, Json{{{"from", 0}, {"to", 3}}}}) {
    const Json scenario = small_scenario({{"traffic", {{{"kind", "streams"}, {"pairs", pairs}}}}});
    documents.accepts(scenario);
    CHECK(reader.error(scenario) == "no error");
  }
}

TEST_CASE("scenario schema: both refuse what is wrong") {
  const ScenarioReader reader;
  JsonSchema::Documents documents(schema());
  const auto refused = [&](const Json& scenario, const std::string& field) {
    CAPTURE(scenario.dump());
    documents.refuses(scenario);
    CHECK(contains(reader.error(scenario), field));
  };
  const auto traffic = [](const Json& pattern) { return small_scenario({{"traffic", {pattern}}}); };
  const auto fault = [](const Json& one) { return small_scenario({{"faults", {one}}}); };
  for (const char* name : {"title", "run", "traffic"}) {
    Json scenario = small_scenario();
    scenario.erase(name);
    refused(scenario, "is missing");
  }
  refused(small_scenario({{"traffic", Json::array()}}), "traffic");
  for (const Json& time : {Json(5), Json("5"), Json("5 us"), Json("5min"), Json("us"), Json(true)})
    refused(small_scenario({{"run", {{"time", time}}}}), "run.time");
  for (const Json& size : {Json("64Q"), Json("KiB"), Json(-1), Json("64 KiB"), Json("1KKB")})
    refused(small_scenario({{"topology", {{"queue", {{"limit", size}}}}}}), "topology.queue.limit");
  for (const Json& host :
       {Json("3"), Json("host3"), Json("h"), Json("h1.p0"), Json(-1), Json("h-1")})
    refused(traffic({{"kind", "incast"}, {"receiver", host}}), "traffic[0].receiver");
  for (const Json& target : {Json(3), Json("3"), Json("t0.1"), Json("h1.0"), Json("p0t0"),
                             Json("p0t2-0"), Json("t2.0.0"), Json(Json::array())})
    refused(fault({{"kind", "down"}, {"target", target}}), "faults[0].target");
  refused(fault({{"kind", "down"}}), "faults[0].target: is missing");
  refused(fault({{"kind", "down"}, {"target", "h1"}, {"value", 1}}), "faults[0].value");
  refused(fault({{"kind", "loss"}, {"target", "h1"}}), "faults[0].value");
  refused(fault({{"kind", "up"}, {"target", "h1"}, {"for", "1us"}}), "faults[0].for");
  refused(fault({{"kind", "flap"}, {"target", "h1"}, {"for", "1us"}}), "faults[0]");
  refused(traffic({{"kind", "streams"}}), "traffic[0].pairs: is missing");
  refused(traffic({{"kind", "incast"}, {"peers", 2}}), "traffic[0].peers: unknown field");
  refused(traffic({{"kind", "incast"}, {"senders", "h1"}, {"sender_count", 2}}),
          "traffic[0].sender_count");
  refused(small_scenario({{"transport", {{"kind", "roce"}, {"cc", "nscc"}}}}), "transport.cc");
  refused(small_scenario({{"transport", {{"dcqcn", true}}}}), "transport.dcqcn");
  refused(small_scenario({{"plots", {{{"show", "goodput"}, {"metric", "p50"}}}}}),
          "plots[0].metric");
  refused(small_scenario({{"plots", {{{"show", "summary"}}}}}), "plots[0].metric");
  refused(small_scenario({{"plots", {{{"show", "summary"}, {"metric", "p42"}}}}}),
          "plots[0].metric");
  refused(small_scenario({{"plots", {{{"show", "speed"}}}}}), "plots[0].show");
  refused(small_scenario({{"sweep", {{{"name", "a"}, {"set", "seed"}}}}}), "sweep[0].set");
}

}  // namespace mrc::tools::testing::scenario_schema_test
