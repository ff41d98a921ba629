// SPDX-License-Identifier: Apache-2.0
// RC: what waits for a receive, or for its turn to be refused, holds up nothing else.
#include <doctest/doctest.h>

#include <set>

#include "engine/rc_rig.hpp"

using namespace mrc;
using namespace mrc::test;

TEST_CASE("RNR: READs complete while a SEND of the peer waits for a receive") {
  RcRig rig;
  rig.fill(1);
  rig.add();
  const Sge from = rig.sge(1, 0, 100);
  REQUIRE(rig.post(1, {.wr_id = 1, .opcode = SendOpcode::send, .sges = {&from, 1}}) == Errc::ok);
  rig.pair.run_for(1ms);
  // More than may be in flight at a time: the responder, too, has to get on.
  for (std::size_t i = 0; i < 50; ++i) {
    const Sge to = rig.sge(0, i * 9000, 9000);
    REQUIRE(rig.post(0, {.wr_id = i,
                         .opcode = SendOpcode::read,
                         .sges = {&to, 1},
                         .remote = rig.at(1, i * 9000)}) == Errc::ok);
  }
  REQUIRE(rig.run(50, 0, 3s));
  CHECK(rig.memory[0] != std::vector<std::uint8_t>(RcRig::kBytes));
  CHECK(std::equal(rig.memory[0].begin(), rig.memory[0].begin() + 450'000, rig.memory[1].begin()));
  REQUIRE(rig.receive(0, 7, {rig.sge(0, 500'000, 200)}) == Errc::ok);
  CHECK(rig.run(51, 1, 3s));
}

TEST_CASE("RNR: a SEND follows one that was refused and yet arrived, as a second copy") {
  int refused = 0;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    CAPTURE(seed);
    RcRig rig({.seed = seed});
    rig.add();
    rig.pair.faults.duplicate = 1;
    rig.pair.faults.jitter = 30us;
    const Sge s = rig.sge(0, 0, 100);
    REQUIRE(rig.post(0, {.wr_id = 1, .opcode = SendOpcode::send, .sges = {&s, 1}}) == Errc::ok);
    const auto& stats = rig.pair[1].find_qp(rig.qps[0][1])->stats;
    (void)rig.pair.run_for(1ms, [&] { return stats.receiver_not_ready > 0; });
    for (const std::uint64_t id : {7u, 8u})
      REQUIRE(rig.receive(1, id, {rig.sge(1, 0, 200)}) == Errc::ok);
    REQUIRE(rig.run(1, 1, 1s));
    rig.pair.faults = {};
    REQUIRE(rig.post(0, {.wr_id = 2, .opcode = SendOpcode::send, .sges = {&s, 1}}) == Errc::ok);
    CHECK(rig.run(2, 2, 60s));
    refused += stats.receiver_not_ready > 0;
  }
  CHECK(refused > 10);
}

TEST_CASE("RNR: a wait is no timeout, however long it is and however few retries there are") {
  RcRig rig({.attributes = {
                 .timeout = 8, .retry_linear = 0, .retry_exponential = 0, .min_rnr_timer = 20}});
  rig.add();
  const Sge s = rig.sge(0, 0, 100);
  REQUIRE(rig.post(0, {.wr_id = 1, .opcode = SendOpcode::send, .sges = {&s, 1}}) == Errc::ok);
  rig.pair.run_for(100ms);
  CHECK(rig.pair[0].find_qp(rig.qps[0][0])->stats.timeouts == 0);
  REQUIRE(rig.receive(1, 7, {rig.sge(1, 0, 200)}) == Errc::ok);
  REQUIRE(rig.run(1, 1));
  CHECK(rig.done(0)[0].status == WcStatus::success);
}

TEST_CASE("RNR: a retry is a wait, of which many packets may tell") {
  RcRig rig({.attributes = {.rnr_retry = 6, .min_rnr_timer = 12}, .seed = 3});
  rig.add();
  rig.pair.faults.jitter = 200us;
  std::size_t sent = 0;
  rig.pair.tap = [&](unsigned, const wire::TxPacket&, std::vector<std::uint8_t>& bytes) {
    sent += wire::view_as<wire::Bth>(bytes).opcode() == wire::Opcode::send_first;
  };
  const Sge s = rig.sge(0, 0, 200'000);
  REQUIRE(rig.post(0, {.wr_id = 1, .opcode = SendOpcode::send, .sges = {&s, 1}}) == Errc::ok);
  REQUIRE(rig.run(1, 0));
  CHECK(rig.done(0)[0].status == WcStatus::rnr_retry_exc_err);
  CHECK(sent == 7);
}

TEST_CASE("RNR: waits are counted even if each ends before all that was sent is refused") {
  RcRig rig({.attributes = {.rnr_retry = 2, .min_rnr_timer = 1}});
  rig.add();
  std::size_t sent = 0;
  rig.pair.tap = [&](unsigned, const wire::TxPacket&, std::vector<std::uint8_t>& bytes) {
    sent += wire::view_as<wire::Bth>(bytes).opcode() == wire::Opcode::send_first;
  };
  const Sge s = rig.sge(0, 0, 400'000);
  REQUIRE(rig.post(0, {.wr_id = 1, .opcode = SendOpcode::send, .sges = {&s, 1}}) == Errc::ok);
  REQUIRE(rig.run(1, 0));
  CHECK(rig.done(0)[0].status == WcStatus::rnr_retry_exc_err);
  CHECK(sent == 3);
}

TEST_CASE("A SEND's length is its own, whatever the peer has left unfinished before it") {
  RcRig rig;
  rig.add();
  rig.pair.tap = [](unsigned side, const wire::TxPacket&, std::vector<std::uint8_t>& bytes) {
    if (side == 0 && bytes[0] == 0xC8) bytes[0] = 0xC7;  // WRITE Last to Middle
  };
  const std::uint32_t mtu = rig.pair[0].find_qp(rig.qps[0][0])->mtu;
  const Sge written = rig.sge(0, 0, 5 * mtu), sent = rig.sge(0, 0, 8);
  REQUIRE(rig.receive(1, 7, {rig.sge(1, 0, 64)}) == Errc::ok);
  REQUIRE(rig.post(0, {.wr_id = 1, .sges = {&written, 1}, .remote = rig.at(1, 100'000)}) ==
          Errc::ok);
  REQUIRE(rig.post(0, {.wr_id = 2, .opcode = SendOpcode::send, .sges = {&sent, 1}}) == Errc::ok);
  REQUIRE(rig.run(0, 1, 1s));
  CHECK(rig.done(1)[0].status == WcStatus::success);
  CHECK(rig.done(1)[0].byte_len == 8);
}

TEST_CASE("A READ succeeds before one whose memory has gone in the meantime") {
  RcRig rig;
  rig.fill(1);
  rig.add();
  std::vector<std::uint8_t> other(4096);
  const std::uint32_t key =
      rig.pair.register_memory(1, other.data(), other.size(), Access::remote_read);
  bool drop = true;  // so that the READs have to wait for the write in front of them
  rig.pair.filter = [&](unsigned side, const wire::TxPacket&,
                        const std::vector<std::uint8_t>& bytes) {
    return !(drop && side == 0 && bytes[0] == 0xCA);
  };
  const Sge s[] = {rig.sge(0, 0, 100), rig.sge(0, 1000, 100), rig.sge(0, 2000, 100)};
  REQUIRE(rig.post(0, {.wr_id = 1, .sges = {&s[0], 1}, .remote = rig.at(1, 0)}) == Errc::ok);
  REQUIRE(rig.post(0, {.wr_id = 2,
                       .opcode = SendOpcode::read,
                       .sges = {&s[1], 1},
                       .remote = rig.at(1, 0)}) == Errc::ok);
  REQUIRE(rig.post(0, {.wr_id = 3,
                       .opcode = SendOpcode::read,
                       .sges = {&s[2], 1},
                       .remote = {reinterpret_cast<std::uint64_t>(other.data()), key}}) ==
          Errc::ok);
  rig.pair.run_for(10us);
  REQUIRE(rig.pair[1].deregister_memory(key) == Errc::ok);
  drop = false;
  REQUIRE(rig.run(3, 0, 1s));
  CHECK(rig.done(0)[0].status == WcStatus::success);
  CHECK(rig.done(0)[1].status == WcStatus::success);
  CHECK(rig.done(0)[2].status == WcStatus::rem_access_err);
}

TEST_CASE("A READ that waits to be executed holds up the Transport ACK of what is behind it") {
  constexpr std::uint16_t kLimit = 2;
  RcRig rig({.attributes = {.max_wimm_dest = kLimit, .max_rd_atomic = 1, .max_rd_atomic_dest = 1}});
  rig.fill(1);
  rig.add();
  // Side 1 does not learn that its response has arrived, so the next READ finds no room for one.
  bool deaf = true;
  std::set<std::uint32_t> reads, named;  // PSNs of READs, and of Transport ACKs meanwhile
  rig.pair.filter = [&](unsigned side, const wire::TxPacket&,
                        const std::vector<std::uint8_t>& bytes) {
    const auto& bth = wire::view_as<wire::Bth>(bytes);
    const bool ack = bth.opcode() == wire::Opcode::acknowledge;
    if (side == 0 && bth.opcode() == wire::Opcode::read_request) reads.insert(bth.psn().value());
    if (side == 1 && ack && deaf) named.insert(bth.psn().value());
    return !(side == 0 && deaf && (ack || bth.opcode() == wire::Opcode::sack));
  };
  const Sge to = rig.sge(0, 0, 100), from = rig.sge(0, 1000, 8);
  const auto post = [&](std::uint64_t id, SendOpcode opcode) {
    const bool is_read = opcode == SendOpcode::read;
    return rig.post(0, {.wr_id = id,
                        .opcode = opcode,
                        .sges = {is_read ? &to : &from, 1},
                        .remote = rig.at(1, is_read ? 0 : 500'000)});
  };
  for (std::uint64_t id = 0; id < 8; ++id)
    REQUIRE(rig.receive(1, id, {rig.sge(1, 0, 64)}) == Errc::ok);
  REQUIRE(post(1, SendOpcode::read) == Errc::ok);
  REQUIRE(rig.run(1, 0));
  REQUIRE(post(2, SendOpcode::write) == Errc::ok);
  REQUIRE(post(3, SendOpcode::read) == Errc::ok);
  for (std::uint64_t id = 4; id < 12; ++id)
    REQUIRE(post(id, id % 2 == 0 ? SendOpcode::write_imm : SendOpcode::send) == Errc::ok);
  rig.pair.run_for(200us);
  const engine::QueuePairState& qp = *rig.pair[1].find_qp(rig.qps[0][1]);
  CHECK(qp.state == QpState::rts);
  const Psn first = qp.remote.start_psn;  // READ, write, READ, and as many as the limit allows
  CHECK(qp.rx.window.cack() == first + 2 + kLimit);
  CHECK(reads == std::set{first.value(), (first + 2).value()});
  CHECK(named == std::set{first.value(), (first + 1).value()});
  CHECK(rig.done(1).empty());

  deaf = false;
  REQUIRE(rig.run(11, 8));
  for (const Completion& c : rig.done(0)) CHECK(c.status == WcStatus::success);
  CHECK(rig.pair[0].find_qp(rig.qps[0][0])->stats.timeouts == 0);
}

TEST_CASE(
    "Shared receives: no more are taken than messages can have been sent, and unused ones return") {
  RcRig rig({.shared = true});
  rig.add();
  rig.add();
  for (std::uint64_t i = 0; i < 64; ++i)
    REQUIRE(rig.receive(1, i, {rig.sge(1, 0, 64)}) == Errc::ok);
  rig.pair.tap = [](unsigned side, const wire::TxPacket&, std::vector<std::uint8_t>& bytes) {
    if (side == 0 && bytes[0] == 0xC4) bytes[13] = 100;  // METH.rqmsn of a SEND Only
  };
  const Sge s = rig.sge(0, 0, 8);
  REQUIRE(rig.post(0, {.wr_id = 1, .opcode = SendOpcode::send, .sges = {&s, 1}}) == Errc::ok);
  rig.pair.run_for(100us);
  CHECK(rig.pair[1].find_srq(rig.srq)->receives.size() == 64);
  rig.pair.tap = nullptr;

  // The second of two SENDs arrives, and the first one does not: both have a receive.
  bool first = true;
  rig.pair.filter = [&](unsigned side, const wire::TxPacket&,
                        const std::vector<std::uint8_t>& bytes) {
    return !(side == 0 && bytes[0] == 0xC4 && std::exchange(first, false));
  };
  for (std::uint64_t id : {1u, 2u})
    REQUIRE(rig.post(0, {.wr_id = id, .opcode = SendOpcode::send, .sges = {&s, 1}}, 1) == Errc::ok);
  rig.pair.run_for(10us);
  CHECK(rig.pair[1].find_srq(rig.srq)->receives.size() == 62);
  REQUIRE(rig.pair[1].destroy_qp(rig.qps[1][1]) == Errc::ok);
  CHECK(rig.pair[1].find_srq(rig.srq)->receives.size() == 64);
}
