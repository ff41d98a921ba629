// SPDX-License-Identifier: Apache-2.0
// A net plugin that counts calls and moves nothing: to test NCCL's side of the interface, how
// plugins are found, initialised, and left. What moves data is missing in its tables. Compiled
// several times:
//   FAKE_NAME               its name
//   FAKE_OLDEST, FAKE_NEWEST  versions that it exports
// and at run time FAKE_FAIL=init, devices or no-devices makes it fail there.
#include <atomic>
#include <cstdlib>
#include <string_view>

#include "nccl_plugin/abi/tables.hpp"

#define FAKE_EXPORT __attribute__((visibility("default")))

/// Calls so far, for tests.
// Names of variables outside namespaces are exported as they are.
FAKE_EXPORT std::atomic<int> fake_inits, fake_finalizes, fake_traffic_class;

namespace fake {

using nccl_abi::Result;

bool fails(std::string_view where) {
  const char* value = std::getenv("FAKE_FAIL");
  return value && where == value;
}

Result init(nccl_abi::Logger logger, nccl_abi::ProfilerCallback) {
  ++fake_inits;
  if (fails("init")) return Result::system_error;
  logger(nccl_abi::LogLevel::info, nccl_abi::kLogInit | nccl_abi::kLogNet, __FILE__, __LINE__,
         "NET/%s: %s", FAKE_NAME, "ready");
  return Result::success;
}

Result init_v9(nccl_abi::Logger logger) {
  return init(logger, nullptr);
}

Result init_v11(void** context, std::uint64_t, nccl_abi::CommConfig* config,
                nccl_abi::Logger logger, nccl_abi::ProfilerCallback callback) {
  const Result result = init(logger, callback);
  if (result != Result::success) return result;
  *context = new int(config->traffic_class);
  fake_traffic_class = config->traffic_class;
  return Result::success;
}

Result finalize(void* context) {
  ++fake_finalizes;
  delete static_cast<int*>(context);
  return Result::success;
}

Result devices(int* count) {
  *count = fails("no-devices") ? 0 : 1;
  return fails("devices") ? Result::system_error : Result::success;
}

template <class P>
Result get_properties(int device, P* properties) {
  if (device != 0) return Result::invalid_argument;
  *properties = {};
  properties->name = "fake0";
  properties->guid = 1;
  properties->pointer_support = nccl_abi::kHostMemory;
  properties->speed = 10000;
  properties->max_comms = 1024;
  properties->max_receives = 8;
  if constexpr (requires { properties->registration_is_global; }) {
    properties->registration_is_global = 1;
  }
  if constexpr (requires { properties->virtual_device; }) {
    properties->virtual_device.count = 1;
    properties->max_p2p_bytes = properties->max_collective_bytes = std::size_t{1} << 40;
  }
  if constexpr (requires { properties->max_multi_request_size; }) {
    properties->max_multi_request_size = 1;
  }
  return Result::success;
}

/// A listener, or a sender: something that is closed later.
Result open(void** comm) {
  *comm = new int(0);
  return Result::success;
}

Result close(void* comm) {
  delete static_cast<int*>(comm);
  return Result::success;
}

Result listen(int, void*, void** listen_comm) {
  return open(listen_comm);
}

Result listen_v11(void* context, int, void*, void** listen_comm) {
  return context ? open(listen_comm) : Result::invalid_argument;
}

Result connect_v10(int, nccl_abi::CommConfig* config, void*, void** send_comm,
                   nccl_abi::DeviceHandle**) {
  fake_traffic_class = config->traffic_class;
  return open(send_comm);
}

Result connect_v11(void* context, int, void*, void** send_comm, nccl_abi::DeviceHandle**) {
  return context ? open(send_comm) : Result::invalid_argument;
}

/// A table of any version.
template <class Table>
constexpr Table table_of() {
  Table table{};
  table.name = FAKE_NAME;
  table.devices = devices;
  table.get_properties = get_properties<typename Table::Properties>;
  table.close_send = close;
  table.close_listen = close;
  if constexpr (requires { table.finalize; }) {
    table.init = init_v11;
    table.listen = listen_v11;
    table.connect = connect_v11;
    table.finalize = finalize;
  } else if constexpr (requires { table.init = init; }) {
    table.init = init;
    table.listen = listen;
    table.connect = connect_v10;
  } else {
    table.init = init_v9;
  }
  return table;
}

}  // namespace fake

#if FAKE_OLDEST <= 6
FAKE_EXPORT nccl_abi::NetV6 ncclNetPlugin_v6 = fake::table_of<nccl_abi::NetV6>();
#endif
#if FAKE_OLDEST <= 7 && FAKE_NEWEST >= 7
FAKE_EXPORT nccl_abi::NetV7 ncclNetPlugin_v7 = fake::table_of<nccl_abi::NetV7>();
#endif
#if FAKE_OLDEST <= 8 && FAKE_NEWEST >= 8
FAKE_EXPORT nccl_abi::NetV8 ncclNetPlugin_v8 = fake::table_of<nccl_abi::NetV8>();
#endif
#if FAKE_OLDEST <= 9 && FAKE_NEWEST >= 9
FAKE_EXPORT nccl_abi::NetV9 ncclNetPlugin_v9 = fake::table_of<nccl_abi::NetV9>();
#endif
#if FAKE_OLDEST <= 10 && FAKE_NEWEST >= 10
FAKE_EXPORT nccl_abi::NetV10 ncclNetPlugin_v10 = fake::table_of<nccl_abi::NetV10>();
#endif
#if FAKE_OLDEST <= 11 && FAKE_NEWEST >= 11
FAKE_EXPORT nccl_abi::NetV11 ncclNetPlugin_v11 = fake::table_of<nccl_abi::NetV11>();
#endif
#if FAKE_OLDEST <= 12 && FAKE_NEWEST >= 12
FAKE_EXPORT nccl_abi::NetV12 ncclNetPlugin_v12 = fake::table_of<nccl_abi::NetV12>();
#endif
