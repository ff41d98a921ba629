// SPDX-License-Identifier: Apache-2.0
// Verification tags. That nothing that lacks the connection's tag changes anything is among what
// strangers_test.cpp has of all kinds of packets.
#include <doctest/doctest.h>

#include <set>

#include "support/engine_pair.hpp"
#include "support/single.hpp"
#include "support/traffic.hpp"

using namespace mrc;
using namespace mrc::test;
using namespace std::chrono_literals;
using wire::Opcode;

namespace tags_test {

Single::Setup tagged() {
  Single::Setup s;
  s.remote_tag = 0x1234'5678'9ABC'DEF0;
  return s;
}

TEST_CASE("tags: what a tag does to a BTH, and back") {
  wire::Bth bth = wire::Bth::make(Opcode::write_only, Qpn{9}, Psn{5});
  const wire::Tag none;
  CHECK_FALSE(none);
  CHECK(none.bits() == 0);
  CHECK(none == wire::Tag(0));
  CHECK(none.is_in(bth));
  CHECK(none.check() == 0);
  const wire::Tag tag(0xABC'DEF01'23456789);
  CHECK(tag);
  CHECK(tag.bits() == 0xABC'DEF01'23456789);
  CHECK(tag.check() == 0x23456789);
  CHECK(tag.header() == 0xDEF01);
  CHECK(tag.endpoint() == 0xABC);
  CHECK_FALSE(tag.is_in(bth));
  bth.set_ack_request(true);
  bth.set_rtx(true);
  tag.stamp(bth);
  CHECK(tag.is_in(bth));
  CHECK(bth.p_key() == 0xDEF0);
  CHECK(bth.reserved() == 1);
  CHECK(bth.ack_request());
  CHECK(bth.rtx());
  CHECK_FALSE(bth.has_timestamp());
  none.stamp(bth);
  CHECK(bth.p_key() == wire::kDefaultPKey);
  CHECK(bth.reserved() == 0);
  // No random number makes a tag that looks like none.
  CHECK(wire::Tag::make(std::uint64_t{0xFFFF0} << 32, true));
  CHECK(wire::Tag::make(0, true));
  CHECK(wire::Tag::make(~std::uint64_t{0}, false).check() == 0);
}

TEST_CASE("tags: each bit of the tag counts") {
  Single s(tagged());
  const wire::Tag own(*s.engine.tag(s.qpn));
  s.forged = true;
  for (unsigned bit = 0; bit < 52; ++bit) {
    const wire::Tag wrong(own.bits() ^ std::uint64_t{1} << bit);
    wire::ProbePacket p{wire::Bth::make(Opcode::probe, s.qpn, Psn{}), {}};
    wrong.stamp(p.bth);
    std::vector<std::uint8_t> bytes(sizeof p);
    std::memcpy(bytes.data(), &p, sizeof p);
    wire::RxPacket facts = Single::from(0);
    facts.check = wrong.check();
    s.receive(bytes, facts);
    CHECK(s.transmit().empty());
  }
  CHECK(s.engine.stats().drops.bad_icrc == 32);
  CHECK(s.engine.stats().drops.bad_tag == 20);
  // Endpoint packets have twelve more.
  s.forged = false;
  for (unsigned bit = 0; bit <= 12; ++bit) {
    wire::EndpointRequestPacket r{wire::Bth::make(Opcode::endpoint_request, s.qpn, Psn{1}), {}};
    r.erth.set_op(wire::EndpointOp::ev_probe);
    r.erth.tag = static_cast<std::uint16_t>(own.endpoint() ^ (1u << bit & 0xFFF));
    s.receive_control(r);
    CHECK(s.transmit().size() == (bit == 12 ? 1 : 0));
  }
}

TEST_CASE("tags: a new one for each connection, and none of them alike") {
  Single s(tagged());
  std::set<std::uint64_t> seen;
  for (int i = 0; i < 100; ++i) {
    CHECK(seen.insert(*s.engine.tag(s.qpn)).second);
    REQUIRE(s.engine.to_reset(s.qpn) == Errc::ok);
  }
}

TEST_CASE("tags: traffic between OpenMRC peers carries them, and needs no packet to QPN 2") {
  for (const bool tags : {true, false}) {
    EnginePair::Setup setup;
    setup.tags = tags;
    setup.options.rtt_probes = 8;
    EnginePair pair(setup, 5);
    unsigned plain = 0, other = 0, to_endpoint = 0;
    pair.tap = [&](unsigned, const wire::TxPacket& p, std::vector<std::uint8_t>& bytes) {
      const auto& bth = wire::view_as<wire::Bth>(bytes);
      to_endpoint += bth.dqp() == kEndpointQpn;
      ++(wire::Tag().is_in(bth) && p.check_seed == 0 ? plain : other);
    };
    Traffic traffic(pair, {.queue_pairs = 4, .messages = 100}, 5);
    CHECK(traffic.run(5s));
    traffic.check();
    CHECK((plain == 0) == tags);
    CHECK((other > 0) == tags);
    CHECK((to_endpoint > 0) == !tags);
    CHECK(pair[0].stats().ev_probe_answers >= 8);
    CHECK(pair[0].stats().drops.bad_tag == 0);
  }
}

TEST_CASE("tags: endpoint packets find another queue pair when the peer has closed one") {
  for (const unsigned closed : {0u, 1u}) {
    EnginePair pair({}, 6 + closed);
    Traffic first(pair, {.queue_pairs = 2, .messages = 4}, 6);
    CHECK(first.run(5s));
    // The peer closes its side of one of the two; then a port goes down here, and comes back.
    REQUIRE(pair[1].destroy_qp(first.peer_qpn(closed)) == Errc::ok);
    pair.set_port(0, 1, false);
    pair.run_for(50ms);
    CHECK(pair[1].find_peer(pair.peer(1))->remote_up == ~plane_bit(1));
    pair.set_port(0, 1, true);
    pair.run_for(500ms);
    for (unsigned side = 0; side < 2; ++side) {
      const engine::Peer& peer = *pair[side].find_peer(pair.peer(side));
      CHECK(peer.remote_up == ~PlaneMask{0});
      CHECK(peer.trials.withheld() == 0);
    }
  }
}

TEST_CASE("tags: a peer's tag is no right to speak for another host") {
  Single s(tagged());
  // Another peer, at addresses of its own, with a queue pair and tag of its own.
  engine::PeerSpec spec;
  spec.slot = 1;
  spec.planes = 0xF;
  for (unsigned p = 0; p < 4; ++p) {
    spec.source_tags[p] = 0x7000 + p;
    spec.paths.push_back({Ev{0x900 + p}, static_cast<Plane>(p), 0});
  }
  RemoteQp remote = s.remote();
  remote.peer = *s.engine.add_peer(spec);
  const Qpn liar = s.create();
  REQUIRE(s.engine.to_init(liar) == Errc::ok);
  REQUIRE(s.engine.to_rtr(liar, remote) == Errc::ok);
  const wire::Tag tag(*s.engine.tag(liar));
  wire::EndpointRequestPacket r{wire::Bth::make(Opcode::endpoint_request, liar, Psn{77}), {}};
  r.erth.set_op(wire::EndpointOp::port_status);
  r.erth.port_status_mask = 1;
  r.erth.tag = tag.endpoint();
  tag.stamp(r.bth);
  std::vector<std::uint8_t> bytes(sizeof r);
  std::memcpy(bytes.data(), &r, sizeof r);
  wire::RxPacket facts = Single::from(0);  // from the first peer's address
  facts.check = tag.check();
  s.forged = true;
  s.receive(bytes, facts);
  CHECK(s.peer_state().remote_up == ~PlaneMask{0});
  CHECK(s.engine.find_peer(remote.peer)->remote_up == ~PlaneMask{0});
  CHECK(s.engine.stats().drops.foreign == 1);
  facts.source = 0x7000;  // from its own
  s.receive(bytes, facts);
  CHECK(s.peer_state().remote_up == ~PlaneMask{0});
  CHECK(s.engine.find_peer(remote.peer)->remote_up == ~PlaneMask{0xE});
}

}  // namespace tags_test
