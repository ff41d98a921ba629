// SPDX-License-Identifier: Apache-2.0
// Writes, with and without immediate values, posted in all ways.
#include <atomic>

#include "verbs/verbs_rig.hpp"

using namespace mrc::test::verbs;

TEST_CASE("verbs transfer: a write, of RC and of UC") {
  for (const ibv_qp_type type : {IBV_QPT_RC, IBV_QPT_UC}) {
    CAPTURE(type);
    Linked pair(type);
    ibv_sge sge = pair.from.sge(100, 100'000);
    ibv_send_wr request = write_request(17, sge, pair.to, 3);
    REQUIRE(post(pair.a.qp, request) == 0);
    const ibv_wc wc = pair.a.next();
    CHECK(wc.status == IBV_WC_SUCCESS);
    CHECK(wc.opcode == IBV_WC_RDMA_WRITE);
    CHECK(wc.wr_id == 17);
    CHECK(wc.qp_num == pair.a.qp->qp_num);
    CHECK(pair.arrived(100, 3, 100'000));
  }
}

TEST_CASE("verbs transfer: an immediate value arrives byte for byte, in a receive without memory") {
  Linked pair;
  REQUIRE(post_receive(pair.b.qp, 5) == 0);
  ibv_sge sge = pair.from.sge(0, 5000);
  ibv_send_wr request = write_request(1, sge, pair.to, 0);
  request.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
  const std::array<std::uint8_t, 4> value{1, 2, 3, 4};
  std::memcpy(&request.imm_data, value.data(), 4);
  REQUIRE(post(pair.a.qp, request) == 0);
  const ibv_wc wc = pair.b.next();
  CHECK(wc.status == IBV_WC_SUCCESS);
  CHECK(wc.opcode == IBV_WC_RECV_RDMA_WITH_IMM);
  CHECK((wc.wc_flags & IBV_WC_WITH_IMM) != 0);
  CHECK(std::memcmp(&wc.imm_data, value.data(), 4) == 0);
  CHECK(wc.byte_len == 5000);
  CHECK(wc.wr_id == 5);
  CHECK(wc.qp_num == pair.b.qp->qp_num);
  CHECK(pair.arrived(0, 0, 5000));
  CHECK(pair.a.next().opcode == IBV_WC_RDMA_WRITE);
}

TEST_CASE("verbs transfer: a write of nothing needs no key") {
  Linked pair;
  ibv_send_wr request{};
  request.wr_id = 3;
  request.opcode = IBV_WR_RDMA_WRITE;
  request.send_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE;  // as UCX flushes
  REQUIRE(post(pair.a.qp, request) == 0);
  const ibv_wc wc = pair.a.next();
  CHECK(wc.status == IBV_WC_SUCCESS);
  CHECK(wc.wr_id == 3);
}

TEST_CASE("verbs transfer: inline data and lists of SGEs are free when the call returns") {
  Linked pair;
  std::array<std::uint8_t, 40> bytes;
  bytes.fill(0x5A);
  // Two pieces of memory that is not registered; inline data needs no key.
  std::array<ibv_sge, 2> sges{};
  sges[0] = {reinterpret_cast<std::uintptr_t>(bytes.data()), 10, 0};
  sges[1] = {reinterpret_cast<std::uintptr_t>(bytes.data()) + 10, 30, 0};
  ibv_send_wr request = write_request(1, sges[0], pair.to, 0);
  request.num_sge = 2;
  request.send_flags |= IBV_SEND_INLINE;
  REQUIRE(post(pair.a.qp, request) == 0);
  bytes.fill(0);
  sges = {};
  request = {};
  CHECK(pair.a.next().status == IBV_WC_SUCCESS);
  for (std::size_t i = 0; i < 40; ++i) CHECK(pair.to.bytes[i] == 0x5A);

  // More than the 64 bytes that were asked for, as NCCL posts it.
  const std::vector<std::uint8_t> more(512, 0x6B);
  ibv_sge whole{reinterpret_cast<std::uintptr_t>(more.data()), 512, 0};
  request = write_request(4, whole, pair.to, 0);
  request.send_flags |= IBV_SEND_INLINE;
  REQUIRE(post(pair.a.qp, request) == 0);
  CHECK(pair.a.next().status == IBV_WC_SUCCESS);
  CHECK(pair.to.bytes[511] == 0x6B);

  std::array<ibv_sge, 3> list{pair.from.sge(0, 3000), ibv_sge{}, pair.from.sge(9000, 3000)};
  request = write_request(2, list[0], pair.to, 100);
  request.num_sge = 3;  // the empty one in the middle names no memory
  REQUIRE(post(pair.a.qp, request) == 0);
  list = {};
  CHECK(pair.a.next().status == IBV_WC_SUCCESS);
  CHECK(pair.arrived(0, 100, 3000));
  CHECK(pair.arrived(9000, 3100, 3000));
}

TEST_CASE("verbs transfer: a chain completes in order, signaled ones only") {
  Linked pair;
  constexpr std::size_t kRequests = 50;
  std::array<ibv_sge, kRequests> sges;
  std::array<ibv_send_wr, kRequests> chain;
  for (std::size_t i = 0; i < kRequests; ++i) {
    sges[i] = pair.from.sge(i * 2000, 2000);
    chain[i] = write_request(i, sges[i], pair.to, i * 2000);
    if (i % 10 != 9) chain[i].send_flags = 0;
    chain[i].next = i + 1 < kRequests ? &chain[i + 1] : nullptr;
  }
  REQUIRE(post(pair.a.qp, chain[0]) == 0);
  for (std::uint64_t id = 9; id < kRequests; id += 10) CHECK(pair.a.next().wr_id == id);
  CHECK(pair.arrived(0, 0, kRequests * 2000));
  ibv_wc more{};
  CHECK(ibv_poll_cq(pair.a.cq, 1, &more) == 0);
}

TEST_CASE("verbs transfer: the first request that can't be posted is named") {
  Linked pair;
  const std::array<void (*)(ibv_send_wr&), 3> mistakes{
      [](ibv_send_wr& request) { request.sg_list->lkey ^= 0x10000; },
      [](ibv_send_wr& request) { request.opcode = IBV_WR_BIND_MW; },
      [](ibv_send_wr& request) { request.num_sge = 65; }};
  for (std::size_t m = 0; m < mistakes.size(); ++m) {
    for (const std::size_t wrong : {0, 1, 20, 29}) {
      CAPTURE(m);
      CAPTURE(wrong);
      std::array<ibv_sge, 30> sges;
      std::array<ibv_send_wr, 30> chain;
      for (std::size_t i = 0; i < chain.size(); ++i) {
        sges[i] = pair.from.sge(0, 8);
        chain[i] = write_request(i, sges[i], pair.to, 0);
        chain[i].next = i + 1 < chain.size() ? &chain[i + 1] : nullptr;
      }
      mistakes[m](chain[wrong]);
      ibv_send_wr* bad = nullptr;
      CHECK(ibv_post_send(pair.a.qp, &chain[0], &bad) == (m == 1 ? EOPNOTSUPP : EINVAL));
      CHECK(bad == &chain[wrong]);
      for (std::size_t i = 0; i < wrong; ++i) CHECK(pair.a.next().wr_id == i);
    }
  }
}

TEST_CASE("verbs transfer: a full queue says ENOMEM, and takes more later") {
  Linked pair;
  const Queues unconnected(pair.program);
  unconnected.connect(unconnected.qp->qp_num | 0xFFFF);  // nobody: what is posted stays
  ibv_sge sge = pair.from.sge(0, 8);
  int posted = 0;
  ibv_send_wr request = write_request(0, sge, pair.to, 0);
  while (post(unconnected.qp, request) == 0 && posted < 1000) ++posted;
  CHECK(posted == 64);
  CHECK(post(unconnected.qp, request) == ENOMEM);
}

// --------------------------------------------------------------------- the extended interfaces

TEST_CASE("verbs transfer: requests put together piece by piece, completions read field by field") {
  Program program;
  Memory from(program), to(program);
  ibv_cq_ex* cq = make_cq_ex(program.context, 64);
  ibv_qp_init_attr_ex wanted{};
  wanted.send_cq = wanted.recv_cq = ibv_cq_ex_to_cq(cq);
  wanted.qp_type = IBV_QPT_RC;
  wanted.cap = {16, 16, 2, 1, 64};
  wanted.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
  wanted.pd = program.pd;
  wanted.send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM;
  ibv_qp* qp = ibv_create_qp_ex(program.context, &wanted);
  REQUIRE(qp != nullptr);
  ibv_qp_ex* extended = ibv_qp_to_qp_ex(qp);
  REQUIRE(extended != nullptr);
  connect_to(qp, qp->qp_num);
  REQUIRE(post_receive(qp, 9) == 0);

  from.bytes.assign(from.bytes.size(), 0x33);
  std::array<char, 4> text{'t', 'e', 'x', 't'};
  ibv_wr_start(extended);  // abandoned: nothing of it is sent
  extended->wr_id = 100;
  extended->wr_flags = IBV_SEND_SIGNALED;
  ibv_wr_rdma_write(extended, to.mr->rkey, to.address(5000));
  ibv_wr_set_sge(extended, from.mr->lkey, from.address(), 8);
  ibv_wr_abort(extended);

  ibv_wr_start(extended);
  extended->wr_id = 1;
  ibv_wr_rdma_write(extended, to.mr->rkey, to.address(0));
  ibv_wr_set_sge(extended, from.mr->lkey, from.address(), 3000);
  extended->wr_id = 2;
  ibv_wr_rdma_write(extended, to.mr->rkey, to.address(4000));
  ibv_wr_set_inline_data(extended, text.data(), text.size());
  text = {};
  extended->wr_id = 3;
  ibv_wr_rdma_write_imm(extended, to.mr->rkey, to.address(3000), 0xABCD);
  const std::array<ibv_sge, 2> sges{from.sge(0, 10), from.sge(20, 10)};
  ibv_wr_set_sge_list(extended, 2, sges.data());
  REQUIRE(ibv_wr_complete(extended) == 0);

  std::vector<std::uint64_t> sent;
  bool received = false;
  CHECK(eventually([&] {
    ibv_poll_cq_attr poll{};
    if (ibv_start_poll(cq, &poll) != 0) return false;
    do {
      CHECK(cq->status == IBV_WC_SUCCESS);
      CHECK(ibv_wc_read_qp_num(cq) == qp->qp_num);
      if (ibv_wc_read_opcode(cq) == IBV_WC_RDMA_WRITE) {
        sent.push_back(cq->wr_id);
      } else {
        received = true;
        CHECK(cq->wr_id == 9);
        CHECK(ibv_wc_read_imm_data(cq) == 0xABCD);
        CHECK(ibv_wc_read_byte_len(cq) == 20);
        CHECK(ibv_wc_read_wc_flags(cq) == IBV_WC_WITH_IMM);
      }
    } while (ibv_next_poll(cq) == 0);
    ibv_end_poll(cq);
    return sent.size() >= 3 && received;
  }));
  CHECK(sent == std::vector<std::uint64_t>{1, 2, 3});
  CHECK(std::memcmp(to.bytes.data() + 4000, "text", 4) == 0);
  CHECK(to.bytes[2999] == 0x33);
  CHECK(to.bytes[3019] == 0x33);
  CHECK(to.bytes[3020] == 0);
  CHECK(to.bytes[5000] == 0);

  ibv_wr_start(extended);
  ibv_wr_local_inv(extended, 1);
  CHECK(ibv_wr_complete(extended) == EOPNOTSUPP);
  ibv_poll_cq_attr unknown{1};
  CHECK(ibv_start_poll(cq, &unknown) == EINVAL);
  ibv_poll_cq_attr none{};
  CHECK(ibv_start_poll(cq, &none) == ENOENT);
  CHECK(ibv_destroy_qp(qp) == 0);
  CHECK(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)) == 0);
}

TEST_CASE("verbs transfer: ibv_start_poll() locks the queue, unless one thread alone polls it") {
  Program program;
  for (const std::uint32_t flags : {0u, std::uint32_t{IBV_CREATE_CQ_ATTR_SINGLE_THREADED}}) {
    CAPTURE(flags);
    ibv_cq_init_attr_ex wanted{};
    wanted.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS;
    wanted.flags = flags;
    ibv_cq_ex* cq = make_cq_ex(program.context, 4, wanted);
    ibv_qp* qp = make_qp(program.pd, ibv_cq_ex_to_cq(cq), {1, 4, 1, 1, 0});
    ibv_qp_attr a = init_attributes();
    REQUIRE(ibv_modify_qp(qp, &a, kInitMask) == 0);
    a.qp_state = IBV_QPS_ERR;
    REQUIRE(ibv_modify_qp(qp, &a, IBV_QP_STATE) == 0);
    for (const std::uint64_t id : {1, 2}) REQUIRE(post_receive(qp, id) == 0);

    ibv_poll_cq_attr poll{};
    REQUIRE(ibv_start_poll(cq, &poll) == 0);
    CHECK(cq->wr_id == 1);
    std::atomic<bool> begun{false}, done{false};
    std::uint64_t taken = 0;
    std::thread other([&] {
      ibv_poll_cq_attr own{};
      begun = true;
      CHECK(ibv_start_poll(cq, &own) == 0);
      taken = cq->wr_id;
      ibv_end_poll(cq);
      done = true;
    });
    REQUIRE(eventually([&] { return begun.load(); }));
    if (flags != 0) {  // the program has promised that there is no such thread: nothing keeps it
      CHECK(eventually([&] { return done.load(); }));
    } else {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      CHECK_FALSE(done.load());
      CHECK(cq->wr_id == 1);
    }
    ibv_end_poll(cq);
    other.join();
    CHECK(taken == 2);
    CHECK(ibv_destroy_qp(qp) == 0);
    CHECK(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)) == 0);
  }
}
