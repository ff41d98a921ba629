// SPDX-License-Identifier: Apache-2.0
// Planes, paths and peers that go and come back, seen from two engines.
#include <doctest/doctest.h>

#include <array>

#include "support/traffic.hpp"

using namespace mrc;
using namespace mrc::test;
using namespace std::chrono_literals;

namespace ports_test {

/// Data packets that side 0 sent, by plane.
struct PlaneCount {
  explicit PlaneCount(EnginePair& pair) {
    pair.tap = [this](unsigned side, const wire::TxPacket& p, std::vector<std::uint8_t>& bytes) {
      if (side == 0 && wire::is_write(wire::view_as<wire::Bth>(bytes).opcode())) ++count[p.plane];
    };
  }
  std::array<std::uint64_t, kMaxPlanes> count{};
};

/// Planes of 4 Gb/s, so that little traffic takes long.
EnginePair::Setup slow() {
  EnginePair::Setup s;
  s.gbps = 4;
  return s;
}

TrafficOptions stream(unsigned messages = 400) {
  TrafficOptions o;
  o.messages = messages;
  o.max_size = 20'000;
  o.attributes.timeout = 8;
  return o;
}

TEST_CASE("port status: the peer stops using a plane at once, and takes it back") {
  EnginePair pair(slow(), 1);
  PlaneCount sent(pair);
  Traffic traffic(pair, stream(2000), 1);
  CHECK_FALSE(traffic.run(500us));
  CHECK(sent.count[2] > 0);
  pair.set_port(1, 2, false);  // the receiver's port
  CHECK_FALSE(traffic.run(100us));
  CHECK(pair[0].find_peer(pair.peer(0))->remote_up == ~plane_bit(2));
  sent.count = {};
  CHECK_FALSE(traffic.run(500us));
  CHECK(sent.count[2] == 0);
  CHECK(sent.count[1] > 0);
  pair.set_port(1, 2, true);
  CHECK_FALSE(traffic.run(5ms));  // probes have to revive what lost packets as it went down
  sent.count = {};
  CHECK_FALSE(traffic.run(500us));
  CHECK(sent.count[2] > 0);
  CHECK(traffic.run(1s));
  traffic.check();
  CHECK(pair[0].stats().port_updates_received == 2);
}

TEST_CASE("port status: planes that go one right after another, at both sides, leave no dead end") {
  // As the second goes, each side still takes the first for down at the other: the word that it is
  // back was on its way in the plane that has just gone.
  EnginePair pair(slow(), 12);
  Traffic traffic(pair, stream(3000), 12);
  CHECK_FALSE(traffic.run(200us));
  constexpr Plane kFirst = 0, kAfter = 4;
  const auto set = [&](Plane from, Plane to, bool up) {
    for (Plane plane = from; plane < to; ++plane)
      for (const unsigned side : {0u, 1u}) pair.set_port(side, plane, up);
  };
  set(kFirst, 1, false);
  CHECK_FALSE(traffic.run(500us));
  set(kFirst, 1, true);
  set(1, kAfter, false);
  CHECK(traffic.run(2s));
  traffic.check();
}

TEST_CASE("port status: a peer that connects later learns of a port that is down already") {
  EnginePair pair(slow(), 3);
  pair.set_port(1, 1, false);
  pair.run_for(10ms);
  CHECK(pair[1].stats().port_updates_sent == 0);  // no queue pairs, nobody to tell
  Traffic traffic(pair, stream(20), 3);
  CHECK(traffic.run(1s));
  CHECK(pair[0].find_peer(pair.peer(0))->remote_up == ~plane_bit(1));
  // And that it came up while no queue pair was connected.
  for (unsigned side = 0; side < 2; ++side) {
    const Qpn q = side == 0 ? traffic.qpn() : traffic.peer_qpn();
    REQUIRE(pair[side].destroy_qp(q) == Errc::ok);
  }
  pair.set_port(1, 1, true);
  pair.run_for(10ms);
  CHECK(pair[0].find_peer(pair.peer(0))->remote_up == ~plane_bit(1));
  Traffic again(pair, stream(20), 4);
  CHECK(again.run(1s));
  CHECK(pair[0].find_peer(pair.peer(0))->remote_up == ~PlaneMask{0});
}

TEST_CASE("a silent black hole: traffic goes on, and comes back to the plane") {
  EnginePair pair(slow(), 5);
  PlaneCount sent(pair);
  TrafficOptions o = stream(1000);
  o.queue_pairs = 4;
  Traffic traffic(pair, o, 5);
  CHECK_FALSE(traffic.run(1ms));
  const std::uint64_t before = traffic.completed();
  pair.faults.black_holes = plane_bit(1);
  CHECK_FALSE(traffic.run(4ms));
  sent.count = {};
  const std::uint64_t start = traffic.completed();
  CHECK(start > before);
  CHECK_FALSE(traffic.run(4ms));
  CHECK(traffic.completed() > start);
  const std::uint64_t others = sent.count[0] + sent.count[2] + sent.count[3];
  CHECK(sent.count[1] * 50 < others);  // all its paths are ASSUMED_BAD by now
  pair.faults.black_holes = 0;
  pair.run_for(300ms, [&] {
    traffic.work();
    return false;
  });
  const auto* peer = pair[0].find_peer(pair.peer(0));
  for (path::PathIndex i = 0; i < peer->paths.size(); ++i)
    CHECK(path::usable(peer->paths.health(i)));
  CHECK(traffic.run(5s));
  traffic.check();
}

TEST_CASE("single paths that die are left out, and revived when they work again") {
  EnginePair::Setup setup = slow();
  setup.planes = 2;
  setup.paths = 8;
  EnginePair pair(setup, 6);
  std::uint64_t wasted = 0;
  pair.tap = [&](unsigned side, const wire::TxPacket& p, std::vector<std::uint8_t>& bytes) {
    if (side == 0 && wire::is_write(wire::view_as<wire::Bth>(bytes).opcode()) &&
        pair.faults.dead_paths.count(value(p.entropy)) != 0)
      ++wasted;
  };
  Traffic traffic(pair, stream(2500), 6);
  pair.faults.dead_paths = {0x1001, 0x2005};
  CHECK_FALSE(traffic.run(3ms));
  CHECK(wasted > 0);
  wasted = 0;
  CHECK_FALSE(traffic.run(2ms));
  CHECK(wasted == 0);
  pair.faults.dead_paths.clear();
  pair.run_for(500ms, [&] {
    traffic.work();
    return false;
  });
  const auto* peer = pair[0].find_peer(pair.peer(0));
  CHECK(path::usable(peer->paths.health(peer->paths.find(Ev{0x1001}))));
  CHECK(path::usable(peer->paths.health(peer->paths.find(Ev{0x2005}))));
}

TEST_CASE("a peer that dies: every queue pair fails with retry exhaustion in its time") {
  struct Case {
    unsigned queue_pairs;
    std::uint64_t plane_window;
    std::uint32_t burst;
  };
  for (const Case& c :
       {Case{1, 0, 1}, {40, 0, 1}, {40, 20'000, 1}, {40, 0, 16}, {40, 20'000, 16}}) {
    const unsigned queue_pairs = c.queue_pairs;
    CAPTURE(queue_pairs);
    CAPTURE(c.plane_window);
    CAPTURE(c.burst);
    EnginePair::Setup setup = slow();
    setup.plane_window = c.plane_window;
    setup.options.burst = c.burst;
    EnginePair pair(setup, 8);
    TrafficOptions o = stream(queue_pairs == 1 ? 400 : 50);
    o.queue_pairs = queue_pairs;
    o.attributes.timeout = 8;
    o.attributes.retry_linear = 3;
    o.attributes.retry_exponential = 2;
    Traffic traffic(pair, o, 8);
    CHECK_FALSE(traffic.run(300us));
    pair.kill(1);
    const Duration total = reliability::timeout_value(8) * (4 + 2 + 4);
    unsigned failed = 0;
    const bool all = pair.run_for(2 * total, [&] {
      failed = 0;
      for (unsigned i = 0; i < queue_pairs; ++i)
        failed += pair[0].find_qp(traffic.qpn(i))->state == QpState::err;
      return failed == queue_pairs;
    });
    CHECK(all);
    CHECK(failed == queue_pairs);
    for (unsigned i = 0; i < queue_pairs; ++i)
      CHECK(pair[0].find_qp(traffic.qpn(i))->cause == QpErrorCause::retry_exhausted);
    CHECK(pair[0].find_peer(pair.peer(0))->congestion.inflight() == 0);
    CHECK(pair[0].quiet());
  }
}

TEST_CASE("a lost control packet of any kind never stops a transfer") {
  for (const auto victim :
       {wire::Opcode::sack, wire::Opcode::acknowledge, wire::Opcode::nack, wire::Opcode::probe}) {
    INFO("opcode ", static_cast<int>(victim));
    EnginePair pair(slow(), 9);
    Random r(9);
    pair.filter = [&](unsigned, const wire::TxPacket&, const std::vector<std::uint8_t>& bytes) {
      return wire::view_as<wire::Bth>(bytes).opcode() != victim || r.chance(0.2);
    };
    pair.faults.loss = 0.01;
    pair.faults.trim = 0.01;
    Traffic traffic(pair, stream(100), 9);
    CHECK(traffic.run(2s));
    pair.faults = {};
    pair.filter = nullptr;
    traffic.check();
  }
}

}  // namespace ports_test
