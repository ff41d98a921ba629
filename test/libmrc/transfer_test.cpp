// SPDX-License-Identifier: Apache-2.0
// Writes, with immediate and without: data, completions, order, chains, what is refused.
#include <algorithm>
#include <numeric>

#include "libmrc/mrc_rig.hpp"

using namespace mrc::test::libmrc;

namespace transfer_test {

ibv_send_wr write(std::uint64_t id, ibv_sge* sge, const Memory& to, std::size_t offset) {
  ibv_send_wr request{};
  request.wr_id = id;
  request.sg_list = sge;
  request.num_sge = sge != nullptr ? 1 : 0;
  request.opcode = IBV_WR_RDMA_WRITE;
  request.wr.rdma.remote_addr = to.address(offset);
  request.wr.rdma.rkey = to.mr->rkey;
  return request;
}

constexpr std::uint32_t kImmediate = 0x0A0B0C0D;

TEST_CASE("writes arrive, and the immediate completes a receive at the peer") {
  Connected c;
  constexpr std::size_t kHalf = 1 << 19;
  for (std::uint32_t length : {0u, 1u, 4096u, 4097u, 300'000u}) {
    CAPTURE(length);
    std::iota(c.memory.bytes.begin(), c.memory.bytes.begin() + kHalf,
              static_cast<std::uint8_t>(length));
    std::fill(c.memory.bytes.begin() + kHalf, c.memory.bytes.end(), std::uint8_t{0});
    ibv_sge sge = c.memory.sge(0, length);
    ibv_send_wr request = write(7, &sge, c.memory, kHalf);
    request.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
    request.imm_data = kImmediate;
    request.send_flags = IBV_SEND_SIGNALED;
    REQUIRE(c.b.post_receive(9) == 0);
    REQUIRE(c.a.post(request) == 0);
    const ibv_wc received = c.b.next();
    CHECK(received.status == IBV_WC_SUCCESS);
    CHECK(received.opcode == IBV_WC_RECV_RDMA_WITH_IMM);
    CHECK(received.wr_id == 9);
    CHECK(received.byte_len == length);
    CHECK(received.qp_num == c.b.qpn);
    CHECK(received.imm_data == kImmediate);  // the sender's bytes
    CHECK((received.wc_flags & IBV_WC_WITH_IMM) != 0);
    CHECK(std::equal(c.memory.bytes.begin(), c.memory.bytes.begin() + length,
                     c.memory.bytes.begin() + kHalf));
    const ibv_wc sent = c.a.next();
    CHECK(sent.status == IBV_WC_SUCCESS);
    CHECK(sent.opcode == IBV_WC_RDMA_WRITE);
    CHECK(sent.wr_id == 7);
    CHECK(sent.qp_num == c.a.qpn);
  }
}

TEST_CASE("a chain of eight writes that one with immediate ends: the receive comes after all") {
  Connected c;
  constexpr std::uint32_t kLength = 5000;
  constexpr std::size_t kTarget = 1 << 19;
  for (int round = 0; round < 50; ++round) {
    std::fill(c.memory.bytes.begin(), c.memory.bytes.begin() + kTarget,
              static_cast<std::uint8_t>(round + 1));
    std::array<ibv_send_wr, 9> chain;
    std::array<ibv_sge, 9> sges;
    for (std::size_t i = 0; i < chain.size(); ++i) {
      sges[i] = c.memory.sge(i * kLength, i == 8 ? 0 : kLength);
      chain[i] = write(i, &sges[i], c.memory, kTarget + i * kLength);
      chain[i].next = i == 8 ? nullptr : &chain[i + 1];
    }
    chain[8].opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
    chain[8].send_flags = IBV_SEND_SIGNALED;
    REQUIRE(c.b.post_receive(1) == 0);
    REQUIRE(c.a.post(chain[0]) == 0);
    CHECK(c.b.next().status == IBV_WC_SUCCESS);
    CHECK(std::all_of(c.memory.bytes.begin() + kTarget,
                      c.memory.bytes.begin() + kTarget + 8 * kLength,
                      [&](std::uint8_t byte) { return byte == round + 1; }));
    CHECK(c.a.next().wr_id == 8);  // the only one that is signaled
  }
}

TEST_CASE("operations other than writes are refused, and name the request") {
  Connected c;
  ibv_sge sge = c.memory.sge(0, 8);
  for (const ibv_wr_opcode opcode :
       {IBV_WR_SEND, IBV_WR_SEND_WITH_IMM, IBV_WR_RDMA_READ, IBV_WR_ATOMIC_FETCH_AND_ADD,
        IBV_WR_ATOMIC_CMP_AND_SWP, IBV_WR_LOCAL_INV, static_cast<ibv_wr_opcode>(99)}) {
    CAPTURE(static_cast<int>(opcode));
    ibv_send_wr good = write(1, &sge, c.memory, 64), bad = write(2, &sge, c.memory, 64);
    bad.opcode = opcode;
    good.next = &bad;
    good.send_flags = IBV_SEND_SIGNALED;
    ibv_send_wr* first_bad = nullptr;
    errno = 0;
    CHECK(mrc_post_send(c.a.qp, &good, &first_bad) == EINVAL);
    CHECK(errno == EINVAL);
    CHECK(first_bad == &bad);
    CHECK(c.a.next().wr_id == 1);  // what came before it was posted
  }
  CHECK(c.a.state() == IBV_QPS_RTS);
}

TEST_CASE("a full queue is ENOMEM, and nothing is lost") {
  Connected c;
  const auto set_ports = [&](mrc_ctl_port_admin_state state) {
    for (const std::uint8_t number : {std::uint8_t{1}, std::uint8_t{2}}) {
      mrc_ctl_port_attr port{state};
      REQUIRE(mrc_ctl_modify_port(c.mrc.context, number, &port, MRC_CTL_PORT_ADMIN_STATE) == 0);
    }
  };
  ibv_sge sge = c.memory.sge(0, 4096);
  ibv_send_wr request = write(0, &sge, c.memory, 1 << 19);
  request.send_flags = IBV_SEND_SIGNALED;
  set_ports(MRC_CTL_PORT_ADMIN_DISABLED);  // so nothing completes
  std::uint64_t posted = 0;
  int error = 0;
  for (; error == 0 && posted < 1000; ++posted) {
    request.wr_id = posted;
    error = c.a.post(request);
  }
  CHECK(error == ENOMEM);
  CHECK(--posted == 64);  // as many as were asked for
  set_ports(MRC_CTL_PORT_ADMIN_ENABLED);
  for (std::uint64_t id = 0; id < posted; ++id) {
    const ibv_wc wc = c.a.next();
    CHECK(wc.status == IBV_WC_SUCCESS);
    CHECK(wc.wr_id == id);
  }
}

TEST_CASE("the peer's memory changes without a call of its program") {
  Connected c;
  constexpr std::size_t kSlot = 1 << 19;
  for (std::uint64_t round = 1; round <= 200; ++round) {
    std::memcpy(c.memory.bytes.data(), &round, sizeof round);
    ibv_sge sge = c.memory.sge(0, sizeof round);
    ibv_send_wr request = write(round, &sge, c.memory, kSlot);
    if (round % 64 == 0) request.send_flags = IBV_SEND_SIGNALED;
    REQUIRE(c.a.post(request) == 0);
    const auto* slot = reinterpret_cast<const std::uint64_t*>(&c.memory.bytes[kSlot]);
    const auto end = std::chrono::steady_clock::now() + kPatience;
    while (__atomic_load_n(slot, __ATOMIC_ACQUIRE) != round)
      REQUIRE(std::chrono::steady_clock::now() < end);
    if (round % 64 == 0) CHECK(c.a.next().wr_id == round);
  }
}

TEST_CASE("bad keys fail the queue pairs, and the peer learns of it by an event") {
  Connected c;
  ibv_sge sge = c.memory.sge(0, 8);
  ibv_send_wr request = write(5, &sge, c.memory, 0);
  request.wr.rdma.rkey ^= 0x5A5A5A;
  request.send_flags = IBV_SEND_SIGNALED;
  REQUIRE(c.a.post(request) == 0);
  const ibv_wc failed = c.a.next();
  CHECK(failed.status == IBV_WC_REM_ACCESS_ERR);
  CHECK(failed.wr_id == 5);
  CHECK(c.a.state() == IBV_QPS_ERR);

  mrc_async_event event{};
  REQUIRE(mrc_get_async_event(c.mrc.context, &event) == 0);
  CHECK(event.event_type == IBV_EVENT_QP_ACCESS_ERR);
  CHECK(event.element.qp == c.b.qp);
  mrc_ack_async_event(&event);
  CHECK(c.b.state() == IBV_QPS_ERR);

  // In ERR, requests complete at once, in order, as flushed.
  REQUIRE(c.a.post(request) == 0);
  CHECK(c.a.next().status == IBV_WC_WR_FLUSH_ERR);
  REQUIRE(c.b.post_receive(3) == 0);
  const ibv_wc flushed = c.b.next();
  CHECK(flushed.status == IBV_WC_WR_FLUSH_ERR);
  CHECK(flushed.wr_id == 3);
}

}  // namespace transfer_test
