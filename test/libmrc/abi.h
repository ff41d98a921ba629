// SPDX-License-Identifier: Apache-2.0
/* Sizes and offsets of the structures in mrc.h and mrc_ctl.h, which programs have compiled in.
 * Included by a C program for each version of the API, and by one in C++. */
#pragma once

#include <mrc_ctl.h>
#include <stddef.h>

#ifdef __cplusplus
#define PIN(condition) static_assert(condition, #condition)
#else
#define PIN(condition) _Static_assert(condition, #condition)
#endif
#define SIZE(type, bytes) PIN(sizeof(struct type) == (bytes))
#define AT(type, member, offset) PIN(offsetof(struct type, member) == (offset))

SIZE(mrc_device_attr, 20);
AT(mrc_device_attr, mrc_protocol_version, 0);
AT(mrc_device_attr, wimm_attr.max_wimm, 4);
AT(mrc_device_attr, wimm_attr.max_wimm_dest, 6);
AT(mrc_device_attr, mpr_attr.max_mpr, 8);
AT(mrc_device_attr, mpr_attr.mpr_resolution, 9);
AT(mrc_device_attr, qp_attr.max_qp_hint, 12);
AT(mrc_device_attr, cap, 16);

SIZE(mrc_context_attr, 8);
AT(mrc_context_attr, mrc_api_version_used, 0);
AT(mrc_context_attr, mrc_vendor_api_version_used, 4);

SIZE(mrc_qp_hint_attr, 140);
AT(mrc_qp_hint_attr, num_qps_per_peer, 0);
AT(mrc_qp_hint_attr, num_send_peers, 4);
AT(mrc_qp_hint_attr, num_remote_recv_peers, 8);
AT(mrc_qp_hint_attr, vendor_cfg, 12);
SIZE(mrc_qp_hint_init_attr, 140);
AT(mrc_qp_hint_init_attr, attr, 0);

SIZE(mrc_qp_init_attr, 72);
AT(mrc_qp_init_attr, qp_context, 0);
AT(mrc_qp_init_attr, send_cq, 8);
AT(mrc_qp_init_attr, recv_cq, 16);
AT(mrc_qp_init_attr, cap, 24);
AT(mrc_qp_init_attr, sq_sig_all, 44);
AT(mrc_qp_init_attr, pd, 48);
AT(mrc_qp_init_attr, send_ops_flags, 56);
AT(mrc_qp_init_attr, protocol_version, 64);

SIZE(mrc_qp_attr, 176);
AT(mrc_qp_attr, mpr.mpr, 0);
AT(mrc_qp_attr, mpr.mpr_dest, 1);
AT(mrc_qp_attr, wimm.max_wimm, 2);
AT(mrc_qp_attr, wimm.max_wimm_dest, 4);
AT(mrc_qp_attr, timeout, 6);
AT(mrc_qp_attr, profile.ev_profile_id, 8);
AT(mrc_qp_attr, profile.cc_profile_id, 16);
AT(mrc_qp_attr, retry.linear_cnt, 24);
AT(mrc_qp_attr, retry.exp_cnt, 25);
AT(mrc_qp_attr, qp_hint, 32);
AT(mrc_qp_attr, cap, 40);
AT(mrc_qp_attr, vendor_cfg, 44);

SIZE(mrc_async_event, 16);
AT(mrc_async_event, element.port_num, 0);
AT(mrc_async_event, event_type, 8);

SIZE(mrc_ctl_device_attr, 72);
AT(mrc_ctl_device_attr, mrc_ctl_protocol_version, 0);
AT(mrc_ctl_device_attr, ev.ev_max_fmt_profiles, 4);
AT(mrc_ctl_device_attr, ev.ev_max_profiles, 8);
AT(mrc_ctl_device_attr, ev.ev_max_count, 12);
AT(mrc_ctl_device_attr, ev.ev_free_count, 16);
AT(mrc_ctl_device_attr, ev.ev_max_count_profile, 20);
AT(mrc_ctl_device_attr, ev.ev_count_align, 24);
AT(mrc_ctl_device_attr, ev.ev_max_width, 28);
AT(mrc_ctl_device_attr, ev.ev_fmt_mode_mask, 32);
AT(mrc_ctl_device_attr, ev.ev_mode_mask, 36);
AT(mrc_ctl_device_attr, ev.ev_op_max_entries, 40);
AT(mrc_ctl_device_attr, cc.cc_max_profiles, 48);
AT(mrc_ctl_device_attr, cc.algorithms, 56);
AT(mrc_ctl_device_attr, phy_port_mask, 64);
AT(mrc_ctl_device_attr, opt_attr, 68);

SIZE(mrc_ctl_port_attr, 4);
SIZE(mrc_ctl_ev_fmt_field, 1);

SIZE(mrc_ctl_ev_fmt_profile_attr, 168);
AT(mrc_ctl_ev_fmt_profile_attr, profile_state, 0);
AT(mrc_ctl_ev_fmt_profile_attr, cur_profile_state, 4);
AT(mrc_ctl_ev_fmt_profile_attr, ev_fmt_mode, 8);
AT(mrc_ctl_ev_fmt_profile_attr, ev_fmt_op.op, 16);
AT(mrc_ctl_ev_fmt_profile_attr, ev_fmt_op.fmt_fields, 24);
AT(mrc_ctl_ev_fmt_profile_attr, ev_fmt_op.fmt_field_count, 32);
AT(mrc_ctl_ev_fmt_profile_attr, vendor_cfg, 40);

SIZE(mrc_ctl_ev, 33);
AT(mrc_ctl_ev, val, 0);
AT(mrc_ctl_ev, port, 32);

SIZE(mrc_ctl_ev_field, 20);
AT(mrc_ctl_ev_field, width, 0);
AT(mrc_ctl_ev_field, init_val, 4);
AT(mrc_ctl_ev_field, min_val, 8);
AT(mrc_ctl_ev_field, max_val, 12);
AT(mrc_ctl_ev_field, mask, 16);

SIZE(mrc_ctl_ev_op_entry, 76);
AT(mrc_ctl_ev_op_entry, ev, 0);
AT(mrc_ctl_ev_op_entry, ev_new, 33);
AT(mrc_ctl_ev_op_entry, state, 68);
AT(mrc_ctl_ev_op_entry, flags, 72);

SIZE(mrc_ctl_ev_profile_attr, 216);
AT(mrc_ctl_ev_profile_attr, profile_state, 0);
AT(mrc_ctl_ev_profile_attr, cur_profile_state, 4);
AT(mrc_ctl_ev_profile_attr, ev_mode, 8);
AT(mrc_ctl_ev_profile_attr, ev_fmt_profile_id, 16);
AT(mrc_ctl_ev_profile_attr, ev_count, 24);
AT(mrc_ctl_ev_profile_attr, ev_min_active, 28);
AT(mrc_ctl_ev_profile_attr, ev_event_mask, 32);
AT(mrc_ctl_ev_profile_attr, ev_op.op, 40);
AT(mrc_ctl_ev_profile_attr, ev_op.entries, 48);
AT(mrc_ctl_ev_profile_attr, ev_op.entry_count, 56);
AT(mrc_ctl_ev_profile_attr, ev_fields_op.op, 64);
AT(mrc_ctl_ev_profile_attr, ev_fields_op.fields, 72);
AT(mrc_ctl_ev_profile_attr, ev_fields_op.field_count, 80);
AT(mrc_ctl_ev_profile_attr, vendor_cfg, 88);

SIZE(mrc_ctl_cc_profile_attr, 152);
AT(mrc_ctl_cc_profile_attr, profile_state, 0);
AT(mrc_ctl_cc_profile_attr, cur_profile_state, 4);
AT(mrc_ctl_cc_profile_attr, algorithm, 8);
AT(mrc_ctl_cc_profile_attr, cc_config, 16);
AT(mrc_ctl_cc_profile_attr, vendor_cfg, 24);

SIZE(mrc_ctl_cc_nscc_cfg, 52);
AT(mrc_ctl_cc_nscc_cfg, disable_qa, 0);
AT(mrc_ctl_cc_nscc_cfg, adjust_bytes_threshold, 4);
AT(mrc_ctl_cc_nscc_cfg, adjust_period_threshold, 8);
AT(mrc_ctl_cc_nscc_cfg, base_rtt, 12);
AT(mrc_ctl_cc_nscc_cfg, eta, 16);
AT(mrc_ctl_cc_nscc_cfg, fi, 20);
AT(mrc_ctl_cc_nscc_cfg, fi_scale, 24);
AT(mrc_ctl_cc_nscc_cfg, gamma, 28);
AT(mrc_ctl_cc_nscc_cfg, max_md_jump, 32);
AT(mrc_ctl_cc_nscc_cfg, max_cwnd, 36);
AT(mrc_ctl_cc_nscc_cfg, qa_gate, 40);
AT(mrc_ctl_cc_nscc_cfg, qa_threshold, 44);
AT(mrc_ctl_cc_nscc_cfg, target_delay, 48);

AT(mrc_ctl_ev_event, profile_id, 0);
AT(mrc_ctl_ev_event, ev, 8);
AT(mrc_ctl_ev_event, drop_count, 44);
#if MRC_CTL_API_VER_USED >= MRC_CTL_API_VER(1, 0, 1)
AT(mrc_ctl_ev_event, state, 48);
SIZE(mrc_ctl_ev_event, 56);
#else
SIZE(mrc_ctl_ev_event, 48);
#endif

SIZE(mrc_ctl_ep_req, 88);
AT(mrc_ctl_ep_req, req_id, 0);
AT(mrc_ctl_ep_req, sgid, 8);
AT(mrc_ctl_ep_req, dgid, 24);
AT(mrc_ctl_ep_req, ev_fmt_mode, 40);
AT(mrc_ctl_ep_req, req_ev, 44);
AT(mrc_ctl_ep_req, op.port_status_update.port_status, 80);

SIZE(mrc_ctl_ep_rsp, 12);
AT(mrc_ctl_ep_rsp, req_id, 0);
AT(mrc_ctl_ep_rsp, port, 2);
AT(mrc_ctl_ep_rsp, rtt, 4);
AT(mrc_ctl_ep_rsp, adj_svc_time, 8);

/* Numbers in masks, and of states. */
PIN(MRC_API_CURRENT_VERSION == 0x01000001 && MRC_CTL_API_CURRENT_VERSION == 0x01000001);
PIN(MRC_VENDOR_API_CURRENT_VERSION == 0x01000000 &&
    MRC_CTL_VENDOR_API_CURRENT_VERSION == 0x01000000);
PIN(MRC_QP_HINT == 0x80 && MRC_QP_RETRY_CNT == 0x100 && MRC_QP_CAP == 0x200);
PIN((int)MRC_QP_VENDOR_CFG == -2147483647 - 1);
PIN(MRC_QP_EV_PROFILE_ID == 0x20 && MRC_QP_CC_PROFILE_ID == 0x40 && MRC_QP_TIMEOUT == 0x10);
PIN(MRC_CTL_PROFILE_INIT == 0 && MRC_CTL_PROFILE_OFFLINE == 1 && MRC_CTL_PROFILE_ONLINE == 2);
PIN((int)MRC_CTL_EV_UNKNOWN == -2147483647 - 1 && MRC_CTL_EV_DENIED == 4);
PIN(MRC_CTL_EV_MODE_GEN == 4 && MRC_CTL_EV_FMT_MODE_UDP == 4 && MRC_CTL_EV_FMT_MODE_SRV6 == 2);
PIN(MRC_CTL_EP_OP_EV_PROBE == 0 && MRC_CTL_EP_OP_PORT_STATUS_UPDATE == 1);
PIN(MRC_CTL_EV_PROFILE_EV_FIELDS_OP == 0x100 && MRC_CTL_OPT_CAP_EP_OP_EV_PROBE == 0x20);
