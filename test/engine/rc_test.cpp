// SPDX-License-Identifier: Apache-2.0
// SEND, READ, atomics, receiver not ready: two engines in virtual time.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>

#include "engine/rc_rig.hpp"

using namespace mrc;
using namespace mrc::test;
using namespace std::chrono_literals;

TEST_CASE("SEND: from a gather list to a scatter list, of any length") {
  for (const bool faults : {false, true}) {
    RcRig rig({.seed = faults ? 5u : 1u});
    if (faults) rig.pair.faults = rough();
    rig.fill(0);
    rig.add();
    const std::vector<std::uint32_t> lengths = {0, 1, 7, 4095, 4096, 4097, 20'000, 60'000};
    std::vector<std::uint8_t> before = rig.memory[1];
    std::size_t from = 0, to = 0;
    for (std::size_t i = 0; i < lengths.size(); ++i) {
      const std::uint32_t n = lengths[i];
      REQUIRE(
          rig.receive(1, 100 + i, {rig.sge(1, to, n / 3), rig.sge(1, to + n / 3, n - n / 3 + 5)}) ==
          Errc::ok);
      const Sge sges[] = {rig.sge(0, from, n / 2), rig.sge(0, from + n / 2, n - n / 2)};
      REQUIRE(rig.post(0, {.wr_id = i,
                           .opcode = i % 2 == 0 ? SendOpcode::send : SendOpcode::send_imm,
                           .sges = sges,
                           .immediate = static_cast<std::uint32_t>(i + 1000),
                           .flags = {.solicited = i == 3}}) == Errc::ok);
      std::memcpy(before.data() + to, rig.memory[0].data() + from, n);
      from += n;
      to += n + 5;
    }
    REQUIRE(rig.run(lengths.size(), lengths.size()));
    for (std::size_t i = 0; i < lengths.size(); ++i) {
      const Completion& sent = rig.done(0)[i];
      CHECK(sent.wr_id == i);
      CHECK(sent.status == WcStatus::success);
      CHECK(sent.opcode == WcOpcode::send);
      const Completion& c = rig.done(1)[i];
      CHECK(c.wr_id == 100 + i);
      CHECK(c.opcode == WcOpcode::recv);
      CHECK(c.byte_len == lengths[i]);
      CHECK(c.has_immediate == (i % 2 == 1));
      if (c.has_immediate) CHECK(c.immediate == i + 1000);
    }
    CHECK(rig.memory[1] == before);
  }
}

TEST_CASE("READ: into a scatter list, of any length, also while the other side writes") {
  for (const bool faults : {false, true}) {
    RcRig rig({.seed = faults ? 7u : 2u});
    if (faults) rig.pair.faults = rough();
    rig.fill(1);
    rig.add();
    const std::vector<std::uint32_t> lengths = {0, 1, 4096, 4097, 100'000, 3};
    std::size_t at = 0;
    std::vector<std::uint8_t> want = rig.memory[0];
    for (std::size_t i = 0; i < lengths.size(); ++i) {
      const std::uint32_t n = lengths[i];
      const Sge sges[] = {rig.sge(0, at, n / 4), rig.sge(0, at + n / 4, n - n / 4)};
      REQUIRE(rig.post(0, {.wr_id = i,
                           .opcode = SendOpcode::read,
                           .sges = std::span(sges, n == 0 ? 0 : 2),
                           .remote = rig.at(1, at + 1)}) == Errc::ok);
      std::memcpy(want.data() + at, rig.memory[1].data() + at + 1, n);
      at += n;
    }
    // The responder's own writes are longer than the window: responses must not wait for them.
    for (std::size_t i = 0; i < 4; ++i) {
      const Sge s = rig.sge(1, 500'000, 100'000);
      REQUIRE(rig.post(1, {.wr_id = 50 + i, .sges = {&s, 1}, .remote = rig.at(0, 600'000)}) ==
              Errc::ok);
    }
    std::memcpy(want.data() + 600'000, rig.memory[1].data() + 500'000, 100'000);
    REQUIRE(rig.run(lengths.size(), 4));
    for (std::size_t i = 0; i < lengths.size(); ++i) {
      CHECK(rig.done(0)[i].wr_id == i);
      CHECK(rig.done(0)[i].status == WcStatus::success);
      CHECK(rig.done(0)[i].opcode == WcOpcode::read);
      CHECK(rig.done(0)[i].byte_len == lengths[i]);
    }
    CHECK(rig.memory[0] == want);
  }
}

TEST_CASE("Atomics: compare and swap") {
  RcRig rig;
  rig.add();
  const std::uint64_t start = 5;
  std::memcpy(rig.memory[1].data() + 8, &start, 8);
  const auto swap = [&](std::uint64_t compare, std::uint64_t value, std::size_t to) {
    const Sge s = rig.sge(0, to, 8);
    REQUIRE(rig.post(0, {.opcode = SendOpcode::compare_swap,
                         .sges = {&s, 1},
                         .remote = rig.at(1, 8),
                         .compare_add = compare,
                         .swap = value}) == Errc::ok);
  };
  swap(4, 100, 0);
  swap(5, 0x0102030405060708, 8);
  swap(5, 200, 16);
  REQUIRE(rig.run(3, 0));
  std::array<std::uint64_t, 3> found{};
  std::memcpy(found.data(), rig.memory[0].data(), sizeof(found));
  CHECK(found == std::array<std::uint64_t, 3>{5, 5, 0x0102030405060708});
  std::uint64_t now = 0;
  std::memcpy(&now, rig.memory[1].data() + 8, 8);
  CHECK(now == 0x0102030405060708);
  CHECK(rig.done(0)[0].opcode == WcOpcode::compare_swap);
}

TEST_CASE("RNR: a SEND waits for its receive, and only messages that need one wait with it") {
  RcRig rig;
  rig.fill(0);
  rig.add();
  const Sge s = rig.sge(0, 0, 10'000);
  REQUIRE(rig.post(0, {.wr_id = 1, .opcode = SendOpcode::send, .sges = {&s, 1}}) == Errc::ok);
  REQUIRE(rig.post(0, {.wr_id = 2, .sges = {&s, 1}, .remote = rig.at(1, 100'000)}) == Errc::ok);
  REQUIRE(rig.post(0, {.wr_id = 3,
                       .opcode = SendOpcode::write_imm,
                       .sges = {&s, 1},
                       .remote = rig.at(1, 200'000)}) == Errc::ok);
  rig.pair.run_for(100ms);
  // The write behind it has arrived, but completes in order, and its last bytes show in order.
  CHECK(rig.done(0).empty());
  CHECK(std::memcmp(rig.memory[1].data() + 100'000, rig.memory[0].data(), 9'000) == 0);
  CHECK(rig.pair[1].find_qp(rig.qps[0][1])->stats.receiver_not_ready > 0);
  CHECK(rig.pair[0].find_qp(rig.qps[0][0])->state == QpState::rts);
  REQUIRE(rig.receive(1, 10, {rig.sge(1, 0, 10'000)}) == Errc::ok);
  REQUIRE(rig.run(2, 1));
  rig.pair.run_for(20ms);
  CHECK(rig.done(0).size() == 2);
  REQUIRE(rig.receive(1, 11, {}) == Errc::ok);
  REQUIRE(rig.run(3, 2));
  CHECK(rig.done(1)[0].opcode == WcOpcode::recv);
  CHECK(rig.done(1)[1].opcode == WcOpcode::recv_write_imm);
  CHECK(std::memcmp(rig.memory[1].data(), rig.memory[0].data(), 10'000) == 0);
}

TEST_CASE("RNR: who does not want to wait for ever fails") {
  RcRig rig({.attributes = {.rnr_retry = 2}});
  rig.add();
  const Sge s = rig.sge(0, 0, 8);
  REQUIRE(rig.post(0, {.wr_id = 1, .sges = {&s, 1}, .remote = rig.at(1, 0)}) == Errc::ok);
  REQUIRE(rig.post(0, {.wr_id = 2, .opcode = SendOpcode::send, .sges = {&s, 1}}) == Errc::ok);
  REQUIRE(rig.post(0, {.wr_id = 3, .sges = {&s, 1}, .remote = rig.at(1, 0)}) == Errc::ok);
  REQUIRE(rig.run(3, 0));
  CHECK(rig.done(0)[0].status == WcStatus::success);
  CHECK(rig.done(0)[1].status == WcStatus::rnr_retry_exc_err);
  CHECK(rig.done(0)[1].wr_id == 2);
  CHECK(rig.done(0)[2].status == WcStatus::wr_flush_err);
  CHECK(rig.pair[0].find_qp(rig.qps[0][0])->cause == QpErrorCause::rnr_exhausted);
  CHECK(rig.pair[1].find_qp(rig.qps[0][1])->stats.receiver_not_ready == 3);
}

TEST_CASE("READs: no more in flight than both sides allow; a fence waits for them") {
  RcRig rig({.attributes = {.max_rd_atomic = 8, .max_rd_atomic_dest = 3}});
  rig.fill(1);
  rig.add();
  std::size_t requests = 0, most = 0, responses = 0;
  rig.pair.tap = [&](unsigned, const wire::TxPacket&, std::vector<std::uint8_t>& bytes) {
    const wire::Opcode op = wire::view_as<wire::Bth>(bytes).opcode();
    requests += op == wire::Opcode::read_request;
    responses += op == wire::Opcode::read_response_only;
    most = std::max(most, requests - responses);
    if (wire::is_write(op)) CHECK(responses == 20);
  };
  for (std::size_t i = 0; i < 20; ++i) {
    const Sge s = rig.sge(0, i * 64, 64);
    REQUIRE(rig.post(0, {.wr_id = i,
                         .opcode = SendOpcode::read,
                         .sges = {&s, 1},
                         .remote = rig.at(1, i * 64)}) == Errc::ok);
  }
  const Sge s = rig.sge(0, 0, 64);
  REQUIRE(
      rig.post(
          0, {.wr_id = 20, .sges = {&s, 1}, .remote = rig.at(1, 5000), .flags = {.fence = true}}) ==
      Errc::ok);
  REQUIRE(rig.run(21, 0));
  CHECK(most == 3);
  CHECK(std::memcmp(rig.memory[0].data(), rig.memory[1].data(), 20 * 64) == 0);
}
