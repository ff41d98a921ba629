// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "conformance/scripted_peer.hpp"

using namespace mrc;
using namespace mrc::test;
using wire::SackMark;

namespace {

/// A retransmission timer that stays out of the way.
ScriptedPeer::Setup patient() {
  ScriptedPeer::Setup s;
  s.attributes.timeout = 24;
  return s;
}

}  // namespace

TEST_CASE("sharing: the smaller MTU of both sides counts, powers of two up to 32 KiB [O-30]") {
  ScriptedPeer::Setup setup = patient();
  setup.attributes.mtu = 32'768;
  setup.remote.mtu = 512;
  ScriptedPeer peer(setup);
  REQUIRE(peer.post(1200) == Errc::ok);
  const auto out = peer.sent_data();
  REQUIRE(out.size() == 3);
  CHECK(out[0].write().payload.size() == 512);
  // As responder too: a First of that size is right, a longer one is not.
  Data d;
  d.psn = Psn{0x1000};
  d.opcode = wire::Opcode::write_first;
  d.payload.assign(512, 1);
  d.dma_length = 4096;
  peer.receive(d);
  CHECK(peer.qp().state == QpState::rts);
  d.psn = Psn{0x1001};
  d.payload.assign(1024, 1);
  peer.receive(d);
  CHECK(peer.qp().cause == QpErrorCause::bad_request);
  // Not more than the own, and only powers of two.
  for (const std::uint32_t mtu : {65'536u, 1000u, 128u}) {
    REQUIRE(peer.engine.to_reset(peer.qpn) == Errc::ok);
    REQUIRE(peer.engine.to_init(peer.qpn) == Errc::ok);
    RemoteQp remote = peer.remote;
    remote.mtu = mtu;
    CHECK(peer.engine.to_rtr(peer.qpn, remote) == Errc::incompatible);
  }
}

TEST_CASE("sharing: queue pairs to one destination share window, paths and turns [C-12] [O-26]") {
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

TEST_CASE("sharing: at the end of the window every packet asks for a SACK") {
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

TEST_CASE("sharing: a peer's buffers bound what is under way in each plane") {
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
