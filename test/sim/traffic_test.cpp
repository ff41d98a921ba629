// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "mrc/sim/mrc_cluster.hpp"
#include "mrc/sim/traffic/collective.hpp"
#include "mrc/sim/traffic/streams.hpp"
#include "mrc/sim/traffic/trace.hpp"
#include "support/errors.hpp"
#include "support/sim_rig.hpp"

using namespace mrc;
using namespace mrc::sim;
using test::error_of;
using namespace std::chrono_literals;

namespace traffic_test {

/// MRC hosts on a small Clos fabric: two T0s of four hosts in each of two planes.
struct TrafficRig : test::ClusterRig {
  TrafficRig() : ClusterRig(fabric_settings()) {}
  static FabricSettings fabric_settings() {
    FabricSettings f = test::small_clos(8);
    f.t1s = 4;
    return f;
  }

  /// Runs a workload to its end; it may take 20 ms.
  void run(Workload& workload) {
    workload.when_done([this] { network.stop(); });
    workload.start(network, cluster, log);
    network.run_until(Time{20ms});
    CHECK(workload.done());
    CHECK(workload.failures().empty());
    std::uint64_t bytes = 0, received = 0;
    for (const MessageRecord& m : log.messages()) {
      bytes += m.bytes;
      CHECK(m.delivered != kNever);
      CHECK(m.sent != kNever);
    }
    for (unsigned h = 0; h < cluster.hosts(); ++h) received += cluster.received_bytes(h);
    CHECK(received == bytes);
    CHECK(log.delivered_bytes() == bytes);
  }
  [[nodiscard]] HostPair hosts_of(FlowId flow) const {
    return {log.flows()[value(flow)].from, log.flows()[value(flow)].to};
  }
};

/// A cluster in which the test says what happens to which message.
struct FakeCluster : Cluster {
  struct Message {
    FlowId flow;
    std::uint64_t bytes, number;
  };
  explicit FakeCluster(unsigned n) : count(n) {}
  FlowId open(unsigned from, unsigned to, unsigned) override {
    flows.push_back({from, to});
    return FlowId{static_cast<std::uint32_t>(flows.size() - 1)};
  }
  void send(FlowId flow, std::uint64_t bytes, std::uint64_t number) override {
    sent.push_back({flow, bytes, number});
  }
  unsigned hosts() const noexcept override { return count; }
  std::uint64_t received_bytes(unsigned) const override { return 0; }
  ClusterStats stats() const override { return {}; }

  void deliver(std::size_t i, Time now = {}) {
    const Message m = sent[i];
    listener_->on_delivered(m.flow, m.number, now);
  }
  void acknowledge(std::size_t i, Time now = {}) {
    const Message m = sent[i];
    listener_->on_sent(m.flow, m.number, now);
  }
  void fail(FlowId flow) { listener_->on_failed(flow, "gone", Time{}); }
  /// Messages sent by a host so far.
  std::size_t sent_by(unsigned host) const {
    return static_cast<std::size_t>(std::count_if(sent.begin(), sent.end(), [&](const Message& m) {
      return flows[value(m.flow)].from == host;
    }));
  }

  unsigned count;
  std::vector<HostPair> flows;
  std::vector<Message> sent;
};

TEST_CASE("derangement: nobody sends to itself, everybody receives once, the seed decides") {
  std::set<std::vector<unsigned>> seen;
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    const auto to = derangement(9, seed);
    CHECK(std::set<unsigned>(to.begin(), to.end()).size() == 9);
    for (unsigned h = 0; h < 9; ++h) CHECK(to[h] != h);
    CHECK(to == derangement(9, seed));
    seen.insert(to);
  }
  CHECK(seen.size() > 40);
}

TEST_CASE("permutation: counted streams move exactly their bytes") {
  TrafficRig rig;
  Permutation work({.stream = {.bytes = 100'001, .depth = 3, .count = 5, .queue_pairs = 2}});
  rig.run(work);
  CHECK(rig.log.messages().size() == 8 * 5);
  std::set<unsigned> to;
  for (const auto& s : work.streams()) to.insert(s.hosts.to);
  CHECK(to.size() == 8);
  for (unsigned h = 0; h < 8; ++h) CHECK(rig.cluster.received_bytes(h) == 5 * 100'001);
}

TEST_CASE("permutation: shift, duration and rate") {
  TrafficRig rig;
  Permutation work({.stream = {.bytes = 64 * 1024, .depth = 8, .duration = 200us}, .shift = 4});
  rig.run(work);
  for (const auto& s : work.streams()) CHECK(s.hosts.to == (s.hosts.from + 4) % 8);
  for (const MessageRecord& m : rig.log.messages()) CHECK(m.posted < Time{200us});
  CHECK(rig.network.now() >= Time{200us});
  CHECK(rig.network.now() < Time{300us});
  // Two planes of 100 Gb/s per host.
  const double goodput = rig.log.goodput(Time{50us}, Time{200us}) / 8;
  CHECK(goodput > 150);
  CHECK(goodput < 200);
}

TEST_CASE("permutation: hosts begin within the spread, at other times with another seed") {
  const auto delays = [](std::uint64_t seed) {
    TrafficRig rig;
    Permutation work(
        {.stream = {.bytes = 64, .count = 1}, .shift = 1, .spread = 5us, .seed = seed});
    rig.run(work);
    std::vector<Duration> all;
    for (const auto& s : work.streams()) all.push_back(s.delay);
    return all;
  };
  const auto first = delays(1);
  CHECK(std::set<Duration>(first.begin(), first.end()).size() > 6);
  for (const Duration d : first) CHECK((d >= 0us && d <= 5us));
  CHECK(delays(1) == first);
  CHECK(delays(2) != first);
}

TEST_CASE("streams: never more under way than the depth, and the slot is free when acknowledged") {
  Network network{1};
  FakeCluster cluster(4);
  MessageLog log;
  Streams work({.bytes = 10, .depth = 2, .count = 4});
  work.add({0, 1});
  work.add({2, 3}, 5us);
  work.start(network, cluster, log);
  CHECK(cluster.sent.size() == 2);
  cluster.deliver(0);
  CHECK(cluster.sent.size() == 2);
  cluster.acknowledge(0);
  CHECK(cluster.sent.size() == 3);
  network.run_until(Time{4us});
  CHECK(cluster.sent_by(2) == 0);
  network.run_until(Time{5us});
  CHECK(cluster.sent_by(2) == 2);
  cluster.fail(FlowId{1});
  CHECK(work.failures().size() == 1);
  CHECK(work.failures()[0].hosts == HostPair{2, 3});
  CHECK(work.failures()[0].reason == "gone");
  cluster.acknowledge(3);  // of the failed flow: too late, sends nothing
  CHECK(cluster.sent.size() == 5);
  CHECK(log.message(FlowId{1}, 0).sent == kNever);
  for (std::size_t i = 1; i < cluster.sent.size(); ++i)
    if (value(cluster.sent[i].flow) == 0) cluster.acknowledge(i);
  CHECK(cluster.sent_by(0) == 4);
  CHECK_FALSE(work.done());
  for (std::size_t i = 1; i < cluster.sent.size(); ++i) {
    if (value(cluster.sent[i].flow) != 0) continue;
    CHECK_FALSE(work.done());
    cluster.deliver(i);
  }
  CHECK(work.done());
  CHECK(log.flows()[1].failure == "gone");
}

TEST_CASE("streams: an endless one ends at the time to stop") {
  TrafficRig rig;
  SendRecv work({.stream = {.bytes = 4096}, .pairs = {{0, 5}}, .both_ways = false});
  work.stop_at(Time{50us});
  rig.run(work);
  CHECK(rig.log.messages().size() > 5);
  CHECK(rig.log.messages().back().posted < Time{50us});
}

TEST_CASE("streams: a dead host ends what it sent and what it received") {
  TrafficRig rig;
  SendRecv work({.stream = {.bytes = 100'000, .duration = 200us}, .pairs = {{0, 5}, {1, 6}}});
  work.when_done([&] { rig.network.stop(); });
  rig.network.call_at(Time{100us}, [&] {
    rig.cluster.host(5).kill();
    work.abandon_sender(5, "killed");
  });
  work.start(rig.network, rig.cluster, rig.log);
  rig.network.run_until(Time{60s});
  CHECK(work.done());
  REQUIRE(work.failures().size() == 2);
  CHECK(work.failures()[0].hosts == HostPair{5, 0});
  CHECK(work.failures()[0].reason == "killed");
  CHECK(work.failures()[0].when == Time{100us});
  CHECK(work.failures()[1].hosts == HostPair{0, 5});
  CHECK(work.failures()[1].reason.find("retry") != std::string::npos);
  CHECK(rig.log.flows()[value(work.failures()[1].flow)].failure == work.failures()[1].reason);
}

TEST_CASE("incast: fair shares of one link, and a bystander as victim") {
  TrafficRig rig;
  IncastSettings settings{.stream = {.bytes = 64 * 1024, .depth = 4, .duration = 600us},
                          .receiver = 0,
                          .senders = far_senders(8, 0, 3),
                          .stagger = 10us};
  CHECK(settings.senders == std::vector<unsigned>{5, 6, 7});
  settings.victim = pick_victim(rig.fabric, settings);
  REQUIRE(settings.victim.has_value());
  CHECK(*settings.victim == HostPair{4, 1});  // beside the senders, and beside the receiver
  Incast work(settings);
  rig.run(work);
  std::vector<double> shares;
  for (std::size_t i = 0; i < 3; ++i) {
    const FlowId flow = work.sender_flows()[i];
    CHECK(rig.hosts_of(flow) == HostPair{settings.senders[i], 0});
    CHECK(rig.log.message(flow, 0).posted == Time{10us * i});
    shares.push_back(rig.log.goodput(flow, Time{200us}, Time{600us}));
  }
  CHECK(jain_index(shares) > 0.9);
  const double sum = shares[0] + shares[1] + shares[2];
  CHECK(sum > 150);
  CHECK(sum < 200);
  CHECK(rig.hosts_of(*work.victim_flow()) == HostPair{4, 1});
  CHECK(rig.log.goodput(*work.victim_flow(), Time{200us}, Time{600us}) > 100);
}

TEST_CASE("incast: no victim where every host takes part") {
  const TrafficRig rig;
  CHECK_FALSE(pick_victim(rig.fabric, {.senders = far_senders(8, 0, 7)}).has_value());
  Network network{1};
  FakeCluster cluster(2);
  MessageLog log;
  Incast idle{{}};
  CHECK(error_of([&] { idle.start(network, cluster, log); }).starts_with("incast: neither"));
}

TEST_CASE("all-to-all: every pair once, with the size of a part") {
  TrafficRig rig;
  AllToAll work({.collective = {.bytes = 8 * 20'000 + 5}, .peers = 3});
  rig.run(work);
  std::map<std::pair<unsigned, unsigned>, int> pairs;
  for (const MessageRecord& m : rig.log.messages()) {
    CHECK(m.bytes == 20'000);
    const HostPair p = rig.hosts_of(m.flow);
    ++pairs[{p.from, p.to}];
  }
  CHECK(pairs.size() == 8 * 7);
  for (const auto& [pair, times] : pairs) CHECK(times == 1);
  REQUIRE(work.times().size() == 1);
  CHECK(work.times()[0] == work.finished() - work.started());
  const double seconds = static_cast<double>(work.times()[0].count()) * 1e-9;
  CHECK(work.algorithm_bandwidth() == doctest::Approx(160'005.0 / seconds / 1e9));
  CHECK(work.bus_bandwidth() == doctest::Approx(160'005.0 / seconds / 1e9 * 7 / 8));
}

TEST_CASE("all-to-all: pairwise order, a limit of peers, iterations one by one") {
  Network network{1};
  FakeCluster cluster(5);
  MessageLog log;
  AllToAll work({.collective = {.bytes = 40, .ranks = {4, 2, 0, 1}, .iterations = 2}, .peers = 2});
  work.start(network, cluster, log);
  CHECK(work.part() == 10);
  REQUIRE(cluster.sent.size() == 8);
  CHECK(cluster.flows[value(cluster.sent[0].flow)] == HostPair{4, 2});
  CHECK(cluster.flows[value(cluster.sent[1].flow)] == HostPair{4, 0});
  CHECK(cluster.sent_by(3) == 0);
  cluster.acknowledge(0);
  REQUIRE(cluster.sent.size() == 9);
  CHECK(cluster.flows[value(cluster.sent[8].flow)] == HostPair{4, 1});
  for (std::size_t i = 1; i < 12; ++i) cluster.acknowledge(i);
  REQUIRE(cluster.sent.size() == 12);
  for (std::size_t i = 0; i < 11; ++i) cluster.deliver(i);
  CHECK(cluster.sent.size() == 12);
  cluster.deliver(11);
  CHECK(cluster.sent.size() == 20);
  CHECK_FALSE(work.done());
  for (std::size_t i = 12; i < 24; ++i) cluster.acknowledge(i);
  for (std::size_t i = 12; i < 24; ++i) cluster.deliver(i);
  CHECK(cluster.sent.size() == 24);
  CHECK(work.done());
  CHECK(work.times().size() == 2);
}

TEST_CASE("ring all-reduce: moves 2 (n - 1) buffers and sends nothing before it was received") {
  TrafficRig rig;
  const RingAllReduceSettings settings{
      .collective = {.bytes = 1'000'003, .iterations = 2}, .channels = 2, .slices = 3, .depth = 4};
  RingAllReduce work(settings);
  rig.run(work);
  CHECK(rig.log.delivered_bytes() == 2 * 14 * 1'000'003);
  const std::uint32_t n = work.messages_per_rank();
  CHECK(n == 14 * 3);
  for (unsigned c = 0; c < 2; ++c)
    for (unsigned r = 0; r < 8; ++r) {
      const FlowId own = work.flow(c, r), before = work.flow(c, (r + 7) % 8);
      CHECK(rig.hosts_of(own) == HostPair{r, (r + 1) % 8});
      CHECK(rig.log.flows()[value(own)].messages.size() == 2 * n);
      for (std::uint32_t i = 3; i < n; ++i) {
        const MessageRecord& received = rig.log.message(before, i - 3);
        const MessageRecord& sent = rig.log.message(own, i);
        CHECK(sent.posted >= received.delivered);
        CHECK(sent.bytes == received.bytes);  // it is the same slice
      }
    }
  REQUIRE(work.times().size() == 2);
  const double ns = static_cast<double>(((work.times()[0] + work.times()[1]) / 2).count());
  CHECK(work.bus_bandwidth() == doctest::Approx(1'000'003.0 / ns * 14 / 8));
}

TEST_CASE("ring all-reduce: each message waits for its slice and for a slot") {
  Network network{1};
  FakeCluster cluster(3);
  MessageLog log;
  RingAllReduce work({.collective = {.bytes = 6}, .slices = 2, .depth = 2});
  work.start(network, cluster, log);
  CHECK(cluster.sent.size() == 6);  // step 0 of all, both slices
  cluster.deliver(1);               // slice 1 from rank 0: rank 1 has it, but slice 0 comes before
  cluster.acknowledge(2);
  cluster.acknowledge(3);
  CHECK(cluster.sent_by(1) == 2);
  cluster.deliver(0);
  CHECK(cluster.sent_by(1) == 4);
  cluster.deliver(2);  // rank 2 has it, but no slot
  CHECK(cluster.sent_by(2) == 2);
  cluster.acknowledge(4);
  CHECK(cluster.sent_by(2) == 3);
  CHECK(cluster.sent_by(0) == 2);
  // The first failure ends it: what is under way is waited for, nothing is sent.
  cluster.fail(work.flow(0, 0));
  const std::size_t sent = cluster.sent.size();
  for (std::size_t i = 3; i < sent; ++i) {
    CHECK_FALSE(work.done());
    cluster.deliver(i);
  }
  for (std::size_t i = 5; i < sent; ++i) {
    CHECK_FALSE(work.done());
    cluster.acknowledge(i);
  }
  CHECK(cluster.sent.size() == sent);
  CHECK(work.done());
  CHECK(work.broken());
  CHECK(work.times().empty());
  CHECK(work.bus_bandwidth() == 0);
}

TEST_CASE("collectives: settings that do not fit are refused") {
  const auto error = [](CollectiveSettings c) {
    Network network{1};
    FakeCluster cluster(4);
    MessageLog log;
    RingAllReduce work({.collective = std::move(c), .channels = 2});
    return error_of([&] { work.start(network, cluster, log); });
  };
  CHECK(error({.bytes = 7}).starts_with("all-reduce: bytes is 7, must be at least 8"));
  CHECK(error({.ranks = {1}}).starts_with("collective: needs at least 2 ranks"));
  CHECK(error({.ranks = {1, 3, 1}}).starts_with("collective: a host has two ranks"));
  CHECK(error({.ranks = {1, 4}}).starts_with("collective: rank on host 4 of 4"));
  CHECK(error({.iterations = 0}).starts_with("collective: iterations"));
  CHECK(error({.bytes = 8}) == "no error");
}

TEST_CASE("send/recv: halves of the hosts, both ways") {
  TrafficRig rig;
  SendRecv work({.stream = {.bytes = 50'000, .depth = 2, .count = 3}});
  rig.run(work);
  CHECK(work.streams().size() == 8);
  for (unsigned h = 0; h < 8; ++h) CHECK(rig.cluster.received_bytes(h) == 150'000);
  CHECK(work.streams()[2].hosts == HostPair{1, 5});
  CHECK(work.streams()[3].hosts == HostPair{5, 1});
}

TEST_CASE("trace: times and dependencies") {
  TrafficRig rig;
  Trace work(TraceFile::parse("t.csv",
                              "# a comment\n"
                              "time_us,from,to,bytes,depends_on\n"
                              "20.5, 0, 5, 1000\r\n"
                              "\n"
                              "2.25,5,1,2000,3\n"
                              "0,0,5,3000,\n"
                              "0,1,2,4000,5\n"));
  rig.run(work);
  const auto& m = rig.log.messages();
  REQUIRE(m.size() == 4);
  CHECK(m[0].bytes == 3000);
  CHECK(m[0].posted == Time{0us});
  CHECK(m[1].bytes == 1000);
  CHECK(m[1].posted == Time{20500ns});
  CHECK(m[1].flow == m[0].flow);
  CHECK(m[2].bytes == 2000);
  CHECK(m[2].posted == m[1].delivered + 2250ns);
  CHECK(m[3].bytes == 4000);
  CHECK(m[3].posted == m[2].delivered);
  CHECK(work.skipped() == 0);
}

TEST_CASE("trace: what a failure or the end of time leaves over is skipped") {
  Network network{1};
  FakeCluster cluster(3);
  MessageLog log;
  Trace work(TraceFile::parse("t.csv",
                              "0,0,1,1\n"
                              "0,1,2,2,1\n"
                              "0,2,0,3,2\n"
                              "10,0,1,4\n"
                              "20,2,1,5\n"
                              "90,2,1,6\n"
                              "0,1,0,7,6\n"));
  work.stop_at(Time{50us});
  work.start(network, cluster, log);
  CHECK(cluster.sent.size() == 1);
  cluster.fail(cluster.sent[0].flow);  // lines 2 and 3 will never come
  CHECK(work.skipped() == 2);
  network.run_until(Time{20us});
  CHECK(work.skipped() == 3);  // line 4 as well
  REQUIRE(cluster.sent.size() == 2);
  CHECK(cluster.sent[1].bytes == 5);
  cluster.deliver(1);
  cluster.acknowledge(1);
  CHECK_FALSE(work.done());
  network.run_until(Time{50us});
  CHECK(work.done());
  CHECK(work.skipped() == 5);
  network.run_until(Time{1ms});
  CHECK(cluster.sent.size() == 2);
  CHECK(work.skipped() == 5);
}

TEST_CASE("trace: hosts that the cluster has not") {
  Network network{1};
  FakeCluster cluster(3);
  MessageLog log;
  Trace work(TraceFile::parse("t.csv", "0,0,1,1\n0,1,3,1\n"));
  CHECK(error_of([&] {
          work.start(network, cluster, log);
        }).starts_with("t.csv:2: to: is 3, must be 0 to 2"));
}

TEST_CASE("workloads: one after another on the same cluster") {
  TrafficRig rig;
  SendRecv first({.stream = {.bytes = 9000, .count = 2}});
  rig.run(first);
  AllToAll second({.collective = {.bytes = 80'000}});
  rig.run(second);
  CHECK(second.started() >= first.finished());
  CHECK(rig.log.messages().size() == 16 + 56);
}

}  // namespace traffic_test
