// SPDX-License-Identifier: Apache-2.0
#include "mrc/sim/baseline/roce_cluster.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

using namespace mrc;
using namespace mrc::sim;
using namespace mrc::sim::baseline;
using namespace std::chrono_literals;

namespace roce_cluster_test {

/// Keeps streams going and books of what it is told.
struct FlowLog : FlowListener {
  struct Stream {
    std::uint64_t bytes = 0, left = 0, next = 0;
    std::uint64_t sent = 0, delivered = 0, failed = 0;
    bool delivered_first = true;          ///< each message before it was acknowledged
    unsigned to = 0;                      ///< host
    std::vector<std::uint64_t> received;  ///< bytes that it has at each delivery
    std::string reason;
  };

  explicit FlowLog(RoceCluster& c) : cluster(c) { c.set_listener(this); }

  /// `count` messages, `depth` of them at a time.
  FlowId stream(unsigned from, unsigned to, unsigned qps, std::uint64_t bytes,
                std::uint64_t count = ~std::uint64_t{0}, unsigned depth = 4) {
    const FlowId flow = cluster.open(from, to, qps);
    streams[flow].bytes = bytes;
    streams[flow].left = count;
    streams[flow].to = to;
    for (unsigned i = 0; i < depth; ++i) next(flow);
    return flow;
  }
  void next(FlowId flow) {
    Stream& s = streams[flow];
    if (s.left == 0 || s.failed != 0) return;
    --s.left;
    cluster.send(flow, s.bytes, s.next++);
  }
  void on_sent(FlowId flow, std::uint64_t, Time) override {
    ++streams[flow].sent;
    if (streams[flow].sent > streams[flow].delivered) streams[flow].delivered_first = false;
    next(flow);
  }
  void on_delivered(FlowId flow, std::uint64_t, Time) override {
    ++streams[flow].delivered;
    streams[flow].received.push_back(cluster.received_bytes(streams[flow].to));
  }
  void on_failed(FlowId flow, const std::string& reason, Time) override {
    ++streams[flow].failed;
    streams[flow].reason = reason;
  }

  RoceCluster& cluster;
  std::map<FlowId, Stream> streams;
};

/// Two T0s with four hosts each, four T1s.
FabricSettings small(double gbps = 100) {
  FabricSettings f;
  f.forwarding = Forwarding::udp;
  f.planes = 1;
  f.hosts = 8;
  f.hosts_per_t0 = 4;
  f.t1s = 4;
  f.host_gbps = f.fabric_gbps = gbps;
  f.queue = roce_queue(gbps, 2 * 1024 * 1024);
  f.ecn_last_hop = true;
  return f;
}

struct RoceRig {
  explicit RoceRig(const FabricSettings& f = small(), const RoceCluster::Settings& s = {},
                   std::uint64_t seed = 1)
      : network(1), cluster(network, f.hosts, s, seed), fabric(network, f, cluster.nodes(), 2) {
    cluster.attach(fabric);
  }
  void run(Duration until) { network.run_until(Time{until}); }
  /// Gb/s that a host receives from now to `until`.
  double receive_rate(unsigned host, Duration until) {
    return receive_rates({host}, until).front();
  }
  std::vector<double> receive_rates(const std::vector<unsigned>& hosts, Duration until) {
    std::vector<double> out;
    for (const unsigned h : hosts) out.push_back(-8.0 * double(cluster.received_bytes(h)));
    const Duration span = Time{until} - network.now();
    run(until);
    for (std::size_t i = 0; i < hosts.size(); ++i)
      out[i] = (out[i] + 8.0 * double(cluster.received_bytes(hosts[i]))) / double(span.count());
    return out;
  }
  unsigned uplinks_used(unsigned t0) const {
    unsigned used = 0;
    for (unsigned u = 0; u < fabric.uplinks(); ++u)
      used += network[fabric.fabric_up(0, t0, u)].stats.packets > 0;
    return used;
  }
  std::uint64_t sum(std::uint64_t LinkStats::*counter) const {
    std::uint64_t n = 0;
    for (const Link& l : network.links()) n += l.stats.*counter;
    return n;
  }

  Network network;
  RoceCluster cluster;
  Fabric fabric;
};

RoceCluster::Settings without_dcqcn() {
  RoceCluster::Settings s;
  s.host.dcqcn = false;
  return s;
}

TEST_CASE("roce cluster: a stream alone gets the line rate, on one uplink") {
  for (const double gbps : {100.0, 400.0}) {
    CAPTURE(gbps);
    RoceRig rig(small(gbps));
    FlowLog traffic(rig.cluster);
    traffic.stream(0, 7, 1, 1 << 20);
    rig.run(100us);
    const double rate = rig.receive_rate(7, 1ms);
    CHECK(rate > 0.95 * gbps);
    CHECK(rate < 0.98 * gbps);  // 4096 of 4198 bytes on the wire are payload
    CHECK(rig.uplinks_used(0) == 1);
    CHECK(rig.cluster.stats().retransmitted == 0);
    CHECK(rig.cluster.stats().control_packets > 0);
  }
}

TEST_CASE("roce cluster: several queue pairs take several uplinks, by their source ports") {
  RoceRig rig;
  FlowLog traffic(rig.cluster);
  const FlowId flow = traffic.stream(0, 7, 8, 1 << 20);
  rig.run(1ms);
  CHECK(rig.uplinks_used(0) >= 2);
  CHECK(rig.cluster.received_bytes(7) > 100'000 / 8 * 900);  // ns, of 100 bits each
  // Each message in equal parts: all queue pairs did the same.
  REQUIRE(rig.cluster.queue_pairs(flow).size() == 8);
  std::uint64_t least = ~std::uint64_t{0}, most = 0;
  for (const std::uint32_t qp : rig.cluster.queue_pairs(flow)) {
    least = std::min(least, rig.cluster.host(0).sender(qp).stats().packets);
    most = std::max(most, rig.cluster.host(0).sender(qp).stats().packets);
  }
  CHECK(least > 0);
  CHECK(most - least <= 4 * 32);
}

TEST_CASE("roce cluster: messages of any size arrive once, and are then acknowledged") {
  for (const unsigned qps : {1u, 3u, 16u}) {
    CAPTURE(qps);
    RoceRig rig;
    FlowLog traffic(rig.cluster);
    std::vector<FlowId> flows;
    std::uint64_t bytes = 0;
    for (const std::uint64_t size : {1ull, 4096ull, 4097ull, 99'999ull, 3'500'001ull}) {
      flows.push_back(traffic.stream(1, 5, qps, size, 7));
      bytes += 7 * size;
    }
    rig.run(20ms);
    for (const FlowId flow : flows) {
      CHECK(traffic.streams[flow].delivered == 7);
      CHECK(traffic.streams[flow].sent == 7);
      CHECK(traffic.streams[flow].delivered_first);
    }
    CHECK(rig.cluster.received_bytes(5) == bytes);
    CHECK(rig.network.idle());  // no timer is left behind
    CHECK(rig.network.packets().in_use() == 0);
  }
}

TEST_CASE("roce cluster: a message is reported when its last part is there") {
  RoceRig rig;
  FlowLog traffic(rig.cluster);
  // One of the paths is slow, so that the parts do not arrive together.
  rig.network.set_slow(rig.fabric.fabric_up(0, 0, 1), 10);
  const FlowId flow = traffic.stream(0, 7, 8, 1'000'001, 10, 1);
  rig.run(100ms);
  CHECK(rig.network[rig.fabric.fabric_up(0, 0, 1)].stats.packets > 0);
  const auto& received = traffic.streams[flow].received;
  CHECK(received.size() == 10);
  for (std::size_t i = 0; i < received.size(); ++i) CHECK(received[i] == (i + 1) * 1'000'001);
}

TEST_CASE("roce cluster: queue pairs of a host share its port evenly") {
  RoceRig rig(small(), without_dcqcn());
  FlowLog traffic(rig.cluster);
  for (const unsigned to : {1u, 2u, 3u}) traffic.stream(0, to, to == 3 ? 2 : 1, 1 << 20);
  rig.run(200us);
  const auto rates = rig.receive_rates({1, 2, 3}, 1200us);
  CHECK(rates[0] == doctest::Approx(97.5 / 4).epsilon(0.05));
  CHECK(rates[1] == doctest::Approx(97.5 / 4).epsilon(0.05));
  CHECK(rates[2] == doctest::Approx(97.5 / 2).epsilon(0.05));
  // They wait in their senders, not in the NIC.
  CHECK(rig.network[rig.fabric.host_up(0, 0)].stats.max_queue < 12 * 1024 + 4300);
  CHECK(rig.network[rig.fabric.host_up(0, 0)].stats.max_queue > 8 * 1024);
}

TEST_CASE("roce cluster: 1 % of loss makes go-back-N collapse, yet everything arrives") {
  const auto transfer = [](double loss) {
    RoceRig rig(small(400));
    FlowLog traffic(rig.cluster);
    rig.network.set_loss(rig.fabric.host_down(7, 0), loss);
    const FlowId flow = traffic.stream(0, 7, 1, 1 << 20, 200);
    Duration end{};
    while (traffic.streams[flow].sent < 200 && end < 1s) rig.run(end += 10us);
    CHECK(traffic.streams[flow].delivered == 200);
    CHECK(traffic.streams[flow].sent == 200);
    CHECK(rig.cluster.received_bytes(7) == std::uint64_t{200} << 20);
    const ClusterStats stats = rig.cluster.stats();
    CHECK(stats.data_packets == 200 * 256);
    CHECK((stats.retransmitted > 200 * 256 / 2) == (loss > 0));
    CHECK((stats.timeouts > 0) == (loss > 0));
    return end;
  };
  const Duration clean = transfer(0), lossy = transfer(0.01);
  CHECK(clean < 4800us);  // 200 MiB at 400 Gb/s
  CHECK(lossy > 2 * clean);
}

TEST_CASE("roce cluster: corrupted packets are dropped by the receiver and sent again") {
  RoceRig rig;
  FlowLog traffic(rig.cluster);
  rig.network.set_corruption(rig.fabric.host_down(7, 0), 0.002);
  const FlowId flow = traffic.stream(0, 7, 1, 1 << 20, 20);
  rig.run(100ms);
  CHECK(traffic.streams[flow].sent == 20);
  const RoceHostStats& stats = rig.cluster.host(7).stats();
  CHECK(stats.bad_icrc > 0);
  CHECK(stats.bad_icrc == rig.network[rig.fabric.host_down(7, 0)].stats.corrupted);
  CHECK(stats.out_of_order > stats.bad_icrc);
  CHECK(stats.malformed == 0);
}

TEST_CASE("roce cluster: DCQCN keeps the queue of an incast short and its shares even") {
  for (const bool dcqcn : {false, true}) {
    CAPTURE(dcqcn);
    FabricSettings f = small();
    f.queue = roce_queue(100, 8 * 1024 * 1024);
    RoceRig rig(f, dcqcn ? RoceCluster::Settings{} : without_dcqcn());
    FlowLog traffic(rig.cluster);
    for (const unsigned from : {1u, 2u, 5u, 6u}) traffic.stream(from, 0, 1, 1 << 18);
    rig.run(10ms);
    const auto before = traffic.streams;
    std::uint64_t queue = 0, samples = 0;
    for (Duration at = 10ms; at < 30ms; at += 10us, ++samples)
      rig.network.call_at(Time{at},
                          [&] { queue += rig.network[rig.fabric.host_down(0, 0)].queued(); });
    const double rate = rig.receive_rate(0, 30ms);
    if (!dcqcn) {  // all but one of the windows of 1 MiB wait in front of the receiver
      CHECK(queue / samples > 3'500'000);
      CHECK(rig.cluster.stats().marked == 0);
      continue;
    }
    CHECK(queue / samples < 400'000);
    CHECK(rig.cluster.stats().marked > 0);
    CHECK(rig.sum(&LinkStats::dropped) == 0);
    CHECK(rate > 85);
    for (const auto& [flow, stream] : traffic.streams) {
      const std::uint64_t messages = stream.delivered - before.at(flow).delivered;
      const double share = 8.0 * double(messages << 18) / 20e6 / rate;
      CHECK(share > 0.15);  // of 0.25
      CHECK(share < 0.35);
    }
  }
}

TEST_CASE("roce cluster: PFC loses nothing in an incast, but a bystander pays") {
  // Two senders next to the receiver and one across the only uplink get 33 Gb/s each: that leaves
  // 67 on the uplink to the victim, whose receiver is idle otherwise.
  for (const bool incast : {false, true}) {
    CAPTURE(incast);
    FabricSettings f = small();
    f.t1s = 1;
    // A queue takes 100 KB from each of its switch's links, and what follows the pause.
    f.queue = roce_queue(100, 1024 * 1024);
    f.pfc = {.xoff = 100'000, .xon = 50'000};
    RoceRig rig(f, without_dcqcn());
    FlowLog traffic(rig.cluster);
    if (incast)
      for (const unsigned from : {2u, 3u, 4u}) traffic.stream(from, 0, 1, 1 << 20);
    traffic.stream(7, 1, 1, 1 << 20);
    rig.run(2ms);
    const auto rates = rig.receive_rates({0, 1}, 6ms);
    CHECK(rig.sum(&LinkStats::dropped) == 0);
    CHECK(rig.cluster.stats().retransmitted == 0);
    CHECK((rig.sum(&LinkStats::pauses) > 10) == incast);
    CHECK((rates[0] > 95) == incast);
    CHECK((rates[1] > 95) != incast);
    if (incast) CHECK(rates[1] < 45);  // the uplink is paused half of the time
  }
}

TEST_CASE("roce cluster: with several planes each queue pair is bound to one") {
  FabricSettings f = small();
  f.planes = 4;
  RoceRig rig(f);
  FlowLog traffic(rig.cluster);
  const auto planes = [&rig](unsigned host) {
    unsigned used = 0;
    for (unsigned p = 0; p < 4; ++p)
      used += rig.network[rig.fabric.host_up(host, p)].stats.packets > 0;
    return used;
  };
  traffic.stream(0, 7, 1, 1 << 20);
  traffic.stream(6, 1, 16, 1 << 20);  // against the other, so that they share no queue
  rig.run(200us);
  const auto rates = rig.receive_rates({7, 1}, 1200us);
  CHECK(planes(0) == 1);
  CHECK(planes(7) == 1);  // the ACKs go back in the same plane
  CHECK(planes(6) == 4);
  CHECK(rates[0] > 95);
  CHECK(rates[0] < 98);
  CHECK(rates[1] > 200);
}

TEST_CASE("roce cluster: a link that stays down fails the flows over it, and only these") {
  RoceRig rig;
  FlowLog traffic(rig.cluster);
  const FlowId dead = traffic.stream(0, 7, 4, 1 << 20), alive = traffic.stream(1, 6, 4, 1 << 20);
  rig.run(500us);
  CHECK(traffic.streams[dead].delivered > 0);
  for (const LinkId link : rig.fabric.find("h7")) rig.network.set_link_up(link, false);
  rig.run(5ms);
  CHECK(traffic.streams[dead].failed == 0);  // eight timeouts of 1.05 ms
  rig.run(12ms);
  CHECK(traffic.streams[dead].failed == 1);
  CHECK(traffic.streams[dead].reason == "retry count exceeded");
  CHECK(traffic.streams[alive].failed == 0);
  CHECK(rig.cluster.stats().failed_flows == 1);
  CHECK(rig.cluster.stats().timeouts >= 4 * 8);
  // After the failure nothing more is reported, nothing more is sent.
  for (const LinkId link : rig.fabric.find("h7")) rig.network.set_link_up(link, true);
  const auto before = traffic.streams[dead];
  const std::uint64_t carried = rig.network[rig.fabric.host_up(0, 0)].stats.packets;
  rig.cluster.send(dead, 4096, 1000);
  rig.run(14ms);
  CHECK(traffic.streams[dead].delivered == before.delivered);
  CHECK(traffic.streams[dead].sent == before.sent);
  CHECK(rig.network[rig.fabric.host_up(0, 0)].stats.packets == carried);
}

TEST_CASE("roce cluster: one dead path fails a flow, whatever its other queue pairs still carry") {
  RoceRig rig;
  FlowLog traffic(rig.cluster);
  const FlowId flow = traffic.stream(0, 7, 8, 32 << 20);
  rig.run(200us);
  // Beyond the T0 nothing tells it of a dead link: what is hashed that way is lost.
  unsigned t1 = 0;
  while (rig.network[rig.fabric.fabric_up(0, 0, t1)].stats.packets == 0) ++t1;
  rig.network.set_link_up(rig.fabric.fabric_down(0, 1, t1), false);
  rig.run(40ms);
  CHECK(traffic.streams[flow].failed == 1);
  CHECK(rig.cluster.received_bytes(7) > std::uint64_t{64} << 20);  // the others went on
  CHECK(rig.cluster.stats().failed_flows == 1);
  CHECK(traffic.streams[flow].delivered == 0);
  CHECK(traffic.streams[flow].sent == 0);
}

TEST_CASE("roce cluster: a link that comes back in time fails nothing") {
  RoceRig rig;
  FlowLog traffic(rig.cluster);
  const FlowId flow = traffic.stream(0, 7, 2, 1 << 20, 50);
  rig.run(300us);
  for (const LinkId link : rig.fabric.find("h0")) rig.network.set_link_up(link, false);
  rig.run(3ms);
  for (const LinkId link : rig.fabric.find("h0")) rig.network.set_link_up(link, true);
  rig.run(100ms);
  CHECK(traffic.streams[flow].delivered == 50);
  CHECK(traffic.streams[flow].sent == 50);
  CHECK(rig.cluster.received_bytes(7) == std::uint64_t{50} << 20);
  CHECK(rig.cluster.stats().timeouts > 0);
}

TEST_CASE("roce cluster: a host that hangs neither sends nor answers") {
  RoceRig rig;
  FlowLog traffic(rig.cluster);
  const FlowId to = traffic.stream(0, 7, 1, 1 << 20);
  traffic.stream(7, 1, 1, 1 << 20);
  rig.run(300us);
  rig.cluster.host(7).kill();
  rig.run(310us);  // what was in its NIC
  const std::uint64_t sent = rig.network[rig.fabric.host_up(7, 0)].stats.packets;
  rig.run(12ms);
  CHECK(rig.network[rig.fabric.host_up(7, 0)].stats.packets == sent);
  CHECK(traffic.streams[to].failed == 1);
}

TEST_CASE("roce cluster: packets that are no queue pair's are counted and dropped") {
  RoceRig rig;
  rig.cluster.open(0, 7);
  const auto hand_in = [&](std::uint32_t dqp, bool trimmed) {
    const PacketId id = rig.network.packets().take();
    Packet& p = rig.network.packets()[id];
    wire::Envelope e;
    e.source = Fabric::address(0, 0);
    e.destination = Fabric::address(7, 0);
    RoceHeader h;
    h.dqp = Qpn{dqp};
    p.head_length = static_cast<std::uint16_t>(build_roce_headers(p.head, e, h));
    p.trimmed = trimmed;
    p.corrupted = false;
    rig.cluster.host(7).on_packet(rig.fabric.host_down(7, 0), id);
  };
  for (const std::uint32_t dqp : {0u, 1u, 0x100u, 0xFFFFFFu}) hand_in(dqp, false);
  CHECK(rig.cluster.host(7).stats().malformed == 4);
  hand_in(0, true);
  CHECK(rig.cluster.host(7).stats().trimmed == 1);
  CHECK(rig.cluster.stats().trimmed == 1);
  CHECK(rig.network.packets().in_use() == 0);
  CHECK(rig.network.idle());
}

TEST_CASE("roce cluster: settings and flows that can't be are refused") {
  Network network(1);
  RoceCluster::Settings s;
  s.chunk = 0;
  CHECK_THROWS_AS(RoceCluster(network, 2, s, 1), Error);
  s = {};
  s.host.sender.mtu = 0;
  CHECK_THROWS_AS(RoceCluster(network, 2, s, 1), Error);
  s = {};
  s.host.reaction.gain_shift = 99;
  CHECK_THROWS_AS(RoceRig(small(), s), Error);
  RoceRig rig;
  CHECK_THROWS_AS(rig.cluster.open(0, 0), Error);
  CHECK_THROWS_AS(rig.cluster.open(0, 8), Error);
  CHECK_THROWS_AS(rig.cluster.open(0, 1, 0), Error);
}

}  // namespace roce_cluster_test
