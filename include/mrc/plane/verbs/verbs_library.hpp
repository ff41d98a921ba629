// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>

/// The functions of libibverbs, found at run time: a program that uses no verbs planes needs no
/// library, and a plugin stays one file. The calls of the data path (posting, polling) go through
/// the context that the library makes, and are inline functions of <infiniband/verbs.h>.
namespace mrc::inline v0_1::port {

/// libibverbs.so.1, opened once per process and never closed (providers start threads and keep
/// state). A table of functions with libibverbs' own names and contracts. Any thread.
struct VerbsLibrary {
  /// The library. Throws mrc::Error (unsupported), which names the remedy, if it cannot be opened,
  /// lacks a function, or is OpenMRC's verbs shim.
  [[nodiscard]] static const VerbsLibrary& get();

  decltype(&::ibv_get_device_list) get_device_list = nullptr;    ///< ibv_get_device_list
  decltype(&::ibv_free_device_list) free_device_list = nullptr;  ///< ibv_free_device_list
  decltype(&::ibv_get_device_name) get_device_name = nullptr;    ///< ibv_get_device_name
  decltype(&::ibv_open_device) open_device = nullptr;            ///< ibv_open_device
  decltype(&::ibv_close_device) close_device = nullptr;          ///< ibv_close_device
  decltype(&::ibv_query_device) query_device = nullptr;          ///< ibv_query_device
  /// The exported function fills in the first fields of ibv_port_attr, up to `flags`.
  int (*query_port)(ibv_context*, std::uint8_t, ibv_port_attr*) = nullptr;
  decltype(&::_ibv_query_gid_ex) query_gid_ex = nullptr;               ///< _ibv_query_gid_ex
  decltype(&::ibv_get_async_event) get_async_event = nullptr;          ///< ibv_get_async_event
  decltype(&::ibv_ack_async_event) ack_async_event = nullptr;          ///< ibv_ack_async_event
  decltype(&::ibv_alloc_pd) alloc_pd = nullptr;                        ///< ibv_alloc_pd
  decltype(&::ibv_dealloc_pd) dealloc_pd = nullptr;                    ///< ibv_dealloc_pd
  decltype(&::ibv_reg_mr_iova2) reg_mr_iova2 = nullptr;                ///< ibv_reg_mr_iova2
  decltype(&::ibv_dereg_mr) dereg_mr = nullptr;                        ///< ibv_dereg_mr
  decltype(&::ibv_create_comp_channel) create_comp_channel = nullptr;  ///< ibv_create_comp_channel
  decltype(&::ibv_destroy_comp_channel) destroy_comp_channel =
      nullptr;                                             ///< ibv_destroy_comp_channel
  decltype(&::ibv_create_cq) create_cq = nullptr;          ///< ibv_create_cq
  decltype(&::ibv_destroy_cq) destroy_cq = nullptr;        ///< ibv_destroy_cq
  decltype(&::ibv_get_cq_event) get_cq_event = nullptr;    ///< ibv_get_cq_event
  decltype(&::ibv_ack_cq_events) ack_cq_events = nullptr;  ///< ibv_ack_cq_events
  decltype(&::ibv_create_srq) create_srq = nullptr;        ///< ibv_create_srq
  decltype(&::ibv_destroy_srq) destroy_srq = nullptr;      ///< ibv_destroy_srq
  decltype(&::ibv_create_qp) create_qp = nullptr;          ///< ibv_create_qp
  decltype(&::ibv_modify_qp) modify_qp = nullptr;          ///< ibv_modify_qp
  decltype(&::ibv_destroy_qp) destroy_qp = nullptr;        ///< ibv_destroy_qp
  decltype(&::ibv_create_ah) create_ah = nullptr;          ///< ibv_create_ah
  decltype(&::ibv_destroy_ah) destroy_ah = nullptr;        ///< ibv_destroy_ah
};

}  // namespace mrc::inline v0_1::port
