// SPDX-License-Identifier: Apache-2.0
// What queue pairs to one peer share, and what bounds them: window, paths, the peer's buffers, MTU.
#include <doctest/doctest.h>

#include <utility>

#include "support/single.hpp"

using namespace mrc;
using namespace mrc::test;

TEST_CASE("sharing: queue pairs to one destination share window, order and paths [C-12] [O-26]") {
  constexpr std::uint32_t kNominal = 1024 + 8 + 12 + 4 + 4 + 16 + 4 + 40;
  Single::Setup setup;
  setup.options.cc.algorithm = cc::Algorithm::fixed;
  setup.options.cc.fixed_window = 10 * kNominal;
  setup.options.quantum = 2 * kNominal;
  Single s(setup);
  const Qpn first = s.qpn;
  const Psn first_own = s.own;
  REQUIRE(s.post({.length = 50 * 1024}) == Errc::ok);
  s.qpn = s.create();
  s.connect();
  const Qpn second = s.qpn;
  const Psn second_own = s.own;
  REQUIRE(s.post({.length = 50 * 1024}) == Errc::ok);
  wire::TxBurst burst;
  s.engine.poll_transmit(s.now, ~PlaneMask{0}, burst);
  const auto out = burst.packets();
  REQUIRE(out.size() == 10);  // inflight + size <= cwnd
  for (std::size_t i = 0; i < out.size(); ++i)
    CHECK(out[i].owner == (i % 4 < 2 ? first : second));  // a quantum each in turn
  CHECK(s.peer_state().congestion.inflight() == 10 * kNominal);
  // What the one learns about a path, the other heeds.
  Sent marked;
  marked.bytes.assign(out[2].header.begin(), out[2].header.begin() + out[2].header_length);
  marked.ev = out[2].entropy;
  s.sack({.cack = 3, .trigger = &marked, .mark = wire::SackMark::always_skip});
  unsigned of_the_other = 0;
  for (unsigned round = 0; round < 20; ++round) {
    for (const auto& [qpn, own] : {std::pair{first, first_own}, std::pair{second, second_own}}) {
      s.qpn = qpn;
      s.own = own;
      s.sack({.cack = s.qp().tx.window.next() - own - 1});  // all that it has sent is in
    }
    burst.clear();
    s.engine.poll_transmit(s.now, ~PlaneMask{0}, burst);
    for (const auto& p : burst.packets()) {
      CHECK(p.entropy != marked.ev);
      of_the_other += p.owner == first;
    }
  }
  CHECK(of_the_other > 16);  // a turn over all paths
}

TEST_CASE("sharing: at the end of the window every packet asks for a SACK") {
  Single::Setup setup;
  setup.options.cc.nscc.mtu = 1200;
  setup.options.cc.nscc.max_cwnd = 40'000;
  Single s(setup);
  REQUIRE(s.post({.length = 100 * 1024}) == Errc::ok);
  const SentList out = data_of(s.transmit());
  REQUIRE(out.size() == 35);  // of 1,112 B each
  for (std::size_t i = 0; i < out.size(); ++i)
    CHECK(out[i].bth().ack_request() == (40'000 - (i + 1) * 1112 < 1200));
}

TEST_CASE("sharing: a peer's buffers bound what is under way in each plane") {
  engine::PeerSpec spec;
  spec.slot = 2;
  spec.planes = 0b11;
  spec.plane_window = 5000;
  for (unsigned i = 0; i < 8; ++i)
    spec.paths.push_back({Ev{i + 1}, static_cast<Plane>(i % 2), static_cast<std::uint16_t>(i / 2)});
  Single s;
  s.peer = *s.engine.add_peer(spec);
  s.qpn = s.create();
  s.connect();
  REQUIRE(s.post({.length = 200 * 1024}) == Errc::ok);
  wire::TxBurst burst;
  s.engine.poll_transmit(s.now, ~PlaneMask{0}, burst);
  std::uint64_t bytes[2] = {};
  for (const auto& p : burst.packets()) bytes[p.plane] += p.transport_length() + 8 + 40;
  for (const std::uint64_t n : bytes) {
    CHECK(n >= 5000);
    CHECK(n < 5000 + 1112);  // the packet that reaches the limit is the last
  }
}

TEST_CASE("sharing: the smaller MTU of both sides counts, multiples of 128 up to 32 KiB [O-30]") {
  Single::Setup setup;
  setup.attributes.mtu = 32'768;
  Single s(setup);
  const auto reconnect = [&](std::uint32_t mtu) {
    REQUIRE(s.engine.to_reset(s.qpn) == Errc::ok);
    REQUIRE(s.engine.to_init(s.qpn) == Errc::ok);
    RemoteQp remote = s.remote();
    remote.mtu = mtu;
    return s.engine.to_rtr(s.qpn, remote);
  };
  for (const std::uint32_t mtu : {65'536u, 1000u, 128u, 1410u})
    CHECK(reconnect(mtu) == Errc::incompatible);
  REQUIRE(reconnect(512) == Errc::ok);
  REQUIRE(s.engine.to_rts(s.qpn, s.now) == Errc::ok);
  REQUIRE(s.post({.length = 1200}) == Errc::ok);
  const SentList out = data_of(s.transmit());
  REQUIRE(out.size() == 3);
  CHECK(out[0].write().payload.size() == 512);
  // As responder too: a First of that size is right, a longer one is not.
  s.data({.n = 0, .opcode = wire::Opcode::write_first, .length = 512, .dma_length = 4096});
  CHECK(s.qp().state == QpState::rts);
  s.data({.n = 1, .opcode = wire::Opcode::write_middle, .length = 1024, .dma_length = 4096});
  CHECK(s.qp().cause == QpErrorCause::bad_request);
}
