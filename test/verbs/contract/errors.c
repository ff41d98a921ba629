// SPDX-License-Identifier: Apache-2.0
// What calls return: 0 or an errno value, or null and errno; and what they have done then.
#include <errno.h>
#include <stddef.h>

#include "contract.h"

static void of_posting(void) {
  struct pair pair;
  open_pair(&pair, 8, 8);
  struct ibv_sge sges[64];
  for (int i = 0; i < 64; ++i)
    sges[i] = (struct ibv_sge){(uintptr_t)pair.host.bytes, 8, pair.host.mr->lkey};
  struct ibv_send_wr wr[3], *bad = NULL;
  for (int i = 0; i < 3; ++i) {
    wr[i] = (struct ibv_send_wr){.wr_id = (uint64_t)i, .sg_list = sges, .num_sge = 1};
    wr[i].next = i < 2 ? &wr[i + 1] : NULL;
    wr[i].opcode = IBV_WR_RDMA_WRITE;
    wr[i].send_flags = IBV_SEND_SIGNALED;
    wr[i].wr.rdma.remote_addr = (uintptr_t)pair.host.bytes + 64;
    wr[i].wr.rdma.rkey = pair.host.mr->rkey;
  }
  wr[1].num_sge = (int)pair.a.cap.max_send_sge + 1;
  EQUAL(ibv_post_send(pair.a.qp, wr, &bad), EINVAL);
  HOLDS(bad == &wr[1]);  // the first was posted, the third was not
  EQUAL(next_of(pair.a_cq).wr_id, 0);
  struct ibv_recv_wr receive = {.sg_list = sges, .num_sge = 1}, *bad_receive = NULL;
  receive.num_sge = (int)pair.a.cap.max_recv_sge + 1;
  EQUAL(ibv_post_recv(pair.a.qp, &receive, &bad_receive), EINVAL);
  HOLDS(bad_receive == &receive);
  struct ibv_wc wc;
  EQUAL(ibv_poll_cq(pair.a_cq, 1, &wc), 0);
  close_pair(&pair);
}

static void of_objects(void) {
  struct pair pair;
  open_pair(&pair, 8, 8);
  struct host* host = &pair.host;
  EQUAL(ibv_destroy_cq(pair.a_cq), EBUSY);
  EQUAL(ibv_dealloc_pd(host->pd), EBUSY);
  struct ibv_comp_channel* channel = ibv_create_comp_channel(host->context);
  NEEDED(channel != NULL);
  struct ibv_cq* cq = make_cq(host, 8, channel);
  EQUAL(ibv_destroy_comp_channel(channel), EBUSY);
  EQUAL(ibv_destroy_cq(cq), 0);
  EQUAL(ibv_destroy_comp_channel(channel), 0);
  struct ibv_srq_init_attr wanted = {.attr = {.max_wr = 8, .max_sge = 1}};
  struct ibv_srq* srq = ibv_create_srq(host->pd, &wanted);
  NEEDED(srq != NULL);
  struct end end;
  make_end(host, &end, IBV_QPT_RC, pair.a_cq, pair.a_cq, srq, 8, 0);
  EQUAL(ibv_destroy_srq(srq), EBUSY);
  destroy_end(&end);
  EQUAL(ibv_destroy_srq(srq), 0);
  close_pair(&pair);
}

static void of_arguments(void) {
  struct pair pair;
  open_pair(&pair, 8, 8);
  struct ibv_context* context = pair.host.context;
  struct ibv_device_attr device;
  EQUAL(ibv_query_device(context, &device), 0);
  errno = 0;
  HOLDS(ibv_create_cq(context, 0, NULL, NULL, 0) == NULL);
  EQUAL(errno, EINVAL);
  errno = 0;
  HOLDS(ibv_create_cq(context, 8, NULL, NULL, context->num_comp_vectors) == NULL);
  EQUAL(errno, EINVAL);
  struct ibv_qp_init_attr wanted = {.send_cq = pair.a_cq, .recv_cq = pair.a_cq};
  wanted.qp_type = IBV_QPT_RC;
  wanted.cap.max_send_wr = (uint32_t)device.max_qp_wr + 1;
  errno = 0;
  HOLDS(ibv_create_qp(pair.host.pd, &wanted) == NULL);
  HOLDS(errno == EINVAL || errno == ENOMEM);
  struct ibv_port_attr port;
  HOLDS(ibv_query_port(context, 0, &port) != 0);
  struct end end;
  make_end(&pair.host, &end, IBV_QPT_RC, pair.a_cq, pair.a_cq, NULL, 8, 8);
  struct ibv_qp_attr a = {.qp_state = IBV_QPS_RTS};
  EQUAL(ibv_modify_qp(end.qp, &a, IBV_QP_STATE), EINVAL);  // not from RESET
  a.qp_state = IBV_QPS_INIT;
  EQUAL(ibv_modify_qp(end.qp, &a, IBV_QP_STATE), EINVAL);  // lacks attributes
  struct ibv_qp_init_attr initial;
  EQUAL(ibv_query_qp(end.qp, &a, IBV_QP_STATE, &initial), 0);
  EQUAL(a.qp_state, IBV_QPS_RESET);
  destroy_end(&end);
  close_pair(&pair);
}

const struct check error_checks[] = {
    {"errors: of posting; bad_wr is the first that was not posted", of_posting},
    {"errors: what is used by others can't be destroyed", of_objects},
    {"errors: of arguments out of range, which change nothing", of_arguments},
    {0},
};
