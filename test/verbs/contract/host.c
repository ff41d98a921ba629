// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "contract.h"

enum { kMemory = 1 << 16, kPatience = 60 };  // bytes; seconds after which something hangs

static atomic_int failures;

void failed(const char* file, int line, const char* what, long long is, long long wanted) {
  ++failures;
  printf("%s:%d: %s is %lld, not %lld\n", file, line, what, is, wanted);
  fflush(stdout);
}

bool has_failed(void) {
  return failures > 0;
}

void give_up(const char* file, int line, const char* what) {
  printf("%s:%d: %s: %s\n", file, line, what, strerror(errno));
  fflush(stdout);
  _Exit(2);
}

double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

void let_pass(unsigned milliseconds) {
  poll(NULL, 0, (int)milliseconds);
}

void open_host(struct host* host) {
  const char* wanted = getenv("CONTRACT_DEVICE");
  struct ibv_device** list = ibv_get_device_list(NULL);
  NEEDED(list != NULL);
  struct ibv_device** at = list;
  while (*at != NULL && wanted != NULL && strcmp(ibv_get_device_name(*at), wanted) != 0) ++at;
  NEEDED(*at != NULL);
  memset(host, 0, sizeof *host);
  host->context = ibv_open_device(*at);
  NEEDED(host->context != NULL);
  ibv_free_device_list(list);
  host->pd = ibv_alloc_pd(host->context);
  NEEDED(host->pd != NULL);
  host->bytes = calloc(1, kMemory);
  NEEDED(host->bytes != NULL);
  host->mr = ibv_reg_mr(host->pd, host->bytes, kMemory,
                        IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);
  NEEDED(host->mr != NULL);
  NEEDED(ibv_query_gid(host->context, 1, 0, &host->gid) == 0);
  struct ibv_port_attr port;
  NEEDED(ibv_query_port(host->context, 1, &port) == 0);
  host->lid = port.lid;
}

void close_host(struct host* host) {
  EQUAL(ibv_dereg_mr(host->mr), 0);
  EQUAL(ibv_dealloc_pd(host->pd), 0);
  EQUAL(ibv_close_device(host->context), 0);
  free(host->bytes);
}

struct ibv_ah_attr own_address(const struct host* host) {
  return (struct ibv_ah_attr){
      .is_global = 1, .grh = {.dgid = host->gid, .hop_limit = 1}, .dlid = host->lid, .port_num = 1};
}

struct ibv_async_event event_of(struct host* host, enum ibv_event_type type) {
  struct ibv_async_event event;
  for (;;) {
    struct pollfd ready = {host->context->async_fd, POLLIN, 0};
    NEEDED(poll(&ready, 1, (int)(kPatience * 1000)) == 1);
    NEEDED(ibv_get_async_event(host->context, &event) == 0);
    if (event.event_type == type) return event;
    ibv_ack_async_event(&event);
  }
}

struct ibv_cq* make_cq(struct host* host, uint32_t entries, struct ibv_comp_channel* channel) {
  struct ibv_cq* cq = ibv_create_cq(host->context, (int)entries, NULL, channel, 0);
  NEEDED(cq != NULL);
  return cq;
}

void make_end(struct host* host, struct end* end, enum ibv_qp_type type, struct ibv_cq* send_cq,
              struct ibv_cq* receive_cq, struct ibv_srq* srq, uint32_t sends, uint32_t receives) {
  struct ibv_qp_init_attr wanted = {
      .send_cq = send_cq,
      .recv_cq = receive_cq,
      .srq = srq,
      .cap = {.max_send_wr = sends, .max_recv_wr = receives, .max_send_sge = 1, .max_recv_sge = 1},
      .qp_type = type,
  };
  end->qp = ibv_create_qp(host->pd, &wanted);
  NEEDED(end->qp != NULL);
  end->cap = wanted.cap;
}

void destroy_end(struct end* end) {
  EQUAL(ibv_destroy_qp(end->qp), 0);
}

struct step step_to(const struct host* host, const struct end* end, enum ibv_qp_state state,
                    uint32_t qpn) {
  const bool rc = end->qp->qp_type == IBV_QPT_RC, ud = end->qp->qp_type == IBV_QPT_UD;
  struct step step = {.attributes = {.qp_state = state}, .mask = IBV_QP_STATE};
  struct ibv_qp_attr* a = &step.attributes;
  if (state == IBV_QPS_INIT) {
    a->port_num = 1;
    a->qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
    step.mask |= IBV_QP_PKEY_INDEX | IBV_QP_PORT | (ud ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS);
  } else if (state == IBV_QPS_RTR && !ud) {
    a->path_mtu = IBV_MTU_1024;
    a->dest_qp_num = qpn;
    a->max_dest_rd_atomic = 1;
    a->min_rnr_timer = 1;
    a->ah_attr = own_address(host);
    step.mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
    if (rc) step.mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
  } else if (state == IBV_QPS_RTS) {
    a->timeout = 14;
    a->retry_cnt = a->rnr_retry = 7;
    a->max_rd_atomic = 1;
    step.mask |= IBV_QP_SQ_PSN;
    if (rc)
      step.mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
  }
  return step;
}

static void go_to(const struct host* host, struct end* end, enum ibv_qp_state state, uint32_t qpn) {
  struct step step = step_to(host, end, state, qpn);
  NEEDED(ibv_modify_qp(end->qp, &step.attributes, step.mask) == 0);
}

void to_init(struct end* end) {
  go_to(NULL, end, IBV_QPS_INIT, 0);
}

void to_error(struct end* end) {
  go_to(NULL, end, IBV_QPS_ERR, 0);
}

enum ibv_qp_state state_of(struct end* end) {
  struct ibv_qp_attr a;
  struct ibv_qp_init_attr initial;
  EQUAL(ibv_query_qp(end->qp, &a, IBV_QP_STATE, &initial), 0);
  return a.qp_state;
}

void connect_to(struct host* host, struct end* end, uint32_t qpn) {
  go_to(host, end, IBV_QPS_INIT, qpn);
  go_to(host, end, IBV_QPS_RTR, qpn);
  go_to(host, end, IBV_QPS_RTS, qpn);
}

void connect_both(struct host* host, struct end* a, struct end* b) {
  connect_to(host, a, b->qp->qp_num);
  connect_to(host, b, a->qp->qp_num);
}

void open_pair(struct pair* pair, uint32_t sends, uint32_t receives) {
  open_pair_of(pair, IBV_QPT_RC, sends, receives);
}

void open_pair_of(struct pair* pair, enum ibv_qp_type type, uint32_t sends, uint32_t receives) {
  open_host(&pair->host);
  // Twice as many as asked for: providers round up what they grant.
  pair->a_cq = make_cq(&pair->host, 2 * (sends + receives), NULL);
  pair->b_cq = make_cq(&pair->host, 2 * (sends + receives), NULL);
  make_end(&pair->host, &pair->a, type, pair->a_cq, pair->a_cq, NULL, sends, receives);
  make_end(&pair->host, &pair->b, type, pair->b_cq, pair->b_cq, NULL, sends, receives);
  connect_both(&pair->host, &pair->a, &pair->b);
}

void close_pair(struct pair* pair) {
  destroy_end(&pair->a);
  destroy_end(&pair->b);
  EQUAL(ibv_destroy_cq(pair->a_cq), 0);
  EQUAL(ibv_destroy_cq(pair->b_cq), 0);
  close_host(&pair->host);
}

int post_write(struct host* host, struct end* end, uint64_t id, enum ibv_wr_opcode opcode,
               unsigned flags) {
  struct ibv_sge sge = {(uintptr_t)host->bytes, 8, host->mr->lkey};
  struct ibv_send_wr request = {.wr_id = id, .sg_list = &sge, .num_sge = 1, .opcode = opcode};
  struct ibv_send_wr* bad = NULL;
  request.send_flags = flags;
  request.wr.rdma.remote_addr = (uintptr_t)host->bytes + kMemory / 2;
  request.wr.rdma.rkey = host->mr->rkey;
  return ibv_post_send(end->qp, &request, &bad);
}

int post_receive(struct host* host, struct end* end, uint64_t id) {
  struct ibv_sge sge = {(uintptr_t)host->bytes + 64, 64, host->mr->lkey};
  struct ibv_recv_wr request = {.wr_id = id, .sg_list = &sge, .num_sge = 1}, *bad = NULL;
  return ibv_post_recv(end->qp, &request, &bad);
}

int post_shared(struct host* host, struct ibv_srq* srq, uint64_t id) {
  struct ibv_sge sge = {(uintptr_t)host->bytes + 64, 64, host->mr->lkey};
  struct ibv_recv_wr request = {.wr_id = id, .sg_list = &sge, .num_sge = 1}, *bad = NULL;
  return ibv_post_srq_recv(srq, &request, &bad);
}

struct ibv_srq* make_srq(struct host* host, uint32_t receives) {
  struct ibv_srq_init_attr wanted = {.attr = {.max_wr = receives, .max_sge = 1}};
  struct ibv_srq* srq = ibv_create_srq(host->pd, &wanted);
  NEEDED(srq != NULL);
  return srq;
}

struct ibv_wc next_of(struct ibv_cq* cq) {
  struct ibv_wc wc;
  const double end = now() + kPatience;
  int got = 0;
  for (unsigned polls = 0; got == 0 && now() < end; ++polls) {
    got = ibv_poll_cq(cq, 1, &wc);
    if (got == 0 && polls > 1000) let_pass(1);  // others may need the processor
  }
  NEEDED(got == 1);
  return wc;
}

void take(struct ibv_cq* cq, uint32_t count, enum ibv_wc_status status) {
  for (; count > 0; --count) EQUAL(next_of(cq).status, status);
}

static bool selected(const char* name, int argc, char** argv) {
  for (int i = 1; i < argc; ++i)
    if (strncmp(name, argv[i], strlen(argv[i])) == 0) return true;
  return argc < 2;
}

int main(int argc, char** argv) {
  const struct check* const all[] = {flow_checks,  order_checks, thread_checks,  event_checks,
                                     error_checks, state_checks, lifetime_checks};
  int run = 0, bad = 0;
  for (size_t i = 0; i < sizeof all / sizeof *all; ++i) {
    for (const struct check* check = all[i]; check->name != NULL; ++check) {
      if (!selected(check->name, argc, argv)) continue;
      failures = 0;
      check->run();
      ++run;
      bad += failures > 0;
      printf("%s %s\n", failures > 0 ? "not ok" : "ok", check->name);
      fflush(stdout);
    }
  }
  if (run == 0) printf("no check has such a name\n");
  return run == 0 || bad > 0;
}
