// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

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

/// A retransmission timer that stays out of the way.
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
      {Opcode::write_first, 0, 0, 2500, 0, 1024},    {Opcode::write_middle, 0, 0, 2500, 1024, 1024},
      {Opcode::write_last, 0, 0, 2500, 2048, 452},   {Opcode::write_only, 1, 0, 0, 0, 0},
      {Opcode::write_only_imm, 2, 0, 10, 0, 10},     {Opcode::write_first, 3, 1, 1032, 0, 1024},
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

TEST_CASE(
    "requester: a SACK's reserved fields and spdcid/dpdcid mean nothing [C-4] [C-21] [O-11]") {
  ScriptedPeer peer(patient());
  REQUIRE(peer.post(8) == Errc::ok);
  const auto out = peer.sent_data();
  wire::SackPacket p{wire::Bth::make(Opcode::sack, peer.qpn, out[0].psn()), {}, {}};
  p.seth.set_cack_psn(out[0].psn());
  p.seth.flags_ =
      static_cast<std::uint16_t>(0xFFFF & ~(wire::Seth::kMarkMask | wire::Seth::kProbeBit));
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
