// SPDX-License-Identifier: Apache-2.0
// What libibverbs and its providers have between them. Programs link providers such as libmlx5, and
// the loader wants these symbols; none of them is called for an OpenMRC device. Each release names
// its node anew, so all symbols are in all nodes.
#include <cerrno>

#include "verbs_shim/address.hpp"
#include "verbs_shim/objects/context.hpp"

extern "C" {

#define MRC_PRIVATE __attribute__((visibility("default"), used))

MRC_PRIVATE int mrc_private_error() {
  return EOPNOTSUPP;
}
MRC_PRIVATE int mrc_private_minus_one() {
  errno = EOPNOTSUPP;
  return -1;
}
MRC_PRIVATE void* mrc_private_null() {
  errno = EOPNOTSUPP;
  return nullptr;
}
MRC_PRIVATE unsigned mrc_private_zero() {
  return 0;
}
MRC_PRIVATE void mrc_private_nothing() {}
MRC_PRIVATE const char* mrc_private_unknown() {
  return "unknown";
}
MRC_PRIVATE bool mrc_private_flag = false;
/// VerbsLibrary looks for it.
MRC_PRIVATE bool mrc_verbs_shim = true;

/// ibv_devinfo calls it. The kernel's numbers: 0 for InfiniBand and RoCE v1, 1 for RoCE v2.
MRC_PRIVATE int mrc_private_gid_type(ibv_context* context, std::uint8_t port, unsigned index,
                                     unsigned* type) {
  using namespace mrc_verbs;
  if (!has_port(Context::of(context).device(), port) || index >= kGidIndices) {
    errno = EINVAL;
    return -1;
  }
  *type = 1;
  return 0;
}

}  // extern "C"

/// `name` in all nodes, as an alias of `target`.
#define MRC_IN_ALL_NODES(target, name)  \
  __asm__(".symver " #target ", " #name \
          "@IBVERBS_PRIVATE_22\n"       \
          ".symver " #target ", " #name \
          "@IBVERBS_PRIVATE_25\n"       \
          ".symver " #target ", " #name \
          "@IBVERBS_PRIVATE_33\n"       \
          ".symver " #target ", " #name \
          "@IBVERBS_PRIVATE_34\n"       \
          ".symver " #target ", " #name \
          "@IBVERBS_PRIVATE_57\n"       \
          ".symver " #target ", " #name \
          "@IBVERBS_PRIVATE_59\n"       \
          ".symver " #target ", " #name \
          "@IBVERBS_PRIVATE_60\n"       \
          ".symver " #target ", " #name \
          "@IBVERBS_PRIVATE_64\n"       \
          ".symver " #target ", " #name "@IBVERBS_PRIVATE_65\n");

#define MRC_ERROR(name) MRC_IN_ALL_NODES(mrc_private_error, name)
MRC_ERROR(execute_ioctl)
MRC_ERROR(ibv_cmd_advise_mr)
MRC_ERROR(ibv_cmd_alloc_dm)
MRC_ERROR(ibv_cmd_alloc_dmah)
MRC_ERROR(ibv_cmd_alloc_mw)
MRC_ERROR(ibv_cmd_alloc_pd)
MRC_ERROR(ibv_cmd_attach_mcast)
MRC_ERROR(ibv_cmd_close_xrcd)
MRC_ERROR(ibv_cmd_create_ah)
MRC_ERROR(ibv_cmd_create_comp_cntr)
MRC_ERROR(ibv_cmd_create_counters)
MRC_ERROR(ibv_cmd_create_cq)
MRC_ERROR(ibv_cmd_create_cq_ex)
MRC_ERROR(ibv_cmd_create_cq_ex2)
MRC_ERROR(ibv_cmd_create_flow)
MRC_ERROR(ibv_cmd_create_flow_action_esp)
MRC_ERROR(ibv_cmd_create_qp)
MRC_ERROR(ibv_cmd_create_qp_ex)
MRC_ERROR(ibv_cmd_create_qp_ex2)
MRC_ERROR(ibv_cmd_create_rwq_ind_table)
MRC_ERROR(ibv_cmd_create_srq)
MRC_ERROR(ibv_cmd_create_srq_ex)
MRC_ERROR(ibv_cmd_create_wq)
MRC_ERROR(ibv_cmd_dealloc_mw)
MRC_ERROR(ibv_cmd_dealloc_pd)
MRC_ERROR(ibv_cmd_dereg_mr)
MRC_ERROR(ibv_cmd_destroy_ah)
MRC_ERROR(ibv_cmd_destroy_comp_cntr)
MRC_ERROR(ibv_cmd_destroy_counters)
MRC_ERROR(ibv_cmd_destroy_cq)
MRC_ERROR(ibv_cmd_destroy_flow)
MRC_ERROR(ibv_cmd_destroy_flow_action)
MRC_ERROR(ibv_cmd_destroy_qp)
MRC_ERROR(ibv_cmd_destroy_rwq_ind_table)
MRC_ERROR(ibv_cmd_destroy_srq)
MRC_ERROR(ibv_cmd_destroy_wq)
MRC_ERROR(ibv_cmd_detach_mcast)
MRC_ERROR(ibv_cmd_export_dmabuf_fd)
MRC_ERROR(ibv_cmd_free_dm)
MRC_ERROR(ibv_cmd_free_dmah)
MRC_ERROR(ibv_cmd_get_context)
MRC_ERROR(ibv_cmd_inc_comp_cntr)
MRC_ERROR(ibv_cmd_inc_err_comp_cntr)
MRC_ERROR(ibv_cmd_modify_cq)
MRC_ERROR(ibv_cmd_modify_flow_action_esp)
MRC_ERROR(ibv_cmd_modify_qp)
MRC_ERROR(ibv_cmd_modify_qp_ex)
MRC_ERROR(ibv_cmd_modify_srq)
MRC_ERROR(ibv_cmd_modify_wq)
MRC_ERROR(ibv_cmd_open_qp)
MRC_ERROR(ibv_cmd_open_xrcd)
MRC_ERROR(ibv_cmd_poll_cq)
MRC_ERROR(ibv_cmd_post_recv)
MRC_ERROR(ibv_cmd_post_send)
MRC_ERROR(ibv_cmd_post_srq_recv)
MRC_ERROR(ibv_cmd_qp_attach_comp_cntr)
MRC_ERROR(ibv_cmd_query_comp_cntr_caps)
MRC_ERROR(ibv_cmd_query_context)
MRC_ERROR(ibv_cmd_query_device)
MRC_ERROR(ibv_cmd_query_device_any)
MRC_ERROR(ibv_cmd_query_device_ex)
MRC_ERROR(ibv_cmd_query_mr)
MRC_ERROR(ibv_cmd_query_port)
MRC_ERROR(ibv_cmd_query_port_speed)
MRC_ERROR(ibv_cmd_query_qp)
MRC_ERROR(ibv_cmd_query_srq)
MRC_ERROR(ibv_cmd_read_comp_cntr)
MRC_ERROR(ibv_cmd_read_counters)
MRC_ERROR(ibv_cmd_read_err_comp_cntr)
MRC_ERROR(ibv_cmd_reg_dm_mr)
MRC_ERROR(ibv_cmd_reg_dmabuf_mr)
MRC_ERROR(ibv_cmd_reg_mr)
MRC_ERROR(ibv_cmd_reg_mr_ex)
MRC_ERROR(ibv_cmd_req_notify_cq)
MRC_ERROR(ibv_cmd_rereg_mr)
MRC_ERROR(ibv_cmd_resize_cq)
MRC_ERROR(ibv_cmd_set_comp_cntr)
MRC_ERROR(ibv_cmd_set_err_comp_cntr)
MRC_ERROR(ibv_get_fw_ver)

// Providers announce themselves, from constructors: each release under its own name.
__asm__(".symver mrc_private_nothing, verbs_register_driver_22@IBVERBS_PRIVATE_22");
__asm__(".symver mrc_private_nothing, verbs_register_driver_25@IBVERBS_PRIVATE_25");
__asm__(".symver mrc_private_nothing, verbs_register_driver_33@IBVERBS_PRIVATE_33");
__asm__(".symver mrc_private_nothing, verbs_register_driver_34@IBVERBS_PRIVATE_34");
__asm__(".symver mrc_private_nothing, verbs_register_driver_57@IBVERBS_PRIVATE_57");
__asm__(".symver mrc_private_nothing, verbs_register_driver_59@IBVERBS_PRIVATE_59");
__asm__(".symver mrc_private_nothing, verbs_register_driver_60@IBVERBS_PRIVATE_60");
__asm__(".symver mrc_private_nothing, verbs_register_driver_64@IBVERBS_PRIVATE_64");
__asm__(".symver mrc_private_nothing, verbs_register_driver_65@IBVERBS_PRIVATE_65");

MRC_IN_ALL_NODES(mrc_private_nothing, __verbs_log)
MRC_IN_ALL_NODES(mrc_private_nothing, verbs_init_cq)
MRC_IN_ALL_NODES(mrc_private_nothing, verbs_set_ops)
MRC_IN_ALL_NODES(mrc_private_nothing, verbs_uninit_context)
MRC_IN_ALL_NODES(mrc_private_null, _verbs_init_and_alloc_context)
MRC_IN_ALL_NODES(mrc_private_nothing, ibv_dmabuf_heap_destroy)
MRC_IN_ALL_NODES(mrc_private_nothing, ibv_dmabuf_heap_free)
MRC_IN_ALL_NODES(mrc_private_null, ibv_dmabuf_heap_alloc)
MRC_IN_ALL_NODES(mrc_private_null, ibv_dmabuf_heap_cc_shared_init)
MRC_IN_ALL_NODES(mrc_private_null, verbs_open_device)
MRC_IN_ALL_NODES(mrc_private_unknown, ibv_wr_opcode_str)
MRC_IN_ALL_NODES(mrc_private_minus_one, ibv_read_ibdev_sysfs_file)
MRC_IN_ALL_NODES(mrc_private_zero, __ioctl_final_num_attrs)
MRC_IN_ALL_NODES(mrc_private_gid_type, ibv_query_gid_type)
MRC_IN_ALL_NODES(mrc_private_flag, verbs_allow_disassociate_destroy)
