// SPDX-License-Identifier: Apache-2.0
// UD, as verbs programs use it.
#include <cstring>

#include "verbs/verbs_rig.hpp"

using namespace mrc::test::verbs;

namespace datagrams_test {

constexpr std::uint32_t kKey = 0x1111'1111;
constexpr std::uint32_t kGrh = 40;
constexpr int kUdInitMask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY;

int change(ibv_qp* qp, ibv_qp_state state, int mask = 0, std::uint32_t q_key = kKey) {
  ibv_qp_attr a{};
  a.qp_state = state;
  a.port_num = 1;
  a.qkey = q_key;
  a.sq_psn = 0xABCDEF;
  return ibv_modify_qp(qp, &a, IBV_QP_STATE | mask);
}

void start(ibv_qp* qp, std::uint32_t q_key = kKey) {
  REQUIRE(change(qp, IBV_QPS_INIT, kUdInitMask, q_key) == 0);
  REQUIRE(change(qp, IBV_QPS_RTR) == 0);
  REQUIRE(change(qp, IBV_QPS_RTS, IBV_QP_SQ_PSN) == 0);
}

/// The address of this host.
struct Address {
  ibv_ah* ah = nullptr;
  explicit Address(Program& program) {
    ibv_ah_attr attributes = rtr_attributes(program.context, 1).ah_attr;
    ah = ibv_create_ah(program.pd, &attributes);
    REQUIRE(ah != nullptr);
  }
  ~Address() { CHECK(ibv_destroy_ah(ah) == 0); }
  Address(const Address&) = delete;
  Address& operator=(const Address&) = delete;
};

/// Two queue pairs that are ready, and memory.
struct Room {
  Program program;
  Memory from{program}, to{program};
  Address host{program};
  Queues a{program, IBV_QPT_UD}, b{program, IBV_QPT_UD};

  Room() {
    for (std::size_t i = 0; i < from.bytes.size(); ++i)
      from.bytes[i] = static_cast<std::uint8_t>(i * 7 + 3);
    start(a.qp);
    start(b.qp);
  }
  [[nodiscard]] int receive(std::uint64_t id, ibv_sge sge) const {
    return post_receive(b.qp, id, sge);
  }
  /// From a to b. The SGE must stay until it is posted.
  [[nodiscard]] ibv_send_wr request(std::uint64_t id, ibv_sge& sge) const {
    ibv_send_wr request{};
    request.wr_id = id;
    request.sg_list = &sge;
    request.num_sge = 1;
    request.opcode = IBV_WR_SEND;
    request.send_flags = IBV_SEND_SIGNALED;
    request.wr.ud.ah = host.ah;
    request.wr.ud.remote_qpn = b.qp->qp_num;
    request.wr.ud.remote_qkey = kKey;
    return request;
  }
};

TEST_CASE("verbs datagrams: there, and an answer to the sender that the receive names") {
  Room room;
  REQUIRE(room.receive(7, room.to.sge(1000, 5000)) == 0);
  ibv_sge sge = room.from.sge(10, 2000);
  ibv_send_wr request = room.request(5, sge);
  request.opcode = IBV_WR_SEND_WITH_IMM;
  request.imm_data = 0x04030201;
  REQUIRE(post(room.a.qp, request) == 0);
  const ibv_wc sent = room.a.next();
  CHECK(sent.status == IBV_WC_SUCCESS);
  CHECK(sent.opcode == IBV_WC_SEND);
  CHECK(sent.wr_id == 5);
  ibv_wc got = room.b.next();
  REQUIRE(got.status == IBV_WC_SUCCESS);
  CHECK(got.opcode == IBV_WC_RECV);
  CHECK(got.wr_id == 7);
  CHECK(got.byte_len == kGrh + 2000);
  CHECK(got.src_qp == room.a.qp->qp_num);
  CHECK(got.qp_num == room.b.qp->qp_num);
  CHECK(got.wc_flags == (IBV_WC_GRH | IBV_WC_WITH_IMM));
  CHECK(got.imm_data == 0x04030201);
  CHECK(std::memcmp(&room.to.bytes[1000 + kGrh], &room.from.bytes[10], 2000) == 0);

  auto* grh = reinterpret_cast<ibv_grh*>(&room.to.bytes[1000]);
  ibv_ah* back = ibv_create_ah_from_wc(room.program.pd, &got, grh, 1);
  REQUIRE(back != nullptr);
  REQUIRE(post_receive(room.a.qp, 0, room.to.sge(20'000, 100)) == 0);
  std::array<std::uint8_t, 3> text{'y', 'e', 's'};
  ibv_sge inlined{reinterpret_cast<std::uintptr_t>(text.data()), 3, 0};
  request = room.request(6, inlined);
  request.send_flags = IBV_SEND_INLINE;
  request.wr.ud = {back, got.src_qp, kKey};
  REQUIRE(post(room.b.qp, request) == 0);
  text.fill(0);
  got = room.a.next();
  CHECK(got.byte_len == kGrh + 3);
  CHECK(got.wc_flags == IBV_WC_GRH);
  CHECK(std::memcmp(&room.to.bytes[20'000 + kGrh], "yes", 3) == 0);
  CHECK(ibv_destroy_ah(back) == 0);
}

TEST_CASE("verbs datagrams: a chain, in the order of one flow; the Q_Key keeps others out") {
  Room room;
  for (std::uint64_t i = 0; i < 20; ++i) REQUIRE(room.receive(i, room.to.sge(i * 1000, 1000)) == 0);
  std::array<ibv_sge, 20> sges{};
  std::array<ibv_send_wr, 20> chain{};
  for (std::size_t i = 0; i < chain.size(); ++i) {
    sges[i] = room.from.sge(i * 100, 100);
    chain[i] = room.request(i, sges[i]);
    chain[i].send_flags = 0;
    if (i > 0) chain[i - 1].next = &chain[i];
  }
  chain[3].wr.ud.remote_qkey = kKey + 1;  // nobody takes that one
  ibv_send_wr* bad = nullptr;
  REQUIRE(ibv_post_send(room.a.qp, chain.data(), &bad) == 0);
  for (std::uint64_t i = 0; i < 19; ++i) {
    CHECK(room.b.next().wr_id == i);
    const std::size_t sent = i < 3 ? i : i + 1;
    CHECK(std::memcmp(&room.to.bytes[i * 1000 + kGrh], &room.from.bytes[sent * 100], 100) == 0);
  }
  // The Q_Key may change at any time.
  REQUIRE(change(room.b.qp, IBV_QPS_RTS, IBV_QP_QKEY, kKey + 1) == 0);
  chain[3].next = nullptr;
  REQUIRE(ibv_post_send(room.a.qp, &chain[3], &bad) == 0);
  CHECK(room.b.next().wr_id == 19);
  ibv_qp_attr a{};
  ibv_qp_init_attr initial{};
  REQUIRE(ibv_query_qp(room.b.qp, &a, ~0, &initial) == 0);
  CHECK(a.qkey == kKey + 1);
  CHECK(a.sq_psn == 0xABCDEF);
  CHECK(initial.qp_type == IBV_QPT_UD);
}

TEST_CASE("verbs datagrams: what UD does not have is refused") {
  const Room room;
  ibv_sge sge = room.from.sge(0, 8);
  ibv_send_wr request = room.request(1, sge);
  for (const ibv_wr_opcode opcode :
       {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ, IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WR_SEND_WITH_INV}) {
    CAPTURE(opcode);
    request.opcode = opcode;
    CHECK(post(room.a.qp, request) == EINVAL);
  }
  request = room.request(1, sge);
  request.wr.ud.ah = nullptr;
  CHECK(post(room.a.qp, request) == EINVAL);
  request = room.request(1, sge);
  sge.length = 513;  // more than was granted when the queue pair was created
  request.send_flags |= IBV_SEND_INLINE;
  CHECK(post(room.a.qp, request) == EINVAL);
  CHECK(room.a.qp->state == IBV_QPS_RTS);
  CHECK(ibv_attach_mcast(room.a.qp, nullptr, 0) == EOPNOTSUPP);
}

TEST_CASE("verbs datagrams: an address that no way leads to") {
  Program program;
  ibv_ah_attr attributes = rtr_attributes(program.context, 1).ah_attr;
  attributes.grh.dgid = {};
  attributes.grh.dgid.raw[0] = 0x20;  // IPv6, which no plane has
  errno = 0;
  CHECK(ibv_create_ah(program.pd, &attributes) == nullptr);
  CHECK(errno == ENETUNREACH);
  CHECK(ibv_query_gid(program.context, 1, 0, &attributes.grh.dgid) == 0);
  attributes.port_num = 2;
  CHECK(ibv_create_ah(program.pd, &attributes) == nullptr);
  CHECK(errno == EINVAL);
}

TEST_CASE("verbs datagrams: a mistake stops the send queue alone, until RTS") {
  const Room room;
  REQUIRE(room.receive(1, room.to.sge(0, 1000)) == 0);
  ibv_sge nowhere{8, 8, 0xFFFFFFFF};
  ibv_sge large = room.from.sge(0, 5000);
  ibv_sge small = room.from.sge(0, 8);
  const std::array<std::pair<ibv_sge*, ibv_wc_status>, 2> mistakes{
      {{&nowhere, IBV_WC_LOC_PROT_ERR}, {&large, IBV_WC_LOC_LEN_ERR}}};
  for (const auto& mistake : mistakes) {
    ibv_send_wr request = room.request(2, *mistake.first);
    REQUIRE(post(room.a.qp, request) == 0);
    ibv_wc wc = room.a.next();
    CHECK(wc.wr_id == 2);
    CHECK(wc.status == mistake.second);
    CHECK(room.a.qp->state == IBV_QPS_SQE);
    request = room.request(3, small);
    REQUIRE(post(room.a.qp, request) == 0);
    wc = room.a.next();
    CHECK(wc.wr_id == 3);
    CHECK(wc.status == IBV_WC_WR_FLUSH_ERR);
    REQUIRE(change(room.a.qp, IBV_QPS_RTS) == 0);
  }
  ibv_send_wr request = room.request(4, small);
  REQUIRE(post(room.a.qp, request) == 0);
  CHECK(room.a.next().status == IBV_WC_SUCCESS);
  CHECK(room.b.next().wr_id == 1);
}

TEST_CASE("verbs datagrams: SQD keeps what is posted; a mistake in it stops the rest") {
  const Room room;
  for (std::uint64_t i = 0; i < 2; ++i) REQUIRE(room.receive(i, room.to.sge(0, 1000)) == 0);
  ibv_sge small = room.from.sge(0, 8);
  ibv_send_wr request = room.request(1, small);
  REQUIRE(post(room.a.qp, request) == 0);
  ibv_qp_attr a{};
  a.qp_state = IBV_QPS_SQD;
  a.en_sqd_async_notify = 1;
  REQUIRE(ibv_modify_qp(room.a.qp, &a, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY) == 0);
  ibv_async_event event{};
  REQUIRE(ibv_get_async_event(room.program.context, &event) == 0);
  CHECK(event.event_type == IBV_EVENT_SQ_DRAINED);
  ibv_ack_async_event(&event);
  CHECK(room.a.next().wr_id == 1);
  CHECK(room.b.next().wr_id == 0);
  ibv_sge nowhere{8, 8, 0xFFFFFFFF};
  for (std::uint64_t id = 2; id < 5; ++id) {
    request = room.request(id, id == 3 ? nowhere : small);
    REQUIRE(post(room.a.qp, request) == 0);
  }
  REQUIRE(change(room.a.qp, IBV_QPS_RTS) == 0);
  for (const ibv_wc_status status : {IBV_WC_SUCCESS, IBV_WC_LOC_PROT_ERR, IBV_WC_WR_FLUSH_ERR})
    CHECK(room.a.next().status == status);
  CHECK(room.a.qp->state == IBV_QPS_SQE);
  CHECK(room.b.next().wr_id == 1);
}

TEST_CASE("verbs datagrams: a receive that is too short fails the queue pair") {
  const Room room;
  REQUIRE(room.receive(1, room.to.sge(0, kGrh + 99)) == 0);
  REQUIRE(room.receive(2, room.to.sge(0, 1000)) == 0);
  ibv_sge sge = room.from.sge(0, 100);
  ibv_send_wr request = room.request(1, sge);
  REQUIRE(post(room.a.qp, request) == 0);
  CHECK(room.b.next().status == IBV_WC_LOC_LEN_ERR);
  CHECK(room.b.next().status == IBV_WC_WR_FLUSH_ERR);
  ibv_async_event event{};
  REQUIRE(ibv_get_async_event(room.program.context, &event) == 0);
  CHECK(event.event_type == IBV_EVENT_QP_REQ_ERR);
  CHECK(event.element.qp == room.b.qp);
  ibv_ack_async_event(&event);
  CHECK(room.b.qp->state == IBV_QPS_ERR);
}

TEST_CASE("verbs datagrams: posting by ibv_wr_*, and receives of a shared queue") {
  Program program;
  Memory from(program), to(program);
  const Address host(program);
  ibv_cq* cq = ibv_create_cq(program.context, 64, nullptr, nullptr, 0);
  ibv_srq* srq = make_srq(program.pd, 16);
  ibv_qp_init_attr_ex wanted{};
  wanted.send_cq = wanted.recv_cq = cq;
  wanted.srq = srq;
  wanted.qp_type = IBV_QPT_UD;
  wanted.cap = {16, 0, 1, 0, 32};
  wanted.pd = program.pd;
  wanted.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
  wanted.send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_WRITE;
  CHECK(ibv_create_qp_ex(program.context, &wanted) == nullptr);
  CHECK(errno == EOPNOTSUPP);
  wanted.send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM;
  ibv_qp* qp = ibv_create_qp_ex(program.context, &wanted);
  REQUIRE(qp != nullptr);
  start(qp);
  REQUIRE(post_receive(srq, 9, to.sge(0, 1000)) == 0);
  from.bytes[0] = 77;

  ibv_qp_ex* extended = ibv_qp_to_qp_ex(qp);
  REQUIRE(extended != nullptr);
  ibv_wr_start(extended);
  extended->wr_id = 1;
  extended->wr_flags = IBV_SEND_SIGNALED;
  ibv_wr_send_imm(extended, 0x01020304);
  ibv_wr_set_ud_addr(extended, host.ah, qp->qp_num, kKey);
  ibv_wr_set_sge(extended, from.mr->lkey, from.address(), 8);
  REQUIRE(ibv_wr_complete(extended) == 0);
  bool received = false;
  for (int n = 0; n < 2; ++n) {
    const ibv_wc wc = next_of(cq);
    CHECK(wc.status == IBV_WC_SUCCESS);
    if (wc.opcode != IBV_WC_RECV) continue;
    received = true;
    CHECK(wc.wr_id == 9);
    CHECK(wc.imm_data == 0x01020304);
    CHECK(to.bytes[kGrh] == 77);
  }
  CHECK(received);
  CHECK(ibv_destroy_srq(srq) == EBUSY);
  CHECK(ibv_destroy_qp(qp) == 0);
  CHECK(ibv_destroy_srq(srq) == 0);
  CHECK(ibv_destroy_cq(cq) == 0);
}

}  // namespace datagrams_test
