// SPDX-License-Identifier: Apache-2.0
// SEND, READ, atomics, receiver not ready: two engines in virtual time.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>

#include "engine/rc_rig.hpp"

using namespace mrc;
using namespace mrc::test;
using namespace std::chrono_literals;

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
