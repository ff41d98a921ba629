// SPDX-License-Identifier: Apache-2.0
// The states of queue pairs: every transition, with and without each attribute; what is posted in
// each state.
#include <map>
#include <set>
#include <tuple>

#include "verbs/verbs_rig.hpp"

using namespace mrc::test::verbs;

namespace states_test {

constexpr std::array kStates{IBV_QPS_RESET, IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS,
                             IBV_QPS_SQD,   IBV_QPS_SQE,  IBV_QPS_ERR};

int modify(ibv_qp* qp, ibv_qp_attr attributes, int mask) {
  return ibv_modify_qp(qp, &attributes, mask);
}
int to_state(ibv_qp* qp, ibv_qp_state state) {
  ibv_qp_attr a{};
  a.qp_state = state;
  return modify(qp, a, IBV_QP_STATE);
}

ibv_qp_state state_of(ibv_qp* qp) {
  ibv_qp_attr a{};
  ibv_qp_init_attr initial{};
  CHECK(ibv_query_qp(qp, &a, IBV_QP_STATE, &initial) == 0);
  CHECK(a.qp_state == qp->state);
  return a.qp_state;
}

/// Attributes for every transition, of a queue pair that is its own peer.
ibv_qp_attr all_attributes(ibv_qp* qp, ibv_qp_state state) {
  ibv_qp_attr a = rtr_attributes(qp->context, qp->qp_num);
  const ibv_qp_attr rts = rts_attributes();
  a.timeout = rts.timeout;
  a.retry_cnt = rts.retry_cnt;
  a.rnr_retry = rts.rnr_retry;
  a.sq_psn = rts.sq_psn;
  a.max_rd_atomic = rts.max_rd_atomic;
  a.port_num = 1;
  a.qp_access_flags = kAllAccess;
  a.qkey = 0x1234;
  a.qp_state = state;
  return a;
}

/// What the steps to INIT, RTR and RTS need.
struct Steps {
  int init, rtr, rts;
};
Steps steps_of(ibv_qp_type type) {
  if (type == IBV_QPT_RC) return {kInitMask, kRtrMask, kRtsMask};
  if (type == IBV_QPT_UC) return {kInitMask, kUcRtrMask, kUcRtsMask};
  return {IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY, IBV_QP_STATE,
          IBV_QP_STATE | IBV_QP_SQ_PSN};
}

/// An address of this host.
ibv_ah* some_address(ibv_qp* qp) {
  ibv_ah_attr attributes = rtr_attributes(qp->context, 1).ah_attr;
  ibv_ah* ah = ibv_create_ah(qp->pd, &attributes);
  REQUIRE(ah != nullptr);
  return ah;
}

/// Takes a fresh or reset queue pair to a state. SQE: UC and UD only.
void take_to(ibv_qp* qp, ibv_qp_state state) {
  const Steps steps = steps_of(qp->qp_type);
  if (state == IBV_QPS_RESET) return;
  REQUIRE(modify(qp, all_attributes(qp, IBV_QPS_INIT), steps.init) == 0);
  if (state == IBV_QPS_INIT) return;
  if (state == IBV_QPS_ERR) {
    REQUIRE(to_state(qp, IBV_QPS_ERR) == 0);
    return;
  }
  REQUIRE(modify(qp, all_attributes(qp, IBV_QPS_RTR), steps.rtr) == 0);
  if (state == IBV_QPS_RTR) return;
  REQUIRE(modify(qp, all_attributes(qp, IBV_QPS_RTS), steps.rts) == 0);
  if (state == IBV_QPS_RTS) return;
  if (state == IBV_QPS_SQD) {
    REQUIRE(to_state(qp, IBV_QPS_SQD) == 0);
    return;
  }
  ibv_sge nowhere{8, 8, 0xFFFFFFFF};
  ibv_send_wr request{};
  request.sg_list = &nowhere;
  request.num_sge = 1;
  if (qp->qp_type != IBV_QPT_UD) {
    REQUIRE(post(qp, request) == 0);
    return;
  }
  request.opcode = IBV_WR_SEND;
  request.wr.ud.ah = some_address(qp);
  REQUIRE(post(qp, request) == 0);
  CHECK(ibv_destroy_ah(request.wr.ud.ah) == 0);
}

using Table = std::map<std::pair<ibv_qp_state, ibv_qp_state>, std::pair<int, int>>;

/// Attributes that a transition needs, and those that it takes besides (IBTA 1.4; the same
/// in Linux). No entry: there is no such transition.
Table connected_table(bool rc) {
  const int port = IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
  const int access = IBV_QP_ACCESS_FLAGS;
  const int moved = IBV_QP_CUR_STATE | access | (rc ? IBV_QP_MIN_RNR_TIMER : 0);
  Table t;
  t[{IBV_QPS_RESET, IBV_QPS_INIT}] = {port, 0};
  t[{IBV_QPS_INIT, IBV_QPS_INIT}] = {0, port};
  t[{IBV_QPS_INIT, IBV_QPS_RTR}] = {(rc ? kRtrMask : kUcRtrMask) & ~IBV_QP_STATE,
                                    access | IBV_QP_PKEY_INDEX};
  t[{IBV_QPS_RTR, IBV_QPS_RTS}] = {(rc ? kRtsMask : kUcRtsMask) & ~IBV_QP_STATE, moved};
  t[{IBV_QPS_RTS, IBV_QPS_RTS}] = {0, moved};
  t[{IBV_QPS_RTS, IBV_QPS_SQD}] = {0, IBV_QP_EN_SQD_ASYNC_NOTIFY};
  t[{IBV_QPS_SQD, IBV_QPS_RTS}] = {0, moved};
  t[{IBV_QPS_SQD, IBV_QPS_SQD}] = {
      0, IBV_QP_AV | access | IBV_QP_PKEY_INDEX |
             (rc ? IBV_QP_PORT | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                       IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER
                 : 0)};
  if (!rc) t[{IBV_QPS_SQE, IBV_QPS_RTS}] = {0, IBV_QP_CUR_STATE | access};
  for (const ibv_qp_state from : kStates) {
    if (rc && from == IBV_QPS_SQE) continue;
    t[{from, IBV_QPS_RESET}] = t[{from, IBV_QPS_ERR}] = {0, IBV_QP_CUR_STATE};
  }
  return t;
}

/// The same of UD.
Table datagram_table() {
  const int q_key = IBV_QP_CUR_STATE | IBV_QP_QKEY;
  const int port = IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY;
  Table t;
  t[{IBV_QPS_RESET, IBV_QPS_INIT}] = {port, 0};
  t[{IBV_QPS_INIT, IBV_QPS_INIT}] = {0, port};
  t[{IBV_QPS_INIT, IBV_QPS_RTR}] = {0, IBV_QP_PKEY_INDEX | IBV_QP_QKEY};
  t[{IBV_QPS_RTR, IBV_QPS_RTS}] = {IBV_QP_SQ_PSN, q_key};
  t[{IBV_QPS_RTS, IBV_QPS_RTS}] = {0, q_key};
  t[{IBV_QPS_RTS, IBV_QPS_SQD}] = {0, IBV_QP_EN_SQD_ASYNC_NOTIFY};
  t[{IBV_QPS_SQD, IBV_QPS_RTS}] = {0, q_key};
  t[{IBV_QPS_SQD, IBV_QPS_SQD}] = {0, IBV_QP_PKEY_INDEX | IBV_QP_QKEY};
  t[{IBV_QPS_SQE, IBV_QPS_RTS}] = {0, q_key};
  for (const ibv_qp_state from : kStates)
    t[{from, IBV_QPS_RESET}] = t[{from, IBV_QPS_ERR}] = {0, IBV_QP_CUR_STATE};
  return t;
}

/// Every attribute but those of path migration, which are refused in another way.
constexpr std::array kBits{IBV_QP_CUR_STATE,
                           IBV_QP_EN_SQD_ASYNC_NOTIFY,
                           IBV_QP_ACCESS_FLAGS,
                           IBV_QP_PKEY_INDEX,
                           IBV_QP_PORT,
                           IBV_QP_QKEY,
                           IBV_QP_AV,
                           IBV_QP_PATH_MTU,
                           IBV_QP_TIMEOUT,
                           IBV_QP_RETRY_CNT,
                           IBV_QP_RNR_RETRY,
                           IBV_QP_RQ_PSN,
                           IBV_QP_MAX_QP_RD_ATOMIC,
                           IBV_QP_MIN_RNR_TIMER,
                           IBV_QP_SQ_PSN,
                           IBV_QP_MAX_DEST_RD_ATOMIC,
                           IBV_QP_CAP,
                           IBV_QP_DEST_QPN,
                           IBV_QP_RATE_LIMIT};

/// From a fresh start: what the call says, and that the state is as it says.
void check_step(ibv_qp* qp, ibv_qp_state from, ibv_qp_state to, int mask, bool legal) {
  CAPTURE(from);
  CAPTURE(to);
  CAPTURE(mask);
  REQUIRE(to_state(qp, IBV_QPS_RESET) == 0);
  take_to(qp, from);
  ibv_qp_attr a = all_attributes(qp, to);
  a.cur_qp_state = from;
  REQUIRE(state_of(qp) == from);
  CHECK(modify(qp, a, mask | IBV_QP_STATE) == (legal ? 0 : EINVAL));
  CHECK(state_of(qp) == (legal ? to : from));
}

TEST_CASE("verbs states: every transition, each attribute too few or too many") {
  Program program;
  for (const ibv_qp_type type : {IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD}) {
    CAPTURE(type);
    const Queues queues(program, type);
    const Table legal = type == IBV_QPT_UD ? datagram_table() : connected_table(type == IBV_QPT_RC);
    for (const ibv_qp_state from : kStates) {
      if (type == IBV_QPT_RC && from == IBV_QPS_SQE) continue;  // never there
      for (const ibv_qp_state to : kStates) {
        const auto at = legal.find({from, to});
        if (at == legal.end()) {
          check_step(queues.qp, from, to, 0, false);
          continue;
        }
        const auto& [needs, takes] = at->second;
        check_step(queues.qp, from, to, needs, true);
        check_step(queues.qp, from, to, needs | takes, true);
        for (const int bit : kBits) {
          if ((needs & bit) != 0)
            check_step(queues.qp, from, to, needs & ~bit, false);
          else if ((takes & bit) == 0)
            check_step(queues.qp, from, to, needs | bit, false);
        }
      }
    }
  }
}

TEST_CASE("verbs states: values out of range are refused, and change nothing") {
  Program program;
  const Queues queues(program);
  ibv_qp* qp = queues.qp;
  const auto refused = [&](ibv_qp_state from, ibv_qp_state to, int mask, auto&& spoil) {
    REQUIRE(to_state(qp, IBV_QPS_RESET) == 0);
    take_to(qp, from);
    ibv_qp_attr a = all_attributes(qp, to);
    spoil(a);
    CHECK(modify(qp, a, mask) == EINVAL);
    CHECK(state_of(qp) == from);
    CHECK(modify(qp, all_attributes(qp, to), mask) == 0);
  };
  using A = ibv_qp_attr;
  const auto init = [&](auto&& f) { refused(IBV_QPS_RESET, IBV_QPS_INIT, kInitMask, f); };
  const auto rtr = [&](auto&& f) { refused(IBV_QPS_INIT, IBV_QPS_RTR, kRtrMask, f); };
  const auto rts = [&](auto&& f) { refused(IBV_QPS_RTR, IBV_QPS_RTS, kRtsMask, f); };
  init([](A& a) { a.port_num = 2; });
  init([](A& a) { a.pkey_index = 1; });
  rtr([](A& a) { a.path_mtu = static_cast<ibv_mtu>(6); });
  rtr([](A& a) { a.path_mtu = static_cast<ibv_mtu>(0); });
  rtr([](A& a) { a.dest_qp_num = 1 << 24; });
  rtr([](A& a) { a.ah_attr.is_global = 0; });
  rtr([](A& a) { a.ah_attr.grh.sgid_index = 4; });
  rtr([](A& a) { a.min_rnr_timer = 32; });
  rts([](A& a) { a.timeout = 32; });
  rts([](A& a) { a.retry_cnt = 8; });
  rts([](A& a) { a.rnr_retry = 8; });
  rts([](A& a) { a.max_rd_atomic = 129; });
}

TEST_CASE("verbs states: a wrong current state is refused") {
  Program program;
  const Queues queues(program);
  take_to(queues.qp, IBV_QPS_RTS);
  ibv_qp_attr a{};
  a.qp_state = IBV_QPS_RTS;
  a.cur_qp_state = IBV_QPS_SQD;
  CHECK(modify(queues.qp, a, IBV_QP_STATE | IBV_QP_CUR_STATE) == EINVAL);
}

TEST_CASE("verbs states: a query gives back what was set") {
  Program program;
  const Queues queues(program);
  take_to(queues.qp, IBV_QPS_RTS);
  ibv_qp_attr a{};
  ibv_qp_init_attr initial{};
  REQUIRE(ibv_query_qp(queues.qp, &a, ~0, &initial) == 0);
  CHECK(a.path_mtu == IBV_MTU_1024);
  CHECK(a.dest_qp_num == queues.qp->qp_num);
  CHECK(a.rq_psn == 0x123);
  CHECK(a.sq_psn == 0x123);
  CHECK(a.timeout == 14);
  CHECK(a.retry_cnt == 7);
  CHECK(a.qp_access_flags == kAllAccess);
  CHECK(a.ah_attr.is_global == 1);
  CHECK(a.cap.max_send_wr == 64);
  CHECK(initial.cap.max_inline_data == 512);  // more than asked for, as network cards grant
  CHECK(initial.send_cq == queues.cq);
  CHECK(initial.qp_type == IBV_QPT_RC);
}

TEST_CASE("verbs states: what is posted in each state") {
  Program program;
  const Memory memory(program);
  const Queues queues(program);
  ibv_qp* qp = queues.qp;
  for (const ibv_qp_state state : {IBV_QPS_RESET, IBV_QPS_INIT, IBV_QPS_RTR}) {
    CAPTURE(state);
    REQUIRE(to_state(qp, IBV_QPS_RESET) == 0);
    take_to(qp, state);
    ibv_sge sge = memory.sge(0, 8);
    ibv_send_wr request = write_request(1, sge, memory, 64);
    CHECK(post(qp, request) == EINVAL);
    CHECK(post_receive(qp, 1) == (state == IBV_QPS_RESET ? EINVAL : 0));
  }
}

TEST_CASE("verbs states: in ERR everything is flushed, before and after") {
  Program program;
  const Memory memory(program);
  const Queues queues(program);
  take_to(queues.qp, IBV_QPS_RTS);
  REQUIRE(post_receive(queues.qp, 1) == 0);
  REQUIRE(to_state(queues.qp, IBV_QPS_ERR) == 0);
  ibv_sge sge = memory.sge(0, 8);
  ibv_send_wr request = write_request(2, sge, memory, 64);
  request.send_flags = 0;  // flushed ones complete, signaled or not
  REQUIRE(post(queues.qp, request) == 0);
  REQUIRE(post_receive(queues.qp, 3) == 0);
  for (const std::uint64_t id : {1, 2, 3}) {
    const ibv_wc wc = queues.next();
    CHECK(wc.wr_id == id);
    CHECK(wc.status == IBV_WC_WR_FLUSH_ERR);
    CHECK(wc.qp_num == queues.qp->qp_num);
  }
}

TEST_CASE("verbs states: RESET takes the completions along") {
  Program program;
  const Queues queues(program);
  take_to(queues.qp, IBV_QPS_RTS);
  REQUIRE(post_receive(queues.qp, 1) == 0);
  REQUIRE(to_state(queues.qp, IBV_QPS_ERR) == 0);
  REQUIRE(post_receive(queues.qp, 2) == 0);
  REQUIRE(to_state(queues.qp, IBV_QPS_RESET) == 0);
  ibv_wc wc{};
  CHECK(ibv_poll_cq(queues.cq, 1, &wc) == 0);
  take_to(queues.qp, IBV_QPS_RTS);  // and it can be used again
}

TEST_CASE("verbs states: SQD holds what is posted until RTS, and reports that it is drained") {
  Program program;
  Memory from(program), to(program);
  const Queues queues(program);
  take_to(queues.qp, IBV_QPS_RTS);
  from.bytes[0] = 1;
  ibv_sge sge = from.sge(0, 8);
  ibv_send_wr request = write_request(1, sge, to, 0);
  REQUIRE(post(queues.qp, request) == 0);
  ibv_qp_attr a{};
  a.qp_state = IBV_QPS_SQD;
  a.en_sqd_async_notify = 1;
  REQUIRE(modify(queues.qp, a, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY) == 0);

  ibv_async_event event{};
  REQUIRE(ibv_get_async_event(program.context, &event) == 0);  // what was posted before goes on
  CHECK(event.event_type == IBV_EVENT_SQ_DRAINED);
  CHECK(event.element.qp == queues.qp);
  ibv_ack_async_event(&event);
  CHECK(queues.next().wr_id == 1);
  CHECK(to.bytes[0] == 1);

  std::array<std::uint8_t, 8> inlined{9, 9, 9, 9, 9, 9, 9, 9};
  ibv_sge piece{reinterpret_cast<std::uintptr_t>(inlined.data()), 8, 0};
  request = write_request(2, piece, to, 100);
  request.send_flags |= IBV_SEND_INLINE;
  REQUIRE(post(queues.qp, request) == 0);
  inlined.fill(0);
  request = write_request(3, sge, to, 200);
  REQUIRE(post(queues.qp, request) == 0);
  ibv_wc wc{};
  for (int i = 0; i < 100; ++i) CHECK(ibv_poll_cq(queues.cq, 1, &wc) == 0);
  CHECK(to.bytes[100] == 0);
  REQUIRE(to_state(queues.qp, IBV_QPS_RTS) == 0);
  CHECK(queues.next().wr_id == 2);
  CHECK(queues.next().wr_id == 3);
  CHECK(to.bytes[100] == 9);
  CHECK(to.bytes[200] == 1);
}

TEST_CASE("verbs states: a mistake in UC stops the send queue alone, until RTS") {
  Program program;
  Memory from(program), to(program);
  const Queues queues(program, IBV_QPT_UC);
  take_to(queues.qp, IBV_QPS_SQE);
  ibv_wc wc = queues.next();
  CHECK(wc.status == IBV_WC_LOC_PROT_ERR);
  ibv_sge sge = from.sge(0, 8);
  ibv_send_wr request = write_request(1, sge, to, 0);
  REQUIRE(post(queues.qp, request) == 0);
  wc = queues.next();
  CHECK(wc.wr_id == 1);
  CHECK(wc.status == IBV_WC_WR_FLUSH_ERR);
  REQUIRE(to_state(queues.qp, IBV_QPS_RTS) == 0);
  REQUIRE(post(queues.qp, request) == 0);
  CHECK(queues.next().status == IBV_WC_SUCCESS);
}

}  // namespace states_test
