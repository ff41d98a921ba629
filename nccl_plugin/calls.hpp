// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "nccl_plugin/abi/types.hpp"

/// The functions of the plugin as NCCL calls them, the same for all versions of the interface: C
/// pointers in, a result out, never an exception. Failures get one line in NCCL's log. The tables
/// (tables.cpp) adapt them to each version.
///
/// A communication object (`comm`) is used by one thread at a time, except for registrations, which
/// any thread may make.
namespace mrc_nccl::calls {

using nccl_abi::Result;

/// Properties of a device, of which each version takes what it has.
struct Properties {
  const char* name = nullptr;      ///< valid until the process ends
  const char* pci_path = nullptr;  ///< the same; null: none
  std::uint64_t guid = 0;
  int speed = 0;  ///< Mb/s
  int rail = -1;
  int plane = -1;
  int member_count = 0;
  int members[nccl_abi::kMaxDevicesPerNicV12] = {};
};
/// Values that are the same for all devices.
inline constexpr int kMaxComms = 1 << 14;
inline constexpr int kMaxGroupedReceives = 8;
inline constexpr std::size_t kMaxMessage = std::size_t{1} << 30;

Result init(int version, void** context, const nccl_abi::CommConfig* config,
            nccl_abi::Logger logger, nccl_abi::ProfilerCallback profiler) noexcept;
Result finalize(void* context) noexcept;
Result devices(int* count) noexcept;
Result properties(int device, Properties& properties) noexcept;
Result make_virtual_device(int* device, const int* members, int count) noexcept;
Result set_attributes(void* context, const nccl_abi::Attributes* attributes) noexcept;

Result listen(void* context, int device, void* handle, void** listen_comm) noexcept;
Result connect(void* context, int device, void* handle, void** send_comm) noexcept;
Result accept(void* listen_comm, void** receive_comm) noexcept;
Result close_listen(void* listen_comm) noexcept;
Result close_connection(void* comm) noexcept;

Result reg_mr(void* comm, void* data, std::size_t size, int type, void** mr) noexcept;
Result reg_mr_dma_buf(void* comm, void** mr) noexcept;
Result dereg_mr(void* comm, void* mr) noexcept;

Result isend(void* send_comm, void* data, std::size_t size, int tag, void* mr, void* parent,
             void** request) noexcept;
/// Size is int or std::size_t; `parents` may be null.
template <class Size>
Result irecv(void* receive_comm, int n, void** data, const Size* sizes, const int* tags, void** mrs,
             void** parents, void** request) noexcept;
Result iflush(void* receive_comm, void** request) noexcept;
Result test(void* request, int* done, int* sizes) noexcept;

}  // namespace mrc_nccl::calls
