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
using wire::Syndrome;

namespace {

/// The oldest completion of the send queue, which there has to be.
Completion first_completion(ScriptedPeer& peer) {
  const auto all = peer.completions(peer.send_cq);
  REQUIRE_FALSE(all.empty());
  return all.front();
}

/// A setup whose timers stay out of the way, and one whose losses only timers find.
ScriptedPeer::Setup patient() {
  ScriptedPeer::Setup s;
  s.attributes.timeout = 24;
  return s;
}

}  // namespace

TEST_CASE("requester: what stands in the data packets of a message [C-7] [O-16] [O-22]") {
  ScriptedPeer peer;
  REQUIRE(peer.post(2500) == Errc::ok);
  REQUIRE(peer.post(0) == Errc::ok);
  REQUIRE(peer.post(10, true) == Errc::ok);
  REQUIRE(peer.post(1024 + 8, true) == Errc::ok);
  const auto out = peer.sent();
  REQUIRE(out.size() == 7);
  struct Expected {
    Opcode opcode;
    std::uint16_t msn, rqmsn;
    std::uint32_t dma_length, offset, payload;
  };
  const Expected expected[] = {
      {Opcode::write_first, 0, 0, 2500, 0, 1024},
      {Opcode::write_middle, 0, 0, 2500, 1024, 1024},
      {Opcode::write_last, 0, 0, 2500, 2048, 452},
      {Opcode::write_only, 1, 0, 0, 0, 0},
      {Opcode::write_only_imm, 2, 0, 10, 0, 10},
      {Opcode::write_first, 3, 1, 1032, 0, 1024},
      {Opcode::write_last_imm, 3, 1, 1032, 1024, 8},
  };
  for (std::size_t i = 0; i < out.size(); ++i) {
    INFO("packet ", i);
    const Expected& e = expected[i];
    const auto w = out[i].write();
    CHECK(w.bth->opcode() == e.opcode);
    CHECK(w.bth->psn() == peer.qp().start_psn + static_cast<std::int32_t>(i));
    CHECK(w.bth->dqp() == peer.remote.qpn);
    CHECK(w.bth->p_key() == 0xFFFF);
    CHECK_FALSE(w.bth->rtx());
    CHECK(w.bth->pad() == (4 - e.payload % 4) % 4);
    CHECK(w.meth->msn == e.msn);
    CHECK(w.meth->rqmsn == e.rqmsn);
    CHECK(w.reth->va == 0xAB'0000'0000 + e.offset);
    CHECK(w.reth->rkey == 0x1234'5678);
    CHECK(w.reth->dma_length == e.dma_length);
    CHECK(w.payload.size() == e.payload);
    CHECK((w.imm != nullptr) == wire::has_immediate(e.opcode));
    REQUIRE(w.tseth != nullptr);
    CHECK(w.tseth->tx_timestamp == wire::timestamp_of(out[i].at));
    CHECK(w.tseth->tick_is_128ns());  // [O-13]
    CHECK(w.tseth->ftype() == 1);
    CHECK(out[i].head.ecn == Ecn::ect0);
    CHECK(out[i].head.dscp == 4);  // trimmable
    // Only what is last in line asks for a SACK.
    CHECK(w.bth->ack_request() == (i + 1 == out.size()));
  }
}

TEST_CASE("requester: towards a peer that can't answer trims, data goes as no_trim") {
  ScriptedPeer::Setup setup;
  setup.remote.trim_nack = false;
  ScriptedPeer peer(setup);
  REQUIRE(peer.post(8) == Errc::ok);
  const auto out = peer.sent();
  REQUIRE(out.size() == 1);
  CHECK(out[0].head.dscp == 0);
}

TEST_CASE("requester: a retransmission keeps its numbers and takes another path and class") {
  ScriptedPeer peer(patient());
  REQUIRE(peer.post(2048) == Errc::ok);
  const auto first = peer.sent_data();
  REQUIRE(first.size() == 2);
  peer.now += 3us;
  peer.receive_nack(first[0], NackReason::trimmed);
  REQUIRE(peer.post(8) == Errc::ok);
  const auto again = peer.sent_data();
  REQUIRE(again.size() == 2);  // before what is new
  CHECK(again[0].psn() == first[0].psn());
  CHECK(again[1].psn() == first[1].psn() + 1);
  const auto a = first[0].write(), b = again[0].write();
  CHECK(b.bth->rtx());
  CHECK(b.bth->opcode() == a.bth->opcode());
  CHECK(b.meth->msn == a.meth->msn);
  CHECK(b.reth->va == a.reth->va);
  CHECK(std::equal(a.payload.begin(), a.payload.end(), b.payload.begin(), b.payload.end()));
  CHECK(b.tseth->tx_timestamp == wire::timestamp_of(peer.now));
  CHECK(again[0].head.plane != first[0].head.plane);
  CHECK(again[0].head.dscp == 8);
}

TEST_CASE("requester: no PSN beyond cack + the smaller MPR") {
  for (const bool ours : {false, true}) {
    ScriptedPeer::Setup setup = patient();
    setup.attributes.mpr = ours ? 1 : 4;
    setup.remote.mpr_dest = ours ? 4 : 1;
    ScriptedPeer peer(setup);
    REQUIRE(peer.post(200 * 1024) == Errc::ok);
    auto out = peer.sent_data();
    REQUIRE(out.size() == 128);
    // A packet far ahead does not move the window, the oldest one does.
    peer.receive_sack(out[60], peer.qp().start_psn - 1);
    CHECK(peer.sent_data().empty());
    peer.receive_sack(out[60], out[0].psn());
    CHECK(peer.sent_data().size() == 1);
  }
}

TEST_CASE("requester: Dynamic MPR stops new packets and holds retransmissions beyond the edge") {
  ScriptedPeer::Setup setup = patient();
  setup.attributes.mpr = setup.remote.mpr_dest = 4;
  ScriptedPeer peer(setup);
  REQUIRE(peer.post(1000 * 1024) == Errc::ok);
  const auto out = peer.sent_data();
  REQUIRE(out.size() == 512);
  SackSpec s{.cack = out[99].psn(), .trigger = out[99].psn(), .mpr = 1};
  peer.receive(s);  // the edge is now 228: nothing new, although cack went up
  CHECK(peer.sent_data().empty());
  peer.receive_nack(out[300], NackReason::trimmed);
  CHECK(peer.sent_data().empty());
  peer.receive_nack(out[150], NackReason::trimmed);
  CHECK(peer.sent_data().size() == 1);
  s = {.cack = out[200].psn(), .trigger = out[200].psn(), .mpr = 1};
  peer.receive(s);  // the edge is 329
  const auto again = peer.sent_data();
  REQUIRE(again.size() == 1);
  CHECK(again[0].psn() == out[300].psn());
  // 0 means "feature off", not "window zero"; a larger value counts at once.
  s.mpr = 0;
  peer.receive(s);
  CHECK(peer.sent_data().empty());
  s.mpr = 200;
  peer.receive(s);
  CHECK(peer.sent_data().size() == 201);  // but never more than was agreed
}

TEST_CASE("requester: WriteImm in flight are at most the smaller of both limits") {
  ScriptedPeer::Setup setup = patient();
  setup.attributes.max_wimm = 8;
  setup.remote.max_wimm_dest = 3;
  ScriptedPeer peer(setup);
  for (unsigned i = 0; i < 5; ++i) REQUIRE(peer.post(8, true) == Errc::ok);
  REQUIRE(peer.post(8) == Errc::ok);
  auto out = peer.sent_data();
  REQUIRE(out.size() == 3);
  // Received is not delivered: only Transport ACKs make room.
  peer.receive_sack(out[2], out[2].psn());
  CHECK(peer.sent_data().empty());
  peer.receive_ack(out[1].psn(), 1);
  CHECK(peer.sent_data().size() == 3);  // two WriteImm, then the plain write
}

TEST_CASE("requester: a Transport ACK completes everything up to its MSN, in order [O-15]") {
  ScriptedPeer peer(patient());
  for (std::uint64_t i = 0; i < 3; ++i) REQUIRE(peer.post(1500, false, 70 + i) == Errc::ok);
  const auto out = peer.sent_data();
  REQUIRE(out.size() == 6);
  peer.receive_sack(out[5], out[5].psn());
  CHECK(peer.completions(peer.send_cq).empty());  // reception is no completion
  peer.receive_ack(out[3].psn(), 1);
  auto done = peer.completions(peer.send_cq);
  REQUIRE(done.size() == 2);
  CHECK(done[0].wr_id == 70);
  CHECK(done[1].wr_id == 71);
  // For messages never sent, or with a PSN from before the message's end: no effect.
  peer.receive_ack(out[5].psn(), 9);
  peer.receive_ack(out[4].psn(), 2);
  CHECK(peer.completions(peer.send_cq).empty());
  CHECK(peer.engine.stats().drops.implausible == 2);
  peer.receive_ack(out[5].psn(), 2);
  CHECK(peer.completions(peer.send_cq).size() == 1);
}

TEST_CASE("requester: NAKs fail the request that they name and flush the rest") {
  struct Case {
    Syndrome code;
    WcStatus status;
    QpErrorCause cause;
  };
  for (const Case& c : {Case{Syndrome::invalid_request, WcStatus::rem_inv_req_err,
                             QpErrorCause::nak_invalid_request},
                        Case{Syndrome::remote_access_error, WcStatus::rem_access_err,
                             QpErrorCause::nak_remote_access},
                        Case{Syndrome::remote_operational_error, WcStatus::rem_op_err,
                             QpErrorCause::nak_remote_operational}}) {
    ScriptedPeer peer(patient());
    for (std::uint64_t i = 0; i < 3; ++i) REQUIRE(peer.post(8, false, i) == Errc::ok);
    const auto out = peer.sent_data();
    peer.receive_ack(out[1].psn(), 0, c.code);
    CHECK(peer.qp().state == QpState::err);
    CHECK(peer.qp().cause == c.cause);
    const auto done = peer.completions(peer.send_cq);
    REQUIRE(done.size() == 3);
    CHECK(done[0].status == WcStatus::wr_flush_err);
    CHECK(done[1].status == c.status);
    CHECK(done[2].status == WcStatus::wr_flush_err);
  }
}

TEST_CASE("requester: NACK TRIMMED resends at once and skips the path, LASTHOP leaves the path") {
  for (const auto reason : {NackReason::trimmed, NackReason::trimmed_last_hop}) {
    ScriptedPeer peer(patient());
    REQUIRE(peer.post(8) == Errc::ok);
    const auto out = peer.sent_data();
    peer.now += 1us;
    peer.receive_nack(out[0], reason);
    CHECK(peer.health(out[0].head.entropy) ==
          (reason == NackReason::trimmed ? path::Health::skip : path::Health::good));
    const auto again = peer.sent_data();
    REQUIRE(again.size() == 1);
    CHECK(again[0].head.entropy != out[0].head.entropy);
    CHECK(peer.qp().tx.retries.used() == 0);
    // The same NACK once more speaks of the first copy: its time stamp says so.
    peer.receive_nack(out[0], reason);
    CHECK(peer.engine.stats().drops.stale == 1);
    CHECK(peer.sent_data().empty());
  }
}

TEST_CASE("requester: NACKs for want of resources pause a round trip and take a retry") {
  for (const auto reason : {NackReason::no_bitmap, NackReason::no_pkt_buffer,
                            NackReason::no_resource, NackReason::psn_oor_window}) {
    ScriptedPeer::Setup setup = patient();
    setup.attributes.retry_linear = 2;
    setup.attributes.retry_exponential = 0;
    ScriptedPeer peer(setup);
    REQUIRE(peer.post(8, false, 5) == Errc::ok);
    auto out = peer.sent_data();
    for (unsigned i = 0; i < 2; ++i) {
      const Time refused = peer.now;
      peer.receive_nack(out[0], reason);
      CHECK(peer.health(out[0].head.entropy) == path::Health::good);
      CHECK(peer.sent_data().empty());
      peer.pass(100us);
      out = peer.sent_data();
      REQUIRE(out.size() == 1);
      // base_rtt + target_qdelay, both 12 us without trimming.
      CHECK(out[0].at == refused + 24us);
      CHECK(peer.qp().tx.retries.used() == i + 1);
    }
    peer.receive_nack(out[0], reason);
    CHECK(peer.qp().cause == QpErrorCause::retry_exhausted);
    CHECK(first_completion(peer).status == WcStatus::retry_exc_err);
  }
}

TEST_CASE("requester: NACK UNEXP_EVENT is fatal, for a stale PSN it is nothing") {
  ScriptedPeer peer(patient());
  REQUIRE(peer.post(8, false, 5) == Errc::ok);
  auto out = peer.sent_data();
  wire::NackPacket stale{wire::Bth::make(Opcode::nack, peer.qpn, out[0].psn() - 1), {}};
  stale.neth.set_reason(NackReason::unexp_event);
  stale.neth.set_nack_psn(out[0].psn() - 1);
  peer.receive_packet(stale);
  CHECK(peer.qp().state == QpState::rts);
  peer.receive_nack(out[0], NackReason::unexp_event);
  CHECK(peer.qp().state == QpState::err);
  CHECK(peer.qp().cause == QpErrorCause::peer_in_error);
  CHECK(first_completion(peer).status == WcStatus::rem_op_err);
}

TEST_CASE("requester: SACK marks act on the reflected path [O-5]") {
  ScriptedPeer peer(patient());
  REQUIRE(peer.post(3 * 1024) == Errc::ok);
  const auto out = peer.sent_data();
  REQUIRE(out.size() == 3);
  peer.receive_sack(out[0], out[0].psn(), SackMark::skip_once);
  CHECK(peer.health(out[0].head.entropy) == path::Health::skip);
  peer.receive_sack(out[1], out[1].psn(), SackMark::always_skip);
  CHECK(peer.health(out[1].head.entropy) == path::Health::assumed_bad);
  peer.receive_sack(out[2], out[2].psn(), SackMark::reserved);
  CHECK(peer.health(out[2].head.entropy) == path::Health::good);
}

TEST_CASE("requester: a SACK's reserved fields and spdcid/dpdcid mean nothing [C-4] [C-21] [O-11]") {
  ScriptedPeer peer(patient());
  REQUIRE(peer.post(8) == Errc::ok);
  const auto out = peer.sent_data();
  wire::SackPacket p{wire::Bth::make(Opcode::sack, peer.qpn, out[0].psn()), {}, {}};
  p.seth.set_cack_psn(out[0].psn());
  p.seth.flags_ = static_cast<std::uint16_t>(0xFFFF & ~(wire::Seth::kMarkMask | wire::Seth::kProbeBit));
  p.seth.set_spdcid(0xFFFF);
  p.seth.set_dpdcid(0xFFFF);
  p.seth.reserved_ = 0xFF;
  p.seth.set_cc(0, 0xF);
  p.bth.se_m_pad_tver = 0xC0;  // se and m
  p.bth.a_rtx_ts = 0x4F;       // reserved bits
  p.bth.set_p_key(0x1234);
  peer.receive_packet(p);
  CHECK(peer.qp().tx.window.empty());
}

TEST_CASE("requester: any sack_offset is taken, set bits count and clear ones say nothing") {
  ScriptedPeer peer(patient());
  REQUIRE(peer.post(100 * 1024) == Errc::ok);
  const auto out = peer.sent_data();
  REQUIRE(out.size() == 100);
  // Bits from 10 below cack on: what is acknowledged is 1, then 81 and 83.
  SackSpec s{.cack = out[79].psn(), .trigger = out[83].psn(), .offset = -9};
  s.bitmap = 0x3FF | std::uint64_t{1} << 11 | std::uint64_t{1} << 13;
  peer.receive(s);
  CHECK(peer.qp().tx.window.unacked() == out[80].psn());
  CHECK(peer.qp().tx.window.outstanding() == 18);
  s.bitmap = 0;
  peer.receive(s);  // takes nothing back
  CHECK(peer.qp().tx.window.outstanding() == 18);
  // What can't be is dropped: packets never sent, or far behind.
  s = {.cack = out[99].psn() + 1, .trigger = out[99].psn()};
  peer.receive(s);
  CHECK(peer.engine.stats().drops.implausible == 1);
  s = {.cack = out[0].psn() - 0x10000, .trigger = out[0].psn()};
  peer.receive(s);
  CHECK(peer.engine.stats().drops.stale == 1);
  CHECK(peer.qp().tx.window.outstanding() == 18);
}

TEST_CASE("requester: a round trip is measured on exactly the packet that the SACK names") {
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

TEST_CASE("requester: losses by gaps, and by age with one later report [O-3]") {
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

TEST_CASE("requester: a report from another plane makes a loss only at twice the age") {
  ScriptedPeer peer(patient());
  REQUIRE(peer.post(8 * 1024) == Errc::ok);
  const auto out = peer.sent_data();
  REQUIRE(out.size() == 8);
  // The first packet of the other plane is in, and nothing else.
  const std::size_t other = out[1].head.plane != out[0].head.plane ? 1 : 2;
  REQUIRE(out[other].head.plane != out[0].head.plane);
  peer.receive(SackSpec{.cack = out[0].psn() - 1,
                        .trigger = out[other].psn(),
                        .bitmap = std::uint64_t{1} << other});
  peer.pass(47us);
  CHECK(peer.sent_data().empty());
  peer.pass(2us);
  const auto again = peer.sent_data();
  REQUIRE(again.size() == other);
  CHECK(again[0].psn() == out[0].psn());
  CHECK(again[0].at == out[0].at + 48us);
}

TEST_CASE("requester: hosts that answer late raise the age at which packets count as lost") {
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

TEST_CASE("requester: bursts on a path raise the number of reports that make a loss") {
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

TEST_CASE("requester: three losses in a row make a path ASSUMED_BAD, a delivery between does not [O-4]") {
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
    CHECK(peer.health(victim) ==
          (between ? path::Health::good : path::Health::assumed_bad));
  }
}

TEST_CASE("requester: a timeout resends the oldest packet elsewhere and suspects its path") {
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
  std::erase_if(again, [&](const Sent& s) {
    return !wire::is_write(s.opcode()) || s.psn() != out[0].psn();
  });
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

TEST_CASE("requester: the timeout is at least two round trips, whatever n says [O-20]") {
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
}

TEST_CASE("requester: progress of cack gives retries back, a bitmap alone does not") {
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

TEST_CASE("requester: reliability probes after a round trip, five at most, without a PSN [O-6]") {
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

TEST_CASE("requester: with more to send, probes wait for three round trips") {
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

TEST_CASE("requester: queue pairs to one destination share window, paths and turns [C-12] [O-26]") {
  ScriptedPeer::Setup setup = patient();
  setup.options.cc.algorithm = cc::Algorithm::fixed;
  setup.options.cc.fixed_window = 10 * 1112;  // ten packets of 1,024 B
  ScriptedPeer peer(setup);
  RemoteQp to = peer.remote;
  to.qpn = Qpn{0x01'00'08};
  const Qpn second = peer.add_qp(setup, to);
  const Qpn first = peer.qpn;
  REQUIRE(peer.post(50 * 1024) == Errc::ok);
  peer.qpn = second;
  REQUIRE(peer.post(50 * 1024) == Errc::ok);
  const auto out = peer.sent_data();
  REQUIRE(out.size() == 10);  // inflight + size <= cwnd
  for (std::size_t i = 0; i < out.size(); ++i)
    CHECK(out[i].head.owner == (i % 2 == 0 ? first : second));
  CHECK(peer.engine.find_peer(peer.peer)->congestion.inflight() == 10 * 1112);
  // What one of them learns about a path, the other one heeds.
  peer.receive_sack(out[1], out[1].psn(), SackMark::always_skip);
  const auto& shared = *peer.engine.find_peer(peer.peer);
  CHECK(shared.paths.health(shared.paths.find(out[1].head.entropy)) == path::Health::assumed_bad);
}

TEST_CASE("requester: at the end of the window every packet asks for a SACK") {
  ScriptedPeer::Setup setup = patient();
  setup.options.cc.algorithm = cc::Algorithm::nscc;
  setup.options.cc.nscc.mtu = 1200;
  setup.options.cc.nscc.max_cwnd = 40'000;
  ScriptedPeer peer(setup);
  REQUIRE(peer.post(100 * 1024) == Errc::ok);
  const auto out = peer.sent_data();
  REQUIRE(out.size() == 35);  // 35 x 1,112 = 38,920
  for (std::size_t i = 0; i < out.size(); ++i)
    CHECK(out[i].bth().ack_request() == (40'000 - (i + 1) * 1112 < 1200));
}

TEST_CASE("requester: a peer's buffers bound what is under way in each plane") {
  engine::EngineOptions options = ScriptedPeer::unlimited();
  engine::Engine engine(options);
  engine::PeerSpec spec;
  spec.slot = 1;
  spec.planes = 0b11;
  spec.plane_window = 5000;
  for (unsigned i = 0; i < 8; ++i)
    spec.paths.push_back({Ev{i + 1}, static_cast<Plane>(i % 2), static_cast<std::uint16_t>(i / 2)});
  const PeerId peer = *engine.add_peer(spec);
  std::vector<std::uint8_t> memory(200 * 1024);
  engine::QpInit init;
  init.pd = *engine.alloc_pd();
  const auto key = *engine.register_memory(memory.data(), memory.size(), Access::none, init.pd);
  init.send_cq = init.receive_cq = *engine.create_cq(16);
  init.attributes.mtu = 1024;
  const Qpn qpn = *engine.create_qp(init);
  RemoteQp remote;
  remote.peer = peer;
  remote.qpn = Qpn{0x01'00'07};
  const Time now{};
  REQUIRE(engine.to_init(qpn) == Errc::ok);
  REQUIRE(engine.to_rtr(qpn, remote) == Errc::ok);
  REQUIRE(engine.to_rts(qpn, now) == Errc::ok);
  const Sge piece{memory.data(), 200 * 1024, key};
  WriteRequest r;
  r.pieces = {&piece, 1};
  REQUIRE(engine.post_write(qpn, r, now) == Errc::ok);
  wire::TxBurst burst;
  engine.poll_transmit(now, ~PlaneMask{0}, burst);
  std::uint64_t bytes[2] = {};
  for (const auto& p : burst.packets()) bytes[p.plane] += p.transport_length() + 8 + 40;
  for (const std::uint64_t n : bytes) {
    CHECK(n >= 5000);
    CHECK(n < 5000 + 1112);  // the packet that reaches the limit is the last
  }
}
