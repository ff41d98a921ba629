// SPDX-License-Identifier: Apache-2.0
// States of queue pairs: the way to RTS, and what may be posted on it.
#include <stddef.h>

#include "contract.h"

static const enum ibv_qp_type kTypes[] = {IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD};
static const enum ibv_qp_state kWay[] = {IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS};
enum { kTypeCount = 3, kSteps = 3 };

/// A host with a queue pair of its own, in RESET.
struct single {
  struct host host;
  struct ibv_cq* cq;
  struct end end;
};

static void open_single(struct single* single, enum ibv_qp_type type) {
  open_host(&single->host);
  single->cq = make_cq(&single->host, 16, NULL);
  make_end(&single->host, &single->end, type, single->cq, single->cq, NULL, 4, 4);
}

static void close_single(struct single* single) {
  destroy_end(&single->end);
  EQUAL(ibv_destroy_cq(single->cq), 0);
  close_host(&single->host);
}

static int go(struct single* single, enum ibv_qp_state state, int without) {
  struct step step = step_to(&single->host, &single->end, state, single->end.qp->qp_num);
  return ibv_modify_qp(single->end.qp, &step.attributes, step.mask & ~without);
}

static void missing_attributes(void) {
  for (int type = 0; type < kTypeCount; ++type) {
    struct single single;
    open_single(&single, kTypes[type]);
    enum ibv_qp_state before = IBV_QPS_RESET;
    for (int i = 0; i < kSteps; before = kWay[i++]) {
      const int mask = step_to(&single.host, &single.end, kWay[i], 0).mask & ~IBV_QP_STATE;
      for (int bit = 1; bit <= IBV_QP_DEST_QPN; bit <<= 1) {
        if ((mask & bit) == 0) continue;
        EQUAL(go(&single, kWay[i], bit), EINVAL);
        EQUAL(state_of(&single.end), before);
      }
      EQUAL(go(&single, kWay[i], 0), 0);
      EQUAL(state_of(&single.end), kWay[i]);
    }
    close_single(&single);
  }
}

static void wrong_steps(void) {
  static const struct {
    enum ibv_qp_state from, to;
  } kWrong[] = {
      {IBV_QPS_RESET, IBV_QPS_RTR}, {IBV_QPS_RESET, IBV_QPS_RTS}, {IBV_QPS_RESET, IBV_QPS_SQD},
      {IBV_QPS_INIT, IBV_QPS_RTS},  {IBV_QPS_INIT, IBV_QPS_SQD},  {IBV_QPS_RTR, IBV_QPS_INIT},
      {IBV_QPS_RTR, IBV_QPS_RTR},   {IBV_QPS_RTR, IBV_QPS_SQD},   {IBV_QPS_RTS, IBV_QPS_INIT},
      {IBV_QPS_RTS, IBV_QPS_RTR},   {IBV_QPS_ERR, IBV_QPS_INIT},  {IBV_QPS_ERR, IBV_QPS_RTR},
      {IBV_QPS_ERR, IBV_QPS_RTS},   {IBV_QPS_ERR, IBV_QPS_SQD},
  };
  for (int type = 0; type < kTypeCount; ++type) {
    struct single single;
    open_single(&single, kTypes[type]);
    for (size_t i = 0; i < sizeof kWrong / sizeof *kWrong; ++i) {
      EQUAL(go(&single, IBV_QPS_RESET, 0), 0);
      for (int step = 0; step < kSteps && state_of(&single.end) != kWrong[i].from; ++step)
        EQUAL(go(&single, kWay[step], 0), 0);
      if (kWrong[i].from == IBV_QPS_ERR) EQUAL(go(&single, IBV_QPS_ERR, 0), 0);
      EQUAL(go(&single, kWrong[i].to, 0), EINVAL);
      EQUAL(state_of(&single.end), kWrong[i].from);
    }
    close_single(&single);
  }
}

static void posting(void) {
  static const struct {
    enum ibv_qp_state state;
    int send, receive;
  } kStates[] = {
      {IBV_QPS_RESET, EINVAL, EINVAL},
      {IBV_QPS_INIT, EINVAL, 0},
      {IBV_QPS_RTR, EINVAL, 0},
      {IBV_QPS_RTS, 0, 0},
      {IBV_QPS_ERR, 0, 0},
  };
  for (int type = 0; type < 2; ++type) {  // writes, so not UD
    struct single single;
    open_single(&single, kTypes[type]);
    for (size_t i = 0; i < sizeof kStates / sizeof *kStates; ++i) {
      EQUAL(go(&single, kStates[i].state, 0), 0);
      const int sent = post_write(&single.host, &single.end, 1, IBV_WR_RDMA_WRITE, 0);
      EQUAL(sent, kStates[i].send);
      EQUAL(post_receive(&single.host, &single.end, 2), kStates[i].receive);
    }
    close_single(&single);
  }
}

const struct check state_checks[] = {
    {"states: a step that lacks an attribute is refused", missing_attributes},
    {"states: a step that there is not is refused", wrong_steps},
    {"states: what may be posted in each", posting},
    {0},
};
