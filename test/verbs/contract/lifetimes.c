// SPDX-License-Identifier: Apache-2.0
// How long things live: completions, slots, and what a request points to.
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "contract.h"

enum { kSlots = 16 };

static uint32_t post_all(struct pair* pair) {
  uint32_t posted = 0;
  while (posted < 2 * kSlots &&
         post_write(&pair->host, &pair->a, posted, IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED) == 0)
    ++posted;
  return posted;
}

static void completions_go_with_it(void) {
  struct pair pair;
  struct end end;
  open_pair(&pair, kSlots, 1);
  make_end(&pair.host, &end, IBV_QPT_RC, pair.a_cq, pair.a_cq, NULL, 1, 4);
  to_init(&end);
  to_error(&end);
  EQUAL(post_receive(&pair.host, &end, 1), 0);
  HOLDS(post_all(&pair) >= kSlots);
  let_pass(100);
  EQUAL(post_receive(&pair.host, &end, 2), 0);
  const uint32_t gone = end.qp->qp_num;
  destroy_end(&end);
  for (uint64_t i = 0; i < kSlots; ++i) {
    const struct ibv_wc wc = next_of(pair.a_cq);
    HOLDS(wc.qp_num != gone);
    EQUAL(wc.wr_id, i);
  }
  close_pair(&pair);
}

static void reset_empties(void) {
  struct pair pair;
  open_pair(&pair, kSlots, kSlots);
  for (int again = 0; again < 3; ++again) {
    EQUAL(post_receive(&pair.host, &pair.a, 99), 0);
    HOLDS(post_all(&pair) >= kSlots);
    let_pass(20);
    struct ibv_qp_attr a = {.qp_state = IBV_QPS_RESET};
    EQUAL(ibv_modify_qp(pair.a.qp, &a, IBV_QP_STATE), 0);
    EQUAL(ibv_modify_qp(pair.b.qp, &a, IBV_QP_STATE), 0);
    struct ibv_wc wc;
    EQUAL(ibv_poll_cq(pair.a_cq, 1, &wc), 0);
    connect_both(&pair.host, &pair.a, &pair.b);
  }
  const uint32_t slots = post_all(&pair);  // as many as ever
  HOLDS(slots >= kSlots);
  take(pair.a_cq, slots, IBV_WC_SUCCESS);
  close_pair(&pair);
}

/// Request, SGEs and inline data are the program's again as soon as it is posted.
static void requests_are_copied(void) {
  struct host host;
  struct end a, b;
  open_host(&host);
  struct ibv_cq* cq = make_cq(&host, 4 * kSlots, NULL);
  struct ibv_qp_init_attr wanted = {.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC};
  wanted.cap = (struct ibv_qp_cap){kSlots, 1, 1, 1, 8};
  a.qp = ibv_create_qp(host.pd, &wanted);
  NEEDED(a.qp != NULL);
  make_end(&host, &b, IBV_QPT_RC, cq, cq, NULL, 1, 1);
  connect_both(&host, &a, &b);
  uint64_t* to = (uint64_t*)host.bytes;
  for (uint64_t i = 0; i < kSlots; ++i) {
    uint64_t value = i + 1;
    struct ibv_sge sge = {(uintptr_t)&value, sizeof value, 0};
    struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE};
    struct ibv_send_wr* bad = NULL;
    wr.send_flags = IBV_SEND_INLINE | IBV_SEND_SIGNALED;
    wr.wr.rdma.remote_addr = (uintptr_t)&to[i];
    wr.wr.rdma.rkey = host.mr->rkey;
    EQUAL(ibv_post_send(a.qp, &wr, &bad), 0);
    value = 0;
    memset(&sge, 0xFF, sizeof sge);
    memset(&wr, 0xFF, sizeof wr);
  }
  take(cq, kSlots, IBV_WC_SUCCESS);
  for (uint64_t i = 0; i < kSlots; ++i) EQUAL(to[i], i + 1);
  destroy_end(&a);
  destroy_end(&b);
  EQUAL(ibv_destroy_cq(cq), 0);
  close_host(&host);
}

/// A thread that destroys what has an event that the program has taken.
struct destroyer {
  struct ibv_cq* cq;  ///< or null: the queue pair
  struct ibv_qp* qp;
  atomic_bool done;
};

static void* destroy(void* argument) {
  struct destroyer* it = argument;
  if (it->cq != NULL)
    EQUAL(ibv_destroy_cq(it->cq), 0);
  else
    EQUAL(ibv_destroy_qp(it->qp), 0);
  it->done = true;
  return NULL;
}

static pthread_t begin_to_destroy(struct destroyer* it) {
  pthread_t thread;
  NEEDED(pthread_create(&thread, NULL, destroy, it) == 0);
  let_pass(100);
  EQUAL(it->done, false);
  return thread;
}

static void events_are_acknowledged_first(void) {
  struct host host;
  struct end a, b;
  open_host(&host);
  struct ibv_comp_channel* channel = ibv_create_comp_channel(host.context);
  NEEDED(channel != NULL);
  struct ibv_cq* cq = make_cq(&host, 8, channel);
  struct ibv_srq* srq = make_srq(&host, 4);
  make_end(&host, &a, IBV_QPT_RC, cq, cq, NULL, 1, 1);
  make_end(&host, &b, IBV_QPT_RC, cq, cq, srq, 1, 0);
  connect_both(&host, &a, &b);
  EQUAL(ibv_req_notify_cq(cq, 0), 0);
  EQUAL(post_write(&host, &a, 1, IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED), 0);
  struct ibv_cq* armed = NULL;
  void* context = NULL;
  EQUAL(ibv_get_cq_event(channel, &armed, &context), 0);
  HOLDS(armed == cq);
  to_error(&b);
  struct ibv_async_event event = event_of(&host, IBV_EVENT_QP_LAST_WQE_REACHED);
  struct destroyer of_qp = {.qp = b.qp}, of_cq = {.cq = cq};
  pthread_t thread = begin_to_destroy(&of_qp);
  ibv_ack_async_event(&event);
  pthread_join(thread, NULL);
  destroy_end(&a);
  thread = begin_to_destroy(&of_cq);
  ibv_ack_cq_events(cq, 1);
  pthread_join(thread, NULL);
  EQUAL(ibv_destroy_srq(srq), 0);
  EQUAL(ibv_destroy_comp_channel(channel), 0);
  close_host(&host);
}

const struct check lifetime_checks[] = {
    {"lifetimes: what has events goes when they are acknowledged", events_are_acknowledged_first},
    {"lifetimes: completions go with their queue pair, and others stay", completions_go_with_it},
    {"lifetimes: a reset empties queues and frees their slots", reset_empties},
    {"lifetimes: a request and its inline data are copied", requests_are_copied},
    {0},
};
