// SPDX-License-Identifier: Apache-2.0
// Queues that behave as those of verbs (QpInit::as_verbs): slots, flushes, completions that vanish.
#include <doctest/doctest.h>

#include <vector>

#include "support/datagrams.hpp"
#include "support/single.hpp"

using namespace mrc;
using namespace mrc::test;
using namespace std::chrono_literals;
using wire::Opcode;

namespace as_verbs_test {

SingleSetup setup(std::uint32_t slots = 4) {
  SingleSetup s;
  s.capacity.send = s.capacity.receive = slots;
  s.receives = 0;
  s.as_verbs = true;
  return s;
}

/// Posts until the send queue is full; returns how many were taken.
unsigned fill(Single& s, bool signaled = true) {
  unsigned n = 0;
  while (n < 1000 && s.post({.id = n, .signaled = signaled}) == Errc::ok) ++n;
  return n;
}
unsigned fill_receives(Single& s) {
  unsigned n = 0;
  while (n < 1000 && s.engine.post_receive(s.qpn, n) == Errc::ok) ++n;
  return n;
}
Completion next(Single& s, CqId cq) {
  Completion c;
  REQUIRE(s.engine.poll_cq(cq, {&c, 1}) == 1);
  return c;
}

TEST_CASE("as verbs: a slot of the send queue is free when its completion was polled") {
  Single s(setup());
  CHECK(fill(s) == 4);
  (void)s.transmit();
  s.ack(3, 3);
  CHECK(s.post({}) == Errc::queue_full);  // complete is not polled
  CHECK(next(s, s.send_cq).wr_id == 0);
  CHECK(s.post({.id = 9}) == Errc::ok);
  CHECK(s.post({}) == Errc::queue_full);
  CHECK(s.sends().size() == 3);
  CHECK(fill(s) == 3);
}

TEST_CASE("as verbs: unsignaled requests hold their slots until a later completion was polled") {
  Single s(setup());
  REQUIRE(s.post({.id = 1, .signaled = false}) == Errc::ok);
  REQUIRE(s.post({.id = 2, .signaled = false}) == Errc::ok);
  REQUIRE(s.post({.id = 3}) == Errc::ok);
  REQUIRE(s.post({.id = 4, .signaled = false}) == Errc::ok);
  (void)s.transmit();
  s.ack(3, 3);
  CHECK(s.post({}) == Errc::queue_full);
  CHECK(next(s, s.send_cq).wr_id == 3);
  CHECK(s.qp().tx.queue.taken() == 1);  // the one behind it
  CHECK(fill(s, false) == 3);
  (void)s.transmit();
  s.ack(6, 6);
  CHECK(s.sends().empty());
  CHECK(s.post({}) == Errc::queue_full);  // nothing will ever free one, but a reset
  REQUIRE(s.engine.to_reset(s.qpn) == Errc::ok);
  s.connect();
  CHECK(fill(s) == 4);
}

TEST_CASE("as verbs: positions wrap") {
  Single s(setup(3));
  std::uint32_t n = 0;
  for (; n < 70'000; ++n) {
    REQUIRE(s.post({.id = n, .length = 0}) == Errc::ok);
    (void)s.transmit();
    s.ack(static_cast<std::uint16_t>(n), n);
    if (n % 2 == 1) REQUIRE(s.sends().size() == 2);
  }
  CHECK(fill(s) == 3);
}

TEST_CASE("as verbs: a queue pair in ERR flushes what is posted, in order") {
  Single s(setup());
  REQUIRE(s.post({.id = 1}) == Errc::ok);
  REQUIRE(s.engine.post_receive(s.qpn, 11) == Errc::ok);
  REQUIRE(s.engine.to_error(s.qpn) == Errc::ok);
  const Sge unknown{s.source.data(), 8, s.lkey ^ 0x10000};  // nobody looks at it any more
  SendRequest request;
  request.wr_id = 2;
  request.sges = {&unknown, 1};
  request.flags.signaled = false;
  CHECK(s.engine.post_send(s.qpn, request, s.now) == Errc::ok);
  CHECK(fill(s, false) == 2);
  CHECK(fill_receives(s) == 3);
  const auto sends = s.sends(), receives = s.receives();
  REQUIRE(sends.size() == 4);
  REQUIRE(receives.size() == 4);
  for (const auto* list : {&sends, &receives})
    for (const Completion& c : *list) CHECK(c.status == WcStatus::wr_flush_err);
  CHECK(sends[0].wr_id == 1);
  CHECK(sends[1].wr_id == 2);
  CHECK(sends[2].wr_id == 0);
  CHECK(receives[0].wr_id == 11);
  CHECK(receives[1].wr_id == 0);
  CHECK(fill(s) == 4);  // there is room again
  CHECK(fill_receives(s) == 4);
  CHECK(s.transmit().empty());
}

TEST_CASE("as verbs: a request that is posted after a failure is not at fault") {
  SingleSetup holds = setup();
  holds.options.holding_planes = 0xF;
  holds.options.held_copies = 100;
  for (const bool posted : {false, true}) {
    CAPTURE(posted);
    Single s(holds);
    if (posted) REQUIRE(s.post({.id = 1}) == Errc::ok);
    const SentList sent = data_of(s.transmit());
    REQUIRE(s.engine.fail(s.qpn, QpErrorCause::retry_exhausted) == Errc::ok);
    REQUIRE(s.post({.id = 2}) == Errc::ok);
    for (const Sent& packet : sent) {
      CHECK(s.sends().empty());  // the port still reads the one at fault
      s.engine.on_released({&packet.copy, 1});
    }
    const auto done = s.sends();
    REQUIRE(done.size() == (posted ? 2 : 1));
    if (posted) CHECK(done[0].status == WcStatus::retry_exc_err);
    CHECK(done.back().wr_id == 2);
    CHECK(done.back().status == WcStatus::wr_flush_err);
  }
}

TEST_CASE("as verbs: what is posted in ERR raises the event of an armed queue, once") {
  Single s(setup());
  REQUIRE(s.engine.to_error(s.qpn) == Errc::ok);
  Engine::Event event;
  while (s.engine.poll_event(event)) {
  }
  REQUIRE(s.engine.arm_cq(s.receive_cq, Arm::solicited) == Errc::ok);
  CHECK_FALSE(s.engine.has_event());
  REQUIRE(s.engine.post_receive(s.qpn, 1) == Errc::ok);
  REQUIRE(s.engine.post_receive(s.qpn, 2) == Errc::ok);
  CHECK(s.engine.has_event());
  REQUIRE(s.engine.poll_event(event));
  CHECK(event.cq == s.receive_cq);
  CHECK_FALSE(s.engine.poll_event(event));
}

TEST_CASE("as verbs: a slot of the receive queue is free when its completion was polled") {
  Single s(setup());
  CHECK(fill_receives(s) == 4);
  for (std::uint32_t n = 0; n < 4; ++n)
    s.data({.n = n, .opcode = Opcode::write_only_imm, .rqmsn = n, .msn = n});
  CHECK(s.engine.post_receive(s.qpn, 9) == Errc::queue_full);
  CHECK(next(s, s.receive_cq).wr_id == 0);
  CHECK(fill_receives(s) == 1);
  CHECK(s.receives().size() == 3);
  CHECK(fill_receives(s) == 3);
}

TEST_CASE("as verbs: completions of a queue pair vanish with it, and others keep their order") {
  Single s(setup());
  const Qpn other = s.create();
  REQUIRE(s.engine.to_init(other) == Errc::ok);
  REQUIRE(s.engine.to_error(other) == Errc::ok);
  for (std::uint64_t i = 0; i < 3; ++i) {
    REQUIRE(s.post({.id = i}) == Errc::ok);
    (void)s.transmit();
    s.ack(static_cast<std::uint16_t>(i), static_cast<std::uint32_t>(i));
    SendRequest request;
    request.wr_id = 100 + i;
    REQUIRE(s.engine.post_send(other, request, s.now) == Errc::ok);
  }
  CHECK(s.engine.find_cq(s.send_cq)->size() == 6);
  REQUIRE(s.engine.destroy_qp(other) == Errc::ok);
  const auto left = s.sends();
  REQUIRE(left.size() == 3);
  for (std::uint64_t i = 0; i < 3; ++i) CHECK(left[i].wr_id == i);
}

TEST_CASE("as verbs: requests can be completed that the queue pair is not given") {
  Single s(setup());
  const auto complete = [&](std::uint64_t id) {
    return s.engine.complete_send(s.qpn, id, SendOpcode::send_imm, WcStatus::loc_prot_err);
  };
  REQUIRE(s.post({.id = 1}) == Errc::ok);
  for (std::uint64_t id = 2; id < 5; ++id) REQUIRE(complete(id) == Errc::ok);
  CHECK(complete(5) == Errc::queue_full);
  CHECK(s.post({}) == Errc::queue_full);
  const auto made = s.sends();
  REQUIRE(made.size() == 3);
  CHECK(made[0].wr_id == 2);
  CHECK(made[0].status == WcStatus::loc_prot_err);
  CHECK(made[0].opcode == WcOpcode::send);
  CHECK(fill(s) == 3);  // the first one is still under way
  Single plain;
  CHECK(plain.engine.complete_send(plain.qpn, 1, SendOpcode::send, WcStatus::loc_prot_err) ==
        Errc::unsupported);
}

TEST_CASE("as verbs: without it, what the C++ API promises") {
  Single s;
  REQUIRE(s.post({.id = 1}) == Errc::ok);
  (void)s.transmit();
  s.ack(0, 0);
  CHECK(s.qp().tx.queue.taken() == 0);  // complete is enough
  REQUIRE(s.engine.to_error(s.qpn) == Errc::ok);
  CHECK(s.post({}) == Errc::invalid_state);
  CHECK(s.engine.post_receive(s.qpn, 1) == Errc::invalid_state);
  REQUIRE(s.engine.to_reset(s.qpn) == Errc::ok);
  CHECK(s.sends().size() == 1);  // stays
}

// ----------------------------------------------------------------------------------- datagrams

/// A datagram queue pair on the first side that sends to the other side's.
Qpn add(Datagrams& d, std::optional<SrqId> srq = {}, unsigned side = 0) {
  engine::DatagramInit init;
  init.pd = d.pair.pd(side);
  init.send_cq = d.ends[side].send_cq;
  init.receive_cq = d.ends[side].receive_cq;
  init.capacity = d.setup.capacity;
  init.capacity.send = init.capacity.receive = 4;
  init.srq = srq;
  init.as_verbs = true;
  const Result<Qpn> qpn = create_datagram_qp(d.pair[side], init);
  REQUIRE(qpn.ok());
  d.start(side, qpn.value());
  return qpn.value();
}

TEST_CASE("as verbs: slots of datagrams, and of a shared receive queue") {
  Datagrams d;
  const Qpn from = add(d);
  const SrqId srq = *d.b().create_srq(d.pair.pd(1), 4, 1);
  const Qpn to = add(d, srq, 1);
  const auto post = [&] {
    const Sge sge{d.ends[0].source.data(), 100, d.ends[0].source_key};
    DatagramRequest request;
    request.sges = {&sge, 1};
    request.remote_qpn = to;
    request.remote_q_key = Datagrams::kQKey;
    return post_datagram(d.a(), from, request, d.ends[0].other);
  };
  const auto share = [&] {
    const Sge sge{d.target(1, 0), Datagrams::kSlot, d.ends[1].target_key};
    return d.b().post_receive(srq, {7, {&sge, 1}});
  };
  for (unsigned i = 0; i < 4; ++i) {
    REQUIRE(share() == Errc::ok);
    REQUIRE(post() == Errc::ok);
  }
  d.pair.run_for(1ms);
  CHECK(d.b().find_srq(srq)->receives.empty());
  CHECK(post() == Errc::queue_full);
  CHECK(share() == Errc::queue_full);
  CHECK(d.sends(0).size() == 4);
  CHECK(post() == Errc::ok);
  Completion c;
  REQUIRE(d.b().poll_cq(d.ends[1].receive_cq, {&c, 1}) == 1);
  CHECK(share() == Errc::ok);
  CHECK(share() == Errc::queue_full);
  REQUIRE(destroy_datagram_qp(d.b(), to) == Errc::ok);  // and with it three completions
  for (unsigned i = 0; i < 3; ++i) CHECK(share() == Errc::ok);
  CHECK(share() == Errc::queue_full);
  CHECK(d.receives(1).empty());

  engine::DatagramState const* const state = find_datagram_qp(d.a(), from);
  DatagramChange change;
  change.state = QpState::err;
  REQUIRE(modify_datagram_qp(d.a(), from, change) == Errc::ok);
  (void)d.sends(0);
  for (unsigned i = 0; i < 4; ++i) CHECK(post() == Errc::ok);
  CHECK(post() == Errc::queue_full);
  const auto flushed = d.sends(0);
  REQUIRE(flushed.size() == 4);
  CHECK(flushed[3].status == WcStatus::wr_flush_err);
  CHECK(state->queue.taken() == 0);
}

}  // namespace as_verbs_test
