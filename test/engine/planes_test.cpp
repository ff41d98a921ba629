// SPDX-License-Identifier: Apache-2.0
// Planes that come back, are silently dead, or only seem to be down; and the round-trip time before
// there is data.
#include <doctest/doctest.h>

#include <set>

#include "support/engine_pair.hpp"
#include "support/single.hpp"
#include "support/traffic.hpp"

using namespace mrc;
using namespace mrc::test;
using namespace std::chrono_literals;
using wire::Opcode;

namespace planes_test {

EnginePair::Setup ten_gbps() {
  EnginePair::Setup s;
  s.gbps = 10;
  return s;
}
TrafficOptions long_stream() {
  TrafficOptions o;
  o.messages = 6000;  // 60 MB; in 8 ms the planes carry 40
  o.max_size = 20'000;
  return o;
}

TEST_CASE("planes: one that has carrier again, and does not forward yet, loses no data") {
  for (const unsigned side : {0u, 1u}) {  // the sender's port, and the receiver's
    EnginePair pair(ten_gbps(), 10 + side);
    std::uint64_t data = 0;
    pair.tap = [&](unsigned from, const wire::TxPacket& p, std::vector<std::uint8_t>& bytes) {
      if (p.plane == 2 && from == 0 && wire::is_write(wire::view_as<wire::Bth>(bytes).opcode()))
        ++data;
    };
    Traffic traffic(pair, long_stream(), 10 + side);
    CHECK_FALSE(traffic.run(300us));
    pair.set_port(side, 2, false);
    CHECK_FALSE(traffic.run(2ms));
    const std::uint64_t before = pair[0].stats().tx_retransmits;
    // Carrier, but the network behind it is dead for 3 ms more.
    pair.faults.black_holes = plane_bit(2);
    pair.set_port(side, 2, true);
    data = 0;
    CHECK_FALSE(traffic.run(3ms));
    CHECK(data == 0);
    CHECK(pair[0].stats().tx_retransmits == before);
    pair.faults.black_holes = 0;
    CHECK_FALSE(traffic.run(3ms));
    CHECK(data > 0);
    CHECK(traffic.run(5s));
    traffic.check();
  }
}

TEST_CASE("planes: a port status reaches the peer although some planes are silently dead") {
  for (const PlaneMask dead : {PlaneMask{0b0001}, PlaneMask{0b0011}, PlaneMask{0b0101}}) {
    EnginePair pair(ten_gbps(), dead);
    Traffic traffic(pair, {.queue_pairs = 2, .messages = 20}, dead);
    CHECK(traffic.run(5s));
    pair.faults.black_holes = dead;
    pair.set_port(1, 3, false);
    pair.run_for(50ms);
    CHECK(pair[0].find_peer(pair.peer(0))->remote_up == ~plane_bit(3));
  }
}

TEST_CASE("planes: arriving traffic restores one whose return was never heard of") {
  EnginePair pair(ten_gbps(), 3);
  Traffic traffic(pair, {.queue_pairs = 2, .messages = 20, .both = true}, 3);
  CHECK(traffic.run(5s));
  pair.set_port(1, 1, false);
  pair.run_for(10ms);
  const auto& peer = *pair[0].find_peer(pair.peer(0));
  CHECK(peer.remote_up == ~plane_bit(1));
  // Its return is told ten times, and lost each time.
  pair.filter = [](unsigned side, const wire::TxPacket&, const std::vector<std::uint8_t>& bytes) {
    return side == 0 || wire::view_as<wire::Bth>(bytes).opcode() != Opcode::endpoint_request ||
           wire::view_as<wire::EndpointRequestPacket>(bytes).erth.op() !=
               wire::EndpointOp::port_status;
  };
  pair.set_port(1, 1, true);
  pair.run_for(10s);
  CHECK(peer.remote_up == ~plane_bit(1));
  Traffic more(pair, {.queue_pairs = 2, .messages = 200, .both = true}, 4);
  CHECK(more.run(5s));
  pair.run_for(10ms);
  CHECK(peer.remote_up == ~PlaneMask{0});
  CHECK(peer.trials.withheld() == 0);
}

TEST_CASE("planes: ports that do not exist are not said to be up") {
  Single::Setup setup;
  setup.planes = 2;
  setup.options.planes = 0b11;
  Single s(setup);
  s.engine.set_plane_up(s.now, 1, false);
  SentList sent = only(s.advance(0ns), Opcode::endpoint_request);
  REQUIRE(sent.size() == 1);
  CHECK(sent[0].as<wire::EndpointRequestPacket>().erth.port_status_mask.value() == 0b01);
}

TEST_CASE("round-trip time: measured by probes before there is data, over several planes") {
  EnginePair::Setup setup;
  setup.delay = 5us;
  setup.options.rtt_probes = 8;
  setup.options.cc.nscc.base_rtt = 200us;
  setup.options.cc.nscc.base_rtt_floor = Duration{0};
  EnginePair pair(setup, 1);
  std::set<Plane> planes;
  pair.tap = [&](unsigned, const wire::TxPacket& p, std::vector<std::uint8_t>&) {
    planes.insert(p.plane);
  };
  Traffic traffic(pair, {.queue_pairs = 2, .messages = 1}, 1);  // connects
  const cc::Controller& congestion = pair[0].find_peer(pair.peer(0))->congestion;
  const std::uint64_t before = congestion.window();
  CHECK(congestion.base_rtt() == 200us);
  pair.run_for(3ms);
  CHECK(congestion.base_rtt() >= 10us);
  CHECK(congestion.base_rtt() < 12us);
  CHECK(congestion.window() <= before / 16);
  CHECK(planes.size() == 4);
  CHECK(pair[0].stats().ev_probes_sent >= 8);
  CHECK(pair[0].stats().ev_probes_sent <= 16);  // and for paths back, while none is known
  CHECK(pair[0].stats().tx_data == 0);
}

TEST_CASE("round-trip time: measured, too, when the peer connects much later") {
  EnginePair::Setup setup;
  setup.options.rtt_probes = 8;
  setup.options.cc.nscc.base_rtt = 200us;
  setup.options.cc.nscc.base_rtt_floor = Duration{0};
  EnginePair pair(setup, 7);
  pair.faults.loss = 1;  // it drops what it has no queue pair for
  Traffic traffic(pair, {.queue_pairs = 2, .messages = 1}, 7);
  pair.run_for(100ms);
  const cc::Controller& congestion = pair[0].find_peer(pair.peer(0))->congestion;
  CHECK(congestion.base_rtt() == 200us);
  pair.faults.loss = 0;
  pair.run_for(1s);
  CHECK(congestion.base_rtt() < 12us);
  const auto sent = pair[0].stats().ev_probes_sent;
  CHECK(sent < 30);
  pair.run_for(10s);
  CHECK(pair[0].stats().ev_probes_sent == sent);
}

TEST_CASE("round-trip time: lost probes leave what was configured, and cost nothing") {
  EnginePair::Setup setup;
  setup.options.rtt_probes = 8;
  EnginePair pair(setup, 2);
  pair.faults.loss = 1;
  Traffic traffic(pair, {.queue_pairs = 2, .messages = 10}, 2);
  const Duration configured = pair[0].find_peer(pair.peer(0))->congestion.base_rtt();
  pair.run_for(5ms);
  CHECK(pair[0].find_peer(pair.peer(0))->congestion.base_rtt() == configured);
  CHECK(pair[0].stats().ev_probes_sent >= 8);
  pair.faults.loss = 0;
  CHECK(traffic.run(5s));
  traffic.check();
}

TEST_CASE("planes: one with a lost path and marks waits for others, but never in vain") {
  Single::Setup setup;
  setup.options.cc.algorithm = cc::Algorithm::none;
  Single s(setup);
  REQUIRE(s.post({.length = 1024}) == Errc::ok);
  const Sent first = data_of(s.transmit(plane_bit(1))).at(0);
  REQUIRE(s.engine.change_paths(s.now, s.peer, [](path::PathSet& paths) {
    CHECK(paths.set_health(4, path::Health::denied) == Errc::ok);  // of plane 1
  }) == Errc::ok);
  REQUIRE(s.post({.length = 4 * 1024}) == Errc::ok);
  const SentList others = data_of(s.transmit(plane_bit(0)));
  REQUIRE(others.size() == 4);
  s.sack({.cack = 0, .trigger = &first, .mark = wire::SackMark::skip_once});

  REQUIRE(s.post({.length = 20 * 1024}) == Errc::ok);
  const std::size_t paid = data_of(s.transmit(plane_bit(1))).size();
  CHECK(paid <= 1);                                        // what plane 0 has carried pays for one
  CHECK(data_of(s.transmit(plane_bit(1))).empty());        // it waits
  CHECK(data_of(s.transmit(0b0011)).size() == 20 - paid);  // until another plane has room
  REQUIRE(s.post({.length = 20 * 1024}) == Errc::ok);
  const std::size_t more = data_of(s.transmit(plane_bit(1))).size();
  CHECK(more <= 1);
  s.sack({.cack = 24 + static_cast<std::int32_t>(more)});
  // Nothing is in flight: no answer would come that could end a wait.
  CHECK(data_of(s.transmit(plane_bit(1))).size() == 1);
}

TEST_CASE("planes: one that dies is held against no path of another one") {
  // Seeds with which sack_threshold from 64 KiB on makes SACKs too few to show what has arrived.
  for (const std::uint64_t seed : {3, 7, 20}) {
    CAPTURE(seed);
    EnginePair::Setup setup;
    setup.planes = 2;
    setup.paths = 16;
    setup.gbps = 5;
    setup.queue = setup.ecn_threshold = 8 << 20;  // nothing is marked
    setup.options.ack_delay = 200us;
    setup.options.burst = 16;
    setup.options.peers_stop = true;
    setup.options.cc.algorithm = cc::Algorithm::fixed;
    setup.options.cc.fixed_window = 1 << 20;
    setup.rc = true;  // OpenMRC peers
    EnginePair pair(setup, seed);
    Traffic traffic(pair, {.messages = 400, .max_size = 400'000}, seed);
    REQUIRE_FALSE(traffic.run(2ms));
    pair.faults.black_holes = plane_bit(1);
    const auto* peer = pair[0].find_peer(pair.peer(0));
    unsigned bad = 0, bad_there = 0;
    for (unsigned i = 0; i < 250; ++i) {
      REQUIRE_FALSE(traffic.run(20us));
      for (path::PathIndex p = 0; p < peer->paths.size(); ++p)
        (peer->paths[p].plane == 0 ? bad : bad_there) += !path::usable(peer->paths.health(p));
    }
    CHECK(bad == 0);
    CHECK(bad_there > 0);
  }
}

}  // namespace planes_test
