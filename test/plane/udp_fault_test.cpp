// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <chrono>
#include <map>
#include <thread>

#include "support/plausible.hpp"
#include "udp_rig.hpp"

using namespace mrc;
using namespace mrc::port;
using namespace mrc::port::test;
using mrc::test::plausible;
using namespace std::chrono_literals;

namespace udp_fault_test {

/// Sends `count` packets in bursts, spread over all paths, receiving in between.
void stream(Rig& rig, std::uint32_t count, std::size_t payload = 256) {
  const auto paths = static_cast<std::uint32_t>(rig.sender.paths().size());
  for (std::uint32_t n = 0; n < count; ++n) {
    rig.add(n, payload, static_cast<std::uint16_t>(n / 8 % paths));
    if (n % 32 != 31 && n + 1 != count) continue;
    (void)rig.send();
    rig.receive();
  }
}

/// Receives until no packet is held back.
void settle(Rig& rig) {
  CHECK(eventually([&] { return rig.receiver.next_release() == kNever; }, [&] { rig.receive(); }));
  rig.receive();
}

/// All packets that arrived are intact and from the stream.
void check_intact(const Rig& rig, std::size_t payload = 256) {
  for (const Arrived& a : rig.arrived) {
    const auto expected = payload_of(Rig::number_of(a), payload);
    REQUIRE(a.bytes.size() == 12 + payload);
    REQUIRE(std::equal(expected.begin(), expected.end(), a.bytes.begin() + 12));
  }
}

TEST_CASE("the iCRC catches every corrupted packet") {
  for (const bool v4 : {true, false}) {
    MRC_LOOPBACK_OR_SKIP(local, v4);
    Rig rig = make_rig(local);
    FaultSpec spec;
    spec.corrupt = 0.25;
    faults_of(rig.receiver).set(spec);
    stream(rig, 4000);
    const std::uint64_t corrupted = faults_of(rig.receiver).stats().corrupted;
    CHECK(plausible(corrupted, 4000, 0.25));
    CHECK(rig.bad_icrc == corrupted);
    CHECK(rig.arrived.size() == 4000 - corrupted);
    check_intact(rig);
  }
}

TEST_CASE("without the iCRC corruption gets through") {
  MRC_LOOPBACK_OR_SKIP(local, true);
  UdpPortOptions options = options_for(local);
  options.icrc = false;
  Rig rig(options, options);
  for (Port* port : {&rig.sender, &rig.receiver}) faults_of(*port).set({.corrupt = 1});
  stream(rig, 100);
  CHECK(rig.arrived.size() == 100);
  CHECK(rig.bad_icrc == 0);
}

TEST_CASE("a black hole swallows both directions and looks fine") {
  MRC_LOOPBACK_OR_SKIP(local, true);
  Rig rig = make_rig(local);
  FaultSpec spec;
  spec.black_hole = true;
  faults_of(rig.sender).set(spec);
  stream(rig, 64);
  CHECK(rig.arrived.empty());
  CHECK(rig.sender.stats().tx_packets == 64);
  CHECK(rig.sender.stats().tx_errors == 0);
  CHECK(rig.sender.stats().tx_calls == 0);
  CHECK(rig.sender.link_up());
  faults_of(rig.sender).clear();
  faults_of(rig.receiver).set(spec);
  stream(rig, 64);
  CHECK(rig.arrived.empty());
  CHECK(faults_of(rig.receiver).stats().black_holed == 64);
}

TEST_CASE("a link that is down refuses to send, and says so") {
  MRC_LOOPBACK_OR_SKIP(local, true);
  Rig rig = make_rig(local);
  FaultSpec spec;
  spec.down = true;
  faults_of(rig.sender).set(spec);
  CHECK_FALSE(rig.sender.link_up());
  for (std::uint32_t n = 0; n < 10; ++n) rig.add(n, 64, 0);
  CHECK(rig.send() == 0);
  CHECK(faults_of(rig.sender).stats().link_down == 10);
  CHECK(rig.sender.stats().tx_packets == 0);
  faults_of(rig.sender).clear();
  CHECK(rig.sender.link_up());

  faults_of(rig.receiver).set(spec);
  stream(rig, 32);
  CHECK(rig.arrived.empty());
  CHECK(faults_of(rig.receiver).stats().link_down == 32);
  faults_of(rig.receiver).clear();
  stream(rig, 32);
  CHECK(rig.arrived.size() == 32);
}

TEST_CASE("a single path can fail on either side") {
  MRC_LOOPBACK_OR_SKIP(local, true);
  Rig rig = make_rig(local, 4);
  FaultSpec hole;
  hole.black_hole = true;
  faults_of(rig.sender).set_outbound(1, hole);
  faults_of(rig.receiver).set_inbound(rig.sender.paths()[2].ev, hole);
  FaultSpec half;
  half.loss = 0.5;
  faults_of(rig.sender).set_outbound(3, half);
  stream(rig, 4000);
  std::map<std::uint32_t, std::uint64_t> by_path;
  for (const Arrived& a : rig.arrived) ++by_path[value(a.facts.entropy)];
  const auto count = [&](std::size_t path) { return by_path[value(rig.sender.paths()[path].ev)]; };
  CHECK(count(0) == 1000);
  CHECK(count(1) == 0);
  CHECK(count(2) == 0);
  CHECK(plausible(count(3), 1000, 0.5));
  CHECK(rig.sender.stats().tx_packets == 4000);
  check_intact(rig);
}

TEST_CASE(
    "delayed packets come whole and not too soon, also when more are due than there is room for") {
  MRC_LOOPBACK_OR_SKIP(local, true);
  Rig rig = make_rig(local);
  FaultSpec spec;
  spec.delay = 20ms;
  spec.jitter = 5ms;
  faults_of(rig.receiver).set(spec);
  const Time start = Rig::now();
  stream(rig, 300);
  const Time next = rig.receiver.next_release();
  if (Rig::now() < start + 20ms) {
    CHECK(rig.arrived.empty());
    CHECK(next >= start + 20ms);
    CHECK(next < Rig::now() + 25ms);
  }
  std::this_thread::sleep_for(30ms);
  settle(rig);
  CHECK(rig.arrived.size() == 300);
  check_intact(rig);
}

}  // namespace udp_fault_test
