// SPDX-License-Identifier: Apache-2.0
// SEND, READ, atomics and shared receive queues, as verbs programs use them.
#include "verbs/verbs_rig.hpp"

using namespace mrc::test::verbs;

TEST_CASE("verbs operations: SEND goes where the receive says, with and without immediate") {
  for (const ibv_qp_type type : {IBV_QPT_RC, IBV_QPT_UC}) {
    CAPTURE(type);
    const Linked linked(type);
    REQUIRE(post_receive(linked.b.qp, 7, linked.to.sge(1000, 10'000)) == 0);
    REQUIRE(post_receive(linked.b.qp, 8, linked.to.sge(50'000, 10'000)) == 0);
    ibv_sge sge = linked.from.sge(0, 9000);
    ibv_send_wr request = linked.request(IBV_WR_SEND, sge);
    REQUIRE(post(linked.a.qp, request) == 0);
    request = linked.request(IBV_WR_SEND_WITH_IMM, sge);
    request.imm_data = 0x04030201;
    REQUIRE(post(linked.a.qp, request) == 0);
    ibv_wc wc = linked.b.next();
    CHECK(wc.opcode == IBV_WC_RECV);
    CHECK(wc.wr_id == 7);
    CHECK(wc.byte_len == 9000);
    CHECK(wc.wc_flags == 0);
    wc = linked.b.next();
    CHECK(wc.opcode == IBV_WC_RECV);
    CHECK(wc.wr_id == 8);
    CHECK(wc.wc_flags == IBV_WC_WITH_IMM);
    CHECK(wc.imm_data == 0x04030201);
    CHECK(std::memcmp(&linked.to.bytes[1000], linked.from.bytes.data(), 9000) == 0);
    CHECK(std::memcmp(&linked.to.bytes[50'000], linked.from.bytes.data(), 9000) == 0);
    CHECK(linked.a.next().opcode == IBV_WC_SEND);
    CHECK(linked.a.next().opcode == IBV_WC_SEND);
  }
}

TEST_CASE("verbs operations: READ, into two pieces of memory") {
  Linked linked;
  std::array<ibv_sge, 2> sges{linked.to.sge(0, 3000), linked.to.sge(8000, 5000)};
  ibv_send_wr request = linked.request(IBV_WR_RDMA_READ, sges[0]);
  request.num_sge = 2;
  request.wr.rdma.remote_addr = linked.from.address(100);
  request.wr.rdma.rkey = linked.from.mr->rkey;
  REQUIRE(post(linked.a.qp, request) == 0);
  const ibv_wc wc = linked.a.next();
  CHECK(wc.status == IBV_WC_SUCCESS);
  CHECK(wc.opcode == IBV_WC_RDMA_READ);
  CHECK(std::memcmp(&linked.to.bytes[0], &linked.from.bytes[100], 3000) == 0);
  CHECK(std::memcmp(&linked.to.bytes[8000], &linked.from.bytes[3100], 5000) == 0);
}

TEST_CASE("verbs operations: atomics give back what was there") {
  Linked linked;
  std::uint64_t* word = reinterpret_cast<std::uint64_t*>(linked.to.bytes.data());
  *word = 40;
  ibv_sge result = linked.from.sge(0, 8);
  ibv_send_wr request = linked.request(IBV_WR_ATOMIC_FETCH_AND_ADD, result);
  request.wr.atomic.remote_addr = linked.to.address();
  request.wr.atomic.rkey = linked.to.mr->rkey;
  request.wr.atomic.compare_add = 2;
  REQUIRE(post(linked.a.qp, request) == 0);
  ibv_wc wc = linked.a.next();
  CHECK(wc.status == IBV_WC_SUCCESS);
  CHECK(wc.opcode == IBV_WC_FETCH_ADD);
  CHECK(*word == 42);
  std::uint64_t before = 0;
  std::memcpy(&before, linked.from.bytes.data(), 8);
  CHECK(before == 40);
  request.opcode = IBV_WR_ATOMIC_CMP_AND_SWP;
  request.wr.atomic.compare_add = 42;
  request.wr.atomic.swap = 1;
  REQUIRE(post(linked.a.qp, request) == 0);
  wc = linked.a.next();
  CHECK(wc.opcode == IBV_WC_COMP_SWAP);
  CHECK(*word == 1);
}

TEST_CASE("verbs operations: UC has neither READ nor atomics") {
  const Linked linked(IBV_QPT_UC);
  ibv_sge sge = linked.from.sge(0, 8);
  ibv_send_wr request = linked.request(IBV_WR_RDMA_READ, sge);
  CHECK(post(linked.a.qp, request) == EINVAL);
  request = linked.request(IBV_WR_ATOMIC_FETCH_AND_ADD, sge);
  CHECK(post(linked.a.qp, request) == EINVAL);
}

TEST_CASE("verbs operations: memory without the right is not read") {
  Linked linked;
  const Memory secret(linked.program, 4096, IBV_ACCESS_LOCAL_WRITE);
  ibv_sge sge = linked.to.sge(0, 8);
  ibv_send_wr request = linked.request(IBV_WR_RDMA_READ, sge);
  request.wr.rdma.remote_addr = secret.address();
  request.wr.rdma.rkey = secret.mr->rkey;
  REQUIRE(post(linked.a.qp, request) == 0);
  CHECK(linked.a.next().status == IBV_WC_REM_ACCESS_ERR);
}

TEST_CASE("verbs operations: a shared receive queue, and the last of its receives") {
  Program program;
  const Memory memory(program);
  ibv_srq* srq = make_srq(program.pd, 16, 2);
  ibv_srq_attr attributes{};
  REQUIRE(ibv_query_srq(srq, &attributes) == 0);
  CHECK(attributes.max_wr == 16);
  CHECK(attributes.max_sge == 2);
  {
    ibv_cq* cq = ibv_create_cq(program.context, 64, nullptr, nullptr, 0);
    std::array<ibv_qp*, 2> qps{};
    for (ibv_qp*& qp : qps) {
      qp = make_qp(program.pd, cq, {16, 0, 1, 0, 0}, srq);
      CHECK(qp->srq == srq);
    }
    CHECK(ibv_destroy_srq(srq) == EBUSY);
    for (int i = 0; i < 2; ++i) connect_to(qps[i], qps[1 - i]->qp_num);
    REQUIRE(post_receive(srq, 1, memory.sge(0, 100)) == 0);
    REQUIRE(post_receive(srq, 2, memory.sge(100, 100)) == 0);
    attributes = {};
    CHECK(ibv_modify_srq(srq, &attributes, IBV_SRQ_MAX_WR) == EOPNOTSUPP);
    ibv_sge sge = memory.sge(1000, 50);
    ibv_send_wr request{};
    request.sg_list = &sge;
    request.num_sge = 1;
    request.opcode = IBV_WR_SEND;
    REQUIRE(post(qps[0], request) == 0);
    const ibv_wc wc = next_of(cq);
    CHECK(wc.wr_id == 1);
    CHECK(wc.qp_num == qps[1]->qp_num);

    ibv_qp_attr a{};
    a.qp_state = IBV_QPS_ERR;
    REQUIRE(ibv_modify_qp(qps[1], &a, IBV_QP_STATE) == 0);
    ibv_async_event event{};
    REQUIRE(ibv_get_async_event(program.context, &event) == 0);
    CHECK(event.event_type == IBV_EVENT_QP_LAST_WQE_REACHED);
    CHECK(event.element.qp == qps[1]);
    ibv_ack_async_event(&event);
    for (ibv_qp* qp : qps) CHECK(ibv_destroy_qp(qp) == 0);
    CHECK(ibv_destroy_cq(cq) == 0);
  }
  CHECK(ibv_destroy_srq(srq) == 0);
}
