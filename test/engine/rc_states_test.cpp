// SPDX-License-Identifier: Apache-2.0
// SEND, READ and atomics: shared receive queues, RTR, peers that are gone or offer none of it.
#include <doctest/doctest.h>

#include <cstring>

#include "engine/rc_rig.hpp"

using namespace mrc;
using namespace mrc::test;
using namespace std::chrono_literals;

TEST_CASE(
    "A shared receive queue serves several queue pairs, tells its limit and the last receive") {
  RcRig rig({.shared = true});
  rig.fill(0);
  const std::size_t a = rig.add(), b = rig.add();
  for (std::uint64_t i = 0; i < 6; ++i)
    REQUIRE(rig.receive(1, i, {rig.sge(1, i * 1000, 1000)}) == Errc::ok);
  CHECK(rig.pair[1].post_receive(rig.qps[a][1], 9) == Errc::unsupported);
  CHECK(rig.pair[1].set_srq_limit(rig.srq, 65) == Errc::invalid_argument);  // of 64
  REQUIRE(rig.pair[1].set_srq_limit(rig.srq, 3) == Errc::ok);
  const Sge s = rig.sge(0, 0, 700);
  for (int i = 0; i < 3; ++i)
    REQUIRE(rig.post(0, {.opcode = SendOpcode::send, .sges = {&s, 1}}, i % 2 == 0 ? a : b) ==
            Errc::ok);
  REQUIRE(rig.run(3, 3));
  engine::EngineEvent event;
  CHECK_FALSE(rig.pair[1].poll_event(event));
  REQUIRE(rig.post(0, {.opcode = SendOpcode::send, .sges = {&s, 1}}, b) == Errc::ok);
  REQUIRE(rig.run(4, 4));
  REQUIRE(rig.pair[1].poll_event(event));
  CHECK(event.kind == engine::EngineEvent::Kind::srq_limit);
  CHECK(event.srq == rig.srq);
  CHECK_FALSE(rig.pair[1].poll_event(event));
  REQUIRE(rig.pair[1].set_srq_limit(rig.srq, 0) == Errc::ok);
  CHECK_FALSE(rig.pair[1].poll_event(event));
  REQUIRE(rig.pair[1].set_srq_limit(rig.srq, 3) == Errc::ok);  // fewer are left: at once
  REQUIRE(rig.pair[1].poll_event(event));
  CHECK(event.kind == engine::EngineEvent::Kind::srq_limit);
  CHECK_FALSE(rig.pair[1].poll_event(event));
  std::vector<std::uint64_t> ids;
  for (const Completion& c : rig.done(1)) ids.push_back(c.wr_id);
  CHECK(ids == std::vector<std::uint64_t>{0, 1, 2, 3});
  CHECK(rig.pair[1].find_srq(rig.srq)->receives.size() == 2);
  CHECK(rig.pair[1].destroy_srq(rig.srq) == Errc::in_use);
  REQUIRE(rig.pair[1].to_error(rig.qps[a][1]) == Errc::ok);
  bool last = false;
  while (rig.pair[1].poll_event(event))
    last =
        last || (event.kind == engine::EngineEvent::Kind::last_wqe && event.qpn == rig.qps[a][1]);
  CHECK(last);
  CHECK(rig.pair[1].find_srq(rig.srq)->receives.size() == 2);  // nobody else's are flushed
  for (const std::size_t qp : {a, b}) REQUIRE(rig.pair[1].destroy_qp(rig.qps[qp][1]) == Errc::ok);
  CHECK(rig.pair[1].deregister_memory(rig.key[1]) == Errc::in_use);
  CHECK(rig.pair[1].destroy_srq(rig.srq) == Errc::ok);
  CHECK(rig.pair[1].deregister_memory(rig.key[1]) == Errc::ok);
}

TEST_CASE("A responder in RTR answers READs and atomics") {
  RcRig rig;
  rig.fill(1);
  const Qpn a = rig.create(0), b = rig.create(1);
  rig.qps.push_back({a, b});
  const auto remote = [&](unsigned side, Qpn other) {
    const auto& qp = *rig.pair[1 - side].find_qp(other);
    return RemoteQp{.peer = rig.pair.peer(side),
                    .qpn = other,
                    .start_psn = qp.start_psn,
                    .max_rd_atomic_dest = 4,
                    .rc = true,
                    .tag = qp.tag.bits()};
  };
  const RemoteQp to_b = remote(0, b), to_a = remote(1, a);
  REQUIRE(rig.pair[1].to_init(b) == Errc::ok);
  REQUIRE(rig.pair[1].to_rtr(b, to_a) == Errc::ok);
  REQUIRE(rig.pair[0].to_init(a) == Errc::ok);
  REQUIRE(rig.pair[0].to_rtr(a, to_b) == Errc::ok);
  REQUIRE(rig.pair[0].to_rts(a, rig.pair.now()) == Errc::ok);
  const Sge s = rig.sge(0, 0, 50'000), word = rig.sge(0, 60'000, 8);
  REQUIRE(
      rig.post(0,
               {.wr_id = 1, .opcode = SendOpcode::read, .sges = {&s, 1}, .remote = rig.at(1, 0)}) ==
      Errc::ok);
  REQUIRE(rig.post(0, {.wr_id = 2,
                       .opcode = SendOpcode::fetch_add,
                       .sges = {&word, 1},
                       .remote = rig.at(1, 80'000),
                       .compare_add = 1}) == Errc::ok);
  REQUIRE(rig.run(2, 0));
  CHECK(std::memcmp(rig.memory[0].data(), rig.memory[1].data(), 50'000) == 0);
  CHECK(rig.pair[1].find_qp(b)->state == QpState::rtr);
  CHECK(rig.post(1, {.sges = {}, .remote = rig.at(0, 0)}) == Errc::invalid_state);
  REQUIRE(rig.pair[1].to_rts(b, rig.pair.now(), {.send_psn = Psn{1}}) == Errc::ok);
  const Sge back = rig.sge(1, 0, 100);
  REQUIRE(rig.post(1, {.wr_id = 3, .sges = {&back, 1}, .remote = rig.at(0, 70'000)}) == Errc::ok);
  REQUIRE(rig.run(2, 1));
  CHECK(rig.done(1)[0].status == WcStatus::success);
}

TEST_CASE("A queue pair that was reset tells its next peer another PSN, and begins with it") {
  RcRig rig;
  rig.fill(0);
  rig.add();
  std::array<Psn, 2> before;
  for (unsigned side = 0; side < 2; ++side) {
    const Qpn qpn = rig.qps[0][side];
    before[side] = *rig.pair[side].start_psn(qpn);
    REQUIRE(rig.pair[side].to_reset(qpn) == Errc::ok);
    CHECK(*rig.pair[side].start_psn(qpn) != before[side]);
    CHECK(*rig.pair[side].start_psn(qpn) == rig.pair[side].find_qp(qpn)->start_psn);
  }
  rig.pair.connect(rig.qps[0][0], rig.qps[0][1]);
  const Sge s = rig.sge(0, 0, 100);
  REQUIRE(rig.receive(1, 5, {rig.sge(1, 0, 100)}) == Errc::ok);
  REQUIRE(rig.post(0, {.opcode = SendOpcode::send, .sges = {&s, 1}}) == Errc::ok);
  REQUIRE(rig.run(1, 1));
  CHECK(rig.done(1)[0].status == WcStatus::success);
}

TEST_CASE("A READ of a peer that is gone fails, also when its request had arrived") {
  RcRig rig;
  rig.add();
  const Sge s = rig.sge(0, 0, 100'000);
  rig.pair.filter = [](unsigned side, const wire::TxPacket&,
                       const std::vector<std::uint8_t>& bytes) {
    return side == 0 || !wire::is_data(wire::view_as<wire::Bth>(bytes).opcode());
  };
  REQUIRE(
      rig.post(0,
               {.wr_id = 1, .opcode = SendOpcode::read, .sges = {&s, 1}, .remote = rig.at(1, 0)}) ==
      Errc::ok);
  rig.pair.run_for(3ms);
  CHECK(rig.done(0).empty());
  rig.pair.kill(1);
  REQUIRE(rig.run(1, 0, 100s));
  CHECK(rig.done(0)[0].status == WcStatus::retry_exc_err);
}

TEST_CASE("Operations that one side does not offer are refused when they are posted") {
  enum class Lacks { rc, own_rc, peer_rc, own_reads, peer_reads };
  for (const Lacks lacks :
       {Lacks::rc, Lacks::own_rc, Lacks::peer_rc, Lacks::own_reads, Lacks::peer_reads}) {
    CAPTURE(static_cast<int>(lacks));
    EnginePair::Setup setup;
    setup.rc = lacks != Lacks::rc;
    EnginePair pair(setup, 4);
    std::vector<std::uint8_t> bytes(64);
    const std::uint32_t key = pair.register_memory(0, bytes.data(), 64, Access::local_write);
    Qpn qpn[2];
    for (unsigned side = 0; side < 2; ++side) {
      engine::QpInit init;
      init.pd = pair.pd(side);
      init.send_cq = init.receive_cq = *pair[side].create_cq(16);
      init.capacity.atomics = true;
      init.attributes.rc = lacks != (side == 0 ? Lacks::own_rc : Lacks::peer_rc);
      if (side == 0 && lacks == Lacks::own_reads) init.attributes.max_rd_atomic = 0;
      if (side == 1 && lacks == Lacks::peer_reads) init.attributes.max_rd_atomic_dest = 0;
      qpn[side] = *pair[side].create_qp(init);
    }
    pair.connect(qpn[0], qpn[1]);
    const Sge s{bytes.data(), 8, key};
    const auto post = [&](unsigned side, SendOpcode opcode, std::span<const Sge> sges) {
      return pair[side].post_send(qpn[side], {.opcode = opcode, .sges = sges}, pair.now());
    };
    for (const SendOpcode op : {SendOpcode::read, SendOpcode::fetch_add})
      CHECK(post(0, op, {&s, 1}) == Errc::unsupported);
    // Without READs and atomics there are SENDs, and the other direction has limits of its own.
    const Errc others = lacks >= Lacks::own_reads ? Errc::ok : Errc::unsupported;
    CHECK(post(0, SendOpcode::send, {&s, 1}) == others);
    CHECK(post(1, SendOpcode::read, {}) == others);
    CHECK(post(0, SendOpcode::write, {}) == Errc::ok);
  }
}

TEST_CASE("READs and atomics that do not fit are refused when they are posted, without a trace") {
  RcRig rig;
  rig.add();
  std::vector<std::uint8_t> bytes(64);
  const std::uint32_t constant =
      rig.pair.register_memory(0, bytes.data(), bytes.size(), Access::none);
  const Sge fixed{bytes.data(), 8, constant};  // what they bring needs memory that may be written
  const auto post = [&](SendOpcode opcode, std::span<const Sge> sges, bool inlined = false) {
    return rig.post(0, {.opcode = opcode,
                        .sges = sges,
                        .remote = rig.at(1, 0),
                        .flags = {.inline_data = inlined}});
  };
  for (const SendOpcode op : {SendOpcode::read, SendOpcode::fetch_add})
    CHECK(post(op, {&fixed, 1}) == Errc::access_denied);
  for (const std::size_t length : {0, 4, 16}) {  // an atomic's result has 8 bytes
    const Sge sge = rig.sge(0, 0, length);
    CHECK(post(SendOpcode::fetch_add, {&sge, 1}) == Errc::invalid_argument);
  }
  CHECK(post(SendOpcode::compare_swap, {}) == Errc::invalid_argument);
  const Sge sge = rig.sge(0, 0, 8);
  CHECK(post(SendOpcode::read, {&sge, 1}, true) == Errc::invalid_argument);  // nothing is sent
  CHECK(rig.pair[0].deregister_memory(constant) == Errc::ok);
  REQUIRE(post(SendOpcode::read, {&sge, 1}) == Errc::ok);
  REQUIRE(rig.run(1, 0));
  CHECK(rig.done(0)[0].status == WcStatus::success);
}
