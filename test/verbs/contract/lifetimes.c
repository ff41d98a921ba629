// SPDX-License-Identifier: Apache-2.0
// How long things live: completions, slots, and what a request points to.
#include <errno.h>
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

const struct check lifetime_checks[] = {
    {"lifetimes: completions go with their queue pair, and others stay", completions_go_with_it},
    {"lifetimes: a reset empties queues and frees their slots", reset_empties},
    {"lifetimes: a request and its inline data are copied", requests_are_copied},
    {0},
};
