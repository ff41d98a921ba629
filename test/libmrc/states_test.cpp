// SPDX-License-Identifier: Apache-2.0
// mrc_modify_qp() and mrc_query_qp(): what existing programs pass is taken, and what fails changes
// nothing.
#include <cstdlib>

#include "libmrc/mrc_rig.hpp"

using namespace mrc::test;
using namespace mrc::test::libmrc;

namespace states_test {

/// Attributes whose bytes outside the masks are whatever was on the stack.
template <class T>
T garbage() {
  T a;
  std::memset(&a, 0xA5, sizeof a);
  return a;
}

int modify(const Pair& pair, ibv_qp_state state, int mask, mrc_qp_attr* own = nullptr,
           int own_mask = 0) {
  ibv_qp_attr a{};
  a.qp_state = state;
  return mrc_modify_qp(pair.qp, &a, mask, own, own_mask);
}

mrc_qp_attr in_force(const Pair& pair) {
  mrc_qp_attr own = garbage<mrc_qp_attr>();
  REQUIRE(mrc_query_qp(pair.qp, nullptr, 0, &own, 0, nullptr) == 0);
  return own;
}

TEST_CASE("INIT with the state alone, RTR without a peer not") {
  Program program;
  Mrc mrc(program);
  const Pair pair(program, mrc);
  CHECK(pair.state() == IBV_QPS_RESET);
  CHECK(modify(pair, IBV_QPS_INIT, IBV_QP_STATE) == 0);
  errno = 0;
  CHECK(modify(pair, IBV_QPS_RTR, IBV_QP_STATE) == EINVAL);
  CHECK(errno == EINVAL);
  CHECK(pair.state() == IBV_QPS_INIT);
  ibv_qp_attr a = verbs::rtr_attributes(program.context, pair.qpn);
  CHECK(mrc_modify_qp(pair.qp, &a, IBV_QP_STATE | IBV_QP_AV | IBV_QP_DEST_QPN, nullptr, 0) == 0);
  CHECK(pair.state() == IBV_QPS_RTR);
  CHECK(modify(pair, IBV_QPS_RTS, IBV_QP_STATE) == 0);
  CHECK(pair.state() == IBV_QPS_RTS);
}

TEST_CASE("verbs' attributes without meaning are ignored, whatever their values are") {
  Program program;
  Mrc mrc(program);
  const Pair pair(program, mrc);
  ibv_qp_attr a = garbage<ibv_qp_attr>();
  a.qp_state = IBV_QPS_INIT;
  a.pkey_index = 0;
  a.qp_access_flags = verbs::kAllAccess;
  CHECK(mrc_modify_qp(pair.qp, &a, kInitMask | IBV_QP_TIMEOUT, nullptr, 0) == 0);
  const ibv_qp_attr good = verbs::rtr_attributes(program.context, pair.qpn);
  a.qp_state = IBV_QPS_RTR;
  a.ah_attr = good.ah_attr;
  a.ah_attr.sl = 3;
  a.ah_attr.grh.traffic_class = 96;
  a.dest_qp_num = good.dest_qp_num;
  a.rq_psn = 0;
  a.path_mtu = IBV_MTU_4096;
  CHECK(mrc_modify_qp(pair.qp, &a, kRtrMask | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
                      nullptr, 0) == 0);
  a.qp_state = IBV_QPS_RTS;
  a.sq_psn = 0;
  CHECK(mrc_modify_qp(pair.qp, &a, kRtsMask | IBV_QP_MAX_QP_RD_ATOMIC, nullptr, 0) == 0);
  CHECK(pair.state() == IBV_QPS_RTS);
}

TEST_CASE("steps and attributes that are not allowed are EINVAL, and change nothing") {
  Program program;
  Mrc mrc(program);
  const Pair pair(program, mrc);
  mrc_qp_attr own{};
  // Steps.
  for (const ibv_qp_state to : {IBV_QPS_RTR, IBV_QPS_RTS, IBV_QPS_SQD, IBV_QPS_SQE,
                                static_cast<ibv_qp_state>(77), static_cast<ibv_qp_state>(-1)})
    CHECK(modify(pair, to, IBV_QP_STATE) == EINVAL);
  // Attributes of other steps, unknown ones, path migration.
  for (const int extra :
       std::initializer_list<int>{IBV_QP_SQ_PSN, IBV_QP_AV, IBV_QP_DEST_QPN, IBV_QP_PATH_MTU,
                                  IBV_QP_ALT_PATH, IBV_QP_PATH_MIG_STATE, IBV_QP_QKEY, 1 << 30})
    CHECK(modify(pair, IBV_QPS_INIT, IBV_QP_STATE | extra) == EINVAL);
  for (const int extra :
       std::initializer_list<int>{MRC_QP_TIMEOUT, MRC_QP_MPR, MRC_QP_CAP, 1 << 20})
    CHECK(modify(pair, IBV_QPS_INIT, IBV_QP_STATE, &own, extra) == EINVAL);
  // The asserted state.
  ibv_qp_attr a{};
  a.qp_state = IBV_QPS_INIT;
  a.cur_qp_state = IBV_QPS_RTR;
  CHECK(mrc_modify_qp(pair.qp, &a, IBV_QP_STATE | IBV_QP_CUR_STATE, nullptr, 0) == EINVAL);
  // Without step.
  CHECK(modify(pair, IBV_QPS_INIT, IBV_QP_PKEY_INDEX) == EINVAL);
  CHECK(modify(pair, IBV_QPS_INIT, 0, &own, MRC_QP_TIMEOUT) == EINVAL);
  CHECK(pair.state() == IBV_QPS_RESET);

  pair.to_init();
  // Profiles belong to INIT.
  a = verbs::rtr_attributes(program.context, pair.qpn);
  CHECK(mrc_modify_qp(pair.qp, &a, kRtrMask, &own, MRC_QP_EV_PROFILE_ID) == EINVAL);
  CHECK(pair.state() == IBV_QPS_INIT);
  pair.to_rtr(program, pair.qpn);
  // Ranges.
  own.timeout = 25;
  CHECK(modify(pair, IBV_QPS_RTS, IBV_QP_STATE, &own, MRC_QP_TIMEOUT) == EINVAL);
  own.retry.linear_cnt = 8;
  CHECK(modify(pair, IBV_QPS_RTS, IBV_QP_STATE, &own, MRC_QP_RETRY_CNT) == EINVAL);
  own.retry = {7, 26};
  CHECK(modify(pair, IBV_QPS_RTS, IBV_QP_STATE, &own, MRC_QP_RETRY_CNT) == EINVAL);
  own.cap = 1 << 9;
  CHECK(modify(pair, IBV_QPS_RTS, IBV_QP_STATE, &own, MRC_QP_CAP) == EINVAL);
  own.vendor_cfg[127] = 1;
  CHECK(modify(pair, IBV_QPS_RTS, IBV_QP_STATE, &own, MRC_QP_VENDOR_CFG) == ENOTSUP);
  CHECK(pair.state() == IBV_QPS_RTR);
  CHECK(in_force(pair).timeout == 12);  // and nothing of it was kept
}

TEST_CASE("limits may be given at RTR and again at RTS, and are what a query says") {
  Program program;
  Mrc mrc(program);
  const Pair pair(program, mrc);
  mrc_qp_attr own{};
  pair.to_init();
  own.mpr = {16, 24};
  own.wimm = {40, 50};
  own.cap = MRC_QP_CAP_TRIM_NACK_DEST_UNSUPPORTED;
  constexpr int kLimits =
      MRC_QP_MAX_WIMM | MRC_QP_MAX_WIMM_DEST | MRC_QP_MPR | MRC_QP_MPR_DEST | MRC_QP_CAP;
  ibv_qp_attr a = verbs::rtr_attributes(program.context, pair.qpn);
  REQUIRE(mrc_modify_qp(pair.qp, &a, kRtrMask, &own, kLimits) == 0);
  own.mpr.mpr = 8;
  own.wimm.max_wimm = 20;
  own.timeout = 14;
  own.retry = {3, 25};
  REQUIRE(modify(pair, IBV_QPS_RTS, IBV_QP_STATE, &own,
                 MRC_QP_MPR | MRC_QP_MAX_WIMM | MRC_QP_TIMEOUT | MRC_QP_RETRY_CNT) == 0);
  const mrc_qp_attr now = in_force(pair);
  CHECK(now.mpr.mpr == 8);
  CHECK(now.mpr.mpr_dest == 24);
  CHECK(now.wimm.max_wimm == 20);
  CHECK(now.wimm.max_wimm_dest == 50);
  CHECK(now.timeout == 14);
  CHECK(now.retry.linear_cnt == 3);
  CHECK(now.retry.exp_cnt == 25);
  CHECK(now.cap == MRC_QP_CAP_TRIM_NACK_DEST_UNSUPPORTED);  // DYNAMIC_MPR was turned off
  CHECK(now.qp_hint == nullptr);
}

TEST_CASE("to RESET and ERR from any state, whatever the masks of MRC are") {
  Program program;
  Mrc mrc(program);
  const Pair pair(program, mrc);
  mrc_qp_attr own = garbage<mrc_qp_attr>();
  for (int steps = 0; steps <= 3; ++steps) {
    CAPTURE(steps);
    if (steps > 0) pair.to_init();
    if (steps > 1) pair.to_rtr(program, pair.qpn);
    if (steps > 2) pair.to_rts();
    CHECK(modify(pair, IBV_QPS_ERR, IBV_QP_STATE, &own, 0x7FFFFFFF) == 0);
    CHECK(pair.state() == IBV_QPS_ERR);
    CHECK(modify(pair, IBV_QPS_RESET, IBV_QP_STATE, nullptr, -1) == 0);
    CHECK(pair.state() == IBV_QPS_RESET);
  }
}

TEST_CASE("access flags and hint may change at any time") {
  Connected c;
  mrc_qp_hint_init_attr wanted{};
  wanted.attr.num_send_peers = 4;
  mrc_qp_hint* hint = mrc_create_qp_hint(c.mrc.context, &wanted);
  REQUIRE(hint != nullptr);
  mrc_qp_attr own{};
  own.qp_hint = hint;
  CHECK(mrc_modify_qp(c.a.qp, nullptr, 0, &own, MRC_QP_HINT) == 0);
  CHECK(in_force(c.a).qp_hint == hint);
  CHECK(mrc_destroy_qp_hint(hint) == -1);
  CHECK(errno == EBUSY);
  own.qp_hint = nullptr;
  CHECK(mrc_modify_qp(c.a.qp, nullptr, 0, &own, MRC_QP_HINT) == 0);
  CHECK(mrc_destroy_qp_hint(hint) == 0);

  // Without the right to write, the peer's writes fail.
  ibv_qp_attr a{};
  a.qp_access_flags = 0;
  CHECK(mrc_modify_qp(c.b.qp, &a, IBV_QP_ACCESS_FLAGS, nullptr, 0) == 0);
  CHECK(c.b.state() == IBV_QPS_RTS);
  ibv_sge sge = c.memory.sge(0, 8);
  ibv_send_wr request = verbs::write_request(1, sge, c.memory, 64);
  REQUIRE(c.a.post(request) == 0);
  CHECK(c.a.next().status == IBV_WC_REM_ACCESS_ERR);
}

TEST_CASE("a path MTU above what the planes carry becomes theirs; it is EINVAL with strict") {
  for (const bool strict : {false, true}) {
    CAPTURE(strict);
    ::setenv("MRC_MTU", "1408", 1);  // as on interfaces of 1,500
    if (strict) ::setenv("MRC_STRICT", "on", 1);
    {
      Program program;
      Mrc mrc(program);
      const Pair pair(program, mrc);
      pair.to_init();
      ibv_port_attr port{};
      REQUIRE(ibv_query_port(program.context, 1, &port) == 0);
      REQUIRE(port.active_mtu == IBV_MTU_1024);
      ibv_qp_attr a = verbs::rtr_attributes(program.context, pair.qpn);
      a.path_mtu = IBV_MTU_4096;
      CHECK(mrc_modify_qp(pair.qp, &a, kRtrMask, nullptr, 0) == (strict ? EINVAL : 0));
      a.path_mtu = static_cast<ibv_mtu>(6);
      CHECK(mrc_modify_qp(pair.qp, &a, kRtrMask, nullptr, 0) == EINVAL);
      REQUIRE(mrc_query_qp(pair.qp, &a, IBV_QP_PATH_MTU, nullptr, 0, nullptr) == 0);
      CHECK(a.path_mtu == (strict ? 0 : IBV_MTU_1024));
    }
    ::unsetenv("MRC_MTU");
    ::unsetenv("MRC_STRICT");
  }
}

TEST_CASE("the port of an address is any: all lead to all planes") {
  Program program;
  Mrc mrc(program);
  const Pair pair(program, mrc);
  pair.to_init();
  ibv_qp_attr a = verbs::rtr_attributes(program.context, pair.qpn);
  a.ah_attr.port_num = 2;
  CHECK(mrc_modify_qp(pair.qp, &a, kRtrMask, nullptr, 0) == 0);
}

TEST_CASE("a query gives what was given and granted") {
  Connected c;
  ibv_qp_attr a = garbage<ibv_qp_attr>();
  mrc_qp_init_attr initial{};
  REQUIRE(mrc_query_qp(c.a.qp, &a, IBV_QP_STATE, nullptr, 0, &initial) == 0);
  CHECK(a.qp_state == IBV_QPS_RTS);
  CHECK(a.dest_qp_num == c.b.qpn);
  CHECK(a.path_mtu == IBV_MTU_1024);
  CHECK(initial.send_cq == c.a.cq);
  CHECK(initial.recv_cq == c.a.cq);
  CHECK(initial.pd == c.program.pd);
  CHECK(initial.cap.max_send_wr == 64);
  CHECK(initial.cap.max_inline_data >= 64);
  CHECK(initial.protocol_version == MRC_PROTOCOL_VERSION_1);
  CHECK(mrc_query_qp(c.a.qp, nullptr, 0, nullptr, 0, nullptr) == 0);
}

}  // namespace states_test
