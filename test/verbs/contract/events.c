// SPDX-License-Identifier: Apache-2.0
// Events: of a completion queue one for each call of ibv_req_notify_cq(), whatever completes; and
// those that tell of what happens to queues.
#include <fcntl.h>
#include <poll.h>

#include "contract.h"

enum { kAWhile = 100, kLong = 60000 };  // ms

/// How many events there are, acknowledged. Waits for the first if there must be one.
static int events_of(struct ibv_comp_channel* channel, bool wait) {
  struct pollfd ready = {channel->fd, POLLIN, 0};
  if (wait) EQUAL(poll(&ready, 1, kLong), 1);
  let_pass(kAWhile);
  int n = 0;
  struct ibv_cq* cq = NULL;
  void* context = NULL;
  for (; ibv_get_cq_event(channel, &cq, &context) == 0; ++n) ibv_ack_cq_events(cq, 1);
  EQUAL(errno, EAGAIN);
  return n;
}

static void one_each(void) {
  struct host host;
  struct end a, b, broken;
  open_host(&host);
  struct ibv_comp_channel* channel = ibv_create_comp_channel(host.context);
  NEEDED(channel != NULL);
  NEEDED(fcntl(channel->fd, F_SETFL, O_NONBLOCK) == 0);
  struct ibv_cq* cq = make_cq(&host, 64, channel);
  make_end(&host, &a, IBV_QPT_RC, cq, cq, NULL, 16, 16);
  make_end(&host, &b, IBV_QPT_RC, cq, cq, NULL, 16, 16);
  make_end(&host, &broken, IBV_QPT_RC, cq, cq, NULL, 16, 16);
  connect_both(&host, &a, &b);
  to_init(&broken);
  to_error(&broken);
  EQUAL(events_of(channel, false), 0);
  for (int first = 0; first < 2; ++first) {  // a write completes, and a receive is flushed
    EQUAL(ibv_req_notify_cq(cq, 0), 0);
    if (first == 1) EQUAL(post_receive(&host, &broken, 1), 0);
    EQUAL(post_write(&host, &a, 1, IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED), 0);
    let_pass(kAWhile);
    if (first == 0) EQUAL(post_receive(&host, &broken, 1), 0);
    EQUAL(events_of(channel, true), 1);
    (void)next_of(cq);
    (void)next_of(cq);
  }
  EQUAL(ibv_req_notify_cq(cq, 1), 0);  // for solicited ones and errors
  EQUAL(post_write(&host, &a, 1, IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED), 0);
  (void)next_of(cq);
  EQUAL(events_of(channel, false), 0);
  EQUAL(post_write(&host, &broken, 1, IBV_WR_RDMA_WRITE, 0), 0);
  EQUAL(events_of(channel, true), 1);
  EQUAL(next_of(cq).status, IBV_WC_WR_FLUSH_ERR);
  destroy_end(&a);
  destroy_end(&b);
  destroy_end(&broken);
  EQUAL(ibv_destroy_cq(cq), 0);
  EQUAL(ibv_destroy_comp_channel(channel), 0);
  close_host(&host);
}

static void none_yet(void) {
  struct host host;
  open_host(&host);
  struct ibv_comp_channel* channel = ibv_create_comp_channel(host.context);
  NEEDED(channel != NULL);
  NEEDED(fcntl(channel->fd, F_SETFL, O_NONBLOCK) == 0);
  NEEDED(fcntl(host.context->async_fd, F_SETFL, O_NONBLOCK) == 0);
  struct ibv_cq* cq = NULL;
  void* context = NULL;
  errno = 0;
  EQUAL(ibv_get_cq_event(channel, &cq, &context), -1);
  EQUAL(errno, EAGAIN);
  struct ibv_async_event event;
  errno = 0;
  EQUAL(ibv_get_async_event(host.context, &event), -1);
  EQUAL(errno, EAGAIN);
  EQUAL(ibv_destroy_comp_channel(channel), 0);
  close_host(&host);
}

static void overrun(void) {
  struct host host;
  struct end a, b;
  open_host(&host);
  struct ibv_cq *small = make_cq(&host, 1, NULL), *cq = make_cq(&host, 4, NULL);
  const uint32_t sends = (uint32_t)small->cqe + 1;
  make_end(&host, &a, IBV_QPT_RC, small, cq, NULL, sends, 1);
  make_end(&host, &b, IBV_QPT_RC, cq, cq, NULL, 1, 1);
  connect_both(&host, &a, &b);
  for (uint32_t i = 0; i < sends; ++i)
    EQUAL(post_write(&host, &a, i, IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED), 0);
  struct ibv_async_event event = event_of(&host, IBV_EVENT_CQ_ERR);
  HOLDS(event.element.cq == small);
  ibv_ack_async_event(&event);
  destroy_end(&a);
  destroy_end(&b);
  EQUAL(ibv_destroy_cq(small), 0);
  EQUAL(ibv_destroy_cq(cq), 0);
  close_host(&host);
}

static void of_shared_receives(void) {
  struct host host;
  struct end a, b;
  open_host(&host);
  struct ibv_cq* cq = make_cq(&host, 16, NULL);
  struct ibv_srq* srq = make_srq(&host, 4);
  make_end(&host, &a, IBV_QPT_RC, cq, cq, NULL, 4, 1);
  make_end(&host, &b, IBV_QPT_RC, cq, cq, srq, 1, 0);
  connect_both(&host, &a, &b);
  EQUAL(post_shared(&host, srq, 1), 0);
  struct ibv_srq_attr limit = {.srq_limit = 1};
  EQUAL(ibv_modify_srq(srq, &limit, IBV_SRQ_LIMIT), 0);
  EQUAL(post_write(&host, &a, 2, IBV_WR_RDMA_WRITE_WITH_IMM, IBV_SEND_SIGNALED), 0);
  take(cq, 2, IBV_WC_SUCCESS);
  struct ibv_async_event event = event_of(&host, IBV_EVENT_SRQ_LIMIT_REACHED);
  HOLDS(event.element.srq == srq);
  ibv_ack_async_event(&event);
  EQUAL(ibv_query_srq(srq, &limit), 0);
  EQUAL(limit.srq_limit, 0);
  to_error(&b);
  event = event_of(&host, IBV_EVENT_QP_LAST_WQE_REACHED);
  HOLDS(event.element.qp == b.qp);
  ibv_ack_async_event(&event);
  destroy_end(&a);
  destroy_end(&b);
  EQUAL(ibv_destroy_srq(srq), 0);
  EQUAL(ibv_destroy_cq(cq), 0);
  close_host(&host);
}

const struct check event_checks[] = {
    {"events: none yet, of a descriptor that does not block", none_yet},
    {"events: a completion queue that overruns", overrun},
    {"events: of a shared receive queue: its limit, and a queue pair's last receive",
     of_shared_receives},
    {"events: one for each time that a queue is armed", one_each},
    {0},
};
