// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "nccl_plugin/abi/properties.hpp"
#include "nccl_plugin/abi/types.hpp"

/// ncclNet_vN_t: the table of functions that a plugin exports as ncclNetPlugin_vN. A function that
/// is null is not supported. Units are bytes; `type` of a registration is kHostMemory or
/// kCudaMemory.
namespace nccl_abi {

struct NetV6 {
  using Properties = PropertiesV6;
  using Size = int;  ///< of a send
  const char* name;
  Result (*init)(Logger logger);
  Result (*devices)(int* count);
  Result (*get_properties)(int device, PropertiesV6* properties);
  Result (*listen)(int device, void* handle, void** listen_comm);
  Result (*connect)(int device, void* handle, void** send_comm);
  Result (*accept)(void* listen_comm, void** receive_comm);
  Result (*reg_mr)(void* comm, void* data, int size, int type, void** mr);
  Result (*reg_mr_dma_buf)(void* comm, void* data, std::size_t size, int type, std::uint64_t offset,
                           int fd, void** mr);
  Result (*dereg_mr)(void* comm, void* mr);
  Result (*isend)(void* send_comm, void* data, int size, int tag, void* mr, void** request);
  Result (*irecv)(void* receive_comm, int n, void** data, int* sizes, int* tags, void** mrs,
                  void** request);
  Result (*iflush)(void* receive_comm, int n, void** data, int* sizes, void** mrs, void** request);
  Result (*test)(void* request, int* done, int* sizes);
  Result (*close_send)(void* send_comm);
  Result (*close_receive)(void* receive_comm);
  Result (*close_listen)(void* listen_comm);
};
static_assert(sizeof(NetV6) == 136);

/// Versions 7 and 8: connections with device handles. RegSize is the type of a registration's size.
template <class P, class RegSize>
struct NetV7Like {
  using Properties = P;
  using Size = int;
  const char* name;
  Result (*init)(Logger logger);
  Result (*devices)(int* count);
  Result (*get_properties)(int device, P* properties);
  Result (*listen)(int device, void* handle, void** listen_comm);
  Result (*connect)(int device, void* handle, void** send_comm, DeviceHandle** device_handle);
  Result (*accept)(void* listen_comm, void** receive_comm, DeviceHandle** device_handle);
  Result (*reg_mr)(void* comm, void* data, RegSize size, int type, void** mr);
  Result (*reg_mr_dma_buf)(void* comm, void* data, std::size_t size, int type, std::uint64_t offset,
                           int fd, void** mr);
  Result (*dereg_mr)(void* comm, void* mr);
  Result (*isend)(void* send_comm, void* data, int size, int tag, void* mr, void** request);
  Result (*irecv)(void* receive_comm, int n, void** data, int* sizes, int* tags, void** mrs,
                  void** request);
  Result (*iflush)(void* receive_comm, int n, void** data, int* sizes, void** mrs, void** request);
  Result (*test)(void* request, int* done, int* sizes);
  Result (*close_send)(void* send_comm);
  Result (*close_receive)(void* receive_comm);
  Result (*close_listen)(void* listen_comm);
  Result (*get_device_mr)(void* comm, void* mr, void** device_mr);
  Result (*irecv_consumed)(void* receive_comm, int n, void* request);
};
using NetV7 = NetV7Like<PropertiesV7, int>;
using NetV8 = NetV7Like<PropertiesV8, std::size_t>;
static_assert(sizeof(NetV7) == 152 && sizeof(NetV8) == 152);

/// Sends and receives over 2 GiB, and virtual devices.
struct NetV9 {
  using Properties = PropertiesV9;
  using Size = std::size_t;
  const char* name;
  Result (*init)(Logger logger);
  Result (*devices)(int* count);
  Result (*get_properties)(int device, PropertiesV9* properties);
  Result (*listen)(int device, void* handle, void** listen_comm);
  Result (*connect)(int device, void* handle, void** send_comm, DeviceHandle** device_handle);
  Result (*accept)(void* listen_comm, void** receive_comm, DeviceHandle** device_handle);
  Result (*reg_mr)(void* comm, void* data, std::size_t size, int type, void** mr);
  Result (*reg_mr_dma_buf)(void* comm, void* data, std::size_t size, int type, std::uint64_t offset,
                           int fd, void** mr);
  Result (*dereg_mr)(void* comm, void* mr);
  Result (*isend)(void* send_comm, void* data, std::size_t size, int tag, void* mr, void** request);
  Result (*irecv)(void* receive_comm, int n, void** data, std::size_t* sizes, int* tags, void** mrs,
                  void** request);
  Result (*iflush)(void* receive_comm, int n, void** data, int* sizes, void** mrs, void** request);
  Result (*test)(void* request, int* done, int* sizes);
  Result (*close_send)(void* send_comm);
  Result (*close_receive)(void* receive_comm);
  Result (*close_listen)(void* listen_comm);
  Result (*get_device_mr)(void* comm, void* mr, void** device_mr);
  Result (*irecv_consumed)(void* receive_comm, int n, void* request);
  Result (*make_virtual_device)(int* device, VirtualDeviceV9* members);
};
static_assert(sizeof(NetV9) == 160);

/// A traffic class per connection, and a profiler.
struct NetV10 {
  using Properties = PropertiesV9;  // the same layout
  using Size = std::size_t;
  const char* name;
  Result (*init)(Logger logger, ProfilerCallback profiler);
  Result (*devices)(int* count);
  Result (*get_properties)(int device, PropertiesV9* properties);
  Result (*listen)(int device, void* handle, void** listen_comm);
  Result (*connect)(int device, CommConfig* config, void* handle, void** send_comm,
                    DeviceHandle** device_handle);
  Result (*accept)(void* listen_comm, void** receive_comm, DeviceHandle** device_handle);
  Result (*reg_mr)(void* comm, void* data, std::size_t size, int type, void** mr);
  Result (*reg_mr_dma_buf)(void* comm, void* data, std::size_t size, int type, std::uint64_t offset,
                           int fd, void** mr);
  Result (*dereg_mr)(void* comm, void* mr);
  Result (*isend)(void* send_comm, void* data, std::size_t size, int tag, void* mr, void* parent,
                  void** request);
  Result (*irecv)(void* receive_comm, int n, void** data, std::size_t* sizes, int* tags, void** mrs,
                  void** parents, void** request);
  Result (*iflush)(void* receive_comm, int n, void** data, int* sizes, void** mrs, void** request);
  Result (*test)(void* request, int* done, int* sizes);
  Result (*close_send)(void* send_comm);
  Result (*close_receive)(void* receive_comm);
  Result (*close_listen)(void* listen_comm);
  Result (*get_device_mr)(void* comm, void* mr, void** device_mr);
  Result (*irecv_consumed)(void* receive_comm, int n, void* request);
  Result (*make_virtual_device)(int* device, VirtualDeviceV9* members);
};
static_assert(sizeof(NetV10) == 160);

/// Versions 11 and 12: a context per communicator.
template <class P, class V>
struct NetV11Like {
  using Properties = P;
  using Virtual = V;
  using Size = std::size_t;
  const char* name;
  Result (*init)(void** context, std::uint64_t comm_id, CommConfig* config, Logger logger,
                 ProfilerCallback profiler);
  Result (*devices)(int* count);
  Result (*get_properties)(int device, P* properties);
  Result (*listen)(void* context, int device, void* handle, void** listen_comm);
  Result (*connect)(void* context, int device, void* handle, void** send_comm,
                    DeviceHandle** device_handle);
  Result (*accept)(void* listen_comm, void** receive_comm, DeviceHandle** device_handle);
  Result (*reg_mr)(void* comm, void* data, std::size_t size, int type, void** mr);
  Result (*reg_mr_dma_buf)(void* comm, void* data, std::size_t size, int type, std::uint64_t offset,
                           int fd, void** mr);
  Result (*dereg_mr)(void* comm, void* mr);
  Result (*isend)(void* send_comm, void* data, std::size_t size, int tag, void* mr, void* parent,
                  void** request);
  Result (*irecv)(void* receive_comm, int n, void** data, std::size_t* sizes, int* tags, void** mrs,
                  void** parents, void** request);
  Result (*iflush)(void* receive_comm, int n, void** data, int* sizes, void** mrs, void** request);
  Result (*test)(void* request, int* done, int* sizes);
  Result (*close_send)(void* send_comm);
  Result (*close_receive)(void* receive_comm);
  Result (*close_listen)(void* listen_comm);
  Result (*get_device_mr)(void* comm, void* mr, void** device_mr);
  Result (*irecv_consumed)(void* receive_comm, int n, void* request);
  Result (*make_virtual_device)(int* device, V* members);
  Result (*finalize)(void* context);
  Result (*set_net_attributes)(void* context, Attributes* attributes);
};
using NetV11 = NetV11Like<PropertiesV11, VirtualDeviceV9>;
using NetV12 = NetV11Like<PropertiesV12, VirtualDeviceV12>;
static_assert(sizeof(NetV11) == 176 && sizeof(NetV12) == 176);
static_assert(offsetof(NetV11, finalize) == 160 && offsetof(NetV12, test) == 13 * 8);

}  // namespace nccl_abi
