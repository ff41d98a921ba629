// SPDX-License-Identifier: Apache-2.0
// What calls return: 0 or an errno value, or null and errno; and what they have done then.
#include <stddef.h>
#include <sys/mman.h>

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
  wr[0].next = NULL;
  wr[0].send_flags |= IBV_SEND_INLINE;
  sges[0].length = pair.a.cap.max_inline_data + 1;
  const int too_long = ibv_post_send(pair.a.qp, wr, &bad);
  HOLDS(too_long == EINVAL || too_long == ENOMEM);
  struct ibv_recv_wr receives[2] = {{.next = &receives[1], .sg_list = sges, .num_sge = 1},
                                    {.sg_list = sges}};
  struct ibv_recv_wr* bad_receive = NULL;
  receives[1].num_sge = (int)pair.a.cap.max_recv_sge + 1;
  EQUAL(ibv_post_recv(pair.a.qp, receives, &bad_receive), EINVAL);
  HOLDS(bad_receive == &receives[1]);
  struct ibv_srq_init_attr wanted = {.attr = {.max_wr = 8, .max_sge = 1}};
  struct ibv_srq* srq = ibv_create_srq(pair.host.pd, &wanted);
  NEEDED(srq != NULL);
  receives[1].num_sge = (int)wanted.attr.max_sge + 1;
  EQUAL(ibv_post_srq_recv(srq, receives, &bad_receive), EINVAL);
  HOLDS(bad_receive == &receives[1]);
  EQUAL(ibv_destroy_srq(srq), 0);
  struct ibv_wc wc;
  EQUAL(ibv_poll_cq(pair.a_cq, 1, &wc), 0);
  close_pair(&pair);
}

static void of_objects(void) {
  struct host host;
  open_host(&host);
  struct ibv_ah_attr to = own_address(&host);
  struct ibv_comp_channel* channel = ibv_create_comp_channel(host.context);
  NEEDED(channel != NULL);
  struct ibv_cq *sends = make_cq(&host, 8, channel), *receives = make_cq(&host, 8, NULL);
  struct ibv_srq* srq = make_srq(&host, 8);
  struct end end;
  make_end(&host, &end, IBV_QPT_RC, sends, receives, srq, 8, 0);
  EQUAL(ibv_destroy_cq(sends), EBUSY);
  EQUAL(ibv_destroy_cq(receives), EBUSY);
  EQUAL(ibv_destroy_srq(srq), EBUSY);
  EQUAL(ibv_destroy_comp_channel(channel), EBUSY);
  destroy_end(&end);
  EQUAL(ibv_destroy_cq(sends), 0);
  EQUAL(ibv_destroy_cq(receives), 0);
  EQUAL(ibv_destroy_comp_channel(channel), 0);
  // A protection domain, by each that is in it alone.
  EQUAL(ibv_dereg_mr(host.mr), 0);
  EQUAL(ibv_dealloc_pd(host.pd), EBUSY);
  EQUAL(ibv_destroy_srq(srq), 0);
  struct ibv_ah* ah = ibv_create_ah(host.pd, &to);
  NEEDED(ah != NULL);
  EQUAL(ibv_dealloc_pd(host.pd), EBUSY);
  EQUAL(ibv_destroy_ah(ah), 0);
  host.mr = ibv_reg_mr(host.pd, host.bytes, 64, IBV_ACCESS_LOCAL_WRITE);
  NEEDED(host.mr != NULL);
  EQUAL(ibv_dealloc_pd(host.pd), EBUSY);
  close_host(&host);
}

static void of_queues(void) {
  struct host host;
  open_host(&host);
  struct ibv_device_attr device;
  EQUAL(ibv_query_device(host.context, &device), 0);
  NOTHING(ibv_create_cq(host.context, 0, NULL, NULL, 0), EINVAL);
  NOTHING(ibv_create_cq(host.context, device.max_cqe + 1, NULL, NULL, 0), EINVAL);
  NOTHING(ibv_create_cq(host.context, 8, NULL, NULL, host.context->num_comp_vectors), EINVAL);
  struct ibv_cq* cq = make_cq(&host, 8, NULL);
  const int entries = cq->cqe;
  EQUAL(ibv_resize_cq(cq, 0), EINVAL);
  HOLDS(ibv_resize_cq(cq, device.max_cqe + 1) != 0);
  EQUAL(cq->cqe, entries);
  const int error = ibv_resize_cq(cq, 2 * entries);
  HOLDS(error == 0 || error == EOPNOTSUPP || error == ENOSYS);
  HOLDS(error == 0 ? cq->cqe >= 2 * entries : cq->cqe == entries);

  struct ibv_qp_init_attr queue_pair = {.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC};
  queue_pair.cap.max_send_wr = (uint32_t)device.max_qp_wr + 1;
  errno = 0;
  HOLDS(ibv_create_qp(host.pd, &queue_pair) == NULL);
  HOLDS(errno == EINVAL || errno == ENOMEM);
  EQUAL(ibv_destroy_cq(cq), 0);

  struct ibv_srq_init_attr wanted = {.attr = {.max_wr = (uint32_t)device.max_srq_wr + 1}};
  NOTHING(ibv_create_srq(host.pd, &wanted), EINVAL);
  wanted.attr = (struct ibv_srq_attr){.max_wr = 8, .max_sge = (uint32_t)device.max_srq_sge + 1};
  NOTHING(ibv_create_srq(host.pd, &wanted), EINVAL);
  struct ibv_srq* srq = make_srq(&host, 8);
  struct ibv_srq_attr a, changed;
  EQUAL(ibv_query_srq(srq, &a), 0);
  changed = (struct ibv_srq_attr){.srq_limit = a.max_wr + 1};
  EQUAL(ibv_modify_srq(srq, &changed, IBV_SRQ_LIMIT), EINVAL);
  if ((device.device_cap_flags & IBV_DEVICE_SRQ_RESIZE) == 0) {
    changed = (struct ibv_srq_attr){.max_wr = 2 * a.max_wr, .srq_limit = 1};
    const int fixed = ibv_modify_srq(srq, &changed, IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT);
    HOLDS(fixed == EOPNOTSUPP || fixed == ENOSYS || fixed == EINVAL);
  }
  EQUAL(ibv_query_srq(srq, &changed), 0);
  EQUAL(changed.max_wr, a.max_wr);
  EQUAL(changed.srq_limit, 0);
  EQUAL(ibv_destroy_srq(srq), 0);
  close_host(&host);
}

static void of_memory(void) {
  struct host host;
  open_host(&host);
  const unsigned without_local[] = {IBV_ACCESS_REMOTE_WRITE, IBV_ACCESS_REMOTE_ATOMIC,
                                    IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ};
  for (size_t i = 0; i < sizeof without_local / sizeof *without_local; ++i)
    NOTHING(ibv_reg_mr(host.pd, host.bytes, 64, without_local[i]), EINVAL);
  enum { kPages = 1 << 16 };
  void* gone = mmap(NULL, kPages, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  NEEDED(gone != MAP_FAILED);
  NEEDED(munmap(gone, kPages) == 0);
  NOTHING(ibv_reg_mr(host.pd, gone, kPages, IBV_ACCESS_LOCAL_WRITE), EFAULT);
  close_host(&host);
}

static void of_addresses(void) {
  struct host host;
  open_host(&host);
  struct ibv_port_attr port;
  EQUAL(ibv_query_port(host.context, 1, &port), 0);
  // Far out: a device may answer for more than it lists.
  const uint8_t no_port[] = {0, UINT8_MAX};
  const int no_index[] = {-1, 1 << 20};
  union ibv_gid gid;
  __be16 key;
  struct ibv_ah_attr to;
  for (int i = 0; i < 2; ++i) {
    struct ibv_port_attr unused;
    EQUAL(ibv_query_port(host.context, no_port[i], &unused), EINVAL);
    EQUAL(ibv_query_gid(host.context, no_port[i], 0, &gid), -1);
    EQUAL(ibv_query_pkey(host.context, no_port[i], 0, &key), -1);
    EQUAL(ibv_query_gid(host.context, 1, no_index[i], &gid), -1);
    EQUAL(ibv_query_pkey(host.context, 1, no_index[i], &key), -1);
    to = own_address(&host);
    to.port_num = no_port[i];
    NOTHING(ibv_create_ah(host.pd, &to), EINVAL);
  }
  to = own_address(&host);
  to.grh.sgid_index = UINT8_MAX;
  if (port.gid_tbl_len < UINT8_MAX) NOTHING(ibv_create_ah(host.pd, &to), EINVAL);
  to = own_address(&host);
  to.is_global = 0;  // RoCE knows peers by their GID alone
  if (port.link_layer == IBV_LINK_LAYER_ETHERNET) NOTHING(ibv_create_ah(host.pd, &to), EINVAL);
  close_host(&host);
}

/// A device may have none: it says so, and refuses them.
static void of_multicast(void) {
  struct host host;
  struct end connected, datagrams;
  open_host(&host);
  struct ibv_device_attr device;
  EQUAL(ibv_query_device(host.context, &device), 0);
  struct ibv_cq* cq = make_cq(&host, 16, NULL);
  make_end(&host, &connected, IBV_QPT_RC, cq, cq, NULL, 4, 4);
  make_end(&host, &datagrams, IBV_QPT_UD, cq, cq, NULL, 4, 4);
  to_init(&datagrams);
  const union ibv_gid group = {.raw = {0xFF, 0x0E, [15] = 0x77}};
  const int none = device.max_mcast_grp == 0 ? EOPNOTSUPP : 0;
  int error = ibv_attach_mcast(connected.qp, &group, 0);
  HOLDS(error == EINVAL || error == EOPNOTSUPP);
  error = ibv_attach_mcast(datagrams.qp, &host.gid, 0);  // no group
  HOLDS(error == EINVAL || error == EOPNOTSUPP);
  EQUAL(ibv_attach_mcast(datagrams.qp, &group, 0), none);
  EQUAL(ibv_detach_mcast(datagrams.qp, &group, 0), none);
  destroy_end(&connected);
  destroy_end(&datagrams);
  EQUAL(ibv_destroy_cq(cq), 0);
  close_host(&host);
}

const struct check error_checks[] = {
    {"errors: of posting; bad_wr is the first that was not posted", of_posting},
    {"errors: what is used by others can't be destroyed", of_objects},
    {"errors: of sizes of queues, which change nothing", of_queues},
    {"errors: of memory", of_memory},
    {"errors: of ports, indices and addresses out of range", of_addresses},
    {"errors: of multicast", of_multicast},
    {0},
};
