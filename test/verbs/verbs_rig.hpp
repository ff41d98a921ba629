// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <doctest/doctest.h>
#include <infiniband/verbs.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <thread>
#include <vector>

#include "support/wait.hpp"

/// A verbs program in this process, over the loopback: what tests of the shim have in common. Only
/// the verbs API is used, as programs do that know nothing of OpenMRC.
namespace mrc::test::verbs {

using test::eventually;
using test::kPatience;

/// The device of the tests: on the loopback, where nothing else is, and silent. Before main(), when
/// nobody reads the environment.
inline const bool kEnvironment = [] {
  ::setenv("MRC_PLANES", "loopback:2", 1);
  ::setenv("MRC_UDP_PORT", "23000", 1);
  ::setenv("MRC_PATHS", "4", 1);
  ::setenv("MRC_LOG", "off", 1);
  // Tests of what mrc_ctl.h does are of this process's device; libmrc/host_test.sh has all of them.
  ::setenv("MRC_VERBS_CONTROLLER", "process", 0);
  return true;
}();

inline constexpr int kAllAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                                  IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
inline constexpr int kInitMask =
    IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
inline constexpr int kRtrMask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                                IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
inline constexpr int kRtsMask = IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                                IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC;
inline constexpr int kUcRtrMask =
    IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
inline constexpr int kUcRtsMask = IBV_QP_STATE | IBV_QP_SQ_PSN;

/// An open device with a protection domain.
struct Program {
  ibv_context* context = nullptr;
  ibv_pd* pd = nullptr;

  Program() {
    int count = 0;
    ibv_device** list = ibv_get_device_list(&count);
    REQUIRE(count == 1);
    context = ibv_open_device(list[0]);
    ibv_free_device_list(list);
    REQUIRE(context != nullptr);
    pd = ibv_alloc_pd(context);
    REQUIRE(pd != nullptr);
  }
  ~Program() {
    CHECK(ibv_dealloc_pd(pd) == 0);
    CHECK(ibv_close_device(context) == 0);
  }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;
};

/// Registered memory, all zero.
struct Memory {
  std::vector<std::uint8_t> bytes;
  ibv_mr* mr = nullptr;

  explicit Memory(Program& program, std::size_t size = 1 << 20, unsigned access = kAllAccess)
      : bytes(size) {
    mr = ibv_reg_mr(program.pd, bytes.data(), size, access);
    REQUIRE(mr != nullptr);
  }
  ~Memory() {
    if (mr != nullptr) CHECK(ibv_dereg_mr(mr) == 0);
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  [[nodiscard]] std::uint64_t address(std::size_t offset = 0) const {
    return reinterpret_cast<std::uintptr_t>(bytes.data()) + offset;
  }
  [[nodiscard]] ibv_sge sge(std::size_t offset, std::uint32_t length) const {
    return {address(offset), length, mr->lkey};
  }
};

inline ibv_qp_attr init_attributes() {
  ibv_qp_attr a{};
  a.qp_state = IBV_QPS_INIT;
  a.port_num = 1;
  a.qp_access_flags = kAllAccess;
  return a;
}

inline ibv_qp_attr rtr_attributes(ibv_context* context, std::uint32_t peer) {
  ibv_qp_attr a{};
  a.qp_state = IBV_QPS_RTR;
  a.path_mtu = IBV_MTU_1024;
  a.dest_qp_num = peer;
  a.rq_psn = 0x123;
  a.max_dest_rd_atomic = 1;
  a.min_rnr_timer = 12;
  a.ah_attr.is_global = 1;
  a.ah_attr.port_num = 1;
  CHECK(ibv_query_gid(context, 1, 0, &a.ah_attr.grh.dgid) == 0);
  return a;
}

inline ibv_qp_attr rts_attributes() {
  ibv_qp_attr a{};
  a.qp_state = IBV_QPS_RTS;
  a.timeout = 14;
  a.retry_cnt = 7;
  a.rnr_retry = 7;
  a.sq_psn = 0x123;
  a.max_rd_atomic = 1;
  return a;
}

/// A queue pair whose completions all go to `cq`.
inline ibv_qp* make_qp(ibv_pd* pd, ibv_cq* cq, const ibv_qp_cap& capacity, ibv_srq* srq = nullptr,
                       ibv_qp_type type = IBV_QPT_RC) {
  ibv_qp_init_attr wanted{};
  wanted.send_cq = wanted.recv_cq = cq;
  wanted.srq = srq;
  wanted.qp_type = type;
  wanted.cap = capacity;
  ibv_qp* qp = ibv_create_qp(pd, &wanted);
  REQUIRE(qp != nullptr);
  return qp;
}

inline ibv_srq* make_srq(ibv_pd* pd, std::uint32_t receives, std::uint32_t sges = 1) {
  ibv_srq_init_attr wanted{};
  wanted.attr = {receives, sges, 0};
  ibv_srq* srq = ibv_create_srq(pd, &wanted);
  REQUIRE(srq != nullptr);
  return srq;
}
/// An extended completion queue, with what else is wanted of it.
inline ibv_cq_ex* make_cq_ex(ibv_context* context, std::uint32_t entries,
                             ibv_cq_init_attr_ex wanted = {}) {
  wanted.cqe = entries;
  wanted.wc_flags = IBV_WC_STANDARD_FLAGS;
  ibv_cq_ex* cq = ibv_create_cq_ex(context, &wanted);
  REQUIRE(cq != nullptr);
  return cq;
}

/// To RTS, as far as this side is concerned. `change` alters the attributes of the last two steps.
inline void connect_to(
    ibv_qp* qp, std::uint32_t peer,
    const std::function<void(ibv_qp_attr&)>& change = [](ibv_qp_attr&) {}) {
  const bool rc = qp->qp_type == IBV_QPT_RC;
  ibv_qp_attr a = init_attributes();
  REQUIRE(ibv_modify_qp(qp, &a, kInitMask) == 0);
  a = rtr_attributes(qp->context, peer);
  change(a);
  REQUIRE(ibv_modify_qp(qp, &a, rc ? kRtrMask : kUcRtrMask) == 0);
  a = rts_attributes();
  change(a);
  REQUIRE(ibv_modify_qp(qp, &a, rc ? kRtsMask : kUcRtsMask) == 0);
}

/// The next completion; fails the test if none comes.
inline ibv_wc next_of(ibv_cq* cq) {
  ibv_wc wc{};
  REQUIRE(eventually([&] { return ibv_poll_cq(cq, 1, &wc) != 0; }, nap));
  return wc;
}

/// A queue pair with a completion queue of its own.
struct Queues {
  ibv_cq* cq = nullptr;
  ibv_qp* qp = nullptr;

  explicit Queues(Program& program, ibv_qp_type type = IBV_QPT_RC,
                  ibv_comp_channel* channel = nullptr) {
    cq = ibv_create_cq(program.context, 256, this, channel, 0);
    REQUIRE(cq != nullptr);
    qp = make_qp(program.pd, cq, {64, 64, 4, 4, 64}, nullptr, type);
  }
  ~Queues() {
    if (qp != nullptr) CHECK(ibv_destroy_qp(qp) == 0);
    CHECK(ibv_destroy_cq(cq) == 0);
  }
  Queues(const Queues&) = delete;
  Queues& operator=(const Queues&) = delete;

  void connect(std::uint32_t peer) const { connect_to(qp, peer); }
  void connect(const Queues& peer) const { connect(peer.qp->qp_num); }
  [[nodiscard]] ibv_wc next() const { return next_of(cq); }
};

/// A write request of one SGE. The SGE must stay until it is posted.
inline ibv_send_wr write_request(std::uint64_t id, ibv_sge& sge, const Memory& to,
                                 std::size_t offset) {
  ibv_send_wr request{};
  request.wr_id = id;
  request.sg_list = &sge;
  request.num_sge = 1;
  request.opcode = IBV_WR_RDMA_WRITE;
  request.send_flags = IBV_SEND_SIGNALED;
  request.wr.rdma.remote_addr = to.address(offset);
  request.wr.rdma.rkey = to.mr->rkey;
  return request;
}

inline int post(ibv_qp* qp, ibv_send_wr& request) {
  ibv_send_wr* bad = nullptr;
  return ibv_post_send(qp, &request, &bad);
}

inline int post_receive(ibv_qp* qp, std::uint64_t id) {
  ibv_recv_wr request{}, *bad = nullptr;
  request.wr_id = id;
  return ibv_post_recv(qp, &request, &bad);
}
inline int post_receive(ibv_qp* qp, std::uint64_t id, ibv_sge sge) {
  ibv_recv_wr request{id, nullptr, &sge, 1}, *bad = nullptr;
  return ibv_post_recv(qp, &request, &bad);
}
inline int post_receive(ibv_srq* srq, std::uint64_t id, ibv_sge sge) {
  ibv_recv_wr request{id, nullptr, &sge, 1}, *bad = nullptr;
  return ibv_post_srq_recv(srq, &request, &bad);
}

/// Two connected queue pairs, and memory: `from` holds numbers, `to` is all zero.
struct Linked {
  Program program;
  Memory from{program}, to{program};
  Queues a, b;

  explicit Linked(ibv_qp_type type = IBV_QPT_RC) : a(program, type), b(program, type) {
    for (std::size_t i = 0; i < from.bytes.size(); ++i)
      from.bytes[i] = static_cast<std::uint8_t>(i * 7 + i / 251 + 1);
    a.connect(b);
    b.connect(a);
  }
  /// From a to b. The SGE must stay until it is posted.
  [[nodiscard]] ibv_send_wr request(ibv_wr_opcode opcode, ibv_sge& sge,
                                    std::size_t offset = 0) const {
    ibv_send_wr request = write_request(1, sge, to, offset);
    request.opcode = opcode;
    return request;
  }
  [[nodiscard]] bool arrived(std::size_t from_at, std::size_t to_at, std::size_t size) const {
    return std::memcmp(from.bytes.data() + from_at, to.bytes.data() + to_at, size) == 0;
  }
};

}  // namespace mrc::test::verbs
