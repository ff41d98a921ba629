// SPDX-License-Identifier: Apache-2.0
// Order: the requests of a queue complete in the order in which they were posted.
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>

#include "contract.h"

enum { kWrites = 200000, kSeconds = 15, kSlots = 64 };

/// Queue pairs that come, fail with requests posted and go, on the same completion queue.
struct others {
  struct host* host;
  struct ibv_cq* cq;
  atomic_bool stop;
};

static void* come_and_go(void* argument) {
  struct others* others = argument;
  while (!others->stop) {
    struct end end;
    make_end(others->host, &end, IBV_QPT_RC, others->cq, others->cq, NULL, 4, 4);
    to_init(&end);
    EQUAL(post_receive(others->host, &end, 1), 0);
    to_error(&end);
    EQUAL(post_receive(others->host, &end, 2), 0);
    EQUAL(post_write(others->host, &end, 3, IBV_WR_RDMA_WRITE, 0), 0);
    destroy_end(&end);
  }
  return NULL;
}

static void beside_others(void) {
  struct pair pair;
  open_pair(&pair, kSlots, 64);
  struct others others = {&pair.host, pair.a_cq, false};
  pthread_t thread;
  NEEDED(pthread_create(&thread, NULL, come_and_go, &others) == 0);
  uint64_t posted = 0, done = 0;
  for (const double end = now() + kSeconds; done < kWrites && now() < end && !has_failed();) {
    while (posted < kWrites && posted - done < kSlots &&
           post_write(&pair.host, &pair.a, posted, IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED) == 0)
      ++posted;
    const struct ibv_wc wc = next_of(pair.a_cq);
    if (wc.qp_num != pair.a.qp->qp_num) continue;
    EQUAL(wc.wr_id, done);
    EQUAL(wc.status, IBV_WC_SUCCESS);
    ++done;
  }
  others.stop = true;
  pthread_join(thread, NULL);
  struct ibv_wc wc;
  while (ibv_poll_cq(pair.a_cq, 1, &wc) > 0)  // the others are gone, and theirs with them
    HOLDS(wc.qp_num == pair.a.qp->qp_num);
  close_pair(&pair);
}

static void flushed(void) {
  struct pair pair;
  open_pair(&pair, kSlots, kSlots);
  uint64_t posted = 0, send = 0, receive = 1000;
  for (; posted < kSlots / 2; ++posted) {
    EQUAL(post_write(&pair.host, &pair.a, posted, IBV_WR_RDMA_WRITE, 0), 0);
    EQUAL(post_receive(&pair.host, &pair.a, 1000 + posted), 0);
  }
  to_error(&pair.a);
  for (; posted < kSlots; ++posted) {
    EQUAL(post_write(&pair.host, &pair.a, posted, IBV_WR_RDMA_WRITE, 0), 0);
    EQUAL(post_receive(&pair.host, &pair.a, 1000 + posted), 0);
  }
  while (send < kSlots || receive < 1000 + kSlots) {
    const struct ibv_wc wc = next_of(pair.a_cq);
    EQUAL(wc.status, IBV_WC_WR_FLUSH_ERR);
    if (wc.wr_id >= 1000) {
      EQUAL(wc.wr_id, receive++);
    } else {  // some of the first were complete before, and not signaled
      HOLDS(wc.wr_id >= send && (wc.wr_id == send || wc.wr_id <= kSlots / 2));
      send = wc.wr_id + 1;
    }
  }
  close_pair(&pair);
}

const struct check order_checks[] = {
    {"order: other queue pairs of the completion queue do not disturb it", beside_others},
    {"order: requests posted in the error state come after those before", flushed},
    {0},
};
