// SPDX-License-Identifier: Apache-2.0
// Endpoint requests and responses: EV probes, port status, reverse paths.
#include <doctest/doctest.h>

#include <optional>
#include <set>

#include "support/single.hpp"

using namespace mrc;
using namespace mrc::test;
using namespace std::chrono_literals;
using wire::EndpointOp;
using wire::Opcode;

namespace endpoint_test {

Single::Setup two_planes() {
  Single::Setup s;
  s.planes = 2;
  s.attributes.timeout = 24;
  return s;
}
wire::EndpointRequestPacket request(EndpointOp op, std::uint16_t id, PlaneMask mask = 0) {
  wire::EndpointRequestPacket r{wire::Bth::make(Opcode::endpoint_request, kEndpointQpn, Psn{id}),
                                {}};
  r.erth.set_op(op);
  r.erth.vendor_info = 1;  // the peer's slot
  r.erth.port_status_mask = mask;
  r.erth.set_tx_timestamp(0x4711);
  return r;
}
/// The planes that a message of eight packets takes.
PlaneMask planes_used(Single& s) {
  REQUIRE(s.post({.length = 8 * 1024}) == Errc::ok);
  PlaneMask planes = 0;
  for (const Sent& p : data_of(s.transmit())) planes |= plane_bit(p.plane);
  return planes;
}

TEST_CASE("endpoint: EV probes revive a bad path after three answers [C-9] [O-6]") {
  Single s(two_planes());
  REQUIRE(s.post({}) == Errc::ok);
  const SentList out = data_of(s.transmit());
  REQUIRE(out.size() == 1);
  s.sack({.cack = 0, .trigger = &out[0], .mark = wire::SackMark::always_skip});
  s.ack(0, 0);
  const auto health = [&] { return s.peer_state().paths.health(s.path_of(out[0])); };
  const Time marked = s.now;
  for (unsigned i = 0; i < 3; ++i) {
    CHECK(health() == path::Health::assumed_bad);
    const Duration interval = 4 * s.peer_state().congestion.base_rtt();
    const SentList probes = endpoint_requests(s.advance(interval), EndpointOp::ev_probe);
    REQUIRE(probes.size() == 1);
    const auto& p = probes[0].as<wire::EndpointRequestPacket>();
    CHECK(probes[0].when == marked + (i + 1) * interval);
    CHECK(probes[0].ev == out[0].ev);
    CHECK(p.bth.dqp() == kEndpointQpn);
    CHECK(p.bth.psn().value() <= 0xFFFF);
    CHECK(p.erth.has_timestamp());
    CHECK(p.erth.vendor_info == 0);  // the own slot
    CHECK(p.erth.port_status_mask.value() == 0);
    // An answer with another number or time stamp is none. Implementations disagree where the
    // operation stands [C-3], so it does not matter.
    auto a = endpoint_answer(probes[0]);
    a.bth.set_psn(p.bth.psn() + 1);
    s.receive_control(a);
    a = endpoint_answer(probes[0]);
    a.eeth.tx_timestamp = static_cast<std::uint16_t>(p.erth.tx_timestamp.value() + 1);
    s.receive_control(a);
    CHECK(s.engine.stats().ev_probe_answers == i);
    a = endpoint_answer(probes[0]);
    a.eeth.set_op(EndpointOp::port_status);
    s.receive_control(a, 1);                        // over any path ...
    s.receive_control(endpoint_answer(probes[0]));  // ... and once
    CHECK(s.engine.stats().ev_probe_answers == i + 1);
  }
  CHECK(health() == path::Health::good);
}

TEST_CASE("endpoint: a request is answered where it came from, whatever slot it names") {
  Single s(two_planes());
  s.receive_control(request(EndpointOp::ev_probe, 0xABCD), 1);
  const SentList out = s.transmit();
  REQUIRE(out.size() == 1);
  CHECK(out[0].opcode() == Opcode::endpoint_response);
  const auto& a = out[0].as<wire::EndpointResponsePacket>();
  CHECK(a.bth.dqp() == kEndpointQpn);
  CHECK(a.bth.psn() == Psn{0xABCD});
  CHECK(a.eeth.op() == EndpointOp::ev_probe);
  CHECK(a.eeth.tx_timestamp.value() == 0x4711);
  CHECK(out[0].dscp == s.setup.options.dscp.control);
  CHECK(out[0].plane == 1);
  // Other implementations have no slots: any vendor information will do.
  auto other = request(EndpointOp::ev_probe, 2);
  other.erth.vendor_info = 9;
  s.receive_control(other);
  CHECK(s.transmit().size() == 1);
}

TEST_CASE("endpoint: requests of strangers are handed out, for a driver that knows the way back") {
  Single::Setup setup = two_planes();
  setup.options.unconnected_requests = 2;
  Single s(setup);
  wire::RxPacket stranger = Single::from(1);
  stranger.source = 0x9999;
  stranger.entropy = Ev{0x123};
  const auto send = [&](EndpointOp op, std::uint16_t id) {
    const auto r = request(op, id);
    std::vector<std::uint8_t> bytes(sizeof r);
    std::memcpy(bytes.data(), &r, sizeof r);
    s.receive(bytes, stranger);
  };
  wire::Origin origin;  // some ports can say where it came from
  origin.source.fill(0xFD);
  stranger.origin = &origin;
  send(EndpointOp::port_status, 7);  // whose ports would it be? It changes nothing
  stranger.origin = nullptr;
  for (const std::uint16_t id : {8, 9}) send(EndpointOp::ev_probe, id);
  CHECK(s.engine.stats().drops.foreign == 1);  // the last one: there is no room for more
  CHECK(s.engine.stats().port_updates_received == 0);
  CHECK(planes_used(s) == 0b11);
  CHECK(s.engine.stats().ev_probes_received == 0);  // they are the driver's
  wire::UnconnectedRequest probe;
  for (const std::uint16_t id : {7, 8}) {
    REQUIRE(s.engine.endpoint().poll_unconnected_request(probe));
    CHECK(probe.id == id);
    CHECK(probe.op == (id == 7 ? EndpointOp::port_status : EndpointOp::ev_probe));
    CHECK(probe.slot == 1);
    CHECK(probe.from == (id == 7 ? origin.source : wire::IpAddress{}));
    CHECK(probe.source == 0x9999);
    CHECK(probe.entropy == Ev{0x123});
    CHECK(probe.timestamp == 0x4711);
    CHECK(probe.plane == 1);
  }
  CHECK(!s.engine.endpoint().poll_unconnected_request(probe));
  CHECK(s.transmit().empty());
}

TEST_CASE("endpoint: a peer's port status takes its planes out and brings them back [O-19]") {
  Single::Setup setup = two_planes();
  setup.remote_tag = 0x1234'5678'9ABC'DEF0;
  Single s(setup);
  const wire::Tag own(*s.engine.tag(s.qpn)), theirs(setup.remote_tag);
  const auto tagged = [&](auto packet) {
    packet.bth.set_dqp(s.qpn);
    if constexpr (requires { packet.erth; })
      packet.erth.tag = own.endpoint();
    else
      packet.eeth.tag = own.endpoint();
    return packet;
  };
  CHECK(planes_used(s) == 0b11);
  // Bit 0 is plane 0: plane 1 is down.
  s.receive_control(tagged(request(EndpointOp::port_status, 7, 0b01)));
  const SentList answers = only(s.transmit(), Opcode::endpoint_response);
  REQUIRE(answers.size() == 1);
  const auto& a = answers[0].as<wire::EndpointResponsePacket>();
  CHECK(a.bth.dqp() == Single::kRemote);
  CHECK(theirs.is_in(a.bth));
  CHECK(a.eeth.tag.value() == theirs.endpoint());
  CHECK(planes_used(s) == 0b01);
  for (path::PathIndex i = 0; i < s.peer_state().paths.size(); ++i)  // their health is kept
    CHECK(s.peer_state().paths.health(i) == path::Health::good);
  // An older one that comes late changes nothing and is not answered.
  s.receive_control(tagged(request(EndpointOp::port_status, 6, 0b11)));
  CHECK(only(s.transmit(), Opcode::endpoint_response).empty());
  CHECK(planes_used(s) == 0b01);
  // Back: used when three probes in a row were answered.
  s.receive_control(tagged(request(EndpointOp::port_status, 8, 0b11)));
  for (int i = 0; i < 3; ++i) {
    CHECK(planes_used(s) == 0b01);
    const SentList probes = endpoint_requests(s.advance(50us), EndpointOp::ev_probe);
    REQUIRE(probes.size() == 1);
    CHECK(probes[0].plane == 1);
    CHECK(theirs.is_in(probes[0].as<wire::EndpointRequestPacket>().bth));
    s.receive_control(tagged(endpoint_answer(probes[0])));
  }
  CHECK(planes_used(s) == 0b11);
}

TEST_CASE("endpoint: a port status that anybody can have sent is a hint") {
  Single s(two_planes());
  const auto probe = [&]() -> std::optional<Sent> {
    const SentList probes = endpoint_requests(s.advance(50us), EndpointOp::ev_probe);
    if (probes.empty()) return std::nullopt;
    CHECK(probes[0].plane == 1);
    return probes[0];
  };
  // The plane is used on, and what answers is not down.
  s.receive_control(request(EndpointOp::port_status, 8, 0b01));
  for (int i = 0; i < 3; ++i) {
    CHECK(planes_used(s) == 0b11);
    const auto sent = probe();
    REQUIRE(sent);
    s.receive_control(endpoint_answer(*sent), 1);
  }
  CHECK_FALSE(probe());
  CHECK(planes_used(s) == 0b11);
  // Hints in between change nothing; a plane that stays silent is left alone.
  s.receive_control(request(EndpointOp::port_status, 9, 0b01));
  const SentList silent = endpoint_requests(s.advance(5ms), EndpointOp::ev_probe);
  CHECK(silent.size() >= 3);
  CHECK(planes_used(s) == 0b01);
  // Whatever the number of the hint is, the plane comes back by its answers alone.
  s.receive_control(request(EndpointOp::port_status, 3, 0b11));
  CHECK(planes_used(s) == 0b01);
  for (int i = 0; i < 3; ++i) {
    const SentList probes =
        endpoint_requests(s.advance(i == 0 ? 100ms : 50us), EndpointOp::ev_probe);
    REQUIRE_FALSE(probes.empty());
    s.receive_control(endpoint_answer(probes.back()), 1);
  }
  CHECK(planes_used(s) == 0b11);
}

TEST_CASE("endpoint: without another plane to use, one is not withheld until it proves itself") {
  Single::Setup setup = two_planes();
  setup.planes = 1;
  Single s(setup);
  s.engine.set_plane_up(s.now, 0, false);
  CHECK(planes_used(s) == 0);
  s.engine.set_plane_up(s.now, 0, true);
  CHECK_FALSE(data_of(s.transmit()).empty());
}

TEST_CASE("endpoint: answers to requests without a tag are limited") {
  Single s(two_planes());
  for (int i = 0; i < 1000; ++i)
    s.receive_control(request(EndpointOp::ev_probe, static_cast<std::uint16_t>(i)));
  CHECK(only(s.transmit(), Opcode::endpoint_response).size() == 64);
  CHECK(s.engine.stats().drops.limited == 1000 - 64);
  s.now += 1ms;  // 20,000 per second
  for (int i = 0; i < 1000; ++i)
    s.receive_control(request(EndpointOp::ev_probe, static_cast<std::uint16_t>(i)));
  CHECK(only(s.transmit(), Opcode::endpoint_response).size() == 20);
}

TEST_CASE("endpoint: the own port status is told over the ports that are up until answered") {
  for (const bool answered : {false, true}) {
    Single s(two_planes());
    s.engine.set_plane_up(s.now, 0, false);
    const Time start = s.now;
    const SentList out = endpoint_requests(s.advance(2500us), EndpointOp::port_status);
    REQUIRE(out.size() == 2);
    CHECK(out[0].when == start);
    CHECK(out[1].when == start + 2ms);
    for (const Sent& p : out) {
      CHECK(p.plane == 1);
      CHECK(p.as<wire::EndpointRequestPacket>().erth.port_status_mask.value() == ~plane_bit(0));
    }
    CHECK(planes_used(s) == 0b10);
    if (answered) s.receive_control(endpoint_answer(out[1]), 1);
    CHECK(endpoint_requests(s.advance(10s), EndpointOp::port_status).size() ==
          (answered ? 0 : 8));  // ten
  }
}

TEST_CASE("endpoint: an answer to an older port status does not stand for the present one") {
  Single s(two_planes());
  s.engine.set_plane_up(s.now, 0, false);
  SentList out = endpoint_requests(s.advance(0ns), EndpointOp::port_status);
  REQUIRE(out.size() == 1);
  CHECK(out[0].as<wire::EndpointRequestPacket>().erth.port_status_mask.value() == ~plane_bit(0));
  s.now += 10us;
  s.engine.set_plane_up(s.now, 0, true);
  s.receive_control(endpoint_answer(out[0]), 1);  // taken before the timer that sends the new one
  out = endpoint_requests(s.advance(0ns), EndpointOp::port_status);
  REQUIRE(out.size() == 1);
  CHECK(out[0].as<wire::EndpointRequestPacket>().erth.port_status_mask.value() == ~PlaneMask{0});
  s.receive_control(endpoint_answer(out[0]), 1);
  CHECK(endpoint_requests(s.advance(10s), EndpointOp::port_status).empty());
}

TEST_CASE("endpoint: a host that only receives probes for reverse paths, planes in turn [O-18]") {
  Single s(two_planes());
  Single::Data d{.opcode = Opcode::write_middle, .length = 1024, .dma_length = 1 << 20};
  const auto arrive = [&] {
    for (unsigned plane = 0; plane < 2; ++plane, ++d.n) {
      d.plane = static_cast<Plane>(plane);
      s.data(d);
    }
  };
  arrive();
  const Time start = s.now;
  SentList probes = endpoint_requests(s.advance(1500us), EndpointOp::ev_probe);
  arrive();
  for (const Sent& probe : endpoint_requests(s.advance(1s), EndpointOp::ev_probe))
    probes.push_back(probe);
  REQUIRE(probes.size() == 2);
  CHECK(probes[0].when == start + 1ms);  // the floor; an idle round trip would be 12 us
  CHECK(probes[1].when == start + 2ms);
  CHECK(probes[0].plane != probes[1].plane);
  for (const Sent& probe : probes) s.receive_control(endpoint_answer(probe), probe.plane);
  // Now answers take just these paths, each in the plane of what it answers.
  d.ack_request = true;
  for (; d.n < 12; ++d.n) {
    d.plane = static_cast<Plane>(d.n % 2);
    s.data(d);
    const SentList sacks = only(s.transmit(), Opcode::sack);
    REQUIRE(sacks.size() == 1);
    CHECK(sacks[0].ev == (probes[0].plane == d.plane ? probes[0] : probes[1]).ev);
  }
  // Silence: no more probes.
  (void)s.advance(1s);
  CHECK(endpoint_requests(s.advance(10s), EndpointOp::ev_probe).empty());
}

TEST_CASE("endpoint: QPNs 0, 1 and 2 are never handed out") {
  Single::Setup setup;
  setup.options.slot = 5;
  Single s(setup);
  std::set<Qpn> seen;
  for (int i = 0; i < 5000; ++i) {
    const Qpn q = i == 0 ? s.qpn : s.create();
    CHECK((value(q) >> 16) == 5);
    CHECK((value(q) & 0xFFFF) >= kFirstUserQpn);
    CHECK(seen.insert(q).second);
    if (i > 900) REQUIRE(s.engine.destroy_qp(q) == Errc::ok);
    if (i > 900) seen.erase(q);
  }
}

}  // namespace endpoint_test
