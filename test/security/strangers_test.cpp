// SPDX-License-Identifier: Apache-2.0
// Forged packets against an engine whose peer is not an OpenMRC device: without a secret, what is
// left is that packets fit what was sent, that no single one ends a connection, and that answers
// are limited. In virtual time.
#include <doctest/doctest.h>

#include "support/single.hpp"

using namespace mrc;
using namespace mrc::test;
using namespace std::chrono_literals;
using wire::EndpointOp;
using wire::Opcode;

namespace {

wire::EndpointRequestPacket status(std::uint16_t id, PlaneMask mask) {
  wire::EndpointRequestPacket r{wire::Bth::make(Opcode::endpoint_request, kEndpointQpn, Psn{id}),
                                {}};
  r.erth.set_op(EndpointOp::port_status);
  r.erth.set_vendor_info(1);  // the peer's slot
  r.erth.set_port_status_mask(mask);
  r.erth.set_tx_timestamp(0x4711);
  return r;
}

/// Lets time pass; EV probes in the planes `answering` are answered at once.
void live(Single& s, Duration d, PlaneMask answering) {
  for (const Time end = s.now + d; s.now < end;) {
    for (const Sent& p : only(s.advance(250us), Opcode::endpoint_request)) {
      const auto& request = p.as<wire::EndpointRequestPacket>();
      if (request.erth.op() != EndpointOp::ev_probe || (answering >> p.plane & 1) == 0) continue;
      wire::EndpointResponsePacket answer{
          wire::Bth::make(Opcode::endpoint_response, kEndpointQpn, request.bth.psn()), {}};
      answer.eeth.set_op(EndpointOp::ev_probe);
      answer.eeth.set_tx_timestamp(request.erth.tx_timestamp());
      s.receive_control(answer, p.plane);
    }
  }
}

/// The planes that a message of sixteen packets takes. The peer then reports it received.
PlaneMask planes_used(Single& s, std::uint16_t number) {
  REQUIRE(s.post({.id = number, .length = 16 * 1024}) == Errc::ok);
  PlaneMask planes = 0;
  SentList sent = data_of(s.transmit());
  REQUIRE(sent.size() == 16);
  for (const Sent& p : sent) planes |= plane_bit(p.plane);
  const auto last = number * 16 + 15;
  s.sack({.cack = last, .trigger = &sent.back(), .received = (number + 1u) * 16 * 1200});
  s.ack(number, static_cast<std::uint32_t>(last));
  return planes;
}

}  // namespace

TEST_CASE("strangers: a port status that leaves no plane is refused") {
  for (const PlaneMask mask : {PlaneMask{0}, PlaneMask{0xFFFF'FFF0}}) {
    Single s;
    s.receive_control(status(1, mask));
    s.receive_control(status(2, mask), 3);
    CHECK(s.qp().state == QpState::rts);
    CHECK(planes_used(s, 0) == 0xF);
  }
}

TEST_CASE("strangers: a port status is a hint, planes that answer stay in use") {
  Single s;
  s.receive_control(status(1, 0b0001));
  live(s, 500ms, 0b1111);
  CHECK(planes_used(s, 0) == 0b1111);
}

TEST_CASE("strangers: of the planes that a port status names, those that stay silent are dropped") {
  Single s;
  s.receive_control(status(1, 0b0011));
  live(s, 500ms, 0b0111);
  CHECK(planes_used(s, 0) == 0b0111);
}

TEST_CASE("strangers: one write with a wrong key is dropped, the connection goes on") {
  Single s;
  s.data({.n = 0, .rkey = s.rkey ^ 0x5A5A'0000});
  CHECK(s.qp().state == QpState::rts);
  CHECK(only(s.transmit(), Opcode::acknowledge).empty());
  s.data({.n = 0, .fill = 0x77});  // the true packet with this PSN
  CHECK(s.target[0] == 0x77);
  CHECK(s.qp().rx.messages == 1);
}

TEST_CASE("strangers: a peer that goes on with a wrong key is told so") {
  Single s;
  SentList acks;
  for (unsigned i = 0; i < 200 && acks.empty(); ++i) {
    s.data({.n = 0, .rtx = i > 0, .rkey = s.rkey ^ 0x5A5A'0000});
    acks = only(s.advance(1ms), Opcode::acknowledge);
  }
  REQUIRE(acks.size() == 1);
  CHECK(acks[0].ack().aeth.code() == wire::Syndrome::remote_access_error);
  CHECK(s.qp().state == QpState::err);
  CHECK(s.qp().cause == QpErrorCause::bad_key);
}

TEST_CASE("strangers: a NAK for what is complete already is dropped") {
  Single s;
  CHECK(planes_used(s, 0) == 0xF);  // 16 packets, all complete
  REQUIRE(s.post({.id = 1, .length = 1024}) == Errc::ok);
  CHECK(data_of(s.transmit()).size() == 1);
  for (std::uint32_t psn = 0; psn < 16; ++psn) {
    s.ack(0, psn, wire::Syndrome::remote_access_error);
    REQUIRE(s.qp().state == QpState::rts);
  }
  s.ack(1, 16, wire::Syndrome::remote_access_error);  // but this one is the peer's
  CHECK(s.qp().state == QpState::err);
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

TEST_CASE("strangers: a SACK for a probe that was not sent reports nothing") {
  Single s;
  REQUIRE(s.post({.length = 1024}) == Errc::ok);
  const SentList sent = data_of(s.transmit());
  REQUIRE(sent.size() == 1);
  wire::SackPacket p{wire::Bth::make(Opcode::sack, s.qpn, s.own), {}, {}};
  p.seth.set_cack_psn(s.own);
  p.seth.set_probe(true);
  p.seth.set_probe_id(0xBEEF);
  s.receive_control(p);
  CHECK(s.qp().tx.window.contains(s.own));
}

TEST_CASE("strangers: reliability probes are merged, and answered as seldom as data") {
  Single s;
  constexpr unsigned kProbes = 1000;
  for (unsigned i = 0; i < kProbes; ++i) {
    wire::ProbePacket p{wire::Bth::make(Opcode::probe, s.qpn, Psn{}), {}};
    p.peth.set_probe_id(static_cast<std::uint16_t>(i));
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
    p.peth.set_probe_id(static_cast<std::uint16_t>(5000 + i));
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
