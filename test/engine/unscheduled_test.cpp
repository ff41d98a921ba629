// SPDX-License-Identifier: Apache-2.0
// Hosts that are not scheduled for a while, in a network that loses nothing: what was not lost is
// not sent again for that, and no path is called bad.
#include <doctest/doctest.h>

#include <vector>

#include "support/brief.hpp"
#include "support/single.hpp"
#include "support/steps.hpp"

using namespace mrc;
using namespace mrc::test;
using namespace std::chrono_literals;
using reliability::timeout_value;

namespace unscheduled_test {

EnginePair::Setup busy_hosts() {
  EnginePair::Setup s;
  s.planes = 4;
  s.paths = 8;
  s.delay = 20us;
  s.gbps = 10;
  s.queue = 8 << 20;  // loses nothing
  s.ecn_threshold = 8 << 20;
  s.options.trimming = false;
  s.options.burst = 4;
  s.options.cc.nscc.link_speed = 40'000'000'000;
  s.options.cc.nscc.base_rtt = 45us;
  return s;
}

/// The same with OpenMRC peers. `stop`: they are processes (EngineOptions::peers_stop).
EnginePair::Setup busy_processes(bool stop) {
  EnginePair::Setup s = busy_hosts();
  s.rc = true;
  s.options.peers_stop = stop;
  return s;
}

/// How often a side has called a path bad.
std::uint64_t times_bad(EnginePair& pair, unsigned side) {
  const path::PathSet& paths = pair[side].find_peer(pair.peer(side))->paths;
  std::uint64_t bad = 0;
  for (path::PathIndex i = 0; i < paths.size(); ++i) bad += paths.stats(i).times_bad;
  return bad;
}

/// Messages from side 0, which the system stops now and then for `length`, always in the middle of
/// what it sends.
void stop_within_bursts(EnginePair& pair, Duration length) {
  mrc::test::Steps steps(pair, {.steps = 400, .size = 256 << 10, .depth = 4});
  unsigned sent = 0;
  pair.tap = [&](unsigned side, const wire::TxPacket&, std::vector<std::uint8_t>&) {
    if (side == 0 && ++sent % 997 == 0 && !pair.stalled(0)) pair.stall(0, pair.now() + length);
  };
  CHECK(steps.run(60s));
}

TEST_CASE("stall: a sender that is stopped within a burst takes nothing for lost") {
  for (const Duration length : {Duration{4ms}, Duration{1ms}, Duration{12ms}}) {
    if (kBrief && length != 4ms) break;
    CAPTURE(length.count());
    EnginePair pair(busy_hosts(), 7);
    stop_within_bursts(pair, length);
    CHECK(pair[1].stats().rx_duplicates == 0);
    CHECK(pair[0].stats().inferred_losses == 0);
    CHECK(pair[0].stats().timeouts == 0);
    CHECK(times_bad(pair, 0) == 0);
  }
}

TEST_CASE("stall: the silence of a peer that does not run makes no path bad") {
  for (const bool later : {false, true}) {
    CAPTURE(later);
    EnginePair pair(busy_hosts(), 7);
    mrc::test::Steps steps(pair, {.steps = 40, .size = 256 << 10, .depth = 4});
    unsigned sent = 0;
    pair.tap = [&](unsigned side, const wire::TxPacket&, std::vector<std::uint8_t>&) {
      if (side == 0 && ++sent == 1500 && later) pair.stall(1, pair.now() + 10ms);
    };
    if (!later) pair.stall(1, pair.now() + 12ms);
    CHECK(steps.run(10s));
    CHECK(pair[0].stats().timeouts == 2);
    CHECK(times_bad(pair, 0) == 0);
    if (later) continue;
    CHECK(pair[0].stats().inferred_losses == 0);
    CHECK(pair[1].stats().rx_duplicates <= pair[0].stats().timeouts);  // what the timer sends again
  }
}

TEST_CASE(
    "stall: a process that waits to run for many timeouts is asked, and is sent nothing again") {
  for (const bool waits : {true, false}) {
    CAPTURE(waits);
    EnginePair pair(busy_processes(waits), 7);
    mrc::test::Steps steps(pair, {.steps = 40, .size = 256 << 10, .depth = 4});
    unsigned sent = 0;
    pair.tap = [&](unsigned side, const wire::TxPacket&, std::vector<std::uint8_t>&) {
      if (side == 0 && ++sent % 1500 == 0) pair.stall(1, pair.now() + 60ms);
    };
    CHECK(steps.run(10s));
    CHECK(pair[0].stats().timeouts > 10);
    CHECK((pair[0].stats().tx_retransmits == 0) == waits);
    CHECK((times_bad(pair, 0) == 0) == waits);
  }
}

TEST_CASE("stall: a packet that is lost with all probes after it is sent again, late") {
  for (const bool waits : {true, false}) {
    CAPTURE(waits);
    EnginePair pair(busy_processes(waits), 7);
    mrc::test::Steps steps(pair, {.steps = 1, .size = 4096, .depth = 1});
    const Time begin = pair.now();
    const Duration dead = waits ? 90ms : 5ms;
    pair.tap = [&](unsigned, const wire::TxPacket&, std::vector<std::uint8_t>& bytes) {
      if (pair.now() - begin < dead) bytes.clear();
    };
    CHECK(steps.run(10s));
    CHECK(pair[0].stats().tx_retransmits >= 1);
    CHECK(pair.now() - begin < dead + 30ms);
  }
}

TEST_CASE("stall: that a peer may wait to run delays the way out of a dead plane little") {
  Duration elapsed[2];  // virtual time, as everywhere here
  for (const bool waits : {false, true}) {
    EnginePair::Setup setup = busy_processes(waits);
    setup.planes = 2;
    EnginePair pair(setup, 7);
    mrc::test::Steps steps(pair, {.steps = 40, .size = 64 << 10, .depth = 2});
    unsigned sent = 0;
    pair.tap = [&](unsigned, const wire::TxPacket& p, std::vector<std::uint8_t>& bytes) {
      if (++sent > 500 && p.plane == 0) bytes.clear();  // in both directions
    };
    CHECK(steps.run(10s));
    CHECK(pair[0].stats().tx_retransmits > 0);
    elapsed[waits] = steps.elapsed();
  }
  CHECK(elapsed[true] < 2 * elapsed[false]);
  CHECK(elapsed[true] < 100ms);
}

TEST_CASE("stall: processor quotas, 30 ms of every 100, make no path bad and send little again") {
  for (const bool both : {false, true}) {
    CAPTURE(both);
    EnginePair pair(busy_processes(true), 7);
    mrc::test::Steps steps(pair, {.steps = 2000, .size = 256 << 10, .depth = 4});
    steps.between = [&] {
      for (unsigned side = both ? 0 : 1; side < 2; ++side) {
        const Duration phase = (pair.now() - Time{} + 20ms * side) % 100ms;
        if (phase > 30ms && !pair.stalled(side)) pair.stall(side, pair.now() + 100ms - phase);
      }
    };
    CHECK(steps.run(60s));
    CHECK(pair[0].stats().tx_retransmits * 100 < pair[0].stats().tx_data);
    CHECK(times_bad(pair, 0) + times_bad(pair, 1) == 0);
  }
}

TEST_CASE("stall: losses are found by a sender that is stopped now and then") {
  EnginePair pair(busy_hosts(), 7);
  pair.faults.loss = 0.005;
  stop_within_bursts(pair, 2ms);
  CHECK(pair[0].stats().inferred_losses > 100);
  CHECK(pair[0].stats().timeouts < 10);
}

TEST_CASE("stall: losses are found by a sender that is always late") {
  EnginePair pair(busy_hosts(), 7);
  pair.faults.loss = 0.01;
  mrc::test::Steps steps(pair, {.steps = 100, .size = 64 << 10, .depth = 4});
  bool stops = false;
  steps.between = [&] {  // it runs every millisecond, for a moment
    if (pair.stalled(0)) return;
    if (stops) pair.stall(0, pair.now() + 1ms);
    stops = !stops;
  };
  CHECK(steps.run(10s));
  CHECK(pair[0].stats().inferred_losses > 20);
  CHECK(steps.elapsed() < 2s);
}

TEST_CASE("stall: the retransmission timer has as much longer as the engine was not driven") {
  Single s;  // T(12), 4.2 ms
  REQUIRE(s.post({}) == Errc::ok);
  (void)s.transmit();
  s.now += 30ms;
  s.engine.on_time(s.now);
  CHECK(s.qp().stats.timeouts == 0);
  (void)s.advance(timeout_value(12) - 1ns);
  CHECK(s.engine.next_deadline() == s.now + 1ns);
  CHECK(s.qp().stats.timeouts == 0);
  (void)s.advance(1ns);
  CHECK(s.qp().stats.timeouts == 1);
  (void)s.advance(timeout_value(12) - 1ns);
  s.now += 400us;  // no later than threads wake up now and then
  s.engine.on_time(s.now);
  CHECK(s.qp().stats.timeouts == 2);
}

TEST_CASE("stall: the timer expires in an engine that is always driven late") {
  Single s;
  REQUIRE(s.post({}) == Errc::ok);
  for (unsigned i = 0; i < 20; ++i) {
    (void)s.transmit();
    s.now += 10ms;
    s.engine.on_time(s.now);
  }
  CHECK(s.qp().stats.timeouts >= 5);
}

TEST_CASE("stall: an idle engine that nobody drives has not stalled") {
  Single s;
  s.now += 1s;
  REQUIRE(s.post({}) == Errc::ok);
  (void)s.advance(timeout_value(12));
  CHECK(s.qp().stats.timeouts == 1);
}

TEST_CASE("stall: a peer that is stopped between its ports has lost nothing") {
  for (const bool waits : {true, false}) {
    CAPTURE(waits);
    Single::Setup setup;
    setup.options.cc.nscc.base_rtt = 45us;
    setup.options.peers_stop = waits;
    setup.attributes.timeout = 13;  // 8.4 ms
    Single s(setup);
    std::int32_t last = -1;
    for (unsigned i = 0; i < 20; ++i) {  // round trips of 50 us
      REQUIRE(s.post({.length = 8 * 1024}) == Errc::ok);
      const SentList out = data_of(s.transmit());
      REQUIRE(out.size() == 8);
      (void)s.advance(50us);
      last += 8;
      s.sack({.cack = last, .trigger = &out.back()});
      s.ack(static_cast<std::uint16_t>(i), static_cast<std::uint32_t>(last));
    }
    REQUIRE(s.post({.length = 8 * 1024}) == Errc::ok);
    const SentList out = data_of(s.transmit());
    REQUIRE(out.size() == 8);
    (void)s.advance(50us);
    // It has read the first and the last packet from one port.
    s.sack({.cack = last, .bitmap = 0b1000'0001, .trigger = &out.back()});
    (void)s.advance(4ms);
    CHECK(s.engine.stats().probes_sent > 0);
    CHECK((s.engine.stats().inferred_losses == 0) == waits);
    if (!waits) continue;
    // It runs again and has not got them; what it says at first is not about them.
    s.ack(19, static_cast<std::uint32_t>(last));
    (void)s.advance(500us);
    CHECK(s.engine.stats().inferred_losses == 6);
  }
}

}  // namespace unscheduled_test
