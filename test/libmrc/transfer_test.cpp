// SPDX-License-Identifier: Apache-2.0
// Writes, with immediate and without: data, completions, what is refused.
#include <algorithm>
#include <numeric>

#include "libmrc/mrc_rig.hpp"

using namespace mrc::test;
using namespace mrc::test::libmrc;

namespace transfer_test {

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
    ibv_send_wr request = verbs::write_request(7, sge, c.memory, kHalf);
    request.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
    request.imm_data = kImmediate;
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

TEST_CASE("a slot is free when the completion of its request was polled") {
  Connected c;
  ibv_sge sge = c.memory.sge(0, 8);
  ibv_send_wr request = verbs::write_request(1, sge, c.memory, 64);
  request.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
  for (int i = 0; i < 64; ++i) {
    REQUIRE(c.b.post_receive(9) == 0);
    REQUIRE(c.a.post(request) == 0);
  }
  CHECK(c.a.next().status == IBV_WC_SUCCESS);  // the first one
  CHECK(c.a.post(request) == 0);               // waits for a receive
  CHECK(c.a.post(request) == ENOMEM);
  for (int i = 1; i < 64; ++i) CHECK(c.a.next().status == IBV_WC_SUCCESS);
  CHECK(c.b.post_receive(9) == ENOMEM);  // all are complete, and none was polled
  CHECK(c.b.next().wr_id == 9);
  CHECK(c.b.post_receive(9) == 0);
  CHECK(c.a.next().status == IBV_WC_SUCCESS);
}

TEST_CASE("operations other than writes are refused, and name the request") {
  Connected c;
  ibv_sge sge = c.memory.sge(0, 8);
  for (const ibv_wr_opcode opcode :
       {IBV_WR_SEND, IBV_WR_SEND_WITH_IMM, IBV_WR_RDMA_READ, IBV_WR_ATOMIC_FETCH_AND_ADD,
        IBV_WR_ATOMIC_CMP_AND_SWP, IBV_WR_LOCAL_INV, static_cast<ibv_wr_opcode>(99)}) {
    CAPTURE(static_cast<int>(opcode));
    ibv_send_wr good = verbs::write_request(1, sge, c.memory, 64), bad = good;
    bad.opcode = opcode;
    good.next = &bad;
    ibv_send_wr* first_bad = nullptr;
    errno = 0;
    CHECK(mrc_post_send(c.a.qp, &good, &first_bad) == EINVAL);
    CHECK(errno == EINVAL);
    CHECK(first_bad == &bad);
    CHECK(c.a.next().wr_id == 1);  // what came before it was posted
  }
  CHECK(c.a.state() == IBV_QPS_RTS);
}

TEST_CASE("bad keys fail the queue pairs, and the peer learns of it by an event") {
  Connected c;
  ibv_sge sge = c.memory.sge(0, 8);
  ibv_send_wr request = verbs::write_request(5, sge, c.memory, 0);
  request.wr.rdma.rkey ^= 0x5A5A5A;
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
