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

constexpr Psn kFirst{0x1000};  ///< what the scripted peer starts with

/// A packet in the middle of a message: ends none, so it makes no Transport ACK.
Data middle(Psn psn, std::size_t length = 1024) {
  Data d;
  d.psn = psn;
  d.payload.assign(length, 0x5A);
  d.opcode = Opcode::write_middle;
  d.dma_length = 1 << 20;
  return d;
}

}  // namespace

TEST_CASE("responder: a SACK when the threshold is reached, small packets counting 1 KiB [C-14]") {
  ScriptedPeer peer;
  // 16 KiB: 1,024 B of payload count 1,112, so the 15th packet goes over.
  std::int32_t n = 0;
  while (n < 14) peer.receive(middle(kFirst + n++));
  CHECK(peer.sent().empty());
  peer.receive(middle(kFirst + n++));
  CHECK(peer.sent(Opcode::sack).size() == 1);
  // Zero-length writes count 1 KiB each: exactly 16 of them are 16 KiB, and that is enough.
  Data d;
  d.payload.clear();
  d.rkey = 1;  // nothing is written, so no key is looked at
  unsigned until = 0;
  for (; until < 40; ++until) {
    d.psn = kFirst + n++;
    peer.receive(d);
    if (!peer.sent(Opcode::sack).empty()) break;
  }
  CHECK(until == 15);
}

TEST_CASE("responder: a SACK at once for a, for CE with m = 01, for rtx; not otherwise") {
  ScriptedPeer peer;
  peer.receive(middle(kFirst));
  CHECK(peer.sent().empty());
  Data d = middle(kFirst + 1);
  d.ack = true;
  peer.receive(d);
  auto sacks = peer.sent(Opcode::sack);
  REQUIRE(sacks.size() == 1);
  CHECK(sacks[0].as<wire::SackPacket>().seth.m() == SackMark::none);
  peer.receive(middle(kFirst + 2), {.ecn = Ecn::ce});
  sacks = peer.sent(Opcode::sack);
  REQUIRE(sacks.size() == 1);
  CHECK(sacks[0].as<wire::SackPacket>().seth.m() == SackMark::skip_once);
  d = middle(kFirst + 3);
  d.rtx = true;
  peer.receive(d);
  CHECK(peer.sent(Opcode::sack).size() == 1);
}

TEST_CASE("responder: what a SACK says [C-15] [C-21] [O-11]") {
  ScriptedPeer peer;
  peer.receive(middle(kFirst));
  peer.receive(middle(kFirst + 2));
  Data d = middle(kFirst + 3, 700);
  d.opcode = Opcode::write_last;
  d.ack = true;
  d.timestamp = 0x1234;
  peer.receive(d, {.plane = 1, .entropy = Ev{0x05A3'2002}});
  const auto sacks = peer.sent(Opcode::sack);
  REQUIRE(sacks.size() == 1);
  const auto& p = sacks[0].as<wire::SackPacket>();
  CHECK(p.bth.dqp() == peer.remote.qpn);
  CHECK(p.bth.psn() == kFirst);  // equals cack_psn
  CHECK(p.seth.cack_psn() == kFirst);
  CHECK(p.seth.ack_psn_offset() == 3);
  CHECK(p.seth.entropy() == Ev{0x05A3'2002});
  CHECK(p.cc.tx_timestamp() == 0x1234);
  CHECK(p.seth.spdcid() == (value(peer.qpn) & 0xFFFF));
  CHECK(p.seth.dpdcid() == (value(peer.remote.qpn) & 0xFFFF));
  CHECK(p.seth.sack_offset() == 1);
  CHECK(p.seth.sack_bitmap() == 0b110);
  CHECK(p.cc.ooo_count() == 2);
  // Nominal sizes: UDP 8 + BTH 12 + METH 4 + TSETH 4 + RETH 16 + payload + iCRC 4, and 40.
  CHECK(p.cc.rcvd_bytes() == (3 * 88 + 2 * 1024 + 700 + 255) / 256);
  CHECK(p.cc.rcv_cwnd_pen() == 0);
  CHECK_FALSE(p.cc.restore_cwnd());
  CHECK(p.seth.cc_type() == 0);
  CHECK(p.seth.cc_flags() == 0);
  CHECK((p.seth.flags_ & ~(wire::Seth::kMarkMask | wire::Seth::kProbeBit)) == 0);
  // The control class, in the plane of the trigger, Not-ECT [O-18] [O-22].
  CHECK(sacks[0].head.dscp == 46);
  CHECK(sacks[0].head.ecn == Ecn::not_ect);
  CHECK(sacks[0].head.plane == 1);
}

TEST_CASE("responder: SACK.mpr is 0 unless both sides want Dynamic MPR [O-28]") {
  for (const bool theirs : {false, true}) {
    for (const bool ours : {false, true}) {
      ScriptedPeer::Setup setup;
      setup.attributes.mpr_dest = 8;
      setup.attributes.dynamic_mpr = ours;
      setup.remote.dynamic_mpr = theirs;
      ScriptedPeer peer(setup);
      Data d = middle(kFirst);
      d.ack = true;
      peer.receive(d);
      const auto sacks = peer.sent(Opcode::sack);
      REQUIRE(sacks.size() == 1);
      CHECK(sacks[0].as<wire::SackPacket>().seth.mpr() == (ours && theirs ? 8 : 0));
      if (!(ours && theirs)) continue;
      // A smaller value is told, but what the window admitted before is still taken.
      CHECK(peer.engine.set_mpr(peer.qpn, 1) == Errc::ok);
      d = middle(kFirst + 1024);
      d.ack = true;
      peer.receive(d);
      const auto after = peer.sent();
      REQUIRE(after.size() == 1);
      REQUIRE(after[0].opcode() == Opcode::sack);
      CHECK(after[0].as<wire::SackPacket>().seth.mpr() == 1);
      CHECK(after[0].as<wire::SackPacket>().cc.ooo_count() == 1);
    }
  }
}

TEST_CASE("responder: a reliability probe is answered with pr = 1 and the newest Transport ACK") {
  ScriptedPeer peer;
  Data d;
  d.psn = kFirst;
  peer.receive(d);
  peer.receive(middle(kFirst + 2));
  (void)peer.sent();
  wire::ProbePacket probe{wire::Bth::make(Opcode::probe, peer.qpn, Psn{}), {}};
  probe.peth.set_probe_id(0x4321);
  probe.peth.set_tx_timestamp(0x7777);
  peer.receive_packet(probe, {.plane = 1, .entropy = Ev{0x2003}, .ecn = Ecn::ce});
  const auto out = peer.sent();
  REQUIRE(out.size() == 2);
  const auto& sack = out[0].as<wire::SackPacket>();
  CHECK(sack.seth.probe());
  CHECK(sack.seth.probe_id() == 0x4321);
  CHECK(sack.cc.tx_timestamp() == 0x7777);
  CHECK(sack.seth.entropy() == Ev{0x2003});
  CHECK(sack.seth.m() == SackMark::skip_once);
  CHECK(sack.seth.cack_psn() == kFirst);
  CHECK(sack.seth.sack_bitmap() == 0b10);
  CHECK(out[1].opcode() == Opcode::acknowledge);
  CHECK(out[1].psn() == kFirst);
}

TEST_CASE("responder: PSN above the window is NACKed once per round trip, below is a duplicate [C-6]") {
  ScriptedPeer::Setup setup;
  setup.attributes.mpr_dest = 8;  // 1,024 PSNs
  ScriptedPeer peer(setup);
  peer.receive(middle(kFirst + 1024));
  auto out = peer.sent();
  REQUIRE(out.size() == 1);
  const auto& nack = out[0].as<wire::NackPacket>();
  CHECK(out[0].opcode() == Opcode::nack);
  CHECK(nack.neth.reason() == NackReason::psn_oor_window);
  CHECK(nack.bth.psn() == kFirst + 1024);
  CHECK(nack.neth.nack_psn() == kFirst + 1024);
  CHECK(nack.neth.tx_timestamp() == 0xBEEF);
  CHECK(nack.neth.entropy() == Ev{0x1001});
  CHECK(nack.neth.cc_type_flags_ == 0x20);
  peer.receive(middle(kFirst + 2000));
  CHECK(peer.sent().empty());
  peer.pass(13us);  // base_rtt is 12 us
  peer.receive(middle(kFirst + 2000));
  CHECK(peer.sent(Opcode::nack).size() == 1);

  // The window's last PSN is inside. Below: nothing is written again; a SACK if a or rtx is set.
  Data d = middle(kFirst + 1023);
  peer.receive(d);
  CHECK(peer.qp().rx.window.out_of_order() == 1);
  for (const Psn below : {kFirst - 1, kFirst - 0x7F'0000, kFirst + 1023}) {
    d = middle(below);
    d.payload.assign(1024, 0x77);
    peer.receive(d);
    CHECK(peer.sent().empty());
    d.rtx = true;
    peer.receive(d);
    CHECK(peer.sent(Opcode::sack).size() == 1);
    d.rtx = false;
    d.ack = true;
    peer.receive(d);
    CHECK(peer.sent(Opcode::sack).size() == 1);
  }
  CHECK(peer.memory[0] == 0x5A);
  CHECK(peer.qp().rx.window.cack() == kFirst - 1);
}

TEST_CASE("responder: a trimmed head makes a NACK and changes nothing else [O-10]") {
  for (const auto trim : {wire::Trim::trimmed, wire::Trim::trimmed_last_hop}) {
    ScriptedPeer peer;
    auto bytes = peer.bytes_of(middle(kFirst + 5));
    const Facts facts{.trim = trim};
    for (const std::size_t kept : {std::size_t{20}, std::size_t{16}, std::size_t{12}}) {
      bytes.resize(kept);
      peer.receive(Bytes{bytes}, facts);
      const auto out = peer.sent();
      REQUIRE(out.size() == 1);
      const auto& nack = out[0].as<wire::NackPacket>();
      CHECK(nack.neth.reason() ==
            (trim == wire::Trim::trimmed ? NackReason::trimmed : NackReason::trimmed_last_hop));
      CHECK(nack.neth.nack_psn() == kFirst + 5);
      CHECK(nack.neth.tx_timestamp() == (kept == 20 ? 0xBEEF : 0));  // TSETH is there or cut off
    }
    CHECK(peer.qp().rx.window.out_of_order() == 0);
    CHECK(peer.qp().rx.rcvd_bytes == 0);
    CHECK(peer.qp().rx.since_sack == 0);

    // Nobody's, out of the window, seen already, no write, or too short: no NACK.
    const auto refused = [&](std::vector<std::uint8_t> b, Facts f) {
      f.trim = trim;
      peer.receive(Bytes{b}, f);
      CHECK(peer.sent().empty());
    };
    peer.receive(middle(kFirst));
    refused(peer.bytes_of(middle(kFirst)), {});
    refused(peer.bytes_of(middle(kFirst + 5000)), {});
    refused(peer.bytes_of(middle(kFirst + 1)), {.source = 0x999});
    bytes = peer.bytes_of(middle(kFirst + 1));
    bytes.resize(11);
    refused(bytes, {});
    bytes = peer.bytes_of(middle(kFirst + 1));
    bytes[7] ^= 0x40;  // another QPN
    refused(bytes, {});
    bytes = peer.bytes_of(middle(kFirst + 1));
    bytes[0] = 0xDC;
    refused(bytes, {});
    CHECK(peer.qp().state == QpState::rts);
  }
}

TEST_CASE("responder: trimmed packets are not answered when the connection says so") {
  ScriptedPeer::Setup setup;
  setup.attributes.trim_nack = false;
  ScriptedPeer peer(setup);
  auto bytes = peer.bytes_of(middle(kFirst));
  bytes.resize(20);
  peer.receive(Bytes{bytes}, {.trim = wire::Trim::trimmed});
  CHECK(peer.sent().empty());
}

TEST_CASE("responder: DMALEN is the message's, only the packet's own bytes are checked [C-7]") {
  ScriptedPeer peer;
  // The last KiB of the region; VA + DMALEN reaches far beyond it.
  Data d = middle(kFirst);
  d.offset = peer.memory.size() - 1024;
  d.opcode = Opcode::write_last;
  d.dma_length = 1 << 30;
  d.ack = true;
  peer.receive(d);
  CHECK(peer.qp().state == QpState::rts);
  CHECK(peer.memory.back() == 0x5A);
  // One byte further is outside.
  d.psn = kFirst + 1;
  ++d.offset;
  peer.receive(d);
  CHECK(peer.qp().state == QpState::err);
  CHECK(peer.qp().cause == QpErrorCause::bad_bounds);
}

TEST_CASE("responder: lengths against the opcode are NAK 0x61, bad memory is NAK 0x62") {
  struct Case {
    Opcode opcode;
    std::size_t length;
    bool good;
  };
  const Case cases[] = {
      {Opcode::write_first, 1024, true},  {Opcode::write_first, 1020, false},
      {Opcode::write_middle, 1024, true}, {Opcode::write_middle, 0, false},
      {Opcode::write_last, 1, true},      {Opcode::write_last, 1024, true},
      {Opcode::write_last, 0, false},     {Opcode::write_only, 0, true},
      {Opcode::write_only, 1024, true},   {Opcode::write_only, 1028, false},
  };
  for (const Case& c : cases) {
    INFO(wire::to_string(c.opcode), " of ", c.length);
    ScriptedPeer peer;
    Data d = middle(kFirst, c.length);
    d.opcode = c.opcode;
    peer.receive(d);
    CHECK((peer.qp().state == QpState::rts) == c.good);
    const auto acks = peer.sent(Opcode::acknowledge);
    if (c.good) continue;
    REQUIRE(acks.size() == 1);
    CHECK(acks[0].as<wire::AckPacket>().aeth.code() == Syndrome::invalid_request);
    CHECK(acks[0].psn() == kFirst);
  }
  ScriptedPeer peer;
  Data d;
  d.psn = kFirst;
  d.rkey = peer.key ^ 0x10000;
  peer.receive(d);
  const auto acks = peer.sent(Opcode::acknowledge);
  REQUIRE(acks.size() == 1);
  CHECK(acks[0].as<wire::AckPacket>().aeth.code() == Syndrome::remote_access_error);
  CHECK(peer.qp().cause == QpErrorCause::bad_key);
  CHECK(peer.qp().rx.window.cack() == kFirst - 1);  // refused, so not marked received
}

TEST_CASE("responder: Transport ACKs when cack passes a message's end, coalesced [O-15] [O-16]") {
  ScriptedPeer peer;
  Data d;
  d.psn = kFirst + 1;
  d.msn = 1;
  peer.receive(d);
  d.psn = kFirst + 2;
  d.msn = 2;
  peer.receive(d);
  CHECK(peer.sent(Opcode::acknowledge).empty());  // a hole below
  d.psn = kFirst;
  d.msn = 0;
  peer.receive(d);
  auto acks = peer.sent(Opcode::acknowledge);
  REQUIRE(acks.size() == 1);
  CHECK(acks[0].psn() == kFirst + 2);
  CHECK(acks[0].bth().dqp() == peer.remote.qpn);
  CHECK(acks[0].as<wire::AckPacket>().aeth.msn == 2);  // MSNs start at 0
  CHECK(acks[0].as<wire::AckPacket>().aeth.code() == Syndrome::ack);
  CHECK(acks[0].head.dscp == 46);
  // Lost? It is said again when a retransmission from below comes in.
  d.rtx = true;
  peer.receive(d);
  acks = peer.sent(Opcode::acknowledge);
  REQUIRE(acks.size() == 1);
  CHECK(acks[0].psn() == kFirst + 2);
}

TEST_CASE("responder: WriteImm is a barrier and comes in RQMSN order") {
  ScriptedPeer peer;
  for (unsigned i = 0; i < 4; ++i) REQUIRE(peer.engine.post_receive(peer.qpn, 100 + i) == Errc::ok);
  Data imm;
  imm.opcode = Opcode::write_only_imm;
  imm.psn = kFirst + 2;
  imm.msn = 2;
  imm.rqmsn = 1;
  imm.immediate = 222;
  peer.receive(imm);
  imm.psn = kFirst + 1;
  imm.msn = 1;
  imm.rqmsn = 0;
  imm.immediate = 111;
  peer.receive(imm);
  CHECK(peer.completions(peer.receive_cq).empty());  // the plain write before them is missing
  Data plain;
  plain.psn = kFirst;
  peer.receive(plain);
  const auto done = peer.completions(peer.receive_cq);
  REQUIRE(done.size() == 2);
  CHECK(done[0].immediate == 111);
  CHECK(done[0].wr_id == 100);
  CHECK(done[0].byte_len == 8);
  CHECK(done[1].immediate == 222);
  CHECK(done[1].wr_id == 101);
}

TEST_CASE("responder: too many WriteImm are NAK 0x61 and an error [C-16]") {
  ScriptedPeer::Setup setup;
  setup.attributes.max_wimm_dest = 2;
  ScriptedPeer peer(setup);
  for (unsigned i = 0; i < 4; ++i) REQUIRE(peer.engine.post_receive(peer.qpn, i) == Errc::ok);
  Data imm;
  imm.opcode = Opcode::write_only_imm;
  for (std::uint16_t i = 0; i < 2; ++i) {
    imm.psn = kFirst + 1 + i;  // kFirst is missing, so both wait
    imm.rqmsn = i;
    peer.receive(imm);
  }
  CHECK(peer.qp().state == QpState::rts);
  imm.psn = kFirst + 3;
  imm.rqmsn = 2;
  peer.receive(imm);
  CHECK(peer.qp().cause == QpErrorCause::wimm_overflow);
  const auto acks = peer.sent(Opcode::acknowledge);
  REQUIRE(acks.size() == 1);
  CHECK(acks[0].as<wire::AckPacket>().aeth.code() == Syndrome::invalid_request);
}

TEST_CASE("responder: WriteImm without a receive is NAK 0x63 and an error [C-17]") {
  ScriptedPeer peer;
  Data imm;
  imm.opcode = Opcode::write_only_imm;
  imm.psn = kFirst;
  peer.receive(imm);
  CHECK(peer.qp().cause == QpErrorCause::no_receive);
  const auto acks = peer.sent(Opcode::acknowledge);
  REQUIRE(acks.size() == 1);
  CHECK(acks[0].as<wire::AckPacket>().aeth.code() == Syndrome::remote_operational_error);
  CHECK(acks[0].psn() == kFirst);
}

TEST_CASE("responder: in ERR, data and probes get UNEXP_EVENT once per round trip [O-21]") {
  ScriptedPeer peer;
  REQUIRE(peer.engine.to_error(peer.qpn) == Errc::ok);
  peer.receive(middle(kFirst));
  peer.receive(middle(kFirst + 1));
  auto out = peer.sent();
  REQUIRE(out.size() == 1);
  CHECK(out[0].as<wire::NackPacket>().neth.reason() == NackReason::unexp_event);
  peer.pass(13us);
  peer.receive_packet(wire::ProbePacket{wire::Bth::make(Opcode::probe, peer.qpn, Psn{}), {}});
  out = peer.sent();
  REQUIRE(out.size() == 1);
  CHECK(out[0].as<wire::NackPacket>().neth.reason() == NackReason::unexp_event);
  // Answers are no reason for an answer.
  peer.pass(13us);
  peer.receive(SackSpec{});
  CHECK(peer.sent().empty());
}

TEST_CASE("responder: unknown queue pairs, foreign senders and bad versions get no answer") {
  ScriptedPeer peer;
  Data d = middle(kFirst);
  d.ack = true;
  const auto good = peer.bytes_of(d);
  auto bytes = good;
  bytes[7] ^= 0x40;  // dqp
  peer.receive(Bytes{bytes});
  CHECK(peer.engine.stats().drops.unknown_qp == 1);
  bytes = good;
  bytes[5] = 1;  // another process's slot
  peer.receive(Bytes{bytes});
  CHECK(peer.engine.stats().drops.unknown_qp == 2);
  peer.receive(Bytes{good}, {.source = 0x666});
  CHECK(peer.engine.stats().drops.foreign == 1);
  bytes = good;
  bytes[1] |= 1;  // tver
  peer.receive(Bytes{bytes});
  bytes = good;
  bytes[0] = 0xCF;
  peer.receive(Bytes{bytes});
  CHECK(peer.engine.stats().drops.malformed == 2);
  CHECK(peer.sent().empty());
  CHECK(peer.qp().rx.window.cack() == kFirst - 1);
  peer.receive(Bytes{good});  // and the same packet, untouched, is taken
  CHECK(peer.qp().rx.window.cack() == kFirst);
}

TEST_CASE("responder: without relaxed ordering the last bytes of a message wait for what is before") {
  ScriptedPeer::Setup setup;
  setup.access = Access::local_write | Access::remote_write;
  setup.options.held_tails = 2;
  ScriptedPeer peer(setup);
  Data d = middle(kFirst + 1);
  d.opcode = Opcode::write_last;
  d.offset = 1024;
  peer.receive(d);
  CHECK(peer.memory[1024] == 0x5A);
  CHECK(peer.memory[2039] == 0x5A);
  for (unsigned i = 2040; i < 2048; ++i) CHECK(peer.memory[i] == 0);
  // Room for tails is limited: what finds none is refused for now and not marked received.
  d.psn = kFirst + 2;
  peer.receive(d);
  d.psn = kFirst + 3;
  peer.receive(d);
  const auto nacks = peer.sent(Opcode::nack);
  REQUIRE(nacks.size() == 1);
  CHECK(nacks[0].as<wire::NackPacket>().neth.reason() == NackReason::no_resource);
  CHECK(peer.qp().rx.window.out_of_order() == 2);
  peer.receive(middle(kFirst));
  for (unsigned i = 2040; i < 2048; ++i) CHECK(peer.memory[i] == 0x5A);
}
