// SPDX-License-Identifier: Apache-2.0
#include "mrc/sim/recorder.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <numeric>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "mrc/sim/traffic/streams.hpp"
#include "support/sim_rig.hpp"

using namespace mrc;
using namespace mrc::sim;
using namespace std::chrono_literals;

namespace recorder_test {

/// MRC hosts on one switch per plane, which trims.
struct RecorderRig : test::ClusterRig {
  RecorderRig() : ClusterRig(fabric_settings()) {}
  static FabricSettings fabric_settings() {
    FabricSettings f;
    f.topology = Topology::single_switch;
    f.planes = 2;
    f.hosts = 4;
    // Small enough that an incast overflows it before it is controlled.
    f.queue.data_limit = 48 * 1024;
    f.queue.ecn_min = 16 * 1024;
    f.queue.ecn_max = 40 * 1024;
    return f;
  }
};

double sum(const Series& s) {
  return std::accumulate(s.values.begin(), s.values.end(), 0.0);
}
double largest(const Series& s) {
  return *std::max_element(s.values.begin(), s.values.end());
}

/// An incast of three to one for a while.
IncastSettings incast() {
  return {.stream = {.bytes = 64 * 1024, .depth = 8, .duration = 300us}, .senders = {1, 2, 3}};
}

TEST_CASE("measures: percentiles by nearest rank, by hand") {
  const std::vector<Duration> five{15ns, 20ns, 35ns, 40ns, 50ns};
  CHECK(percentile(five, 0) == 15ns);
  CHECK(percentile(five, 5) == 15ns);
  CHECK(percentile(five, 20) == 15ns);
  CHECK(percentile(five, 20.1) == 20ns);
  CHECK(percentile(five, 30) == 20ns);
  CHECK(percentile(five, 40) == 20ns);
  CHECK(percentile(five, 50) == 35ns);
  CHECK(percentile(five, 100) == 50ns);
  std::vector<Duration> thousand;
  for (int i = 1; i <= 1000; ++i) thousand.push_back(Duration{i});
  CHECK(percentile(thousand, 50) == 500ns);
  CHECK(percentile(thousand, 99) == 990ns);
  CHECK(percentile(thousand, 99.9) == 999ns);
  CHECK(percentile({}, 50) == 0ns);
  CHECK(mean(five) == 32ns);
}

TEST_CASE("measures: fairness and rates") {
  const std::vector<double> equal{5, 5, 5, 5}, one{8, 0, 0, 0}, some{1, 3};
  CHECK(jain_index(equal) == doctest::Approx(1));
  CHECK(jain_index(one) == doctest::Approx(0.25));
  CHECK(jain_index(some) == doctest::Approx(0.8));  // 16 / (2 * 10)
  CHECK(gbps(1000, 80ns) == doctest::Approx(100));
  CHECK(gbps(1000, 0ns) == 0);
}

TEST_CASE("message log: completion times and goodput, by hand") {
  MessageLog log;
  const FlowId a{0}, b{2};
  log.open(a, 0, 1);
  log.open(b, 3, 1);
  CHECK(log.post(a, 1000, Time{0ns}) == 0);
  CHECK(log.post(a, 1000, Time{0ns}) == 1);
  CHECK(log.post(b, 500, Time{50ns}) == 0);
  CHECK(log.post(a, 1000, Time{150ns}) == 2);
  log.delivered(a, 0, Time{100ns});
  log.sent(a, 0, Time{130ns});
  log.delivered(a, 1, Time{200ns});
  log.delivered(b, 0, Time{150ns});
  CHECK(log.delivered() == 3);
  CHECK(log.delivered_bytes() == 2500);
  CHECK(log.completion_times() == std::vector<Duration>{100ns, 100ns, 200ns});
  CHECK(log.completion_times(Time{1ns}, Time{100ns}) == std::vector<Duration>{100ns});
  CHECK(log.message(a, 0).sent == Time{130ns});
  CHECK(log.message(a, 1).sent == kNever);
  // Flow a: 1000 bytes over (0, 100], 1000 over (100, 200]; the third never came.
  CHECK(log.goodput(a, Time{0ns}, Time{200ns}) == doctest::Approx(80));
  CHECK(log.goodput(a, Time{50ns}, Time{150ns}) == doctest::Approx(80));
  CHECK(log.goodput(a, Time{150ns}, Time{250ns}) == doctest::Approx(40));
  CHECK(log.goodput(b, Time{100ns}, Time{200ns}) == doctest::Approx(20));
  CHECK(log.goodput(Time{100ns}, Time{200ns}) == doctest::Approx(100));
  CHECK(log.goodput(a, Time{200ns}, Time{200ns}) == 0);
}

TEST_CASE("message log: CSV") {
  MessageLog log;
  log.open(FlowId{0}, 4, 7);
  log.open(FlowId{1}, 7, 4);
  (void)log.post(FlowId{0}, 10, Time{1ns});
  (void)log.post(FlowId{1}, 20, Time{2ns});
  (void)log.post(FlowId{1}, 30, Time{3ns});
  log.delivered(FlowId{0}, 0, Time{5ns});
  log.sent(FlowId{0}, 0, Time{9ns});
  log.delivered(FlowId{1}, 0, Time{6ns});
  log.failed(FlowId{1}, "retries, all \"used\"", Time{8ns});
  std::ostringstream out;
  log.write_csv(out);
  CHECK(out.str() ==
        "flow,number,from,to,bytes,posted_ns,delivered_ns,sent_ns,failure\n"
        "0,0,4,7,10,1,5,9,\n"
        "1,0,7,4,20,2,6,,\n"
        "1,1,7,4,30,3,,,\"retries, all \"\"used\"\"\"\n");
}

TEST_CASE("recorder: goodput adds up to what was received, per host and in all") {
  RecorderRig rig;
  Recorder recorder(rig.network, rig.fabric, rig.cluster, {.interval = 10us, .per_host = true});
  Incast work(incast());
  recorder.start();
  work.start(rig.network, rig.cluster, rig.log);
  rig.network.run_until(Time{400us});
  recorder.stop();
  rig.network.run_until(Time{500us});
  CHECK(recorder.size() == 40);
  CHECK(recorder.width() == 10us);
  const double received = static_cast<double>(rig.cluster.received_bytes(0));
  CHECK(received > 0);
  CHECK(sum(recorder["goodput"]) * 10'000 / 8 == doctest::Approx(received));
  CHECK(recorder["goodput h0"].values == recorder["goodput"].values);
  CHECK(largest(recorder["goodput h1"]) == 0);
  CHECK(recorder["goodput"].values[20] > 150);
  CHECK(largest(recorder["goodput"]) < 200);
  CHECK(recorder["goodput"].values[39] == 0);  // the incast is over by then
}

TEST_CASE("recorder: queues and counters of an incast") {
  RecorderRig rig;
  const std::string down = rig.network[rig.fabric.host_down(0, 1)].name;
  Recorder recorder(rig.network, rig.fabric, rig.cluster,
                    {.interval = 5us, .queues = {"deepest", down, "h3"}});
  Incast work(incast());
  recorder.start();
  work.start(rig.network, rig.cluster, rig.log);
  rig.network.run_until(Time{400us});
  recorder.stop();
  // All wait for the receiver's two links, of which this is one.
  CHECK(largest(recorder["queue deepest"]) > 10'000);
  CHECK(largest(recorder["queue " + down]) > 10'000);
  CHECK(largest(recorder["queue " + down]) <= largest(recorder["queue deepest"]));
  CHECK(largest(recorder["queue h3"]) < largest(recorder["queue deepest"]));
  std::uint64_t dropped = 0, trimmed = 0, marked = 0;
  for (const Link& link : rig.network.links()) {
    dropped += link.stats.dropped;
    trimmed += link.stats.trimmed;
    marked += link.stats.marked;
  }
  CHECK(trimmed > 0);
  CHECK(sum(recorder["dropped"]) == static_cast<double>(dropped));
  CHECK(sum(recorder["trimmed"]) == static_cast<double>(trimmed));
  CHECK(sum(recorder["marked"]) == static_cast<double>(marked));
  CHECK(sum(recorder["retransmitted"]) == static_cast<double>(rig.cluster.stats().retransmitted));
  CHECK(sum(recorder["lost"]) == 0);
}

TEST_CASE("recorder: loss by faults, from the recorder's start on") {
  RecorderRig rig;
  rig.network.set_loss(rig.fabric.host_up(1, 0), 0.05);
  Recorder recorder(rig.network, rig.fabric, rig.cluster, {.interval = 5us});
  Incast work(incast());
  work.start(rig.network, rig.cluster, rig.log);
  rig.network.run_until(Time{100us});
  const std::uint64_t before = rig.network[rig.fabric.host_up(1, 0)].stats.lost;
  CHECK(before > 0);
  recorder.start();
  rig.network.run_until(Time{400us});
  const std::uint64_t after = rig.network[rig.fabric.host_up(1, 0)].stats.lost;
  CHECK(after > before);
  CHECK(recorder.started() == Time{100us});
  CHECK(sum(recorder["lost"]) == static_cast<double>(after - before));
}

TEST_CASE("recorder: merging keeps sums, means and maxima and bounds the memory") {
  const auto run = [](std::size_t max_samples) {
    auto rig = std::make_unique<RecorderRig>();
    auto recorder =
        std::make_unique<Recorder>(rig->network, rig->fabric, rig->cluster,
                                   RecorderSettings{.interval = 2us, .max_samples = max_samples});
    Incast work(incast());
    recorder->start();
    work.start(rig->network, rig->cluster, rig->log);
    rig->network.run_until(Time{400us});
    recorder->stop();
    return std::pair(std::move(rig), std::move(recorder));
  };
  const auto [rig, fine] = run(4096);
  const auto [other, coarse] = run(32);
  CHECK(fine->size() == 200);
  CHECK(coarse->size() == 25);  // of 8 samples each
  CHECK(coarse->width() == 16us);
  // Sampling changes nothing, so both have seen the same run.
  CHECK(rig->network.digest() == other->network.digest());
  for (std::size_t s = 0; s < fine->series().size(); ++s) {
    const Series& a = fine->series()[s];
    const Series& b = coarse->series()[s];
    for (std::size_t i = 0; i < 25; ++i) {
      const auto first = a.values.begin() + static_cast<std::ptrdiff_t>(8 * i);
      const double total = std::accumulate(first, first + 8, 0.0);
      const double expected = b.merge == Series::Merge::sum ? total
                              : b.merge == Series::Merge::mean
                                  ? total / 8
                                  : *std::max_element(first, first + 8);
      CHECK(b.values[i] == doctest::Approx(expected));
    }
  }
}

TEST_CASE("recorder: CSV, and mistakes") {
  RecorderRig rig;
  Recorder recorder(rig.network, rig.fabric, rig.cluster,
                    {.interval = 1500ns, .queues = {"h0.p0"}});
  recorder.start();
  CHECK_THROWS_AS(recorder.start(), Error);
  rig.network.run_until(Time{3us});
  std::ostringstream out;
  recorder.write_csv(out);
  CHECK(out.str() ==
        "time_us,goodput (Gb/s),queue h0.p0 (bytes),dropped (packets),lost (packets),"
        "trimmed (packets),marked (packets),retransmitted (packets),timeouts (events)\n"
        "1.5,0,0,0,0,0,0,0,0\n"
        "3,0,0,0,0,0,0,0,0\n");
  CHECK_THROWS_AS((void)recorder["goodput h0"], Error);
  const auto make = [&](RecorderSettings s) { Recorder(rig.network, rig.fabric, rig.cluster, s); };
  CHECK_THROWS_AS(make({.queues = {"t7.9.9"}}), Error);
  CHECK_THROWS_AS(make({.interval = 0ns}), Error);
}

}  // namespace recorder_test
