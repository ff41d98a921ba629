// SPDX-License-Identifier: Apache-2.0
// What programs that were compiled long ago rely on: sizes and places of what they read and write
// without a call. x86-64 and other 64-bit systems with the same rules.
#include "verbs_shim/abi.hpp"

namespace mrc_verbs {

static_assert(sizeof(ibv_device) == 664);
static_assert(offsetof(ibv_device, node_type) == 16);
static_assert(offsetof(ibv_device, transport_type) == 20);
static_assert(offsetof(ibv_device, name) == 24);
static_assert(offsetof(ibv_device, dev_name) == 88);
static_assert(offsetof(ibv_device, dev_path) == 152);
static_assert(offsetof(ibv_device, ibdev_path) == 408);

static_assert(sizeof(ibv_context) == 328);
static_assert(offsetof(ibv_context, ops) == 8);
static_assert(sizeof(ibv_context_ops) == 256);
static_assert(offsetof(ibv_context, cmd_fd) == 264);
static_assert(offsetof(ibv_context, async_fd) == 268);
static_assert(offsetof(ibv_context, num_comp_vectors) == 272);
static_assert(offsetof(ibv_context, mutex) == 280);
static_assert(offsetof(ibv_context, abi_compat) == 320);
static_assert(offsetof(ibv_context_ops, alloc_mw) == 56);
static_assert(offsetof(ibv_context_ops, bind_mw) == 64);
static_assert(offsetof(ibv_context_ops, dealloc_mw) == 72);
static_assert(offsetof(ibv_context_ops, poll_cq) == 88);
static_assert(offsetof(ibv_context_ops, req_notify_cq) == 96);
static_assert(offsetof(ibv_context_ops, post_srq_recv) == 160);
static_assert(offsetof(ibv_context_ops, post_send) == 200);
static_assert(offsetof(ibv_context_ops, post_recv) == 208);

// Operations are found by their distance from the context, which is last.
static_assert(sizeof(verbs_context) == 648);
constexpr std::size_t kContext = offsetof(verbs_context, context);
static_assert(kContext == 320);
static_assert(kContext - offsetof(verbs_context, sz) == 8);
static_assert(kContext - offsetof(verbs_context, close_xrcd) == 24);
static_assert(kContext - offsetof(verbs_context, open_xrcd) == 32);
static_assert(kContext - offsetof(verbs_context, create_srq_ex) == 40);
static_assert(kContext - offsetof(verbs_context, get_srq_num) == 48);
static_assert(kContext - offsetof(verbs_context, create_qp_ex) == 56);
static_assert(kContext - offsetof(verbs_context, open_qp) == 64);
static_assert(kContext - offsetof(verbs_context, ibv_create_flow) == 80);
static_assert(kContext - offsetof(verbs_context, ibv_destroy_flow) == 96);
static_assert(kContext - offsetof(verbs_context, query_device_ex) == 104);
static_assert(kContext - offsetof(verbs_context, priv) == 112);
static_assert(kContext - offsetof(verbs_context, create_cq_ex) == 120);
static_assert(kContext - offsetof(verbs_context, query_rt_values) == 128);
static_assert(kContext - offsetof(verbs_context, modify_cq) == 184);
static_assert(kContext - offsetof(verbs_context, alloc_td) == 192);
static_assert(kContext - offsetof(verbs_context, dealloc_td) == 200);
static_assert(kContext - offsetof(verbs_context, alloc_parent_domain) == 208);
static_assert(kContext - offsetof(verbs_context, query_port) == 320);

static_assert(sizeof(ibv_qp) == 160);
static_assert(offsetof(ibv_qp, qp_context) == 8);
static_assert(offsetof(ibv_qp, pd) == 16);
static_assert(offsetof(ibv_qp, send_cq) == 24);
static_assert(offsetof(ibv_qp, recv_cq) == 32);
static_assert(offsetof(ibv_qp, srq) == 40);
static_assert(offsetof(ibv_qp, handle) == 48);
static_assert(offsetof(ibv_qp, qp_num) == 52);
static_assert(offsetof(ibv_qp, state) == 56);
static_assert(offsetof(ibv_qp, qp_type) == 60);
static_assert(offsetof(ibv_qp, mutex) == 64);
static_assert(offsetof(ibv_qp, cond) == 104);
static_assert(sizeof(ibv_qp_ex) == 352);
static_assert(offsetof(ibv_qp_ex, comp_mask) == 160);
static_assert(offsetof(ibv_qp_ex, wr_id) == 168);
static_assert(offsetof(ibv_qp_ex, wr_flags) == 176);
static_assert(offsetof(ibv_qp_ex, wr_atomic_cmp_swp) == 184);
static_assert(offsetof(ibv_qp_ex, wr_start) == 320);
static_assert(offsetof(ibv_qp_ex, wr_complete) == 328);
static_assert(offsetof(ibv_qp_ex, wr_abort) == 336);

static_assert(sizeof(ibv_cq) == 128);
static_assert(sizeof(ibv_cq_ex) == 288);
static_assert(offsetof(ibv_cq_ex, comp_mask) == sizeof(ibv_cq));
static_assert(offsetof(ibv_cq_ex, status) == 132);
static_assert(offsetof(ibv_cq_ex, wr_id) == 136);
static_assert(offsetof(ibv_cq_ex, start_poll) == 144);
static_assert(offsetof(ibv_cq_ex, next_poll) == 152);
static_assert(offsetof(ibv_cq_ex, end_poll) == 160);
static_assert(offsetof(ibv_cq_ex, read_opcode) == 168);
static_assert(offsetof(ibv_cq_ex, read_completion_wallclock_ns) == 280);
static_assert(offsetof(ibv_cq, channel) == offsetof(ibv_cq_ex, channel));
static_assert(offsetof(ibv_cq, cq_context) == offsetof(ibv_cq_ex, cq_context));
static_assert(offsetof(ibv_cq, cqe) == offsetof(ibv_cq_ex, cqe));
static_assert(offsetof(ibv_cq, mutex) == offsetof(ibv_cq_ex, mutex));
static_assert(offsetof(ibv_cq, comp_events_completed) ==
              offsetof(ibv_cq_ex, comp_events_completed));

static_assert(sizeof(ibv_mr) == 48);
static_assert(offsetof(ibv_mr, addr) == 16);
static_assert(offsetof(ibv_mr, length) == 24);
static_assert(offsetof(ibv_mr, handle) == 32);
static_assert(offsetof(ibv_mr, lkey) == 36);
static_assert(offsetof(ibv_mr, rkey) == 40);
static_assert(sizeof(ibv_comp_channel) == 16);
static_assert(offsetof(ibv_comp_channel, fd) == 8);
static_assert(offsetof(ibv_comp_channel, refcnt) == 12);
static_assert(sizeof(ibv_srq) == 128);
static_assert(sizeof(ibv_pd) == 16);
static_assert(sizeof(ibv_ah) == 24);
static_assert(sizeof(ibv_wc) == 48);
static_assert(sizeof(ibv_send_wr) == 128);
static_assert(sizeof(ibv_recv_wr) == 32);
static_assert(sizeof(ibv_port_attr) == 52);
static_assert(offsetof(ibv_port_attr, port_cap_flags2) == 48);
static_assert(sizeof(ibv_device_attr) == 232);
static_assert(sizeof(ibv_device_attr_ex) == 400);
static_assert(sizeof(ibv_gid_entry) == 32);
static_assert(sizeof(ibv_qp_attr) == 144);

}  // namespace mrc_verbs
