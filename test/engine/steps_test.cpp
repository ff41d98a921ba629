// SPDX-License-Identifier: Apache-2.0
// Receive requests with scatter lists, and the steps between a queue pair's states with what each
// of them may change.
#include <doctest/doctest.h>

#include <deque>
#include <vector>

#include "support/single.hpp"

using namespace mrc;
using namespace mrc::test;
using namespace std::chrono_literals;

TEST_CASE("receive queue: a model of it, with scatter lists of all lengths") {
  for (const std::uint32_t sges : {0u, 1u, 5u}) {
    engine::ReceiveQueue queue(7, sges);
    struct Request {
      std::uint64_t id;
      std::vector<std::uint32_t> lengths;
    };
    std::deque<Request> model;
    Random random(sges + 1);
    std::uint64_t id = 0;
    for (int round = 0; round < 2000; ++round) {
      if (random.chance(0.5) && !queue.full()) {
        Request r{++id, {}};
        r.lengths.resize(random.below(sges + 1));
        for (auto& length : r.lengths) length = random.below(1000);
        const auto list = queue.post(r.id, r.lengths.size());
        REQUIRE(list.size() == r.lengths.size());
        for (std::size_t i = 0; i < list.size(); ++i) list[i] = {nullptr, r.lengths[i], 0};
        model.push_back(std::move(r));
      } else if (!queue.empty()) {
        REQUIRE(queue.front() == model.front().id);
        const auto list = queue.sges_at(0);
        REQUIRE(list.size() == model.front().lengths.size());
        for (std::size_t i = 0; i < list.size(); ++i)
          REQUIRE(list[i].length == model.front().lengths[i]);
        queue.pop_front();
        model.pop_front();
      }
      CHECK(queue.size() == model.size());
      CHECK(queue.full() == (model.size() == 7));
      std::size_t n = 0, expected = 0;
      queue.for_each_sge([&](const engine::ReceiveSge&) { ++n; });
      for (const Request& r : model) expected += r.lengths.size();
      CHECK(n == expected);
    }
  }
}

namespace steps_test {

SingleSetup with_receive_sges() {
  SingleSetup s;
  s.capacity.receive_sges = 2;
  s.capacity.receive = 8;
  s.receives = 0;
  return s;
}

TEST_CASE("receives: scatter lists are checked when posted") {
  Single s(with_receive_sges());
  const auto post = [&](std::initializer_list<Sge> sges) {
    return s.engine.post_receive(s.qpn, ReceiveRequest{1, {sges.begin(), sges.size()}});
  };
  const Sge good{s.target.data(), 100, s.rkey};
  CHECK(post({}) == Errc::ok);
  CHECK(post({good, good}) == Errc::ok);
  CHECK(post({good, good, good}) == Errc::too_many_sges);
  CHECK(post({{s.target.data(), 100, s.rkey + 1}}) == Errc::invalid_lkey);
  CHECK(post({{s.target.data() + s.target.size() - 1, 2, s.rkey}}) == Errc::invalid_lkey);
  CHECK(post({{s.source.data(), 100, s.lkey}}) == Errc::access_denied);  // no local_write
  const PdId other = *s.engine.alloc_pd();
  const std::uint32_t key =
      *s.engine.register_memory(s.target.data(), 100, Access::local_write, other);
  CHECK(post({{s.target.data(), 100, key}}) == Errc::wrong_pd);
  CHECK(s.qp().rx.receives.size() == 2);
  for (int i = 0; i < 6; ++i) CHECK(post({good}) == Errc::ok);
  CHECK(post({good}) == Errc::queue_full);
}

TEST_CASE("receives: their memory is in use until they complete, are flushed or discarded") {
  for (const int how : {0, 1, 2}) {
    CAPTURE(how);
    Single s(with_receive_sges());
    const std::uint32_t key =
        *s.engine.register_memory(s.target.data(), 100, Access::local_write, s.pd);
    const Sge sge{s.target.data(), 100, key};
    REQUIRE(s.engine.post_receive(s.qpn, ReceiveRequest{5, {&sge, 1}}) == Errc::ok);
    CHECK(s.engine.deregister_memory(key) == Errc::in_use);
    if (how == 0) {
      s.data({.opcode = wire::Opcode::write_only_imm});
      const auto done = s.receives();
      REQUIRE(done.size() == 1);
      CHECK(done[0].wr_id == 5);
      CHECK(s.target[50] == 0x11);  // by the write, not by the receive
    } else if (how == 1) {
      REQUIRE(s.engine.to_error(s.qpn) == Errc::ok);
      CHECK(s.receives().size() == 1);
    } else {
      REQUIRE(s.engine.to_reset(s.qpn) == Errc::ok);
    }
    CHECK(s.engine.deregister_memory(key) == Errc::ok);
  }
}

TEST_CASE("receives: memory that is withdrawn by force fails the queue pair") {
  Single s(with_receive_sges());
  const std::uint32_t key =
      *s.engine.register_memory(s.target.data(), 100, Access::local_write, s.pd);
  const Sge sge{s.target.data(), 100, key};
  REQUIRE(s.engine.post_receive(s.qpn, ReceiveRequest{5, {&sge, 1}}) == Errc::ok);
  REQUIRE(s.engine.deregister_memory(key, true) == Errc::ok);
  CHECK(s.qp().state == QpState::err);
  CHECK(s.qp().cause == QpErrorCause::memory_withdrawn);
  CHECK(s.receives().size() == 1);
}

TEST_CASE("solicited: the flag travels to peers that know it, and to no other") {
  for (const bool knows : {true, false}) {
    CAPTURE(knows);
    SingleSetup setup;
    setup.remote_solicited = knows;
    Single s(setup);
    REQUIRE(s.post({.length = 3000, .with_immediate = true, .solicited = true}) == Errc::ok);
    REQUIRE(s.post({.with_immediate = true}) == Errc::ok);
    REQUIRE(s.post({.solicited = true}) == Errc::ok);  // no completion there, nothing to solicit
    const SentList sent = data_of(s.transmit());
    REQUIRE(sent.size() == 5);
    for (std::size_t i = 0; i < sent.size(); ++i)
      CHECK(sent[i].bth().solicited_event() == (knows && i == 2));
    s.data({.opcode = wire::Opcode::write_only_imm, .solicited = true});
    s.data({.n = 1, .opcode = wire::Opcode::write_only_imm, .rqmsn = 1, .msn = 1});
    const auto done = s.receives();
    REQUIRE(done.size() == 2);
    CHECK(done[0].solicited);
    CHECK_FALSE(done[1].solicited);
  }
}

/// What is known of a peer without an answer of it.
RemoteQp unknown_peer(const Single& s) {
  RemoteQp r;
  r.qpn = Single::kRemote;
  r.start_psn = s.first;
  return r;
}

// --- Steps between states ---------------------------------------------------------------------

namespace {

/// A queue pair in INIT.
struct StateSteps : Single {
  StateSteps() {
    REQUIRE(engine.to_reset(qpn) == Errc::ok);
    REQUIRE(engine.to_init(qpn) == Errc::ok);
  }
};

}  // namespace

TEST_CASE("to_rtr, to_rts: attributes of the step are in force from then on") {
  StateSteps s;
  RtrAttributes rtr;
  rtr.mpr_dest = 1;
  rtr.max_wimm_dest = 3;
  rtr.dynamic_mpr = true;
  REQUIRE(s.engine.to_rtr(s.qpn, s.remote(), rtr) == Errc::ok);
  CHECK(s.qp().rx.window.range() == 128);
  CHECK(s.qp().rx.wimms.limit() == 3);
  RtsAttributes rts;
  rts.send_psn = Psn{0x123456};
  rts.mpr = 2;
  rts.max_wimm = 1;
  rts.timeout = 3;
  rts.retry_linear = 1;
  rts.retry_exponential = 0;
  REQUIRE(s.engine.to_rts(s.qpn, s.now, rts) == Errc::ok);
  CHECK(s.qp().attributes.max_wimm == 1);
  CHECK(*s.engine.start_psn(s.qpn) == Psn{0x123456});
  for (int i = 0; i < 2; ++i)
    REQUIRE(s.post({.length = 1024 * 200, .with_immediate = true}) == Errc::ok);
  const SentList sent = data_of(s.transmit());
  REQUIRE(sent.size() == 200);  // one WriteImm in flight
  CHECK(sent[0].psn() == Psn{0x123456});
  CHECK(s.qp().tx.fixed_range == 256);
  // Two timeouts of 8.2 us (at least twice the base RTT), and it is over.
  (void)s.advance(50ms);
  CHECK(s.qp().state == QpState::err);
  CHECK(s.qp().cause == QpErrorCause::retry_exhausted);
}

TEST_CASE("to_rtr, to_rts: values out of range change nothing") {
  StateSteps s;
  RtrAttributes rtr;
  rtr.mpr_dest = 0;
  CHECK(s.engine.to_rtr(s.qpn, s.remote(), rtr) == Errc::invalid_argument);
  rtr = {};
  rtr.max_wimm_dest = 40'000;
  CHECK(s.engine.to_rtr(s.qpn, s.remote(), rtr) == Errc::invalid_argument);
  for (const RtrAttributes bad : {RtrAttributes{.mpr = 0}, RtrAttributes{.max_wimm = 0}})
    CHECK(s.engine.to_rtr(s.qpn, s.remote(), bad) == Errc::invalid_argument);
  CHECK(s.qp().state == QpState::init);
  CHECK(s.peer_state().queue_pairs == 0);
  REQUIRE(s.engine.to_rtr(s.qpn, s.remote()) == Errc::ok);
  for (RtsAttributes rts :
       {RtsAttributes{.mpr = 0}, RtsAttributes{.max_wimm = 0}, RtsAttributes{.timeout = 25},
        RtsAttributes{.retry_linear = 8}, RtsAttributes{.retry_exponential = 26},
        RtsAttributes{.mpr_dest = 0}, RtsAttributes{.max_wimm_dest = 0}})
    CHECK(s.engine.to_rts(s.qpn, s.now, rts) == Errc::invalid_argument);
  CHECK(s.qp().state == QpState::rtr);
  REQUIRE(s.engine.to_rts(s.qpn, s.now) == Errc::ok);
}

TEST_CASE("to_rtr, to_rts: limits as requester in either step, the last ones count") {
  for (const bool at_rts : {false, true}) {
    StateSteps s;
    RtrAttributes rtr;
    rtr.mpr = 3;
    rtr.max_wimm = 2;
    REQUIRE(s.engine.to_rtr(s.qpn, s.remote(), rtr) == Errc::ok);
    CHECK(s.qp().attributes.mpr == 3);
    RtsAttributes rts;
    if (at_rts) {
      rts.mpr = 1;
      rts.max_wimm = 1;
    }
    REQUIRE(s.engine.to_rts(s.qpn, s.now, rts) == Errc::ok);
    CHECK(s.qp().attributes.mpr == (at_rts ? 1 : 3));
    CHECK(s.qp().tx.fixed_range == (at_rts ? 128 : 384));
    for (int i = 0; i < 3; ++i) REQUIRE(s.post({.with_immediate = true}) == Errc::ok);
    CHECK(data_of(s.transmit()).size() == (at_rts ? 1 : 2));
  }
}

TEST_CASE("to_rtr, to_rts: limits as responder at RTS while the peer is not known") {
  StateSteps s;
  REQUIRE(s.engine.to_rtr_unresolved(s.qpn, unknown_peer(s), {.mpr_dest = 8, .max_wimm_dest = 9}) ==
          Errc::ok);
  RtsAttributes rts;
  rts.mpr_dest = 2;
  rts.max_wimm_dest = 3;
  REQUIRE(s.engine.to_rts(s.qpn, s.now, rts) == Errc::ok);
  CHECK(s.qp().rx.window.range() == 256);
  CHECK(s.qp().rx.wimms.limit() == 3);
  REQUIRE(s.engine.resolve(s.now, s.qpn, s.remote()) == Errc::ok);
  s.data({});
  CHECK(s.qp().rx.rx_packets == 1);
}

TEST_CASE("to_rtr, to_rts: a peer that is known counts on the limits that it was told") {
  const RtrAttributes told{.mpr_dest = 4, .max_wimm_dest = 5};
  {
    StateSteps s;
    REQUIRE(s.engine.to_rtr(s.qpn, s.remote(), told) == Errc::ok);
    REQUIRE(s.engine.post_receive(s.qpn, 1) == Errc::ok);
    RtsAttributes rts;
    rts.mpr_dest = 2;        // less: no effect
    rts.max_wimm_dest = 40;  // more: it may send more than it will
    REQUIRE(s.engine.to_rts(s.qpn, s.now, rts) == Errc::ok);
    CHECK(s.qp().attributes.mpr_dest == 4);
    CHECK(s.qp().rx.window.range() == 512);
    CHECK(s.qp().attributes.max_wimm_dest == 40);
    CHECK(s.qp().rx.wimms.limit() == 40);
    s.data({});
    CHECK(s.qp().rx.rx_packets == 1);
  }
  StateSteps s;  // and none once something has arrived
  REQUIRE(s.engine.to_rtr(s.qpn, s.remote(), told) == Errc::ok);
  s.data({});
  RtsAttributes rts;
  rts.mpr_dest = 9;
  rts.max_wimm_dest = 40;
  REQUIRE(s.engine.to_rts(s.qpn, s.now, rts) == Errc::ok);
  CHECK(s.qp().attributes.mpr_dest == 4);
  CHECK(s.qp().attributes.max_wimm_dest == 5);
  CHECK(s.qp().rx.window.range() == 512);
  s.data({.n = 1});
  CHECK(s.qp().rx.rx_packets == 2);
}

TEST_CASE("to_rtr: whether the peer answers trims, in place of what it says") {
  for (const bool known : {true, false})
    for (const bool says : {true, false})
      for (const std::optional<bool> given :
           {std::optional<bool>(), std::optional(true), std::optional(false)}) {
        CAPTURE(known);
        CAPTURE(says);
        StateSteps s;
        RemoteQp remote = s.remote();
        remote.trim_nack = says;
        const RtrAttributes rtr{.trim_nack = given};
        if (known) {
          REQUIRE(s.engine.to_rtr(s.qpn, remote, rtr) == Errc::ok);
          REQUIRE(s.engine.to_rts(s.qpn, s.now) == Errc::ok);
        } else {
          REQUIRE(s.engine.to_rtr_unresolved(s.qpn, remote, rtr) == Errc::ok);
          REQUIRE(s.engine.to_rts(s.qpn, s.now) == Errc::ok);
          REQUIRE(s.engine.resolve(s.now, s.qpn, remote) == Errc::ok);
        }
        REQUIRE(s.post({}) == Errc::ok);
        const bool trims = given.value_or(says);
        CHECK(data_of(s.transmit()).at(0).dscp ==
              (trims ? s.setup.options.dscp.trimmable : s.setup.options.dscp.no_trim));
        // The next connection begins anew.
        REQUIRE(s.engine.to_reset(s.qpn) == Errc::ok);
        REQUIRE(s.engine.to_init(s.qpn) == Errc::ok);
        REQUIRE(s.engine.to_rtr(s.qpn, remote) == Errc::ok);
        CHECK(s.qp().remote.trim_nack == says);
      }
}

// --- A peer that is not known yet -------------------------------------------------------------

TEST_CASE(
    "unresolved: what is posted waits, what arrives is dropped, both go on when it is known") {
  StateSteps s;
  REQUIRE(s.engine.to_rtr_unresolved(s.qpn, unknown_peer(s)) == Errc::ok);
  REQUIRE(s.engine.post_receive(s.qpn, 1) == Errc::ok);
  REQUIRE(s.engine.to_rts(s.qpn, s.now, {.send_psn = Psn{77}}) == Errc::ok);
  for (std::uint64_t i = 0; i < 5; ++i)
    REQUIRE(s.post({.id = i, .length = 3000, .with_immediate = true}) == Errc::ok);
  CHECK(s.advance(1s).empty());
  CHECK(s.qp().state == QpState::rts);
  s.data({});
  CHECK(s.engine.stats().drops.wrong_state == 1);
  REQUIRE(s.engine.resolve(s.now, s.qpn, s.remote()) == Errc::ok);
  CHECK(s.peer_state().queue_pairs == 1);
  const SentList sent = data_of(s.transmit());
  REQUIRE(sent.size() == 15);
  CHECK(sent[0].psn() == Psn{77});
  s.own = Psn{77};
  s.ack(4, 14);
  CHECK(s.sends().size() == 5);
  s.data({});
  CHECK(s.qp().rx.rx_packets == 1);
}

TEST_CASE("unresolved: an error, a reset, and a peer that does not fit") {
  const auto unresolved = [](StateSteps& s) {
    REQUIRE(s.engine.to_rtr_unresolved(s.qpn, unknown_peer(s)) == Errc::ok);
    REQUIRE(s.engine.to_rts(s.qpn, s.now) == Errc::ok);
    REQUIRE(s.post({}) == Errc::ok);
  };
  {
    StateSteps s;
    unresolved(s);
    RemoteQp bad = s.remote();
    bad.mtu = 1000;
    CHECK(s.engine.resolve(s.now, s.qpn, bad) == Errc::incompatible);
    bad = s.remote();
    bad.mpr_dest = 0;
    CHECK(s.engine.resolve(s.now, s.qpn, bad) == Errc::incompatible);
    REQUIRE(s.engine.to_error(s.qpn) == Errc::ok);
    CHECK(s.sends().size() == 1);
    CHECK(s.engine.resolve(s.now, s.qpn, s.remote()) == Errc::invalid_state);
  }
  StateSteps s;
  unresolved(s);
  REQUIRE(s.engine.to_reset(s.qpn) == Errc::ok);
  CHECK(s.engine.resolve(s.now, s.qpn, s.remote()) == Errc::invalid_state);
  s.connect();
  REQUIRE(s.post({}) == Errc::ok);
  CHECK(data_of(s.transmit()).size() == 1);
}

TEST_CASE(
    "unresolved: a peer of a smaller MTU, trimmed packets, late news of the last connection") {
  SingleSetup setup;
  setup.options.placing_planes = 0xF;
  Single s(setup);
  s.data({.opcode = wire::Opcode::write_only_imm, .unsettled = true});
  REQUIRE(s.engine.to_reset(s.qpn) == Errc::ok);
  REQUIRE(s.engine.to_init(s.qpn) == Errc::ok);
  REQUIRE(s.engine.to_rtr_unresolved(s.qpn, unknown_peer(s)) == Errc::ok);
  REQUIRE(s.engine.post_receive(s.qpn, 1) == Errc::ok);
  const wire::PacketName late{s.qpn, s.first};
  s.engine.on_settled(s.now, 0, {&late, 1});
  CHECK(s.receives().empty());
  s.data({.trim = wire::Trim::trimmed, .cut = 20});
  CHECK(s.transmit().empty());
  REQUIRE(s.engine.to_rts(s.qpn, s.now) == Errc::ok);
  REQUIRE(s.post({.length = 3000}) == Errc::ok);
  RemoteQp small = s.remote();
  small.mtu = 512;
  REQUIRE(s.engine.resolve(s.now, s.qpn, small) == Errc::ok);
  const SentList sent = data_of(s.transmit());
  REQUIRE(sent.size() == 6);
  CHECK(sent[0].write().payload.size() == 512);
  CHECK(sent[5].write().payload.size() == 3000 - 5 * 512);
}

TEST_CASE("port status: told by the first queue pair in RTS, whichever went to RTR first") {
  StateSteps s;
  const Qpn other = s.create();
  REQUIRE(s.engine.to_init(other) == Errc::ok);
  s.engine.set_plane_up(s.now, 1, false);
  (void)s.advance(20ms);
  REQUIRE(s.engine.to_rtr(s.qpn, s.remote()) == Errc::ok);
  RemoteQp second = s.remote();
  second.qpn = Qpn{0x010204};
  REQUIRE(s.engine.to_rtr(other, second) == Errc::ok);
  REQUIRE(s.engine.to_rts(s.qpn, s.now) == Errc::ok);
  CHECK_FALSE(only(s.advance(20ms), wire::Opcode::endpoint_request).empty());
}

TEST_CASE("unresolved: a better answer replaces the peer until the first packet of it arrives") {
  Single s;
  for (std::uint64_t i = 0; i < 3; ++i) REQUIRE(s.post({.id = i, .length = 2000}) == Errc::ok);
  const SentList before = data_of(s.transmit());
  REQUIRE(before.size() == 6);
  (void)s.advance(10ms);  // nobody answers
  const PeerId other = s.add_peer();
  RemoteQp better = s.remote();
  better.peer = other;
  better.mpr_dest = 1;
  REQUIRE(s.engine.resolve(s.now, s.qpn, better) == Errc::ok);
  CHECK(s.peer_state().queue_pairs == 0);
  CHECK(s.peer_state().congestion.inflight() == 0);
  const SentList sent = data_of(s.transmit());
  REQUIRE(sent.size() == 6);
  for (std::size_t i = 0; i < 6; ++i) {
    CHECK(sent[i].psn() == before[i].psn());
    CHECK_FALSE(sent[i].bth().rtx());
  }
  s.ack(2, 5);
  CHECK(s.sends().size() == 3);
  CHECK(s.engine.resolve(s.now, s.qpn, s.remote()) == Errc::invalid_state);  // heard of it
  CHECK(s.engine.remove_peer(other) == Errc::in_use);
}

/// A queue pair with two retries whose peer is found after 50 ms, and need not know it for 100 ms.
struct Finding {
  static constexpr unsigned kTimeout = 8;
  static constexpr Duration kGrace = 100ms;

  Finding() {
    REQUIRE(s.engine.to_rtr_unresolved(s.qpn, unknown_peer(s)) == Errc::ok);
    REQUIRE(s.engine.to_rts(s.qpn, s.now,
                            {.timeout = kTimeout, .retry_linear = 1, .retry_exponential = 1}) ==
            Errc::ok);
    REQUIRE(s.post({.id = 1}) == Errc::ok);
    CHECK(s.advance(50ms).empty());
    RemoteQp found = s.remote();
    found.heard_by = s.now + kGrace;
    REQUIRE(s.engine.resolve(s.now, s.qpn, found) == Errc::ok);
    s.own = s.qp().start_psn;
  }
  StateSteps s;
};

TEST_CASE("resolve: a queue pair's retries begin when its peer is found, and may know it") {
  Finding f;
  Single& s = f.s;
  const Duration all = reliability::timeout_value(Finding::kTimeout) * (1 + 1 + 2);
  SUBCASE("nothing is ever heard of it") {
    const SentList sent = data_of(s.advance(Finding::kGrace - 1ns));
    CHECK(s.qp().state == QpState::rts);
    CHECK(s.qp().stats.timeouts > 5);
    CHECK(s.qp().tx.retries.used() == 0);
    CHECK(only(sent, wire::Opcode::write_only).size() == 1 + s.qp().stats.timeouts);
    // Its silence tells nothing of paths and network, which other queue pairs use.
    const path::PathSet& paths = s.peer_state().paths;
    for (path::PathIndex i = 0; i < paths.size(); ++i) CHECK(path::usable(paths.health(i)));
    const auto& cc = s.peer_state().congestion;
    CHECK(cc.window() > s.setup.attributes.mtu * 8);
    const Time grace_over = s.now;
    while (s.qp().state == QpState::rts) (void)s.advance(1ms);
    CHECK(s.qp().cause == QpErrorCause::retry_exhausted);
    // The timeout that ran then, and all that there are.
    CHECK(s.now - grace_over <= Finding::kGrace + all + 1ms);
    CHECK(s.now - grace_over >= all);
  }
  SUBCASE("it is heard: from then on they count") {
    (void)s.advance(Finding::kGrace / 2);
    REQUIRE(s.qp().tx.retries.used() == 0);
    s.sack({.cack = 0});
    s.ack(0, 0);
    REQUIRE(s.sends().size() == 1);
    REQUIRE(s.post({.id = 2}) == Errc::ok);
    (void)s.advance(all - 1ns);
    CHECK(s.qp().state == QpState::rts);
    (void)s.advance(1ns);
    CHECK(s.qp().cause == QpErrorCause::retry_exhausted);
  }
}

/// Posts a SEND of 3,000 bytes.
Errc post_send(Single& s) {
  const Sge sge{s.source.data(), 3000, s.lkey};
  SendRequest request;
  request.opcode = SendOpcode::send;
  request.sges = {&sge, 1};
  return s.engine.post_send(s.qpn, request, s.now);
}

TEST_CASE("presumed: a SEND makes the peer unknown again, and waits with what is posted") {
  StateSteps s;
  REQUIRE(s.engine.to_rtr_unresolved(s.qpn, unknown_peer(s)) == Errc::ok);
  REQUIRE(s.engine.to_rts(s.qpn, s.now, {.send_psn = s.own}) == Errc::ok);
  RemoteQp guess = s.remote();
  guess.presumed = true;
  REQUIRE(s.engine.resolve(s.now, s.qpn, guess) == Errc::ok);
  REQUIRE(s.post({.id = 1, .length = 3000}) == Errc::ok);
  CHECK(data_of(s.transmit()).size() == 3);
  REQUIRE(post_send(s) == Errc::ok);
  CHECK(s.qp().peer == nullptr);
  CHECK(s.qp().state == QpState::rts);
  CHECK(s.advance(1s).empty());
  RemoteQp real = s.remote();
  real.peer = s.add_peer();
  CHECK(s.engine.remove_peer(s.peer) == Errc::ok);
  SUBCASE("it offers SEND") {
    real.rc = true;
    REQUIRE(s.engine.resolve(s.now, s.qpn, real) == Errc::ok);
    const SentList sent = data_of(s.transmit());
    REQUIRE(sent.size() == 6);
    CHECK(sent[0].bth().opcode() == wire::Opcode::write_first);
    CHECK(sent[3].bth().opcode() == wire::Opcode::send_first);
  }
  SUBCASE("it does not") {
    REQUIRE(s.engine.resolve(s.now, s.qpn, real) == Errc::ok);
    CHECK(s.qp().cause == QpErrorCause::unsupported);
  }
}

TEST_CASE("presumed: a peer that was heard is no guess any more") {
  StateSteps s;
  RemoteQp guess = s.remote();
  guess.presumed = true;
  REQUIRE(s.engine.to_rtr_unresolved(s.qpn, guess) == Errc::ok);
  REQUIRE(s.engine.to_rts(s.qpn, s.now) == Errc::ok);
  REQUIRE(s.engine.resolve(s.now, s.qpn, guess) == Errc::ok);
  s.data({});
  CHECK(post_send(s) == Errc::unsupported);
  CHECK(s.qp().peer != nullptr);
}

}  // namespace steps_test
