// SPDX-License-Identifier: Apache-2.0
// Forged packets against an engine whose peer is not an OpenMRC device: without a secret, what is
// left is that packets fit what was sent, that no single one ends a connection, and that answers
// are limited. In virtual time. What one packet may cause at all, and who may send it:
// test/engine/strangers_test.cpp.
#include <doctest/doctest.h>

#include "support/single.hpp"

using namespace mrc;
using namespace mrc::test;
using namespace std::chrono_literals;
using wire::Opcode;

TEST_CASE("strangers: one write with a wrong key is dropped, a peer that goes on is told so") {
  Single s;
  s.data({.n = 0, .rkey = s.rkey ^ 0x5A5A'0000});
  CHECK(only(s.transmit(), Opcode::acknowledge).empty());
  s.data({.n = 0, .fill = 0x77});  // the true packet with this PSN
  CHECK(s.target[0] == 0x77);
  CHECK(s.qp().rx.messages == 1);
  SentList acks = only(s.transmit(), Opcode::acknowledge);
  REQUIRE(acks.size() == 1);
  CHECK(acks[0].ack().aeth.code() == wire::Syndrome::ack);
  acks.clear();
  for (unsigned i = 0; i < 200 && acks.empty(); ++i) {
    s.data({.n = 1, .rtx = i > 0, .rkey = s.rkey ^ 0x5A5A'0000});
    acks = only(s.advance(1ms), Opcode::acknowledge);
  }
  REQUIRE(acks.size() == 1);
  CHECK(acks[0].ack().aeth.code() == wire::Syndrome::remote_access_error);
  CHECK(s.qp().state == QpState::err);
  CHECK(s.qp().cause == QpErrorCause::bad_key);
}

TEST_CASE("strangers: a NAK counts although a SACK has reported what it refuses") {
  Single s;
  REQUIRE(s.post({.id = 1, .length = 1024}) == Errc::ok);
  const SentList sent = data_of(s.transmit());
  REQUIRE(sent.size() == 1);
  s.sack({.cack = 0, .trigger = &sent[0]});
  s.ack(0, 0, wire::Syndrome::remote_operational_error);
  CHECK(s.qp().state == QpState::err);
  CHECK(s.qp().cause == QpErrorCause::nak_remote_operational);
}

TEST_CASE("strangers: reliability probes are merged, and answered as seldom as data") {
  Single s;
  constexpr unsigned kProbes = 1000;
  for (unsigned i = 0; i < kProbes; ++i) {
    wire::ProbePacket p{wire::Bth::make(Opcode::probe, s.qpn, Psn{}), {}};
    p.peth.probe_id = static_cast<std::uint16_t>(i);
    p.peth.set_tx_timestamp(1);
    s.receive_control(p, static_cast<Plane>(i % 4));
  }
  const SentList answers = only(s.transmit(), Opcode::sack);
  CHECK(answers.size() >= 1);
  CHECK(answers.size() <= kProbes / 10);
  unsigned newest = 0;  // for which the peer waits
  for (const Sent& a : answers) newest += a.sack().seth.probe_id() == kProbes - 1;
  CHECK(newest == 1);
  // Those of a peer in need come one at a time, and each is answered.
  for (unsigned i = 0; i < 10; ++i) {
    s.advance(10ms);
    wire::ProbePacket p{wire::Bth::make(Opcode::probe, s.qpn, Psn{}), {}};
    p.peth.probe_id = static_cast<std::uint16_t>(5000 + i);
    s.receive_control(p);
    CHECK(only(s.transmit(), Opcode::sack).size() == 1);
  }
}

TEST_CASE("strangers: trimmed packets cause NACKs at a limited rate, a burst of true ones all") {
  Single s;
  for (unsigned i = 0; i < 64; ++i) s.data({.n = i, .trim = wire::Trim::trimmed, .cut = 20});
  CHECK(only(s.transmit(), Opcode::nack).size() == 64);
  // As many as the window has packets, once; then some per round trip, and two for each that
  // arrives whole.
  const auto nacks = [&](unsigned trims) {
    for (unsigned i = 0; i < trims; ++i)
      s.data({.n = i % 4, .trim = wire::Trim::trimmed, .cut = 20});
    return only(s.transmit(), Opcode::nack).size();
  };
  const std::size_t window = s.qp().rx.window.range();
  CHECK(nacks(10'000) <= window);
  CHECK(nacks(10'000) == 0);
  s.now += 10 * s.peer_state().congestion.base_rtt();
  CHECK(nacks(10'000) <= 200);
  for (unsigned i = 0; i < 50; ++i) s.data({.n = 10 + i});
  CHECK(nacks(10'000) <= 200);
  CHECK(s.engine.stats().drops.limited >= 30'000 - 400);
}

TEST_CASE("strangers: queue pairs are not numbered one after the other") {
  Single s;
  unsigned next = 0;
  Qpn last = s.qpn;
  for (unsigned i = 0; i < 16; ++i) {
    const Qpn qpn = s.create();
    next += value(qpn) == value(last) + 1;
    last = qpn;
  }
  CHECK(next <= 4);
}
