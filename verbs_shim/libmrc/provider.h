// SPDX-License-Identifier: Apache-2.0
/* Between libmrc.so.1, which programs call, and the library of the verbs context that they open,
 * which does the work: a table of functions. The context's device points to it
 * (ibv_device::_ops, whose members are null in the devices of rdma-core), so libmrc needs no symbol
 * of libibverbs, of which a process may have loaded several. */
#pragma once

#include <stdint.h>

#include "verbs_shim/libmrc/mrc_ctl.h"

/* The functions of mrc.h and mrc_ctl.h that need a device: MRC_CALL(result, what it is if there is
 * no provider, name, parameters, arguments). First those that take a context of verbs. */
#define MRC_PROVIDER_CONTEXT_CALLS(MRC_CALL)                                                \
  MRC_CALL(int, -1, mrc_query_device,                                                       \
           (struct ibv_context * context, struct mrc_device_attr * attr, int* supported),   \
           (context, attr, supported))                                                      \
  MRC_CALL(struct mrc_context*, 0, mrc_create_context,                                      \
           (struct ibv_context * context, struct mrc_context_attr * attr), (context, attr)) \
  MRC_CALL(int, -1, mrc_ctl_query_device,                                                   \
           (struct ibv_context * context, struct mrc_ctl_device_attr * attr), (context, attr))

/* Then those that take an object of MRC. Some of them wait: MRC_WAIT for those. */
#define MRC_PROVIDER_OBJECT_CALLS(MRC_CALL) MRC_PROVIDER_ALL_OBJECT_CALLS(MRC_CALL, MRC_CALL)
#define MRC_PROVIDER_ALL_OBJECT_CALLS(MRC_CALL, MRC_WAIT)                                          \
  MRC_CALL(int, -1, mrc_destroy_context, (struct mrc_context * mrc), (mrc))                        \
  MRC_CALL(int, EINVAL, mrc_create_comp_channel,                                                   \
           (struct mrc_context * mrc, struct mrc_comp_channel * *channel), (mrc, channel))         \
  MRC_CALL(int, -1, mrc_get_comp_channel_fd, (struct mrc_comp_channel * channel, int* fd),         \
           (channel, fd))                                                                          \
  MRC_CALL(int, EINVAL, mrc_destroy_comp_channel, (struct mrc_comp_channel * channel), (channel))  \
  MRC_CALL(struct mrc_cq*, 0, mrc_create_cq,                                                       \
           (struct mrc_context * mrc, int cqe, void* cq_context, struct mrc_comp_channel* channel, \
            int comp_vector),                                                                      \
           (mrc, cqe, cq_context, channel, comp_vector))                                           \
  MRC_CALL(int, -1, mrc_poll_cq, (struct mrc_cq * cq, int num_entries, struct ibv_wc* wc),         \
           (cq, num_entries, wc))                                                                  \
  MRC_CALL(int, EINVAL, mrc_req_notify_cq, (struct mrc_cq * cq, int solicited_only),               \
           (cq, solicited_only))                                                                   \
  MRC_WAIT(int, -1, mrc_get_cq_event,                                                              \
           (struct mrc_comp_channel * channel, struct mrc_cq * *cq, void** cq_context),            \
           (channel, cq, cq_context))                                                              \
  MRC_CALL(int, EINVAL, mrc_destroy_cq, (struct mrc_cq * cq), (cq))                                \
  MRC_CALL(struct mrc_qp_hint*, 0, mrc_create_qp_hint,                                             \
           (struct mrc_context * mrc, struct mrc_qp_hint_init_attr * attr), (mrc, attr))           \
  MRC_CALL(int, -1, mrc_destroy_qp_hint, (struct mrc_qp_hint * hint), (hint))                      \
  MRC_CALL(int, -1, mrc_query_qp_hint,                                                             \
           (struct mrc_qp_hint * hint, struct mrc_qp_hint_attr * attr, int mask),                  \
           (hint, attr, mask))                                                                     \
  MRC_CALL(int, -1, mrc_modify_qp_hint,                                                            \
           (struct mrc_qp_hint * hint, struct mrc_qp_hint_attr * attr, int mask),                  \
           (hint, attr, mask))                                                                     \
  MRC_CALL(struct mrc_qp*, 0, mrc_create_qp,                                                       \
           (struct mrc_context * mrc, struct mrc_qp_init_attr * attr), (mrc, attr))                \
  MRC_CALL(int, EINVAL, mrc_destroy_qp, (struct mrc_qp * qp), (qp))                                \
  MRC_CALL(int, EINVAL, mrc_query_qp,                                                              \
           (struct mrc_qp * qp, struct ibv_qp_attr * ibv_attr, int ibv_mask,                       \
            struct mrc_qp_attr* mrc_attr, int mrc_mask, struct mrc_qp_init_attr* init_attr),       \
           (qp, ibv_attr, ibv_mask, mrc_attr, mrc_mask, init_attr))                                \
  MRC_CALL(int, EINVAL, mrc_modify_qp,                                                             \
           (struct mrc_qp * qp, struct ibv_qp_attr * ibv_attr, int ibv_mask,                       \
            struct mrc_qp_attr* mrc_attr, int mrc_mask),                                           \
           (qp, ibv_attr, ibv_mask, mrc_attr, mrc_mask))                                           \
  MRC_CALL(int, -1, mrc_get_qpn, (struct mrc_qp * qp, uint32_t * qpn), (qp, qpn))                  \
  MRC_CALL(int, EINVAL, mrc_post_recv,                                                             \
           (struct mrc_qp * qp, struct ibv_recv_wr * wr, struct ibv_recv_wr * *bad_wr),            \
           (qp, wr, bad_wr))                                                                       \
  MRC_CALL(int, EINVAL, mrc_post_send,                                                             \
           (struct mrc_qp * qp, struct ibv_send_wr * wr, struct ibv_send_wr * *bad_wr),            \
           (qp, wr, bad_wr))                                                                       \
  MRC_WAIT(int, -1, mrc_get_async_event,                                                           \
           (struct mrc_context * mrc, struct mrc_async_event * event), (mrc, event))               \
  MRC_CALL(int, -1, mrc_ctl_query_port,                                                            \
           (struct mrc_context * mrc, uint8_t port, struct mrc_ctl_port_attr * attr, int mask),    \
           (mrc, port, attr, mask))                                                                \
  MRC_CALL(int, -1, mrc_ctl_modify_port,                                                           \
           (struct mrc_context * mrc, uint8_t port, struct mrc_ctl_port_attr * attr, int mask),    \
           (mrc, port, attr, mask))                                                                \
  MRC_CALL(int, -1, mrc_ctl_query_ev_fmt_profile,                                                  \
           (struct mrc_context * mrc, uint64_t id, struct mrc_ctl_ev_fmt_profile_attr * attr,      \
            int mask),                                                                             \
           (mrc, id, attr, mask))                                                                  \
  MRC_CALL(int, -1, mrc_ctl_modify_ev_fmt_profile,                                                 \
           (struct mrc_context * mrc, uint64_t id, struct mrc_ctl_ev_fmt_profile_attr * attr,      \
            int mask),                                                                             \
           (mrc, id, attr, mask))                                                                  \
  MRC_CALL(                                                                                        \
      int, -1, mrc_ctl_query_ev_profile,                                                           \
      (struct mrc_context * mrc, uint64_t id, struct mrc_ctl_ev_profile_attr * attr, int mask),    \
      (mrc, id, attr, mask))                                                                       \
  MRC_CALL(                                                                                        \
      int, -1, mrc_ctl_modify_ev_profile,                                                          \
      (struct mrc_context * mrc, uint64_t id, struct mrc_ctl_ev_profile_attr * attr, int mask),    \
      (mrc, id, attr, mask))                                                                       \
  MRC_CALL(                                                                                        \
      int, -1, mrc_ctl_query_cc_profile,                                                           \
      (struct mrc_context * mrc, uint64_t id, struct mrc_ctl_cc_profile_attr * attr, int mask),    \
      (mrc, id, attr, mask))                                                                       \
  MRC_CALL(                                                                                        \
      int, -1, mrc_ctl_modify_cc_profile,                                                          \
      (struct mrc_context * mrc, uint64_t id, struct mrc_ctl_cc_profile_attr * attr, int mask),    \
      (mrc, id, attr, mask))                                                                       \
  MRC_CALL(struct mrc_cq*, 0, mrc_ctl_create_ev_event_cq,                                          \
           (struct mrc_context * mrc, int cqe, void* cq_context, struct mrc_comp_channel* channel, \
            int comp_vector),                                                                      \
           (mrc, cqe, cq_context, channel, comp_vector))                                           \
  MRC_CALL(int, -EINVAL, mrc_ctl_poll_ev_event,                                                    \
           (struct mrc_cq * cq, int num_entries, struct mrc_ctl_ev_event* ev_event),               \
           (cq, num_entries, ev_event))                                                            \
  MRC_CALL(int, -1, mrc_ctl_ep_batch_send_wait,                                                    \
           (struct mrc_context * mrc, uint8_t req_tc, enum mrc_ctl_ep_op_type op_type,             \
            struct mrc_ctl_ep_req * req, int num_req, uint32_t rsp_timeout_ns,                     \
            struct mrc_ctl_ep_rsp* rsp, int* num_rsp),                                             \
           (mrc, req_tc, op_type, req, num_req, rsp_timeout_ns, rsp, num_rsp))

/* At the beginning of the table: by it libmrc knows a device of OpenMRC. The version of the table
 * is the last digit; libraries of different ones do not work together. */
#define MRC_PROVIDER_MAGIC "OpenMRC libmrc 1"

struct mrc_provider {
  char magic[sizeof MRC_PROVIDER_MAGIC + 7];
  void (*mrc_ack_cq_events)(struct mrc_cq* cq, unsigned int nevents);
  void (*mrc_ack_async_event)(struct mrc_async_event* event);
#define MRC_PROVIDER_MEMBER(result, otherwise, name, parameters, arguments) \
  result(*name) parameters;
  MRC_PROVIDER_CONTEXT_CALLS(MRC_PROVIDER_MEMBER)
  MRC_PROVIDER_OBJECT_CALLS(MRC_PROVIDER_MEMBER)
#undef MRC_PROVIDER_MEMBER
};
