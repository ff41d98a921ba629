// SPDX-License-Identifier: Apache-2.0
// Threads: every call may be made by any thread, at any time.
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "contract.h"

enum { kWrites = 5000, kSlots = 256 };

/// Two threads that poll one queue. Each completion must come to one of them, once.
struct shared {
  struct pair pair;
  struct ibv_cq_ex* extended;  ///< or null: by ibv_poll_cq()
  atomic_uint done;
  atomic_uchar* seen;
};

static void note(struct shared* shared, uint64_t id) {
  NEEDED(id < kWrites);
  ++shared->seen[id];
  ++shared->done;
}

/// Up to 8 at a time.
static void poll_extended(struct shared* shared) {
  struct ibv_cq_ex* cq = shared->extended;
  struct ibv_poll_cq_attr attributes = {0};
  if (ibv_start_poll(cq, &attributes) != 0) return;
  int n = 0;
  do {
    const uint64_t id = cq->wr_id;
    if (id % 16 == 0) sched_yield();  // the other one comes
    EQUAL(cq->status, IBV_WC_SUCCESS);
    EQUAL(ibv_wc_read_opcode(cq), IBV_WC_RDMA_WRITE);
    EQUAL(cq->wr_id, id);
    note(shared, id);
  } while (++n < 8 && ibv_next_poll(cq) == 0);
  ibv_end_poll(cq);
}

static void* poller(void* argument) {
  struct shared* shared = argument;
  while (shared->done < kWrites && !has_failed()) {
    if (shared->extended != NULL) {
      poll_extended(shared);
      continue;
    }
    struct ibv_wc wc[8];
    const int got = ibv_poll_cq(shared->pair.a_cq, 8, wc);
    for (int i = 0; i < got; ++i) note(shared, wc[i].wr_id);
  }
  return NULL;
}

static void* poster(void* argument) {
  struct shared* shared = argument;
  for (uint32_t posted = 0; posted < kWrites && !has_failed();) {
    const int error = post_write(&shared->pair.host, &shared->pair.a, posted, IBV_WR_RDMA_WRITE,
                                 IBV_SEND_SIGNALED);
    if (error == 0) {
      ++posted;
      continue;
    }
    EQUAL(error, ENOMEM);
    sched_yield();
  }
  return NULL;
}

static void poll_shared(bool extended) {
  struct shared shared = {.done = 0};
  struct pair* pair = &shared.pair;
  open_host(&pair->host);
  struct ibv_cq_init_attr_ex wanted = {.cqe = 2 * kSlots, .wc_flags = IBV_WC_STANDARD_FLAGS};
  struct ibv_cq_ex* cq = ibv_create_cq_ex(pair->host.context, &wanted);
  NEEDED(cq != NULL);
  shared.extended = extended ? cq : NULL;
  shared.seen = calloc(kWrites, sizeof *shared.seen);
  NEEDED(shared.seen != NULL);
  pair->a_cq = ibv_cq_ex_to_cq(cq);
  pair->b_cq = make_cq(&pair->host, 2, NULL);
  make_end(&pair->host, &pair->a, IBV_QPT_RC, pair->a_cq, pair->a_cq, NULL, kSlots, 1);
  make_end(&pair->host, &pair->b, IBV_QPT_RC, pair->b_cq, pair->b_cq, NULL, 1, 1);
  connect_both(&pair->host, &pair->a, &pair->b);
  pthread_t threads[3];
  for (int i = 0; i < 3; ++i)
    NEEDED(pthread_create(&threads[i], NULL, i < 2 ? poller : poster, &shared) == 0);
  for (int i = 0; i < 3; ++i) pthread_join(threads[i], NULL);
  uint32_t missed = 0, twice = 0;
  for (uint32_t i = 0; i < kWrites; ++i) {
    missed += shared.seen[i] == 0;
    twice += shared.seen[i] > 1;
  }
  EQUAL(missed, 0);
  EQUAL(twice, 0);
  free(shared.seen);
  close_pair(pair);
}

static void poll_together(void) {
  poll_shared(false);
}
static void poll_extended_together(void) {
  poll_shared(true);
}

/// Datagrams with a wrong key, which stop the send queue.
struct wrong {
  struct host host;
  struct end end;
  struct ibv_ah* ah;
  atomic_uint posted;
  atomic_bool over;
};

static void* post_wrong(void* argument) {
  struct wrong* wrong = argument;
  struct ibv_sge sge = {(uintptr_t)wrong->host.bytes, 8, wrong->host.mr->lkey ^ 0x5A5A00};
  struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND}, *bad = NULL;
  wr.send_flags = IBV_SEND_SIGNALED;
  wr.wr.ud.ah = wrong->ah;
  wr.wr.ud.remote_qpn = wrong->end.qp->qp_num;
  for (int i = 0; i < kSlots; ++i) wrong->posted += ibv_post_send(wrong->end.qp, &wr, &bad) == 0;
  wrong->over = true;
  return NULL;
}

static void query_and_post(void) {
  struct wrong wrong = {.over = false};
  struct host* host = &wrong.host;
  open_host(host);
  struct ibv_cq* cq = make_cq(host, 2 * kSlots, NULL);
  make_end(host, &wrong.end, IBV_QPT_UD, cq, cq, NULL, kSlots, 1);
  connect_to(host, &wrong.end, 0);
  struct ibv_ah_attr to = own_address(host);
  wrong.ah = ibv_create_ah(host->pd, &to);
  NEEDED(wrong.ah != NULL);
  pthread_t thread;
  NEEDED(pthread_create(&thread, NULL, post_wrong, &wrong) == 0);
  struct ibv_qp_attr again = {.qp_state = IBV_QPS_RTS};
  while (!wrong.over) {
    const enum ibv_qp_state state = state_of(&wrong.end);
    HOLDS(state == IBV_QPS_RTS || state == IBV_QPS_SQE || state == IBV_QPS_ERR);
    if (state == IBV_QPS_SQE) (void)ibv_modify_qp(wrong.end.qp, &again, IBV_QP_STATE);
  }
  pthread_join(thread, NULL);
  for (uint32_t i = 0; i < wrong.posted; ++i) HOLDS(next_of(cq).status != IBV_WC_SUCCESS);
  destroy_end(&wrong.end);
  EQUAL(ibv_destroy_ah(wrong.ah), 0);
  EQUAL(ibv_destroy_cq(cq), 0);
  close_host(host);
}

const struct check thread_checks[] = {
    {"threads: two that poll a queue share its completions", poll_together},
    {"threads: two that poll by ibv_start_poll() do, too", poll_extended_together},
    {"threads: one may ask for the state that the other's mistakes change", query_and_post},
    {0},
};
