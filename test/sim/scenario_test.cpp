// SPDX-License-Identifier: Apache-2.0
// What the reader of scenario files makes of fields; scenario_schema_test.cpp has their names.
#include <doctest/doctest.h>

#include "mrc/sim/simulation.hpp"
#include "mrc_sim/metrics.hpp"
#include "sim/scenario_rig.hpp"

namespace mrc::tools::testing::scenario_test {
namespace {

sim::Summary run(const ScenarioReader& reader, const Json& scenario) {
  sim::Simulation simulation(reader.read(scenario).variants.at(0).scenario);
  simulation.run();
  return summarize(simulation);
}

Json traffic(const Json& pattern) {
  return small_scenario({{"traffic", {pattern}}});
}

}  // namespace

TEST_CASE("scenario: traffic names hosts as faults do, older files have numbers") {
  const ScenarioReader reader;
  const auto same = [&](const Json& named, const Json& numbered) {
    CAPTURE(named.dump());
    const sim::Summary a = run(reader, traffic(named)), b = run(reader, traffic(numbered));
    CHECK(a.delivered > 0);
    CHECK(a.digest == b.digest);
  };
  same({{"kind", "streams"}, {"bytes", 4096}, {"pairs", {{{"from", "h1"}, {"to", "h2"}}}}},
       {{"kind", "streams"}, {"bytes", 4096}, {"pairs", {{{"from", 1}, {"to", 2}}}}});
  same({{"kind", "incast"}, {"bytes", 4096}, {"receiver", "h2"}, {"senders", {"h0", "h3"}}},
       {{"kind", "incast"}, {"bytes", 4096}, {"receiver", 2}, {"senders", {0, 3}}});
  same({{"kind", "incast"},
        {"bytes", 4096},
        {"senders", "h2"},
        {"victim", {{"from", "h3"}, {"to", "h1"}}}},
       {{"kind", "incast"}, {"bytes", 4096}, {"senders", 2}, {"victim", {{"from", 3}, {"to", 1}}}});
  same({{"kind", "all_reduce"}, {"bytes", 65536}, {"ranks", {"h3", "h0", "h2"}}},
       {{"kind", "all_reduce"}, {"bytes", 65536}, {"ranks", {3, 0, 2}}});
}

TEST_CASE("scenario: errors of hosts and targets show the names that there are") {
  const ScenarioReader reader;
  const auto pairs = [](const Json& to) {
    return traffic({{"kind", "streams"}, {"pairs", {{{"from", "h0"}, {"to", to}}}}});
  };
  const std::string field = "traffic[0].pairs[0].to: is ";
  CHECK(reader.error(pairs("h4")) == field + "\"h4\", must be h0 to h3");
  CHECK(reader.error(pairs("3")) == field + "\"3\", must be h0 to h3");
  CHECK(reader.error(pairs(4)) == field + "4, must be h0 to h3");
  CHECK(reader.error(pairs("h0")) == "traffic[0].pairs[0].to: is the sender itself");
  const auto fault = [](const Json& target) {
    return small_scenario({{"faults", {{{"kind", "down"}, {"target", target}}}}});
  };
  CHECK(reader.error(fault(3)) ==
        "faults[0].target: is a number, must be a name: h3, h3.p0, p1t0-2 ..");
  CHECK(test::contains(reader.error(fault("3")), "nothing is called '3'; there are h0 to h3"));
}

TEST_CASE("scenario: what would have no effect is an error") {
  const ScenarioReader reader;
  const auto error = [&](const Json& changes) { return reader.error(small_scenario(changes)); };
  const std::string late = "is not before the end of the run";
  const Json run = {{"time", "100us"}};
  const auto fault = [&](const Json& f) { return error({{"run", run}, {"faults", {f}}}); };
  CHECK(fault({{"at", "100us"}, {"kind", "down"}, {"target", "h1"}}) == "faults[0].at: " + late);
  CHECK(fault({{"at", "2ms"},
               {"kind", "flap"},
               {"target", "h1"},
               {"until", "3ms"},
               {"period", "20us"},
               {"down", "10us"}}) == "faults[0].at: " + late);
  CHECK(error({{"run", run}, {"random_faults", {{"end", "101us"}}}}) ==
        "random_faults.end: is after the end of the run");
  CHECK(error({{"run", run}, {"traffic", {{{"kind", "incast"}, {"start", "100us"}}}}}) ==
        "traffic[0].start: " + late);
  const Json pair = {{"from", "h0"}, {"to", "h1"}, {"delay", "60us"}};
  CHECK(error({{"run", run},
               {"traffic", {{{"kind", "streams"}, {"start", "50us"}, {"pairs", {pair}}}}}}) ==
        "traffic[0].pairs[0].delay: " + late);
  for (const char* forwarding : {"srv6", "stev"})
    CHECK(error({{"topology", {{"hosts", 4}, {"t1s", 8}, {"forwarding", forwarding}}},
                 {"transport", {{"paths", 9}}}}) ==
          "transport.paths: is above topology.t1s: there is one path over each T1");
  CHECK(error({{"topology", {{"hosts", 4}, {"kind", "single_switch"}}},
               {"transport", {{"paths", 2}}}}) ==
        "transport.paths: is above 1: there is one path per plane without T1s");
  CHECK(reader
            .read(small_scenario({{"topology", {{"hosts", 4}, {"t1s", 8}, {"forwarding", "udp"}}},
                                  {"transport", {{"paths", 16}}}}))
            .variants.size() == 1);
}

TEST_CASE("scenario: older names of switches, in faults, samples and plots") {
  const ScenarioReader reader;
  const Job job = reader.read(
      small_scenario({{"faults", {{{"kind", "slow"}, {"target", "t0.0.0"}, {"value", 2}}}},
                      {"samples", {{"queues", {"t0.0.0>h1.p0"}}}},
                      {"plots", {{{"show", "queue t0.0.0>h1.p0"}}}}}));
  CHECK(job.variants.at(0).scenario.faults.text() == "0ns slow p0t0-0 2");
  sim::Simulation simulation(job.variants.at(0).scenario);
  CHECK(job.plots.at(0).show == "queue p0t0-0>h1.p0");
  CHECK(simulation.recorder()->series().at(1).name == job.plots.at(0).show);
}

TEST_CASE("scenario: plots of some variants") {
  const ScenarioReader reader;
  const Json sweep = {{{"name", "one"}}, {{"name", "two"}}, {{"name", "three"}}};
  const auto with = [&](const Json& variants) {
    return small_scenario(
        {{"sweep", sweep}, {"plots", {{{"show", "goodput per host"}, {"variants", variants}}}}});
  };
  CHECK(reader.read(with({"three", "one"})).plots.at(0).variants ==
        std::vector<std::string>{"three", "one"});
  CHECK(reader.error(with({"one", "four"})) ==
        "plots[0].variants[1]: is no variant of the sweep (in variant \"one\")");
}

TEST_CASE("scenario: the goodput of a host is a metric") {
  const ScenarioReader reader;
  const sim::Summary s = run(reader, traffic({{"kind", "incast"}, {"bytes", "16KiB"}}));
  CHECK(is_metric("goodput h0"));
  CHECK_FALSE((is_metric("goodput h") || is_metric("goodput hx") || is_metric("goodput 0")));
  CHECK(metric(s, "goodput h0") == s.goodput);
  CHECK(metric(s, "goodput h1") == 0);
  CHECK(metric_unit("goodput h0") == "Gb/s");
}

}  // namespace mrc::tools::testing::scenario_test
