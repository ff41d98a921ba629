// SPDX-License-Identifier: Apache-2.0
// States of a queue pair, misuse, and what outlives an incarnation.
#include <doctest/doctest.h>

#include <functional>

#include "support/single.hpp"

using namespace mrc;
using namespace mrc::test;
using namespace std::chrono_literals;
using wire::Opcode;

TEST_CASE("states: each move only from where it is allowed") {
  Single s;
  Engine& e = s.engine;
  const Qpn q = s.create();
  using Move = std::function<Errc()>;
  const Move moves[] = {[&] { return e.to_init(q); }, [&] { return e.to_rtr(q, s.remote()); },
                        [&] { return e.to_rts(q, s.now); }, [&] { return e.to_error(q); }};
  const auto state = [&] { return e.find_qp(q)->state; };
  const auto bring_to = [&](QpState to) {
    CHECK(e.to_reset(q) == Errc::ok);
    if (to == QpState::err) {
      CHECK(e.to_init(q) == Errc::ok);
      CHECK(e.to_error(q) == Errc::ok);
    } else {
      for (unsigned i = 0; i < static_cast<unsigned>(to); ++i) CHECK(moves[i]() == Errc::ok);
    }
    CHECK(state() == to);
  };
  for (const QpState from :
       {QpState::reset, QpState::init, QpState::rtr, QpState::rts, QpState::err}) {
    INFO(to_string(from));
    for (unsigned m = 0; m < 4; ++m) {
      bring_to(from);
      const bool allowed = m == 3 ? from != QpState::reset : static_cast<unsigned>(from) == m;
      CHECK(moves[m]() == (allowed ? Errc::ok : Errc::invalid_state));
      if (!allowed) CHECK(state() == from);
    }
    bring_to(from);
    s.qpn = q;
    CHECK(s.post({}) == (from == QpState::rts ? Errc::ok : Errc::invalid_state));
    const bool receives = from != QpState::reset && from != QpState::err;
    CHECK(e.post_receive(q, 1) == (receives ? Errc::ok : Errc::invalid_state));
  }
  const Qpn none{0x00FFFF};
  CHECK(e.to_init(none) == Errc::not_found);
  CHECK(e.to_rtr(none, s.remote()) == Errc::not_found);
  CHECK(e.to_rts(none, s.now) == Errc::not_found);
  CHECK(e.to_error(none) == Errc::not_found);
  CHECK(e.to_reset(none) == Errc::not_found);
  CHECK(e.destroy_qp(none) == Errc::not_found);
  CHECK(e.post_receive(none, 1) == Errc::not_found);
  CHECK(e.set_mpr(none, 1) == Errc::not_found);
  CHECK(e.start_psn(none).error() == Errc::not_found);
}

TEST_CASE("states: RTR refuses what can't be met") {
  Single s;
  const Qpn q = s.create();
  REQUIRE(s.engine.to_init(q) == Errc::ok);
  RemoteQp r = s.remote();
  r.peer = PeerId{7};
  CHECK(s.engine.to_rtr(q, r) == Errc::not_found);
  r = s.remote();
  r.mpr_dest = 0;
  CHECK(s.engine.to_rtr(q, r) == Errc::incompatible);
  r = s.remote();
  r.max_wimm_dest = 0;
  CHECK(s.engine.to_rtr(q, r) == Errc::incompatible);
  for (const std::uint32_t mtu : {2048u, 128u, 1000u}) {
    r = s.remote();
    r.mtu = mtu;
    CHECK(s.engine.to_rtr(q, r) == Errc::incompatible);
  }
  r.mtu = 512;
  CHECK(s.engine.to_rtr(q, r) == Errc::ok);
  REQUIRE(s.engine.to_rts(q, s.now) == Errc::ok);
  s.qpn = q;
  REQUIRE(s.post({.length = 1024}) == Errc::ok);
  CHECK(data_of(s.transmit()).size() == 2);  // the agreed size rules
}

TEST_CASE("creation: limits of attributes and capacities") {
  Single s;
  const auto make = [&](auto change) {
    engine::QpInit init;
    init.pd = s.pd;
    init.send_cq = s.send_cq;
    init.receive_cq = s.receive_cq;
    change(init);
    const auto r = s.engine.create_qp(init);
    return r ? s.engine.destroy_qp(r.value()) : r.error();
  };
  CHECK(make([](auto&) {}) == Errc::ok);
  CHECK(make([](auto& i) { i.capacity.send = 0; }) == Errc::invalid_argument);
  CHECK(make([](auto& i) { i.capacity.send = 32'769; }) == Errc::invalid_argument);
  CHECK(make([](auto& i) { i.capacity.receive = 32'769; }) == Errc::invalid_argument);
  CHECK(make([](auto& i) { i.capacity.receive = 0; }) == Errc::ok);
  CHECK(make([](auto& i) { i.capacity.send_sges = 65; }) == Errc::invalid_argument);
  CHECK(make([](auto& i) { i.capacity.inline_bytes = 1025; }) == Errc::invalid_argument);
  CHECK(make([](auto& i) { i.attributes.mtu = 255; }) == Errc::invalid_argument);
  CHECK(make([](auto& i) { i.attributes.mtu = 3000; }) == Errc::invalid_argument);
  CHECK(make([](auto& i) { i.attributes.mtu = 65'536; }) == Errc::invalid_argument);
  CHECK(make([](auto& i) { i.attributes.mpr = 0; }) == Errc::invalid_argument);
  CHECK(make([](auto& i) { i.attributes.mpr_dest = 0; }) == Errc::invalid_argument);
  CHECK(make([](auto& i) { i.attributes.max_wimm = 0; }) == Errc::invalid_argument);
  CHECK(make([](auto& i) { i.attributes.max_wimm_dest = 32'769; }) == Errc::invalid_argument);
  CHECK(make([](auto& i) { i.attributes.timeout = 25; }) == Errc::invalid_argument);
  CHECK(make([](auto& i) { i.attributes.retry_linear = 8; }) == Errc::invalid_argument);
  CHECK(make([](auto& i) { i.attributes.retry_exponential = 26; }) == Errc::invalid_argument);
  CHECK(make([](auto& i) { i.pd = PdId{9}; }) == Errc::not_found);
  CHECK(make([](auto& i) { i.send_cq = CqId{9}; }) == Errc::not_found);
  for (const auto change :
       {+[](EngineOptions& o) { o.max_qps = 0; }, +[](EngineOptions& o) { o.max_mrs = 0; },
        +[](EngineOptions& o) { o.max_outstanding = 63; },
        +[](EngineOptions& o) { o.burst = 0; }}) {
    EngineOptions o;
    change(o);
    CHECK_THROWS_AS(Engine{o}, Error);
  }
}

TEST_CASE("use counts: nothing goes while something refers to it") {
  Single s;
  Engine& e = s.engine;
  CHECK(e.dealloc_pd(s.pd) == Errc::in_use);
  CHECK(e.destroy_cq(s.send_cq) == Errc::in_use);
  CHECK(e.remove_peer(s.peer) == Errc::in_use);
  REQUIRE(e.destroy_qp(s.qpn) == Errc::ok);
  CHECK(e.destroy_qp(s.qpn) == Errc::not_found);
  CHECK(e.dealloc_pd(s.pd) == Errc::in_use);  // memory regions
  CHECK(e.destroy_cq(s.send_cq) == Errc::ok);
  CHECK(e.destroy_cq(s.send_cq) == Errc::not_found);
  CHECK(e.remove_peer(s.peer) == Errc::ok);
  CHECK(e.remove_peer(s.peer) == Errc::not_found);
  CHECK(e.deregister_memory(s.rkey) == Errc::ok);
  CHECK(e.deregister_memory(s.rkey) == Errc::not_found);
  CHECK(e.deregister_memory(s.lkey) == Errc::ok);
  CHECK(e.dealloc_pd(s.pd) == Errc::ok);
  CHECK(e.dealloc_pd(s.pd) == Errc::not_found);
  CHECK(e.qp_count() == 0);
  CHECK(e.peer_count() == 0);
}

TEST_CASE("flush: requests in posting order, then receives in theirs, and one event") {
  Single s;
  for (std::uint64_t i = 0; i < 5; ++i)
    REQUIRE(s.post({.id = i, .length = 2000, .with_immediate = i == 3, .signaled = false}) ==
            Errc::ok);
  (void)s.transmit(plane_bit(0));
  REQUIRE(s.engine.to_error(s.qpn) == Errc::ok);
  const auto c = s.sends();
  REQUIRE(c.size() == 5);
  for (std::uint64_t i = 0; i < 5; ++i) {
    CHECK(c[i].wr_id == i);
    CHECK(c[i].status == WcStatus::wr_flush_err);
    CHECK(c[i].opcode == (i == 3 ? WcOpcode::write_imm : WcOpcode::write));
  }
  const auto r = s.receives();
  REQUIRE(r.size() == 16);
  for (std::uint64_t i = 0; i < 16; ++i) {
    CHECK(r[i].wr_id == 1000 + i);
    CHECK(r[i].status == WcStatus::wr_flush_err);
    CHECK(r[i].opcode == WcOpcode::recv_write_imm);
  }
  CHECK(s.qp().cause == QpErrorCause::requested);
  engine::Engine::Event event;
  CHECK(s.engine.poll_event(event));
  CHECK_FALSE(s.engine.poll_event(event));
  CHECK(s.engine.to_error(s.qpn) == Errc::ok);  // again: nothing more happens
  CHECK(s.sends().empty());
  CHECK_FALSE(s.engine.poll_event(event));
  CHECK(s.engine.deregister_memory(s.lkey) == Errc::ok);  // no longer in use
}

TEST_CASE("reset and destruction: posted requests vanish, shared accounts are settled") {
  for (const bool destroy : {false, true}) {
    Single s;
    REQUIRE(s.post({.length = 100'000}) == Errc::ok);
    (void)s.transmit();
    s.data({.n = 3});
    CHECK(s.peer_state().congestion.inflight() > 0);
    CHECK(s.engine.deregister_memory(s.lkey) == Errc::in_use);
    const Psn old = s.own;
    CHECK((destroy ? s.engine.destroy_qp(s.qpn) : s.engine.to_reset(s.qpn)) == Errc::ok);
    CHECK(s.sends().empty());
    CHECK(s.receives().empty());
    CHECK(s.peer_state().congestion.inflight() == 0);
    for (const auto bytes : s.peer_state().plane_inflight) CHECK(bytes == 0);
    CHECK(s.peer_state().queue_pairs == 0);
    CHECK(s.engine.quiet());
    CHECK(s.engine.deregister_memory(s.lkey) == Errc::ok);
    CHECK(s.transmit().empty());
    CHECK(s.advance(10s).empty());
    if (!destroy) CHECK_FALSE(*s.engine.start_psn(s.qpn) == old);
  }
}

namespace states_test {

/// Resets the queue pair and connects it again, with other PSNs on both sides.
void reconnect(Single& s) {
  REQUIRE(s.engine.to_reset(s.qpn) == Errc::ok);
  REQUIRE(s.engine.to_init(s.qpn) == Errc::ok);
  for (unsigned i = 0; i < 4; ++i) REQUIRE(s.engine.post_receive(s.qpn, i) == Errc::ok);
  RemoteQp r = s.remote();
  r.start_psn = Psn{0x123456};
  REQUIRE(s.engine.to_rtr(s.qpn, r) == Errc::ok);
  REQUIRE(s.engine.to_rts(s.qpn, s.now) == Errc::ok);
}

namespace {

void answers_of_an_earlier_incarnation(std::uint64_t seed) {
  Single::Setup setup;
  setup.options.seed = seed;
  Single s(setup);
  for (unsigned i = 0; i < 4; ++i) REQUIRE(s.post({.id = i}) == Errc::ok);
  const SentList old = data_of(s.transmit());
  reconnect(s);
  for (std::uint64_t i = 10; i < 16; ++i) REQUIRE(s.post({.id = i}) == Errc::ok);
  REQUIRE(data_of(s.transmit()).size() == 6);
  const auto inflight = s.peer_state().congestion.inflight();
  const Psn psn = s.qp().tx.window.unacked();
  // s.own is still the old start: these speak of old packets, with message numbers that exist.
  s.ack(3, 3);
  s.sack({.cack = 3, .mpr = 1, .received = 100'000});
  for (const wire::NackReason reason :
       {wire::NackReason::trimmed, wire::NackReason::no_resource, wire::NackReason::unexp_event})
    s.nack(old[2], reason);
  for (const wire::Syndrome code :
       {wire::Syndrome::invalid_request, wire::Syndrome::remote_access_error,
        wire::Syndrome::remote_operational_error})
    s.ack(3, 3, code);
  CHECK(s.qp().state == QpState::rts);
  CHECK(s.sends().empty());
  CHECK(s.qp().tx.window.unacked() == psn);
  CHECK(s.qp().tx.window.outstanding() == 6);
  CHECK(s.peer_state().congestion.inflight() == inflight);
  CHECK(s.transmit().empty());
  CHECK(s.engine.stats().drops.stale + s.engine.stats().drops.implausible == 8);
}

}  // namespace

TEST_CASE("stale: answers to an earlier incarnation do nothing to the next one") {
  // The new PSNs are ahead of the old ones for some seeds, and behind for others.
  for (std::uint64_t seed = 1; seed <= 10; ++seed) answers_of_an_earlier_incarnation(seed);
}

TEST_CASE("stale: data of an earlier incarnation is not placed") {
  Single s;
  reconnect(s);
  s.data({.n = 0, .opcode = Opcode::write_only_imm});
  CHECK(s.target[0] == 0xEE);
  CHECK(s.receives().empty());
  CHECK(s.qp().state == QpState::rts);
}

TEST_CASE("stale: a NAK that waited to be sent does not reach the next connection") {
  for (const bool reuse : {false, true}) {
    Single::Setup setup;
    setup.options.max_qps = 1;  // the number is used again at once
    Single s(setup);
    s.data({.n = 0});
    for (int i = 0; i < 2; ++i) s.data({.n = 1, .rkey = 1});
    REQUIRE(s.qp().state == QpState::err);
    if (reuse) {
      REQUIRE(s.engine.destroy_qp(s.qpn) == Errc::ok);
      s.qpn = s.create();
      s.connect();
    } else {
      reconnect(s);
    }
    CHECK(s.transmit().empty());
  }
}

TEST_CASE("stale: what waits for a peer does not outlive it") {
  Single s;
  // Suspect the last path, so that a probe for it waits and a request is open.
  const auto last = static_cast<path::PathIndex>(s.peer_state().paths.size() - 1);
  s.peer_state().paths.on_timeout(last, s.now);
  s.engine.set_plane_up(s.now, 0, false);  // arms the peer's timer
  s.now += 1100us;
  s.engine.on_time(s.now);
  const SentList first = only(s.transmit(), Opcode::endpoint_request);
  s.now += 5ms;
  s.engine.on_time(s.now);  // another probe waits now
  REQUIRE(s.engine.destroy_qp(s.qpn) == Errc::ok);
  REQUIRE(s.engine.remove_peer(s.peer) == Errc::ok);
  s.setup.planes = s.setup.paths = 1;
  REQUIRE(s.add_peer() == s.peer);
  CHECK(s.transmit().empty());
  for (const Sent& request : first) s.receive_control(endpoint_answer(request));
  CHECK(s.engine.stats().drops.stale == first.size());
}

}  // namespace states_test
