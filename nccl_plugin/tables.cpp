// SPDX-License-Identifier: Apache-2.0
// What the plugin exports: a table of functions for each version of NCCL's interface. Each adapts
// the calls of calls.hpp to what that version passes.
#include <cstring>

#include "nccl_plugin/abi/tables.hpp"
#include "nccl_plugin/calls.hpp"
#include "nccl_plugin/plugin.hpp"

namespace mrc_nccl {
namespace {

using nccl_abi::DeviceHandle;
using nccl_abi::Logger;
using nccl_abi::ProfilerCallback;

template <class P>
Result get_properties(int device, P* out) {
  if (out == nullptr) return Result::invalid_argument;
  calls::Properties found;
  if (const Result result = calls::properties(device, found); result != Result::success)
    return result;
  *out = {};
  out->name = found.name;
  out->pci_path = found.pci_path;
  out->guid = found.guid;
  out->pointer_support = nccl_abi::kHostMemory;
  out->speed = found.speed;
  out->port = 1;
  out->latency = 0;  // not known: NCCL takes its own
  out->max_comms = calls::kMaxComms;
  out->max_receives = calls::kMaxGroupedReceives;
  if constexpr (requires { out->registration_is_global; }) out->registration_is_global = 1;
  if constexpr (requires { out->max_p2p_bytes; }) {
    constexpr int most = sizeof(out->virtual_device.devices) / sizeof(int);
    out->virtual_device.count = found.member_count < most ? found.member_count : most;
    for (int i = 0; i < out->virtual_device.count; ++i)
      out->virtual_device.devices[i] = found.members[i];
    out->max_p2p_bytes = calls::kMaxMessage;
    out->max_collective_bytes = calls::kMaxMessage;
  }
  if constexpr (requires { out->max_multi_request_size; }) out->max_multi_request_size = 1;
  if constexpr (requires { out->rail; }) {
    out->rail = static_cast<std::int16_t>(found.rail);
    out->plane = static_cast<std::int16_t>(found.plane);
  }
  return Result::success;
}

// ------------------------------------------------------- calls that versions pass in their own way

template <int Version>
Result init(Logger logger) {
  return calls::init(Version, nullptr, nullptr, logger, nullptr);
}
Result init_v10(Logger logger, ProfilerCallback profiler) {
  return calls::init(10, nullptr, nullptr, logger, profiler);
}
template <int Version>
Result init_with_context(void** context, std::uint64_t /*comm_id*/, nccl_abi::CommConfig* config,
                         Logger logger, ProfilerCallback profiler) {
  if (context == nullptr) return Result::invalid_argument;
  *context = nullptr;
  return calls::init(Version, context, config, logger, profiler);
}

Result listen(int device, void* handle, void** comm) {
  return calls::listen(nullptr, device, handle, comm);
}
Result listen_with_context(void* context, int device, void* handle, void** comm) {
  return calls::listen(context, device, handle, comm);
}
Result connect_v6(int device, void* handle, void** comm) {
  return calls::connect(nullptr, device, handle, comm);
}
Result connect_v7(int device, void* handle, void** comm, DeviceHandle** device_handle) {
  if (device_handle != nullptr) *device_handle = nullptr;
  return calls::connect(nullptr, device, handle, comm);
}
/// The traffic class belongs to the device here, which serves many connections: the first
/// communicator's, or NCCL_IB_TC's.
Result connect_v10(int device, nccl_abi::CommConfig* /*config*/, void* handle, void** comm,
                   DeviceHandle** device_handle) {
  return connect_v7(device, handle, comm, device_handle);
}
Result connect_v11(void* context, int device, void* handle, void** comm,
                   DeviceHandle** device_handle) {
  if (device_handle != nullptr) *device_handle = nullptr;
  return calls::connect(context, device, handle, comm);
}
Result accept_v6(void* listen_comm, void** comm) {
  return calls::accept(listen_comm, comm);
}
Result accept_v7(void* listen_comm, void** comm, DeviceHandle** device_handle) {
  if (device_handle != nullptr) *device_handle = nullptr;
  return calls::accept(listen_comm, comm);
}

template <class Size>
Result reg_mr(void* comm, void* data, Size size, int type, void** mr) {
  return calls::reg_mr(comm, data, static_cast<std::size_t>(size), type, mr);
}
Result reg_mr_dma_buf(void* comm, void* /*data*/, std::size_t /*size*/, int /*type*/,
                      std::uint64_t /*offset*/, int /*fd*/, void** mr) {
  return calls::reg_mr_dma_buf(comm, mr);
}
Result dereg_mr(void* comm, void* mr) {
  return calls::dereg_mr(comm, mr);
}

template <class Size>
Result isend(void* comm, void* data, Size size, int tag, void* mr, void** request) {
  return calls::isend(comm, data, static_cast<std::size_t>(size), tag, mr, nullptr, request);
}
Result isend_v10(void* comm, void* data, std::size_t size, int tag, void* mr, void* parent,
                 void** request) {
  return calls::isend(comm, data, size, tag, mr, parent, request);
}
template <class Size>
Result irecv(void* comm, int n, void** data, Size* sizes, int* tags, void** mrs, void** request) {
  return calls::irecv(comm, n, data, sizes, tags, mrs, nullptr, request);
}
Result irecv_v10(void* comm, int n, void** data, std::size_t* sizes, int* tags, void** mrs,
                 void** parents, void** request) {
  return calls::irecv(comm, n, data, sizes, tags, mrs, parents, request);
}
Result iflush(void* comm, int /*n*/, void** /*data*/, int* /*sizes*/, void** /*mrs*/,
              void** request) {
  return calls::iflush(comm, request);
}
template <class V>
Result make_virtual_device(int* device, V* members) {
  if (members == nullptr) return Result::invalid_argument;
  constexpr int most = sizeof(members->devices) / sizeof(int);
  if (members->count > most) return Result::invalid_argument;
  return calls::make_virtual_device(device, members->devices, members->count);
}
Result set_net_attributes(void* context, nccl_abi::Attributes* attributes) {
  return calls::set_attributes(context, attributes);
}

// -------------------------------------------------------------------------------------- tables

/// What tables of all versions have in common.
template <class Table>
constexpr Table common() {
  Table table{};
  table.name = Plugin::kName;
  table.devices = calls::devices;
  table.get_properties = get_properties<typename Table::Properties>;
  table.reg_mr_dma_buf = reg_mr_dma_buf;
  table.dereg_mr = dereg_mr;
  table.iflush = iflush;
  table.test = calls::test;
  table.close_send = calls::close_connection;
  table.close_receive = calls::close_connection;
  table.close_listen = calls::close_listen;
  return table;
}

constexpr nccl_abi::NetV6 table_v6() {
  auto table = common<nccl_abi::NetV6>();
  table.init = init<6>;
  table.listen = listen;
  table.connect = connect_v6;
  table.accept = accept_v6;
  table.reg_mr = reg_mr<int>;
  table.isend = isend<int>;
  table.irecv = irecv<int>;
  return table;
}

/// Versions 7 to 9.
template <class Table, int Version, class RegSize>
constexpr Table table_v7() {
  auto table = common<Table>();
  table.init = init<Version>;
  table.listen = listen;
  table.connect = connect_v7;
  table.accept = accept_v7;
  table.reg_mr = reg_mr<RegSize>;
  table.isend = isend<typename Table::Size>;
  table.irecv = irecv<typename Table::Size>;
  if constexpr (requires { table.make_virtual_device; })
    table.make_virtual_device = make_virtual_device<nccl_abi::VirtualDeviceV9>;
  return table;
}

constexpr nccl_abi::NetV10 table_v10() {
  auto table = common<nccl_abi::NetV10>();
  table.init = init_v10;
  table.listen = listen;
  table.connect = connect_v10;
  table.accept = accept_v7;
  table.reg_mr = reg_mr<std::size_t>;
  table.isend = isend_v10;
  table.irecv = irecv_v10;
  table.make_virtual_device = make_virtual_device<nccl_abi::VirtualDeviceV9>;
  return table;
}

template <class Table, int Version>
constexpr Table table_v11() {
  auto table = common<Table>();
  table.init = init_with_context<Version>;
  table.listen = listen_with_context;
  table.connect = connect_v11;
  table.accept = accept_v7;
  table.reg_mr = reg_mr<std::size_t>;
  table.isend = isend_v10;
  table.irecv = irecv_v10;
  table.make_virtual_device = make_virtual_device<typename Table::Virtual>;
  table.finalize = calls::finalize;
  table.set_net_attributes = set_net_attributes;
  return table;
}

}  // namespace
}  // namespace mrc_nccl

#define MRC_NCCL_EXPORT extern "C" __attribute__((visibility("default"))) const

MRC_NCCL_EXPORT nccl_abi::NetV6 ncclNetPlugin_v6 = mrc_nccl::table_v6();
MRC_NCCL_EXPORT nccl_abi::NetV7 ncclNetPlugin_v7 = mrc_nccl::table_v7<nccl_abi::NetV7, 7, int>();
MRC_NCCL_EXPORT nccl_abi::NetV8 ncclNetPlugin_v8 =
    mrc_nccl::table_v7<nccl_abi::NetV8, 8, std::size_t>();
MRC_NCCL_EXPORT nccl_abi::NetV9 ncclNetPlugin_v9 =
    mrc_nccl::table_v7<nccl_abi::NetV9, 9, std::size_t>();
MRC_NCCL_EXPORT nccl_abi::NetV10 ncclNetPlugin_v10 = mrc_nccl::table_v10();
MRC_NCCL_EXPORT nccl_abi::NetV11 ncclNetPlugin_v11 = mrc_nccl::table_v11<nccl_abi::NetV11, 11>();
MRC_NCCL_EXPORT nccl_abi::NetV12 ncclNetPlugin_v12 = mrc_nccl::table_v11<nccl_abi::NetV12, 12>();
