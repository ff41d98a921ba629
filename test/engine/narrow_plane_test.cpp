// SPDX-License-Identifier: Apache-2.0
// Planes that carry small packets and not those of full size: a switch, or an interface, whose MTU
// has shrunk under traffic.
#include <doctest/doctest.h>

#include <span>
#include <vector>

#include "support/brief.hpp"
#include "support/traffic.hpp"

using namespace mrc;
using namespace mrc::test;
using namespace std::chrono_literals;

namespace narrow_plane_test {

constexpr std::uint32_t kSwitchMtu = 1100;  // bytes of payload that still pass

EnginePair::Setup setup_of(unsigned planes, bool parts) {
  EnginePair::Setup s;
  s.planes = planes;
  s.parts = parts;
  return s;
}

TrafficOptions traffic_of(unsigned messages, std::uint32_t mtu = 4096) {
  TrafficOptions o;
  o.messages = messages;
  o.attributes.mtu = mtu;
  o.relaxed = false;
  return o;
}

/// Packets of full size that a side sends in a plane.
struct FullSize {
  FullSize(EnginePair& pair, std::uint32_t payload) {
    pair.tap = [this, payload](unsigned side, const wire::TxPacket& p, auto&) {
      if (p.payload_length >= payload) ++sent[side][p.plane];
    };
  }
  std::uint64_t sent[2][kMaxPlanes] = {};
};

const engine::Peer& peer_of(EnginePair& pair, unsigned side) {
  return *pair[side].find_peer(pair.peer(side));
}

TEST_CASE("narrow plane: one of four is found out, named and left alone; the rest carries on") {
  for (const bool parts : {true, false}) {
    CAPTURE(parts);
    EnginePair pair(setup_of(4, parts), 11);
    TrafficOptions o = traffic_of(3000);
    o.capacity.send = 8;
    o.max_size = 12'000;
    Traffic traffic(pair, o, 11);
    REQUIRE(run_to(pair, traffic, 100, 5s));
    pair.faults.largest = kSwitchMtu;
    pair.faults.narrow = plane_bit(2);
    for (unsigned i = 0; i < 100; ++i) {  // traffic for 200 ms
      REQUIRE(run_to(pair, traffic, traffic.completed() + 1, 5s));
      pair.run_for(2ms);
    }
    REQUIRE(traffic.completed() < 2000);
    CHECK(peer_of(pair, 0).narrow == plane_bit(2));
    PlaneMask told = 0;
    pair[0].take_narrow_changes([&](const engine::Peer&, PlaneMask planes) { told |= planes; });
    CHECK(told == plane_bit(2));
    FullSize full(pair, kSwitchMtu + 1);
    const std::uint64_t before = pair[0].stats().tx_retransmits;
    REQUIRE(run_to(pair, traffic, traffic.completed() + 300, 5s));
    CHECK(full.sent[0][2] <= 2);  // probes
    CHECK(full.sent[0][1] > 100);
    CHECK(pair[0].stats().tx_retransmits == before);
    CHECK(pair[0].stats().tx_parts == 0);
    pair.faults = {};  // mended
    pair.run_for(3s);
    CHECK(peer_of(pair, 0).narrow == 0);
    full.sent[0][2] = 0;
    REQUIRE(traffic.run(5s));
    CHECK(full.sent[0][2] > 100);
    traffic.check();
  }
}

TEST_CASE("narrow plane: all of them, and packets go in parts until they are wide again") {
  for (const unsigned planes : {1u, 4u}) {
    for (const std::uint32_t mtu : {1408u, 4096u, 8192u, 32'640u}) {
      CAPTURE(planes);
      CAPTURE(mtu);
      EnginePair pair(setup_of(planes, true), planes + mtu);
      TrafficOptions o = traffic_of(600, mtu);
      o.max_size = 5 * mtu;
      Traffic traffic(pair, o, mtu);
      REQUIRE(run_to(pair, traffic, 50, 5s));
      pair.faults.largest = kSwitchMtu;
      REQUIRE(run_to(pair, traffic, 400, 20s));
      CHECK(peer_of(pair, 0).narrow == (1u << planes) - 1);
      CHECK(pair[0].stats().tx_parts > 500);
      CHECK(pair[1].stats().rx_parts > 500);
      pair.faults = {};
      pair.run_for(3s);
      CHECK(peer_of(pair, 0).narrow == 0);
      const std::uint64_t parts = pair[0].stats().tx_parts;
      REQUIRE(traffic.run(5s));
      CHECK(pair[0].stats().tx_parts == parts);
      traffic.check();
    }
  }
}

TEST_CASE("narrow plane: one whose paths were retired before it was suspected is found out, too") {
  EnginePair pair(setup_of(2, true), 3);
  Traffic traffic(pair, traffic_of(3000), 3);
  REQUIRE(run_to(pair, traffic, 100, 5s));
  pair.faults.largest = kSwitchMtu;
  pair.faults.narrow = plane_bit(1);
  REQUIRE(run_to(pair, traffic, 300, 5s));
  REQUIRE(pair.run_for(1s, [&] { return peer_of(pair, 0).narrow == plane_bit(1); }));
  pair.run_for(100ms);  // nothing is in flight: no data is lost in plane 0
  pair.faults.narrow = plane_bit(0) | plane_bit(1);
  auto& paths = const_cast<engine::Peer&>(peer_of(pair, 0)).paths;
  for (path::PathIndex i = 0; i < paths.size(); ++i)
    if (paths[i].plane == 0) paths.on_timeout(i, pair.now());
  REQUIRE((paths.usable_planes() & plane_bit(0)) == 0);
  CHECK(pair.run_for(2s, [&] { return peer_of(pair, 0).narrow == 0b11; }));
  REQUIRE(run_to(pair, traffic, 1000, 20s));
  pair.faults = {};
  REQUIRE(traffic.run(20s));
  traffic.check();
}

TEST_CASE("narrow plane: a path that carries small packets only is named once, a dead one is not") {
  EnginePair pair(setup_of(2, true), 7);
  TrafficOptions o = traffic_of(6000);
  o.capacity.send = 8;
  Traffic traffic(pair, o, 7);
  REQUIRE(run_to(pair, traffic, 100, 5s));
  const path::PathSet& paths = peer_of(pair, 0).paths;
  pair.faults.largest = kSwitchMtu;
  pair.faults.narrow_paths = {value(paths[1].ev)};
  pair.faults.dead_paths = {value(paths[2].ev)};
  std::vector<path::PathIndex> named;
  for (unsigned i = 0; i < 150; ++i) {  // traffic for 3 s
    REQUIRE(run_to(pair, traffic, traffic.completed() + 1, 5s));
    pair.run_for(20ms);
    if (pair[0].has_path_events()) pair[0].take_path_events([](auto&&...) {});
    pair[0].take_narrow_paths(
        [&](const engine::Peer&, path::PathIndex path) { named.push_back(path); });
  }
  CHECK(named == std::vector<path::PathIndex>{1});
  CHECK(peer_of(pair, 0).narrow == 0);
  pair.faults = {};
  REQUIRE(traffic.run(20s));
  traffic.check();
}

// As between virtual machines: a link lets the piece pass whose packets are too long for it.
TEST_CASE("narrow plane: bursts that pass in one piece say nothing of single packets") {
  for (const unsigned planes : {1u, 2u}) {
    for (const std::uint32_t mtu : {4096u, 8192u}) {
      CAPTURE(planes);
      CAPTURE(mtu);
      EnginePair::Setup s = setup_of(planes, true);
      s.options.burst = 7;
      s.options.segmenting_planes = (PlaneMask{1} << planes) - 1;
      EnginePair pair(s, planes + mtu);
      bool shrunk = false;
      pair.pieces = [&](unsigned, std::span<const wire::TxPacket> piece) {
        const bool too_long = shrunk && piece.front().payload_length > kSwitchMtu;
        return piece.size() == 1 && too_long ? 0 : piece.size();
      };
      TrafficOptions o = traffic_of(3000, mtu);
      o.max_size = 8 * mtu + 1;
      Traffic traffic(pair, o, mtu);
      REQUIRE(run_to(pair, traffic, 50, 5s));
      shrunk = true;
      pair.faults.loss = 0.001;  // something that has to be sent again
      REQUIRE(run_to(pair, traffic, 2000, 20s));
      CHECK(peer_of(pair, 0).narrow == (1u << planes) - 1);
      CHECK(pair[0].stats().tx_parts > 500);
      shrunk = false;
      pair.run_for(3s);
      CHECK(peer_of(pair, 0).narrow == 0);
      REQUIRE(traffic.run(20s));
      traffic.check();
    }
  }
}

TEST_CASE("narrow plane: one message at a time, with the usual number of retries") {
  for (const unsigned planes : {1u, 8u}) {
    CAPTURE(planes);
    EnginePair pair(setup_of(planes, true), 5);
    TrafficOptions o = traffic_of(300);
    o.capacity.send = 1;
    o.max_size = 8192;
    o.signaled = 1;
    Traffic traffic(pair, o, 5);
    REQUIRE(run_to(pair, traffic, 20, 5s));
    pair.faults.largest = kSwitchMtu;
    REQUIRE(traffic.run(20s));
    traffic.check();
  }
}

TEST_CASE("narrow plane: parts that are lost, doubled, reordered and marked; both directions") {
  for (const std::uint32_t mtu : {3968u, 8192u}) {
    for (std::uint64_t seed = 0; seed < (kBrief ? 2 : 6); ++seed) {
      CAPTURE(mtu);
      CAPTURE(seed);
      EnginePair::Setup setup = setup_of(2, true);
      setup.rc = seed % 2 == 1;
      EnginePair pair(setup, seed);
      TrafficOptions o = traffic_of(150, mtu);
      o.both = true;
      o.queue_pairs = 3;
      o.attributes.retry_exponential = 25;
      o.attributes.rc = setup.rc;
      Traffic traffic(pair, o, seed);
      pair.faults.loss = pair.faults.duplicate = pair.faults.corrupt = pair.faults.ecn = 0.02;
      pair.faults.reorder = 0.1;
      pair.faults.largest = kSwitchMtu;
      REQUIRE(traffic.run(60s));
      CHECK(pair[0].stats().rx_parts > 100);
      traffic.check();
    }
  }
}

TEST_CASE("narrow plane: an own port is told, others are used, and without any parts") {
  EnginePair pair(setup_of(2, true), 3);
  Traffic traffic(pair, traffic_of(900), 3);
  REQUIRE(run_to(pair, traffic, 100, 5s));
  pair.faults.largest = kSwitchMtu;
  pair.faults.narrow = plane_bit(1);
  pair[0].set_plane_narrow(pair.now(), 1, true);
  FullSize full(pair, kSwitchMtu + 1);
  REQUIRE(run_to(pair, traffic, 300, 5s));
  CHECK(full.sent[0][1] == 0);
  CHECK((peer_of(pair, 1).remote_up & 3) == plane_bit(0));
  pair.faults.narrow = 3;
  pair[0].set_plane_narrow(pair.now(), 0, true);
  REQUIRE(run_to(pair, traffic, 500, 5s));
  CHECK(pair[0].stats().tx_parts > 0);
  CHECK(full.sent[0][1] == 0);
  pair.faults.narrow = plane_bit(1);  // one comes back before the other
  pair[0].set_plane_narrow(pair.now(), 0, false);
  REQUIRE(run_to(pair, traffic, 600, 5s));
  pair.run_for(20ms);
  pair.faults = {};
  pair[0].set_plane_narrow(pair.now(), 1, false);
  pair.run_for(20ms);
  REQUIRE(traffic.run(5s));
  CHECK(peer_of(pair, 0).narrow == 0);
  CHECK(full.sent[0][1] > 20);
  traffic.check();
}

TEST_CASE("narrow plane: nothing is sent in one that the peer takes out of use under load") {
  EnginePair pair(setup_of(4, true), 13);
  Traffic traffic(pair, traffic_of(3000), 13);
  REQUIRE(run_to(pair, traffic, 100, 5s));
  pair.faults.black_holes = plane_bit(2);  // the peer drops what was in flight
  pair[1].set_plane_up(pair.now(), 2, false);
  REQUIRE(run_to(pair, traffic, 300, 5s));
  std::uint64_t sent = 0;
  pair.tap = [&sent](unsigned side, const wire::TxPacket& p, auto&) {
    if (side == 0 && p.plane == 2) ++sent;
  };
  REQUIRE(run_to(pair, traffic, 1000, 5s));
  pair.run_for(1s);
  CHECK(sent == 0);
  pair.faults = {};
  pair[1].set_plane_up(pair.now(), 2, true);
  REQUIRE(traffic.run(5s));
  CHECK(sent > 100);
  traffic.check();
}

TEST_CASE("narrow plane: a lossy, a dead and a congested plane are not called narrow") {
  for (unsigned kind = 0; kind < 3; ++kind) {
    CAPTURE(kind);
    EnginePair::Setup setup = setup_of(3, true);
    if (kind == 2) setup.queue = 20'000;
    EnginePair pair(setup, kind);
    Traffic traffic(pair, traffic_of(800), kind);
    if (kind == 0) pair.faults.loss = 0.1;
    if (kind == 1) pair.faults.black_holes = plane_bit(1);
    const auto never_narrow = [&] {
      traffic.work();
      REQUIRE(peer_of(pair, 0).narrow == 0);
      return traffic.finished();
    };
    REQUIRE(pair.run_for(20s, never_narrow));
    traffic.check();
  }
}

TEST_CASE(
    "narrow plane: one path of a plane is left to the path's health, with probes of full size") {
  EnginePair pair(setup_of(2, true), 9);
  Traffic traffic(pair, traffic_of(2000), 9);
  unsigned swallowed = 0;
  pair.filter = [&](unsigned, const wire::TxPacket& p, const auto&) {
    const bool gone = value(p.entropy) == 0x1001 && p.payload_length > kSwitchMtu;
    swallowed += gone && wire::is_data(wire::Opcode{p.header[0]});
    return !gone;
  };
  REQUIRE(traffic.run(20s));
  CHECK(peer_of(pair, 0).narrow == 0);
  CHECK(swallowed >= 3);
  CHECK(swallowed < 100);  // small probes would revive it again and again
  traffic.check();
}

}  // namespace narrow_plane_test
