// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "conformance/scripted_peer.hpp"

using namespace mrc;
using namespace mrc::test;
using namespace std::chrono_literals;
using wire::NackReason;
using wire::Opcode;
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

TEST_CASE("delivery: DMALEN is the message's, only the packet's own bytes are checked [C-7]") {
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

TEST_CASE("delivery: lengths against the opcode are NAK 0x61, bad memory is NAK 0x62") {
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

TEST_CASE("delivery: Transport ACKs when cack passes a message's end, coalesced [O-15] [O-16]") {
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

TEST_CASE("delivery: WriteImm is a barrier and comes in RQMSN order") {
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

TEST_CASE("delivery: too many WriteImm are NAK 0x61 and an error [C-16]") {
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

TEST_CASE("delivery: WriteImm without a receive is NAK 0x63 and an error [C-17]") {
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

TEST_CASE("delivery: in ERR, data and probes get UNEXP_EVENT once per round trip [O-21]") {
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

TEST_CASE("delivery: unknown queue pairs, foreign senders and bad versions get no answer") {
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

TEST_CASE(
    "delivery: without relaxed ordering the last bytes of a message wait for what is before") {
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
