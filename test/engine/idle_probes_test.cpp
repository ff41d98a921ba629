// SPDX-License-Identifier: Apache-2.0
// EV probes that nobody waits for: for reverse paths that are known, and to peers without data.
#include <doctest/doctest.h>

#include <map>

#include "mrc/engine/queue_pair.hpp"
#include "support/single.hpp"

using namespace mrc;
using namespace mrc::test;
using namespace std::chrono_literals;

namespace idle_probes_test {

SentList ev_probes(const SentList& list) {
  return endpoint_requests(list, wire::EndpointOp::ev_probe);
}

/// A host in two planes that receives and sends no data.
struct Receiver {
  Receiver() : single(setup()) {}
  static Single::Setup setup() {
    Single::Setup s;
    s.planes = 2;
    return s;
  }
  /// Packets come in both planes for so long. EV probes are answered, and counted by plane.
  std::map<Plane, unsigned> receive_for(Duration time) {
    std::map<Plane, unsigned> probes;
    for (const Time end = single.now + time; single.now < end;) {
      for (Plane plane = 0; plane < 2; ++plane, ++next.n) {
        next.msn = next.n;
        next.plane = plane;
        single.data(next);
      }
      for (const Sent& probe : ev_probes(single.advance(500us))) {
        ++probes[probe.plane];
        single.receive_control(endpoint_answer(probe), probe.plane);
      }
    }
    return probes;
  }

  Single single;
  Single::Data next;
};

TEST_CASE("idle probes: a receiver probes each plane of its sender ten times a second at most") {
  Receiver host;
  // First it finds the four paths of each plane.
  CHECK(host.receive_for(50ms) == std::map<Plane, unsigned>{{0, 4}, {1, 4}});
  const auto probes = host.receive_for(1s);
  REQUIRE(probes.size() == 2);
  for (const auto& [plane, n] : probes) CHECK((n >= 8 && n <= 11));
}

TEST_CASE("idle probes: what comes again has all reverse paths tested, once") {
  Receiver host;
  (void)host.receive_for(50ms);
  CHECK(host.receive_for(20ms).empty());
  SUBCASE("a packet that has arrived") {
    Single::Data again = host.next;
    again.n -= 2;
    again.msn -= 2;
    again.rtx = true;
    host.single.data(again);
  }
  SUBCASE("a packet whose first copy was lost") {
    Single::Data again = host.next;
    again.rtx = true;
    host.single.data(again);
    ++host.next.n;
  }
  SUBCASE("a reliability probe with nothing new in between") {
    for (std::uint16_t id = 1; id <= 2; ++id) {
      wire::ProbePacket p{wire::Bth::make(wire::Opcode::probe, host.single.qpn, Psn{}), {}};
      p.peth.probe_id = id;
      host.single.receive_control(p);
    }
  }
  CHECK(host.receive_for(20ms) == std::map<Plane, unsigned>{{0, 4}, {1, 4}});
}

TEST_CASE(
    "idle probes: a peer without data is probed at a limited rate, and data lifts the limit") {
  Single::Setup setup;
  setup.options.idle_probes = 20;
  Single s(setup);
  const auto fail_paths = [now = s.now](path::PathSet& paths) {
    for (path::PathIndex path = 0; path < 6; ++path) paths.on_timeout(path, now);
  };
  REQUIRE(s.engine.change_paths(s.now, s.peer, fail_paths) == Errc::ok);
  SentList probes = ev_probes(s.advance(10s));
  CHECK(probes.size() >= 195);
  CHECK(probes.size() <= 205 + engine::ProbePacer::kLeastBurst);
  // Nobody has to wait for a turn now: some paths have been due for long.
  REQUIRE(s.post({}) == Errc::ok);
  CHECK(ev_probes(s.advance(1ms)).size() >= 3);
}

TEST_CASE("probe pacer: a burst, then one turn after the other, each given once") {
  // A sixth of the rate ahead of it, but 64 at least.
  for (const auto& [rate, burst] : {std::pair{1000u, 166u}, {100u, 64u}}) {
    engine::ProbePacer pacer(rate);
    const Duration interval = Duration(1s) / rate;
    Time now{1h};
    for (unsigned i = 0; i <= burst; ++i) CHECK(pacer.take(now) == now);
    CHECK(pacer.take(now) == now + interval);
    CHECK(pacer.take(now) == now + 2 * interval);
    now += interval * 3 / 2;
    CHECK(pacer.take(now) == now + interval * 3 / 2);
    now += 1h;
    CHECK(pacer.take(now) == now);
  }
  const Time now{1h};
  engine::ProbePacer unlimited(0);
  for (unsigned i = 0; i < 1000; ++i) CHECK(unlimited.take(now) == now);
}

}  // namespace idle_probes_test
