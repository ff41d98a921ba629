// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <set>

#include "conformance/scripted_peer.hpp"

using namespace mrc;
using namespace mrc::test;
using namespace std::chrono_literals;
using wire::NackReason;
using wire::Opcode;
using wire::SackMark;

namespace {

/// A retransmission timer that stays out of the way.
ScriptedPeer::Setup patient() {
  ScriptedPeer::Setup s;
  s.attributes.timeout = 24;
  return s;
}

}  // namespace

TEST_CASE("loss: a round trip is measured on exactly the packet that the SACK names") {
  ScriptedPeer peer(patient());
  REQUIRE(peer.post(4 * 1024) == Errc::ok);
  const auto out = peer.sent_data();
  peer.now += 7us;
  SackSpec s{.cack = out[0].psn(), .trigger = out[0].psn(), .timestamp = 0x5555};
  peer.receive(s);  // not the time stamp that was sent
  CHECK(peer.qp().tx.rtt.smoothed() == 0ns);
  peer.receive_sack(out[1], out[1].psn());
  CHECK(peer.qp().tx.rtt.smoothed() == 7us);
  // Sent once, so the record decides, however old: 20 ms is more than a time stamp's span.
  peer.now = out[2].at + 20ms;
  peer.receive_sack(out[2], out[2].psn());
  CHECK(peer.qp().tx.rtt.smoothed() > 2ms);
  // Sent twice: an answer that comes later than half the span could be to either copy.
  const Duration before = peer.qp().tx.rtt.smoothed();
  peer.receive_nack(out[3], NackReason::trimmed);
  const auto again = peer.sent_data();
  REQUIRE(again.size() == 1);
  peer.now += 5ms;
  peer.receive_sack(again[0], again[0].psn());
  CHECK(peer.qp().tx.rtt.smoothed() == before);
}

TEST_CASE("loss: losses by gaps, and by age with one later report [O-3]") {
  ScriptedPeer::Setup setup = patient();
  setup.planes = 1;
  setup.paths = 8;  // R = 12
  ScriptedPeer peer(setup);
  REQUIRE(peer.post(40 * 1024) == Errc::ok);
  auto out = peer.sent_data();
  REQUIRE(out.size() == 40);
  const auto report = [&](std::uint64_t bits) {
    peer.receive(SackSpec{
        .cack = peer.qp().start_psn - 1, .trigger = out[1].psn(), .offset = 1, .bitmap = bits});
  };
  report(0xFFE);  // 1 to 11: eleven sent later
  CHECK(peer.sent_data().empty());
  report(0x1FFE);  // the twelfth
  auto again = peer.sent_data();
  REQUIRE(again.size() == 1);
  CHECK(again[0].psn() == out[0].psn());
  // 13 and 14 are silent, 15 is in: lost when they have had base_rtt + target_qdelay.
  report(0x9FFE);
  CHECK(peer.sent_data().empty());
  peer.pass(23us);
  CHECK(peer.sent_data().empty());
  peer.pass(2us);
  again = peer.sent_data();
  REQUIRE(again.size() == 2);
  CHECK(again[0].psn() == out[13].psn());
  CHECK(again[0].at == out[13].at + 24us);
  CHECK(again[1].psn() == out[14].psn());
}

TEST_CASE("loss: a report from another plane makes a loss only at twice the age") {
  ScriptedPeer peer(patient());
  REQUIRE(peer.post(8 * 1024) == Errc::ok);
  const auto out = peer.sent_data();
  REQUIRE(out.size() == 8);
  // The first packet of the other plane is in, and nothing else.
  const std::size_t other = out[1].head.plane != out[0].head.plane ? 1 : 2;
  REQUIRE(out[other].head.plane != out[0].head.plane);
  peer.receive(SackSpec{
      .cack = out[0].psn() - 1, .trigger = out[other].psn(), .bitmap = std::uint64_t{1} << other});
  peer.pass(47us);
  CHECK(peer.sent_data().empty());
  peer.pass(2us);
  const auto again = peer.sent_data();
  REQUIRE(again.size() == other);
  CHECK(again[0].psn() == out[0].psn());
  CHECK(again[0].at == out[0].at + 48us);
}

TEST_CASE("loss: hosts that answer late raise the age at which packets count as lost") {
  ScriptedPeer::Setup setup = patient();
  setup.planes = 1;
  ScriptedPeer peer(setup);
  REQUIRE(peer.post(4 * 1024) == Errc::ok);
  const auto out = peer.sent_data();
  peer.now += 400us;  // srtt 400, rttvar 200: bound 1,200 us
  peer.receive_sack(out[2], peer.qp().start_psn - 1);
  CHECK(peer.sent_data().empty());
  peer.pass(790us);
  CHECK(peer.sent_data().empty());
  peer.pass(20us);
  CHECK(peer.sent_data().size() == 2);  // 0 and 1; nothing later than 3 is in
}

TEST_CASE("loss: bursts on a path raise the number of reports that make a loss") {
  ScriptedPeer::Setup setup = patient();
  setup.planes = 1;
  setup.paths = 2;
  setup.options.burst = 4;  // R = 1.5 x 2 x 4
  ScriptedPeer peer(setup);
  REQUIRE(peer.post(20 * 1024) == Errc::ok);
  const auto out = peer.sent_data();
  for (unsigned i = 0; i < 20; i += 4)  // four in a row go one way
    for (unsigned k = 1; k < 4; ++k) CHECK(out[i + k].head.entropy == out[i].head.entropy);
  SackSpec s{.cack = out[0].psn() - 1, .trigger = out[1].psn(), .bitmap = 0xFFE};
  peer.receive(s);
  CHECK(peer.sent_data().empty());
  s.bitmap = 0x1FFE;
  peer.receive(s);
  CHECK(peer.sent_data().size() == 1);
}

TEST_CASE("loss: three losses in a row make a path ASSUMED_BAD, two do not [O-4]") {
  for (const bool between : {false, true}) {
    ScriptedPeer::Setup setup = patient();
    setup.planes = 1;
    setup.paths = 2;
    ScriptedPeer peer(setup);
    REQUIRE(peer.post(63 * 1024) == Errc::ok);
    const auto out = peer.sent_data();
    const Ev victim = out[0].head.entropy;
    unsigned on_victim = 0;
    SackSpec s{.cack = out[0].psn() - 1, .trigger = out[62].psn()};
    for (unsigned i = 0; i < 63; ++i) {
      const bool lost = out[i].head.entropy == victim && on_victim++ < 3;
      if (!lost || (between && on_victim == 2)) s.bitmap |= std::uint64_t{1} << i;
    }
    peer.receive(s);
    CHECK(peer.sent_data().size() == (between ? 2 : 3));
    CHECK(peer.health(victim) == (between ? path::Health::good : path::Health::assumed_bad));
  }
}

TEST_CASE("loss: a timeout resends the oldest packet elsewhere and suspects its path") {
  ScriptedPeer::Setup setup;
  setup.attributes.timeout = 10;  // 1.048576 ms
  setup.attributes.retry_linear = 1;
  setup.attributes.retry_exponential = 2;
  ScriptedPeer peer(setup);
  REQUIRE(peer.post(8, false, 1) == Errc::ok);
  REQUIRE(peer.post(8, false, 2) == Errc::ok);
  const auto out = peer.sent_data();
  const Time start = peer.now;
  peer.pass(20ms);
  auto again = peer.sent();
  std::erase_if(
      again, [&](const Sent& s) { return !wire::is_write(s.opcode()) || s.psn() != out[0].psn(); });
  // One linear wait, then doubling [C-8]: after T, T, 2T; and after 4T it is over.
  const Duration t{1'048'576};
  REQUIRE(again.size() == 3);
  CHECK(again[0].at == start + t);
  CHECK(again[1].at == start + 2 * t);
  CHECK(again[2].at == start + 4 * t);
  CHECK(again[0].head.entropy != out[0].head.entropy);
  CHECK(again[0].bth().rtx());
  CHECK(peer.health(out[0].head.entropy) == path::Health::assumed_bad);
  CHECK(peer.qp().cause == QpErrorCause::retry_exhausted);
  const auto done = peer.completions(peer.send_cq);
  REQUIRE(done.size() == 2);
  CHECK(done[0].wr_id == 1);
  CHECK(done[0].status == WcStatus::retry_exc_err);
  CHECK(done[1].status == WcStatus::wr_flush_err);
}

TEST_CASE("loss: the timeout is at least two round trips, whatever n says [O-20]") {
  ScriptedPeer::Setup setup;
  setup.attributes.timeout = 0;  // 1.024 us
  ScriptedPeer peer(setup);
  REQUIRE(peer.post(8) == Errc::ok);
  const Time start = peer.now;
  (void)peer.sent();
  peer.pass(30us);
  const auto again = peer.sent_data();
  REQUIRE(again.size() == 1);
  CHECK(again[0].at == start + 24us);  // 2 x base_rtt
  // Nor is it shorter than what round trips take at present: 400 us, and as much again for luck.
  peer.receive_ack(again[0].psn(), 0);
  REQUIRE(peer.post(8) == Errc::ok);
  const auto next = peer.sent_data();
  REQUIRE(next.size() == 1);
  peer.now += 400us;
  peer.receive_sack(next[0], next[0].psn());
  peer.receive_ack(next[0].psn(), 1);
  REQUIRE(peer.post(8) == Errc::ok);
  const Time sent = peer.now;
  (void)peer.sent();
  peer.pass(5ms);
  const auto late = peer.sent_data();
  REQUIRE_FALSE(late.empty());
  CHECK(late[0].at == sent + peer.qp().tx.rtt.bound());
  CHECK(peer.qp().tx.rtt.bound() == 1200us);
}

TEST_CASE("loss: progress of cack gives retries back, a bitmap alone does not") {
  ScriptedPeer peer;
  REQUIRE(peer.post(2048) == Errc::ok);
  const auto out = peer.sent_data();
  peer.pass(1100us);
  CHECK(peer.qp().tx.retries.used() == 1);
  peer.receive(SackSpec{.cack = out[0].psn() - 1, .trigger = out[1].psn(), .bitmap = 2});
  CHECK(peer.qp().tx.retries.used() == 1);
  peer.receive(SackSpec{.cack = out[1].psn(), .trigger = out[1].psn()});
  CHECK(peer.qp().tx.retries.used() == 0);
}

TEST_CASE("loss: reliability probes after a round trip, five at most, without a PSN [O-6]") {
  ScriptedPeer::Setup setup = patient();
  ScriptedPeer peer(setup);
  REQUIRE(peer.post(8) == Errc::ok);
  const auto out = peer.sent_data();
  peer.pass(10ms);
  auto probes = peer.sent(Opcode::probe);
  REQUIRE(probes.size() == 5);
  std::set<std::uint16_t> ids;
  for (std::size_t i = 0; i < probes.size(); ++i) {
    const auto& p = probes[i].as<wire::ProbePacket>();
    CHECK(probes[i].at == out[0].at + (i + 1) * 24us);
    CHECK(p.bth.psn() == Psn{});
    CHECK(p.bth.dqp() == peer.remote.qpn);
    CHECK(p.peth.has_timestamp());
    CHECK(p.peth.tx_timestamp() == wire::timestamp_of(probes[i].at));
    CHECK(probes[i].head.dscp == 4);  // the data class
    ids.insert(p.peth.probe_id());
  }
  CHECK(ids.size() == 5);
  // An answer to an old probe counts for nothing; one to the newest says that it overtook the data.
  wire::SackPacket answer{wire::Bth::make(Opcode::sack, peer.qpn, out[0].psn() - 1), {}, {}};
  answer.seth.set_cack_psn(out[0].psn() - 1);
  answer.seth.set_probe(true);
  answer.seth.set_probe_id(probes[0].as<wire::ProbePacket>().peth.probe_id());
  peer.receive_packet(answer);
  CHECK(peer.sent_data().empty());
  answer.seth.set_probe_id(probes[4].as<wire::ProbePacket>().peth.probe_id());
  peer.receive_packet(answer);
  CHECK(peer.sent_data().size() == 1);
  CHECK(peer.engine.stats().probe_answers == 1);
}

TEST_CASE("loss: with more to send, probes wait for three round trips") {
  ScriptedPeer::Setup setup = patient();
  setup.attributes.mpr = 1;
  ScriptedPeer peer(setup);
  REQUIRE(peer.post(200 * 1024) == Errc::ok);
  const auto out = peer.sent_data();
  REQUIRE(out.size() == 128);
  peer.pass(100us);
  const auto probes = peer.sent(Opcode::probe);
  REQUIRE(probes.size() >= 1);
  CHECK(probes[0].at == out[0].at + 36us);
}
