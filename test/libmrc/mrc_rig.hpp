// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mrc.h>
#include <mrc_ctl.h>

#include "verbs/verbs_rig.hpp"

/// A program written for libMRC, in this process: what tests of it have in common. It knows the C
/// API alone.
namespace mrc::test::libmrc {

using verbs::Memory;
using verbs::Program;

/// MRC on an open device.
struct Mrc {
  explicit Mrc(Program& program) : context(mrc_create_context(program.context, nullptr)) {
    REQUIRE(context != nullptr);
  }
  ~Mrc() {
    if (context != nullptr) CHECK(mrc_destroy_context(context) == 0);
  }
  Mrc(const Mrc&) = delete;
  Mrc& operator=(const Mrc&) = delete;
  mrc_context* context;
};

/// What programs pass in each step.
inline constexpr int kInitMask =
    IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
inline constexpr int kRtrMask =
    IBV_QP_STATE | IBV_QP_AV | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_PATH_MTU;
inline constexpr int kRtsMask =
    IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY;

/// Bits of the masks of all kinds of profiles.
inline constexpr int kState = MRC_CTL_EV_PROFILE_STATE;
inline constexpr int kCurState = MRC_CTL_EV_PROFILE_CUR_STATE;

/// A queue pair with a completion queue of its own.
struct Pair {
  mrc_context* context;
  mrc_cq* cq = nullptr;
  mrc_qp* qp = nullptr;
  std::uint32_t qpn = 0;

  Pair(Program& program, Mrc& mrc, mrc_comp_channel* channel = nullptr) : context(mrc.context) {
    cq = mrc_create_cq(context, 256, this, channel, 0);
    REQUIRE(cq != nullptr);
    mrc_qp_init_attr wanted{};
    wanted.send_cq = wanted.recv_cq = cq;
    wanted.pd = program.pd;
    wanted.cap = {64, 64, 1, 1, 64};
    qp = mrc_create_qp(context, &wanted);
    REQUIRE(qp != nullptr);
    REQUIRE(mrc_get_qpn(qp, &qpn) == 0);
  }
  ~Pair() {
    if (qp != nullptr) CHECK(mrc_destroy_qp(qp) == 0);
    if (cq != nullptr) CHECK(mrc_destroy_cq(cq) == 0);
  }
  Pair(const Pair&) = delete;
  Pair& operator=(const Pair&) = delete;

  void to_init(mrc_qp_attr* own = nullptr, int own_mask = 0) const {
    ibv_qp_attr a = verbs::init_attributes();
    REQUIRE(mrc_modify_qp(qp, &a, kInitMask, own, own_mask) == 0);
  }
  void to_rtr(Program& program, std::uint32_t peer) const {
    ibv_qp_attr a = verbs::rtr_attributes(program.context, peer);
    REQUIRE(mrc_modify_qp(qp, &a, kRtrMask, nullptr, 0) == 0);
  }
  /// With counts that verbs would not allow, as benchmarks pass them.
  void to_rts() const {
    ibv_qp_attr a = verbs::rts_attributes();
    a.retry_cnt = a.rnr_retry = 14;
    REQUIRE(mrc_modify_qp(qp, &a, kRtsMask, nullptr, 0) == 0);
  }
  void connect(Program& program, const Pair& peer, mrc_qp_attr* own = nullptr,
               int own_mask = 0) const {
    to_init(own, own_mask);
    to_rtr(program, peer.qpn);
    to_rts();
  }
  [[nodiscard]] ibv_qp_state state() const {
    ibv_qp_attr a{};
    REQUIRE(mrc_query_qp(qp, &a, IBV_QP_STATE, nullptr, 0, nullptr) == 0);
    return a.qp_state;
  }

  /// The next completion; fails the test if none comes.
  [[nodiscard]] ibv_wc next() const {
    ibv_wc wc{};
    int got = 0;
    REQUIRE(eventually([&] { return (got = mrc_poll_cq(cq, 1, &wc)) != 0; }, nap));
    REQUIRE(got == 1);
    return wc;
  }
  [[nodiscard]] int post(ibv_send_wr& request) const {
    ibv_send_wr* bad = nullptr;
    return mrc_post_send(qp, &request, &bad);
  }
  [[nodiscard]] int post_receive(std::uint64_t id) const {
    ibv_recv_wr request{}, *bad = nullptr;
    request.wr_id = id;
    return mrc_post_recv(qp, &request, &bad);
  }
};

/// Two queue pairs of one program that are connected to each other.
struct Connected {
  Program program;
  Mrc mrc{program};
  Memory memory{program};
  Pair a{program, mrc}, b{program, mrc};

  Connected() {
    a.connect(program, b);
    b.connect(program, a);
  }
};

}  // namespace mrc::test::libmrc
