// SPDX-License-Identifier: Apache-2.0
// What queue pairs share: turns to send, the congestion window, packet records, paths.
#include <doctest/doctest.h>

#include <cstring>
#include <map>

#include "support/single.hpp"
#include "support/traffic.hpp"

using namespace mrc;
using namespace mrc::test;
using namespace std::chrono_literals;

namespace share_test {

/// More queue pairs like the first one, each towards a remote number of its own.
std::vector<Qpn> more(Single& s, unsigned n) {
  std::vector<Qpn> all{s.qpn};
  for (unsigned i = 1; i < n; ++i) {
    const Qpn q = s.create();
    RemoteQp r = s.remote();
    r.qpn = Qpn{value(Single::kRemote) + i};
    s.connect(q, r);
    all.push_back(q);
  }
  return all;
}
void post_on(Single& s, Qpn q, std::uint32_t length) {
  const Qpn before = std::exchange(s.qpn, q);
  REQUIRE(s.post({.length = length}) == Errc::ok);
  s.qpn = before;
}

TEST_CASE("fair: equal backlogs advance within a quantum of each other, at every moment") {
  struct Service {
    std::uint32_t burst, quantum, packets;  // of 1,112 nominal bytes
  };
  for (const Service& service :
       {Service{1, 1, 1}, {4, 1, 4}, {1, 5000, 5}, {4, 5000, 8}, {1, 32 * 1024, 30}}) {
    CAPTURE(service.burst);
    CAPTURE(service.quantum);
    Single::Setup setup;
    setup.options.burst = service.burst;
    setup.options.quantum = service.quantum;
    setup.options.cc.algorithm = cc::Algorithm::none;
    Single s(setup);
    const auto qps = more(s, 10);
    for (const Qpn q : qps) post_on(s, q, 1024 * 60);
    std::map<std::uint32_t, std::uint32_t> sent;
    bool whole_quantum = false;
    for (const Qpn q : qps) sent[value(s.engine.find_qp(q)->remote.qpn)] = 0;
    for (const Sent& p : data_of(s.transmit())) {
      ++sent[value(p.bth().dqp())];
      std::uint32_t least = 1000, most = 0;
      for (const auto& [qpn, n] : sent) {
        least = std::min(least, n);
        most = std::max(most, n);
      }
      // A port's burst of 64 may end in the middle of a path's burst, which is then begun again.
      REQUIRE(most - least <= service.packets + service.burst - 1);
      whole_quantum = whole_quantum || most - least >= service.packets;
    }
    CHECK(whole_quantum);
    for (const auto& [qpn, n] : sent) CHECK(n == 60);
  }
}

TEST_CASE("fair: many small messages do not wait for a large one") {
  Single::Setup setup;
  setup.options.cc.algorithm = cc::Algorithm::none;
  setup.attributes.mpr = 255;
  Single s(setup);
  const auto qps = more(s, 21);
  post_on(s, qps[0], 1000 * 1024);
  (void)s.transmit(0);
  for (unsigned i = 1; i < qps.size(); ++i) post_on(s, qps[i], 100);
  const SentList out = data_of(s.transmit());
  REQUIRE(out.size() == 1020);
  std::size_t last_small = 0;
  for (std::size_t i = 0; i < out.size(); ++i)
    if (out[i].bth().dqp() != Single::kRemote) last_small = i;
  CHECK(last_small <= 20 + 30);  // and the rest of the large one's quantum
}

TEST_CASE("fair: a window of less than a burst goes round, too") {
  EnginePair::Setup setup;
  setup.options.burst = 16;
  setup.options.cc.algorithm = cc::Algorithm::fixed;
  setup.options.cc.fixed_window = 20'000;
  EnginePair pair(setup, 5);
  // Each packet sent, by queue pair, while all of them have a backlog.
  std::map<std::uint32_t, std::uint32_t> sent;
  pair.tap = [&](unsigned side, const wire::TxPacket& p, std::vector<std::uint8_t>&) {
    if (side == 0 && p.payload_length > 0) ++sent[value(p.owner)];
  };
  TrafficOptions o{.queue_pairs = 4, .messages = 200};
  Traffic traffic(pair, o, 5);
  CHECK_FALSE(traffic.run(200us));
  CHECK(sent.size() == 4);
  for (const auto& [qpn, n] : sent) CHECK(n > 8);
  CHECK(traffic.run(5s));
  traffic.check();
}

TEST_CASE("fair: peers take turns burst by burst, whatever the quantum of their queue pairs") {
  Single::Setup setup;
  setup.options.cc.algorithm = cc::Algorithm::none;
  Single s(setup);
  const PeerId second = s.add_peer();
  const Qpn q = s.create();
  RemoteQp r = s.remote();
  r.peer = second;
  r.qpn = Qpn{value(Single::kRemote) + 1};
  s.connect(q, r);
  post_on(s, s.qpn, 1024 * 60);
  post_on(s, q, 1024 * 60);
  const SentList out = data_of(s.transmit());
  REQUIRE(out.size() == 120);
  for (std::size_t i = 2; i < out.size(); ++i) CHECK(out[i].bth().dqp() != out[i - 1].bth().dqp());
}

TEST_CASE(
    "congestion window: a hint bounds its start, given before the queue pair connects or after") {
  Single s;
  const auto& congestion = s.engine.find_peer(s.remote().peer)->congestion;
  const std::uint64_t full = congestion.window();
  REQUIRE(s.engine.set_sharers(s.qpn, 4) == Errc::ok);
  CHECK(congestion.window() == full / 4);
  const Qpn q = s.create();
  REQUIRE(s.engine.set_sharers(q, 2) == Errc::ok);
  RemoteQp r = s.remote();
  r.qpn = Qpn{value(Single::kRemote) + 1};
  REQUIRE(s.engine.to_init(q) == Errc::ok);
  CHECK(congestion.window() == full / 4);
  REQUIRE(s.engine.to_rtr(q, r) == Errc::ok);
  CHECK(congestion.window() == full / 2);
  (void)more(s, 4);  // without hints of their own
  CHECK(congestion.window() == full / 2);
  post_on(s, s.qpn, 1024);
  CHECK(data_of(s.transmit()).size() == 1);
  CHECK(s.engine.set_sharers(q, 8) == Errc::ok);  // too late
  CHECK(congestion.window() == full / 2);

  // Kept by a reset: it counts for the next destination.
  const PeerId second = s.add_peer();
  REQUIRE(s.engine.to_reset(q) == Errc::ok);
  r.peer = second;
  REQUIRE(s.engine.to_init(q) == Errc::ok);
  REQUIRE(s.engine.to_rtr(q, r) == Errc::ok);
  CHECK(s.engine.find_peer(second)->congestion.window() == full / 8);
  CHECK(s.engine.set_sharers(Qpn{0xFFFFFF}, 8) == Errc::not_found);
}

TEST_CASE("congestion window: one for all queue pairs to a peer, one more for another peer") {
  Single::Setup setup;
  setup.options.cc.algorithm = cc::Algorithm::fixed;
  setup.options.cc.fixed_window = 20'000;
  Single s(setup);
  const auto qps = more(s, 5);
  for (const Qpn q : qps) post_on(s, q, 1024 * 60);
  const std::size_t alone = data_of(s.transmit()).size();
  CHECK(alone == 17);  // of 1,112 nominal bytes
  const PeerId second = s.add_peer();
  const Qpn q = s.create();
  RemoteQp r = s.remote();
  r.peer = second;
  s.connect(q, r);
  post_on(s, q, 1024 * 60);
  CHECK(data_of(s.transmit()).size() == alone);
  CHECK(s.engine.to_error(qps[0]) == Errc::ok);  // what it had in flight is free for the others
  CHECK(data_of(s.transmit()).size() >= 3);
}

TEST_CASE(
    "congestion window: a queue pair that waits long for service gets no exemption while the peer "
    "answers") {
  EnginePair::Setup setup;
  setup.gbps = 1;
  setup.options.cc.algorithm = cc::Algorithm::fixed;
  setup.options.cc.fixed_window = 20'000;
  EnginePair pair(setup, 3);
  std::int64_t most = 0;
  pair.tap = [&](unsigned, const wire::TxPacket&, std::vector<std::uint8_t>&) {
    most = std::max(most, pair[0].find_peer(pair.peer(0))->congestion.inflight());
  };
  TrafficOptions o{.queue_pairs = 40, .messages = 10};
  o.attributes.timeout = 8;  // 262 us; served every 2.6 ms
  Traffic traffic(pair, o, 3);
  CHECK(traffic.run(5s));
  CHECK(most >= 16'000);
  CHECK(most <= 20'000 + 4096 + 100);
  CHECK(pair[0].stats().timeouts == 0);
  traffic.check();
}

TEST_CASE(
    "congestion window: a timeout gives nothing to those who wait while others are answered") {
  EnginePair::Setup setup;
  setup.gbps = 1;
  setup.options.cc.algorithm = cc::Algorithm::fixed;
  setup.options.cc.fixed_window = 60'000;  // more than the quantum of one queue pair
  EnginePair pair(setup, 3);
  std::int64_t most = 0;
  pair.tap = [&](unsigned, const wire::TxPacket&, std::vector<std::uint8_t>&) {
    most = std::max(most, pair[0].find_peer(pair.peer(0))->congestion.inflight());
  };
  TrafficOptions o{.queue_pairs = 40, .messages = 10};
  o.attributes.timeout = 8;
  Traffic traffic(pair, o, 3);
  const Qpn unlucky = traffic.qpn(0);
  const Time end = pair.now() + 3ms;
  pair.filter = [&](unsigned side, const wire::TxPacket& p, const std::vector<std::uint8_t>&) {
    return side == 1 || p.owner != unlucky || pair.now() > end;
  };
  CHECK(traffic.run(5s));
  CHECK(pair[0].stats().timeouts > 0);
  CHECK(most <= 60'000 + 2 * (4096 + 100));  // and the packet that the timeout itself sends
  traffic.check();
}

TEST_CASE("packet records: when they run out everybody still finishes, with losses too") {
  for (const double loss : {0.0, 0.05}) {
    EnginePair::Setup setup;
    setup.options.max_outstanding = 256;  // four chunks
    setup.options.cc.algorithm = cc::Algorithm::none;
    EnginePair pair(setup, 2);
    TrafficOptions o;
    o.queue_pairs = 12;
    o.messages = 20;
    o.attributes.mtu = 512;
    o.attributes.timeout = 8;
    Traffic traffic(pair, o, 2);
    pair.faults.loss = loss;
    CHECK(traffic.run(2s));
    CHECK(pair[0].stats().pool_exhausted > 0);
    pair.faults = {};
    traffic.check();
  }
}

TEST_CASE("packet records: a queue pair that has none does not hold up another one's losses") {
  Single::Setup setup;
  setup.options.max_outstanding = 64;
  setup.options.cc.algorithm = cc::Algorithm::none;
  Single s(setup);
  const auto qps = more(s, 2);
  post_on(s, qps[0], 1024);
  const SentList first = data_of(s.transmit());
  REQUIRE(first.size() == 1);  // the only chunk is its own
  post_on(s, qps[1], 1024);
  CHECK(data_of(s.transmit()).empty());
  s.nack(first[0], wire::NackReason::trimmed);
  CHECK(data_of(s.transmit()).size() == 1);
  s.sack({.cack = 0});
  const SentList second = data_of(s.transmit());
  REQUIRE(second.size() == 1);
  CHECK(second[0].bth().dqp() != Single::kRemote);
}

TEST_CASE("paths: data is spread over all of them, and away from marked ones") {
  Single::Setup setup;
  setup.options.cc.algorithm = cc::Algorithm::none;
  Single s(setup);
  std::map<std::uint32_t, unsigned> use;
  for (unsigned i = 0; i < 16; ++i) {
    REQUIRE(s.post({.length = 1024 * 16}) == Errc::ok);
    for (const Sent& p : data_of(s.transmit())) {
      ++use[value(p.ev)];
      CHECK(value(p.ev) / 0x100 == p.plane + 1u);
    }
  }
  CHECK(use.size() == 16);
  for (const auto& [ev, n] : use) {
    CHECK(n >= 12);
    CHECK(n <= 20);
  }
}

TEST_CASE("reverse paths: answers go by the path that worked last in the trigger's plane") {
  Single s;
  REQUIRE(s.post({}) == Errc::ok);
  const Sent out = data_of(s.transmit()).at(0);
  s.sack({.cack = 0, .trigger = &out});
  s.ack(0, 0);
  for (std::uint32_t n = 0; n < 8; ++n) {
    s.data({.n = n, .ack_request = true, .plane = out.plane});
    const SentList sacks = only(s.transmit(), wire::Opcode::sack);
    REQUIRE(sacks.size() == 1);
    CHECK(sacks[0].ev == out.ev);
  }
}

/// Up to 15 packets on one path, of `bytes` together (0: any); no window holds them up.
Single::Setup bursts_of_15(std::uint32_t mtu, std::uint32_t bytes) {
  Single::Setup setup;
  setup.attributes.mtu = mtu;
  setup.options.burst = 15;
  setup.options.burst_bytes = bytes;
  setup.options.cc.algorithm = cc::Algorithm::none;
  return setup;
}

/// How many packets went on one path, again and again.
std::vector<std::uint32_t> bursts_of(const SentList& packets) {
  std::vector<std::uint32_t> bursts;
  Ev last{};
  for (const Sent& p : data_of(packets)) {
    if (bursts.empty() || p.ev != last) bursts.push_back(0);
    ++bursts.back();
    last = p.ev;
  }
  return bursts;
}

TEST_CASE("burst: what is left of a message goes in bursts of one size") {
  struct Case {
    std::uint32_t packets, bytes;  ///< of a message; of a burst, most
    std::vector<std::uint32_t> bursts;
  };
  for (const Case& one : {Case{15, 0, {15}}, Case{16, 0, {8, 8}}, Case{31, 0, {11, 10, 10}},
                          Case{16, 8'400, {2, 2, 2, 2, 2, 2, 2, 2}}, Case{7, 12'600, {3, 2, 2}},
                          Case{3, 100, {1, 1, 1}}}) {
    CAPTURE(one.packets);
    Single s(bursts_of_15(4096, one.bytes));
    post_on(s, s.qpn, 4096 * one.packets);
    CHECK(bursts_of(s.transmit()) == one.bursts);
  }
  // Those of several messages are as large as they may be.
  Single s(bursts_of_15(4096, 0));
  for (unsigned i = 0; i < 2; ++i) post_on(s, s.qpn, 4096 * 16);
  CHECK(bursts_of(s.transmit()) == std::vector<std::uint32_t>{15, 9, 8});
}

TEST_CASE("burst: a large packet before small ones leaves them their number") {
  Single s(bursts_of_15(16'384, 65'507));
  post_on(s, s.qpn, 16'384);
  for (unsigned i = 0; i < 29; ++i) post_on(s, s.qpn, 64);
  CHECK(bursts_of(s.transmit()) == std::vector<std::uint32_t>{15, 15});
}

TEST_CASE("burst: it says where control packets end and data begin") {
  Single::Setup setup;
  setup.attributes.mtu = 4096;
  Single s(setup);
  const auto poll = [&] {
    s.burst.clear();
    s.engine.poll_transmit(s.now, ~PlaneMask{0}, s.burst);
  };
  post_on(s, s.qpn, 4096);
  poll();
  CHECK(s.burst.control_groups() == 0);
  CHECK(s.burst.groups().size() == 1);
  s.data({.ack_request = true});
  post_on(s, s.qpn, 4096);
  poll();
  const auto groups = s.burst.groups();
  REQUIRE(groups.size() > s.burst.control_groups());
  CHECK(s.burst.control_groups() > 0);
  for (std::size_t i = 0; i < groups.size(); ++i) {
    const std::uint8_t dscp = s.burst.packets(groups[i]).front().dscp;
    CHECK((dscp == s.engine.options().dscp.control) == (i < s.burst.control_groups()));
  }
}

TEST_CASE("burst: its bytes are limited, too, so that small packets go on in as many as ever") {
  struct Case {
    std::uint32_t length, packets;
  };
  for (const Case& one : {Case{16'384, 3}, Case{4096, 15}, Case{64, 15}}) {
    const std::uint32_t length = one.length, packets = one.packets;
    CAPTURE(length);
    Single s(bursts_of_15(16'384, 65'507));
    for (unsigned i = 0; i < 60; ++i) post_on(s, s.qpn, length);
    const std::vector<std::uint32_t> bursts = bursts_of(s.transmit());
    REQUIRE(bursts.size() == 60 / packets);
    for (const std::uint32_t n : bursts) CHECK(n == packets);
  }
}

TEST_CASE("batch: answers to many queue pairs and odd packets between them, received at once") {
  Single::Setup setup;
  setup.options.cc.algorithm = cc::Algorithm::none;
  Single s(setup);
  const std::vector<Qpn> qps = more(s, 3 * engine::Lookahead::kFew);
  for (const Qpn q : qps) post_on(s, q, 100);
  REQUIRE(data_of(s.transmit()).size() == qps.size());
  const Qpn gone = qps.back();
  REQUIRE(s.engine.destroy_qp(gone) == Errc::ok);

  std::vector<std::vector<std::uint8_t>> bytes;
  const auto add = [&](const auto& packet) {
    auto& one = bytes.emplace_back(sizeof packet);
    std::memcpy(one.data(), &packet, sizeof packet);
  };
  for (const Qpn q : qps) {
    const engine::QueuePairState* qp = s.engine.find_qp(q);
    const Psn psn = qp != nullptr ? qp->start_psn : Psn{};
    wire::SackPacket sack{wire::Bth::make(wire::Opcode::sack, q, psn), {}, {}};
    sack.seth.set_cack_psn(psn);
    wire::AckPacket ack{wire::Bth::make(wire::Opcode::acknowledge, q, psn), {}};
    ack.aeth.set_code(wire::Syndrome::ack);
    add(sack);
    if (bytes.size() % 3 == 0) bytes.emplace_back(bytes.size() % 11);  // shorter than a header
    if (bytes.size() % 5 == 0) add(wire::Bth::make(wire::Opcode::sack, Qpn{0xFFFFFF}, psn));
    add(ack);
  }
  std::vector<wire::RxPacket> batch;
  for (const auto& one : bytes) {
    batch.push_back(Single::from(0));
    batch.back().bytes = one;
    batch.back().udp_length = static_cast<std::uint32_t>(one.size()) + 12;
  }
  s.engine.receive(s.now, batch);
  CHECK(s.engine.stats().sacks_received == qps.size() - 1);
  CHECK(s.engine.stats().acks_received == qps.size() - 1);
  CHECK(s.engine.stats().drops.malformed > 0);
  CHECK(s.engine.stats().drops.unknown_qp >= 2);  // those of the queue pair that is gone
  CHECK(s.engine.quiet());
  CHECK(s.sends().size() == qps.size() - 1);
}

}  // namespace share_test
