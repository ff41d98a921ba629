// SPDX-License-Identifier: Apache-2.0
// The engine on simulated fabrics: rates, incast, trims and damage.
#include "mrc/sim/mrc_cluster.hpp"

#include <doctest/doctest.h>

#include <memory>

using namespace mrc;
using namespace mrc::sim;
using namespace std::chrono_literals;

namespace mrc_cluster_test {

FabricSettings clos(unsigned hosts, unsigned planes) {
  FabricSettings s;
  s.hosts = hosts;
  s.planes = planes;
  s.hosts_per_t0 = 4;
  s.t1s = 4;
  return s;
}

/// Streams of messages; each that is sent makes room for the next.
struct ClusterRig : FlowListener {
  explicit ClusterRig(const FabricSettings& f, MrcCluster::Settings s = {})
      : network(1), cluster(network, f.hosts, told(f, s), 2) {
    fabric = std::make_unique<Fabric>(network, f, cluster.nodes(), 3);
    cluster.attach(*fabric);
    cluster.set_listener(this);
  }
  static MrcCluster::Settings told(const FabricSettings& f, MrcCluster::Settings s) {
    s.host.engine.cc.nscc.link_speed = static_cast<std::uint64_t>(f.planes * f.host_gbps * 1e9);
    s.host.engine.cc.nscc.base_rtt = 10us;
    s.host.engine.cc.nscc.trimming = true;
    return s;
  }
  FlowId stream(unsigned from, unsigned to, std::uint64_t bytes, unsigned qps = 1) {
    const FlowId flow = cluster.open(from, to, qps);
    for (int i = 0; i < 8; ++i) cluster.send(flow, bytes, sent++);
    size = bytes;
    return flow;
  }
  void on_sent(FlowId flow, std::uint64_t, Time) override {
    ++acknowledged;
    if (!stopped) cluster.send(flow, size, sent++);
  }
  void on_delivered(FlowId, std::uint64_t, Time) override { ++delivered; }
  void on_failed(FlowId, const std::string& why, Time) override { failures.push_back(why); }
  /// Goodput into a host from now on, in Gb/s.
  double rate(unsigned host, Duration d) {
    const std::uint64_t before = cluster.received_bytes(host);
    network.run_until(network.now() + d);
    return static_cast<double>(cluster.received_bytes(host) - before) * 8 /
           static_cast<double>(d.count());
  }
  /// No new messages; until everything has come. True if it has.
  bool drain(Duration limit) {
    stopped = true;
    const Time end = network.now() + limit;
    while (delivered + acknowledged < 2 * sent && network.now() < end)
      network.run_until(network.now() + 10us);
    return delivered == sent && acknowledged == sent;
  }

  Network network;
  MrcCluster cluster;
  std::unique_ptr<Fabric> fabric;
  std::uint64_t size = 0, sent = 0, acknowledged = 0, delivered = 0;
  std::vector<std::string> failures;
  bool stopped = false;
};

TEST_CASE("MRC in a fabric: a stream takes all of its NIC, in one T0 and over T1, nothing twice") {
  for (const unsigned to : {1u, 7u}) {
    ClusterRig rig(clos(8, 8));
    rig.stream(0, to, 256 * 1024);
    (void)rig.rate(to, 100us);
    CHECK(rig.rate(to, 400us) > 0.96 * 800);
    CHECK(rig.drain(1ms));
    CHECK(rig.cluster.stats().retransmitted == 0);
    CHECK(rig.cluster.received_bytes(to) == rig.sent * 256 * 1024);
  }
}

TEST_CASE("MRC in a fabric: 16 senders that know of each other hardly overflow the last link") {
  struct Result {
    ClusterStats start, all;
    Duration time{};
  };
  const auto incast = [](bool hinted) {
    FabricSettings f = clos(20, 2);
    f.host_gbps = 200;  // so that a sixteenth of the window is more than the least one
    f.ecn_last_hop = true;
    ClusterRig rig(f);
    std::vector<FlowId> flows;
    for (unsigned from = 4; from < 20; ++from) {
      flows.push_back(rig.cluster.open(from, 0));
      engine::Engine& engine = rig.cluster.host(from).engine();
      if (hinted)
        engine.context().objects.for_each_qp(
            [&](const auto& qp) { (void)engine.set_sharers(qp.qpn, 16); });
    }
    rig.stopped = true;  // one message each
    for (const FlowId flow : flows) rig.cluster.send(flow, 1024 * 1024, rig.sent++);
    const Time begin = rig.network.now();
    rig.network.run_until(begin + 20us);  // two round trips
    Result result{rig.cluster.stats(), {}, {}};
    CHECK(rig.drain(10ms));
    result.all = rig.cluster.stats();
    result.time = rig.network.now() - begin;
    return result;
  };
  const Result blind = incast(false), hinted = incast(true);
  CHECK(blind.start.trimmed > 500);
  CHECK(hinted.start.trimmed == 0);
  CHECK(hinted.all.trimmed * 10 < blind.all.trimmed);
  CHECK(hinted.all.retransmitted * 10 < blind.all.retransmitted);
  CHECK(hinted.time <= blind.time + 20us);
}

TEST_CASE("MRC in a fabric: real bytes with iCRC over links that turn bits over") {
  MrcCluster::Settings s;
  s.host.carry_payload = true;
  ClusterRig rig(clos(8, 2), s);
  for (std::uint32_t i = 0; i < rig.network.link_count(); ++i)
    rig.network.set_corruption(LinkId{i}, 0.01);
  rig.stream(0, 7, 50'000, 4);
  (void)rig.rate(7, 300us);
  CHECK(rig.drain(10ms));
  std::uint64_t bad = 0;
  for (unsigned h : {0u, 7u}) bad += rig.cluster.host(h).engine().stats().drops.bad_icrc;
  CHECK(bad > 10);
  CHECK(rig.cluster.stats().retransmitted > 10);
  CHECK(rig.failures.empty());
}

TEST_CASE("MRC in a fabric: trimmed packets come again within round trips, without a timeout") {
  FabricSettings f = clos(8, 2);
  f.queue.data_limit = 32 * 1024;
  ClusterRig rig(f);
  for (unsigned h = 1; h < 8; ++h) rig.stream(h, 0, 64 * 1024);
  (void)rig.rate(0, 100us);
  CHECK(rig.rate(0, 500us) > 0.85 * 200);
  CHECK(rig.drain(10ms));
  const ClusterStats s = rig.cluster.stats();
  CHECK(s.trimmed > 20);
  CHECK(s.timeouts == 0);
  rig.network.run_until(rig.network.now() + 1ms);  // the last probes
  CHECK(rig.network.packets().in_use() == 0);
}

TEST_CASE("MRC in a fabric: structured EVs and hashed ones work too") {
  for (const Forwarding forwarding : {Forwarding::stev, Forwarding::udp}) {
    FabricSettings f = clos(8, 4);
    f.forwarding = forwarding;
    ClusterRig rig(f);
    rig.stream(0, 7, 256 * 1024);
    (void)rig.rate(7, 200us);
    CHECK(rig.rate(7, 300us) > 0.8 * 400);
    CHECK(rig.drain(3ms));
  }
}

}  // namespace mrc_cluster_test
