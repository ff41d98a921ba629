// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "conformance/scripted_peer.hpp"

using namespace mrc;
using namespace mrc::test;
using namespace std::chrono_literals;
using wire::NackReason;
using wire::Opcode;
using wire::SackMark;

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

TEST_CASE("responder: SACKs that still wait become one, unless something is missing or marked") {
  ScriptedPeer peer;
  const auto feed = [&](std::int32_t n, Ecn ecn = Ecn::not_ect) {
    Data d = middle(kFirst + n);
    d.ack = true;
    peer.receive(d, {.ecn = ecn});
  };
  for (std::int32_t n = 0; n < 3; ++n) feed(n);
  auto sacks = peer.sent(Opcode::sack);
  REQUIRE(sacks.size() == 1);
  CHECK(sacks[0].as<wire::SackPacket>().seth.cack_psn() == kFirst + 2);
  CHECK(sacks[0].as<wire::SackPacket>().seth.ack_psn_offset() == 0);
  feed(3, Ecn::ce);
  feed(4);
  CHECK(peer.sent(Opcode::sack).size() == 2);
  feed(6);
  feed(7);
  CHECK(peer.sent(Opcode::sack).size() == 2);
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

TEST_CASE(
    "responder: PSN above the window is NACKed once per round trip, below is a duplicate [C-6]") {
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
