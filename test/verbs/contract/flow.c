// SPDX-License-Identifier: Apache-2.0
// Flow control: a slot of a queue is free when the program has polled the completion of its request
// or of a later one. So a completion queue with room for its queues is never overrun.
#include <errno.h>
#include <stdlib.h>

#include "contract.h"

enum { kSlots = 32, kTooMany = 1 << 15, kAWhile = 100 };  // requests; ms

/// Posts until the queue is full, and again after a while. Returns how many were taken.
static uint32_t fill(struct pair* pair, unsigned flags) {
  uint32_t taken = 0;
  int error = 0;
  for (int again = 0; again < 2; ++again) {
    while (taken < kTooMany &&
           (error = post_write(&pair->host, &pair->a, taken, IBV_WR_RDMA_WRITE, flags)) == 0)
      ++taken;
    EQUAL(error, ENOMEM);
    let_pass(kAWhile);
  }
  HOLDS(taken >= kSlots);
  HOLDS(taken <= pair->a.cap.max_send_wr);
  return taken;
}

static void sends_of(enum ibv_qp_type type) {
  struct pair pair;
  open_pair_of(&pair, type, kSlots, 1);
  const uint32_t slots = fill(&pair, IBV_SEND_SIGNALED);
  EQUAL(next_of(pair.a_cq).wr_id, 0);
  EQUAL(post_write(&pair.host, &pair.a, slots, IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED), 0);
  EQUAL(post_write(&pair.host, &pair.a, 0, IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED), ENOMEM);
  for (uint32_t i = 1; i <= slots; ++i) {
    const struct ibv_wc wc = next_of(pair.a_cq);
    EQUAL(wc.status, IBV_WC_SUCCESS);
    EQUAL(wc.wr_id, i);
  }
  EQUAL(fill(&pair, IBV_SEND_SIGNALED), slots);
  take(pair.a_cq, slots, IBV_WC_SUCCESS);
  close_pair(&pair);
}

static void sends(void) {
  sends_of(IBV_QPT_RC);
}
static void unconfirmed_sends(void) {
  sends_of(IBV_QPT_UC);
}

static void unsignaled(void) {
  struct pair pair;
  open_pair(&pair, kSlots, 1);
  const uint32_t slots = pair.a.cap.max_send_wr;
  for (int again = 0; again < 3; ++again) {
    for (uint32_t i = 1; i < slots; ++i)
      EQUAL(post_write(&pair.host, &pair.a, i, IBV_WR_RDMA_WRITE, 0), 0);
    EQUAL(post_write(&pair.host, &pair.a, 7, IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED), 0);
    let_pass(kAWhile);
    EQUAL(post_write(&pair.host, &pair.a, 8, IBV_WR_RDMA_WRITE, 0), ENOMEM);
    EQUAL(next_of(pair.a_cq).wr_id, 7);
  }
  (void)fill(&pair, 0);  // nothing tells the program of these: no slot is ever free again
  close_pair(&pair);
}

static void drained(void) {
  struct pair pair;
  open_pair(&pair, kSlots, 1);
  struct ibv_qp_attr a = {.qp_state = IBV_QPS_SQD};
  const int drains = ibv_modify_qp(pair.a.qp, &a, IBV_QP_STATE) == 0;
  HOLDS(drains || getenv("CONTRACT_DEVICE") != NULL);  // not all providers have it
  if (drains) {
    const uint32_t slots = fill(&pair, IBV_SEND_SIGNALED);
    a.qp_state = IBV_QPS_RTS;
    EQUAL(ibv_modify_qp(pair.a.qp, &a, IBV_QP_STATE), 0);
    take(pair.a_cq, slots, IBV_WC_SUCCESS);
  }
  close_pair(&pair);
}

static void in_error(void) {
  struct pair pair;
  open_pair(&pair, kSlots, kSlots);
  to_error(&pair.a);
  for (int again = 0; again < 2; ++again) {
    uint32_t sent = fill(&pair, 0), received = 0;
    while (received < kTooMany && post_receive(&pair.host, &pair.a, received) == 0) ++received;
    HOLDS(received >= kSlots);
    HOLDS(received <= pair.a.cap.max_recv_wr);
    take(pair.a_cq, sent + received, IBV_WC_WR_FLUSH_ERR);
  }
  close_pair(&pair);
}

static void receives(void) {
  struct pair pair;
  open_pair(&pair, kSlots, kSlots);
  uint32_t slots = 0;
  while (slots < kTooMany && post_receive(&pair.host, &pair.b, slots) == 0) ++slots;
  HOLDS(slots >= kSlots);
  HOLDS(slots <= pair.b.cap.max_recv_wr);
  for (uint32_t i = 0; i < kSlots; ++i)
    EQUAL(post_write(&pair.host, &pair.a, i, IBV_WR_RDMA_WRITE_WITH_IMM, IBV_SEND_SIGNALED), 0);
  take(pair.a_cq, kSlots, IBV_WC_SUCCESS);  // the receives are complete, too
  EQUAL(post_receive(&pair.host, &pair.b, slots), ENOMEM);
  EQUAL(next_of(pair.b_cq).wr_id, 0);
  EQUAL(post_receive(&pair.host, &pair.b, slots), 0);
  EQUAL(post_receive(&pair.host, &pair.b, slots), ENOMEM);
  take(pair.b_cq, kSlots - 1, IBV_WC_SUCCESS);
  for (uint32_t i = 1; i < kSlots; ++i) EQUAL(post_receive(&pair.host, &pair.b, slots + i), 0);
  EQUAL(post_receive(&pair.host, &pair.b, slots), ENOMEM);
  close_pair(&pair);
}

static void shared_receives(void) {
  struct host host;
  struct end a, b;
  open_host(&host);
  struct ibv_srq_init_attr wanted = {.attr = {.max_wr = kSlots, .max_sge = 1}};
  struct ibv_srq* srq = ibv_create_srq(host.pd, &wanted);
  NEEDED(srq != NULL);
  const uint32_t slots = wanted.attr.max_wr;
  struct ibv_cq *a_cq = make_cq(&host, 2 * slots, NULL), *b_cq = make_cq(&host, 2 * slots, NULL);
  make_end(&host, &a, IBV_QPT_RC, a_cq, a_cq, NULL, slots, 1);
  make_end(&host, &b, IBV_QPT_RC, b_cq, b_cq, srq, 1, 0);
  connect_both(&host, &a, &b);
  uint32_t posted = 0;
  while (posted < kTooMany && post_shared(&host, srq, posted) == 0) ++posted;
  HOLDS(posted >= kSlots);
  HOLDS(posted <= slots);
  for (uint32_t i = 0; i < posted; ++i)
    EQUAL(post_write(&host, &a, i, IBV_WR_RDMA_WRITE_WITH_IMM, IBV_SEND_SIGNALED), 0);
  take(a_cq, posted, IBV_WC_SUCCESS);
  EQUAL(post_shared(&host, srq, 0), ENOMEM);
  take(b_cq, 2, IBV_WC_SUCCESS);
  EQUAL(post_shared(&host, srq, 0), 0);
  EQUAL(post_shared(&host, srq, 0), 0);
  EQUAL(post_shared(&host, srq, 0), ENOMEM);
  destroy_end(&b);  // and with it the completions that nobody has polled
  for (uint32_t i = 2; i < posted; ++i) EQUAL(post_shared(&host, srq, 0), 0);
  EQUAL(post_shared(&host, srq, 0), ENOMEM);
  destroy_end(&a);
  EQUAL(ibv_destroy_srq(srq), 0);
  EQUAL(ibv_destroy_cq(a_cq), 0);
  EQUAL(ibv_destroy_cq(b_cq), 0);
  close_host(&host);
}

static void datagrams(void) {
  struct host host;
  struct end end;
  open_host(&host);
  struct ibv_cq* cq = make_cq(&host, 4 * kSlots, NULL);
  make_end(&host, &end, IBV_QPT_UD, cq, cq, NULL, kSlots, 1);
  connect_to(&host, &end, 0);
  struct ibv_ah_attr to = own_address(&host);
  struct ibv_ah* ah = ibv_create_ah(host.pd, &to);
  NEEDED(ah != NULL);
  struct ibv_sge sge = {(uintptr_t)host.bytes, 8, host.mr->lkey};
  struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND}, *bad = NULL;
  wr.send_flags = IBV_SEND_SIGNALED;
  wr.wr.ud.ah = ah;
  wr.wr.ud.remote_qpn = end.qp->qp_num;  // no receive is posted there: they are dropped
  uint32_t taken = 0;
  for (int again = 0; again < 2; ++again) {
    while (taken < kTooMany && ibv_post_send(end.qp, &wr, &bad) == 0) ++taken;
    let_pass(kAWhile);
  }
  HOLDS(taken >= kSlots);
  HOLDS(taken <= end.cap.max_send_wr);
  take(cq, taken, IBV_WC_SUCCESS);
  EQUAL(ibv_post_send(end.qp, &wr, &bad), 0);
  take(cq, 1, IBV_WC_SUCCESS);
  destroy_end(&end);
  EQUAL(ibv_destroy_ah(ah), 0);
  EQUAL(ibv_destroy_cq(cq), 0);
  close_host(&host);
}

const struct check flow_checks[] = {
    {"flow: a slot for a send is free when its completion was polled", sends},
    {"flow: so is one of an unreliable connection", unconfirmed_sends},
    {"flow: unsignaled sends count until a later completion was polled", unsignaled},
    {"flow: a send queue that is drained (SQD) takes as many requests as ever", drained},
    {"flow: a queue pair in error takes as many requests as ever", in_error},
    {"flow: a slot for a receive is free when its completion was polled", receives},
    {"flow: so is one of a shared receive queue", shared_receives},
    {"flow: so is one for a datagram", datagrams},
    {0},
};
