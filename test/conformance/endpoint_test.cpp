// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "conformance/scripted_peer.hpp"

using namespace mrc;
using namespace mrc::test;
using namespace std::chrono_literals;
using wire::EndpointOp;
using wire::Opcode;

namespace {

constexpr Psn kFirst{0x1000};  ///< what the scripted peer starts with

/// The answer to an endpoint request.
wire::EndpointResponsePacket answer(const Sent& request) {
  const auto& p = request.as<wire::EndpointRequestPacket>();
  wire::EndpointResponsePacket a{
      wire::Bth::make(Opcode::endpoint_response, kEndpointQpn, p.bth.psn()), {}};
  a.eeth.set_op(p.erth.op());
  a.eeth.set_tx_timestamp(p.erth.tx_timestamp());
  return a;
}
wire::EndpointRequestPacket request(EndpointOp op, std::uint16_t id, std::uint8_t slot = 1) {
  wire::EndpointRequestPacket r{wire::Bth::make(Opcode::endpoint_request, kEndpointQpn, Psn{id}),
                                {}};
  r.erth.set_op(op);
  r.erth.set_vendor_info(slot);
  r.erth.set_tx_timestamp(0x4711);
  return r;
}
/// Requests of one kind that the engine sent.
std::vector<Sent> requests(ScriptedPeer& peer, EndpointOp op) {
  auto all = peer.sent(Opcode::endpoint_request);
  std::erase_if(
      all, [op](const Sent& s) { return s.as<wire::EndpointRequestPacket>().erth.op() != op; });
  return all;
}
/// The planes of the data packets that a message of `packets` packets takes.
PlaneMask planes_used(ScriptedPeer& peer, unsigned packets) {
  REQUIRE(peer.post(packets * 1024) == Errc::ok);
  PlaneMask planes = 0;
  for (const Sent& s : peer.sent_data()) planes |= plane_bit(s.head.plane);
  return planes;
}

}  // namespace

TEST_CASE("endpoint: EV probes revive a bad path after three answers [C-9] [O-6]") {
  ScriptedPeer::Setup setup;
  setup.attributes.timeout = 24;
  ScriptedPeer peer(setup);
  REQUIRE(peer.post(8) == Errc::ok);
  const auto out = peer.sent_data();
  const Ev bad = out[0].head.entropy;
  peer.receive_sack(out[0], out[0].psn(), wire::SackMark::always_skip);
  peer.receive_ack(out[0].psn(), 0);
  CHECK(peer.health(bad) == path::Health::assumed_bad);
  const Time marked = peer.now;
  for (unsigned i = 0; i < 3; ++i) {
    peer.pass(1ms);
    const auto probes = requests(peer, EndpointOp::ev_probe);
    REQUIRE(probes.size() == 1);
    const auto& p = probes[0].as<wire::EndpointRequestPacket>();
    CHECK(probes[0].at == marked + (i + 1) * 1ms);  // an answer starts the intervals over
    CHECK(probes[0].head.entropy == bad);
    CHECK(p.bth.dqp() == kEndpointQpn);
    CHECK(p.bth.psn().value() <= 0xFFFF);
    CHECK(p.erth.has_timestamp());
    CHECK(p.erth.vendor_info() == 0);  // the own slot, for peers with several processes
    CHECK(p.erth.port_status_mask() == 0);
    CHECK(peer.health(bad) == path::Health::assumed_bad);
    // An answer with another number or operation is none.
    auto a = answer(probes[0]);
    a.eeth.set_op(EndpointOp::port_status);
    peer.receive_packet(a);
    a = answer(probes[0]);
    a.bth.set_psn(p.bth.psn() + 1);
    peer.receive_packet(a);
    CHECK(peer.engine.stats().ev_probe_answers == i);
    peer.receive_packet(answer(probes[0]), {.plane = 1});  // over any path
    peer.receive_packet(answer(probes[0]));                // counts once
    CHECK(peer.engine.stats().ev_probe_answers == i + 1);
  }
  CHECK(peer.health(bad) == path::Health::good);
}

TEST_CASE("endpoint: an EV probe is answered by the peer's process that it names") {
  ScriptedPeer peer;
  peer.receive_packet(request(EndpointOp::ev_probe, 0xABCD), {.plane = 1});
  const auto out = peer.sent();
  REQUIRE(out.size() == 1);
  const auto& a = out[0].as<wire::EndpointResponsePacket>();
  CHECK(out[0].opcode() == Opcode::endpoint_response);
  CHECK(a.bth.dqp() == kEndpointQpn);
  CHECK(a.bth.psn() == Psn{0xABCD});
  CHECK(a.eeth.op() == EndpointOp::ev_probe);
  CHECK(a.eeth.tx_timestamp() == 0x4711);
  CHECK(out[0].head.dscp == 46);
  CHECK(out[0].head.plane == 1);
  // Strangers, other slots, operations that there are not, wrong queue pairs: nothing.
  peer.receive_packet(request(EndpointOp::ev_probe, 1), {.source = 0x900});
  peer.receive_packet(request(EndpointOp::ev_probe, 1, 9));
  peer.receive_packet(request(static_cast<EndpointOp>(3), 1));
  auto r = request(EndpointOp::ev_probe, 1);
  r.bth.set_dqp(peer.qpn);
  peer.receive_packet(r);
  CHECK(peer.sent().empty());
  CHECK(peer.engine.stats().drops.foreign == 2);
  CHECK(peer.engine.stats().drops.malformed == 2);
}

TEST_CASE("endpoint: a peer's port status takes its planes out and brings them back [O-19]") {
  ScriptedPeer peer;
  CHECK(planes_used(peer, 8) == 0b11);
  auto r = request(EndpointOp::port_status, 7);
  r.erth.set_port_status_mask(0b01);  // bit 0 is plane 0: plane 1 is down
  peer.receive_packet(r);
  CHECK(peer.sent(Opcode::endpoint_response).size() == 1);
  CHECK(planes_used(peer, 8) == 0b01);
  CHECK(peer.health(Ev{0x2000}) == path::Health::good);  // the health of its paths is kept
  // An older one that comes late changes nothing and is not answered.
  r = request(EndpointOp::port_status, 6);
  r.erth.set_port_status_mask(0b11);
  peer.receive_packet(r);
  CHECK(peer.sent(Opcode::endpoint_response).empty());
  CHECK(planes_used(peer, 8) == 0b01);
  r = request(EndpointOp::port_status, 8);
  r.erth.set_port_status_mask(0b11);
  peer.receive_packet(r);
  (void)peer.sent();
  CHECK(planes_used(peer, 8) == 0b11);
}

TEST_CASE("endpoint: the own port status is told over the ports that are up until answered") {
  for (const bool answered : {false, true}) {
    ScriptedPeer peer;
    peer.engine.set_plane_up(peer.now, 0, false);
    const Time start = peer.now;
    peer.pass(2500us);
    auto out = requests(peer, EndpointOp::port_status);
    REQUIRE(out.size() == 2);
    CHECK(out[0].at == start);
    CHECK(out[1].at == start + 2ms);
    for (const Sent& s : out) {
      CHECK(s.head.plane == 1);
      CHECK(s.as<wire::EndpointRequestPacket>().erth.port_status_mask() ==
            (~PlaneMask{0} & ~plane_bit(0)));
    }
    CHECK(planes_used(peer, 8) == 0b10);
    if (answered) peer.receive_packet(answer(out[1]), {.plane = 1});
    peer.pass(10s);
    CHECK(requests(peer, EndpointOp::port_status).size() == (answered ? 0 : 8));  // ten in all
  }
}

TEST_CASE("endpoint: a host that only receives probes for a reverse path, planes in turn [O-18]") {
  ScriptedPeer peer;
  Data d;
  d.opcode = Opcode::write_first;
  d.payload.assign(1024, 1);
  d.dma_length = 1 << 20;
  for (unsigned i = 0; i < 2; ++i) {
    d.psn = kFirst + static_cast<std::int32_t>(i);
    peer.receive(d, {.plane = static_cast<Plane>(i)});
  }
  const Time start = peer.now;
  peer.pass(2500us);
  const auto probes = requests(peer, EndpointOp::ev_probe);
  REQUIRE(probes.size() == 2);
  CHECK(probes[0].at == start + 1ms);  // the floor; an idle round trip would be 12 us
  CHECK(probes[1].at == start + 2ms);
  CHECK(probes[0].head.plane != probes[1].head.plane);
  for (const Sent& probe : probes) peer.receive_packet(answer(probe), {.plane = probe.head.plane});
  // Now answers take just these paths, each in the plane of what it answers ...
  d.ack = true;
  for (std::int32_t i = 2; i < 10; ++i) {
    const auto plane = static_cast<Plane>(i % 2);
    d.psn = kFirst + i;
    peer.receive(d, {.plane = plane});
    const auto sacks = peer.sent(Opcode::sack);
    REQUIRE(sacks.size() == 1);
    const Sent& probe = probes[0].head.plane == plane ? probes[0] : probes[1];
    CHECK(sacks[0].head.entropy == probe.head.entropy);
  }
  // ... or another one when that plane is down.
  peer.engine.set_plane_up(peer.now, 1, false);
  d.psn = kFirst + 10;
  peer.receive(d, {.plane = 1});
  const auto sacks = peer.sent(Opcode::sack);
  REQUIRE(sacks.size() == 1);
  CHECK(sacks[0].head.plane == 0);
  // Silence: no more probes.
  peer.pass(1s);
  (void)peer.sent();
  peer.pass(10s);
  CHECK(requests(peer, EndpointOp::ev_probe).empty());
}

TEST_CASE("endpoint: QPNs 0, 1 and 2 are never handed out") {
  ScriptedPeer peer;
  CHECK(value(peer.qpn) == kFirstUserQpn);
  engine::EngineOptions options = ScriptedPeer::unlimited();
  options.slot = 5;
  engine::Engine engine(options);
  engine::QpInit init;
  init.pd = *engine.alloc_pd();
  init.send_cq = init.receive_cq = *engine.create_cq(16);
  CHECK(value(*engine.create_qp(init)) == (0x05'0000 | kFirstUserQpn));
}
