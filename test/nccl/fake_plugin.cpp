// SPDX-License-Identifier: Apache-2.0
// A net plugin that connects ranks of one process by memcpy: to test NCCL's side of the interface,
// and the conformance driver, without a transport. Compiled several times:
//   FAKE_NAME               its name
//   FAKE_OLDEST, FAKE_NEWEST  versions that it exports
// and at run time FAKE_FAIL=init, devices or no-devices makes it fail there.
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string_view>
#include <vector>

#include "nccl_plugin/abi/tables.hpp"

#define FAKE_EXPORT __attribute__((visibility("default")))

/// Calls so far, for tests.
// Names of variables outside namespaces are exported as they are.
FAKE_EXPORT std::atomic<int> fake_inits, fake_finalizes, fake_live, fake_traffic_class;

namespace fake {

using nccl_abi::Result;

/// One irecv.
struct Group {
  struct Buffer {
    void* data;
    std::size_t size;
    int tag;
    bool matched = false;
    int received = 0;
  };
  std::vector<Buffer> buffers;
  bool failed = false;
  [[nodiscard]] bool complete() const {
    for (const Buffer& buffer : buffers) {
      if (!buffer.matched) return false;
    }
    return true;
  }
};

struct Connection {
  std::deque<std::shared_ptr<Group>> posted;
  int open = 2;  // ends
};

struct Request {
  std::shared_ptr<Connection> connection;
  std::shared_ptr<Group> group;  // null: a send, which is done
  int sent = 0;
  void* event = nullptr;
};

/// Of either end.
struct Comm {
  std::shared_ptr<Connection> connection;
};

struct Listener {
  int number;
  std::deque<std::shared_ptr<Connection>> waiting;
};

/// What a handle holds.
struct Handle {
  char magic[8];
  int listener;
};
constexpr char kMagic[8] = {'f', 'a', 'k', 'e', '-', 'n', 'e', 't'};

std::mutex mutex;
std::map<int, Listener*> listeners;
int last_listener = 0;
nccl_abi::ProfilerCallback profiler = nullptr;

bool fails(std::string_view where) {
  const char* value = std::getenv("FAKE_FAIL");
  return value && where == value;
}

/// As a transport for LL would: aligned words become visible whole and in order.
void copy(void* to, const void* from, std::size_t size) {
  auto* target = static_cast<char*>(to);
  auto* source = static_cast<const char*>(from);
  if (reinterpret_cast<std::uintptr_t>(target) % 8 == 0) {
    for (; size >= 8; size -= 8, target += 8, source += 8) {
      std::uint64_t word = 0;
      std::memcpy(&word, source, 8);
      std::atomic_ref(*reinterpret_cast<std::uint64_t*>(target))
          .store(word, std::memory_order_release);
    }
  }
  std::memcpy(target, source, size);
}

Result init(nccl_abi::Logger logger, nccl_abi::ProfilerCallback callback) {
  ++fake_inits;
  if (fails("init")) return Result::system_error;
  profiler = callback;
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

Result set_net_attributes(void* context, nccl_abi::Attributes*) {
  return context ? Result::success : Result::invalid_argument;
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

Result listen(int device, void* handle, void** listen_comm) {
  if (device != 0) return Result::invalid_argument;
  const std::lock_guard lock(mutex);
  auto* listener = new Listener{++last_listener, {}};
  listeners[listener->number] = listener;
  Handle content{{}, listener->number};
  std::memcpy(content.magic, kMagic, sizeof(kMagic));
  std::memcpy(handle, &content, sizeof(content));
  *listen_comm = listener;
  ++fake_live;
  return Result::success;
}

Result listen_v11(void* context, int device, void* handle, void** listen_comm) {
  return context ? listen(device, handle, listen_comm) : Result::invalid_argument;
}

Result connect_v6(int device, void* handle, void** send_comm) {
  Handle content;
  std::memcpy(&content, handle, sizeof(content));
  if (device != 0 || std::memcmp(content.magic, kMagic, sizeof(kMagic)) != 0) {
    return Result::invalid_argument;
  }
  const std::lock_guard lock(mutex);
  *send_comm = nullptr;
  const auto found = listeners.find(content.listener);
  if (found == listeners.end()) return Result::success;
  auto connection = std::make_shared<Connection>();
  found->second->waiting.push_back(connection);
  *send_comm = new Comm{connection};
  ++fake_live;
  return Result::success;
}

Result connect_v9(int device, void* handle, void** send_comm, nccl_abi::DeviceHandle**) {
  return connect_v6(device, handle, send_comm);
}

Result connect_v10(int device, nccl_abi::CommConfig* config, void* handle, void** send_comm,
                   nccl_abi::DeviceHandle**) {
  fake_traffic_class = config->traffic_class;
  return connect_v6(device, handle, send_comm);
}

Result connect_v11(void* context, int device, void* handle, void** send_comm,
                   nccl_abi::DeviceHandle**) {
  return context ? connect_v6(device, handle, send_comm) : Result::invalid_argument;
}

Result accept_v6(void* listen_comm, void** receive_comm) {
  if (!listen_comm) return Result::internal_error;
  const std::lock_guard lock(mutex);
  auto& waiting = static_cast<Listener*>(listen_comm)->waiting;
  *receive_comm = nullptr;
  if (waiting.empty()) return Result::success;
  *receive_comm = new Comm{waiting.front()};
  waiting.pop_front();
  ++fake_live;
  return Result::success;
}

Result accept(void* listen_comm, void** receive_comm, nccl_abi::DeviceHandle**) {
  return accept_v6(listen_comm, receive_comm);
}

template <class Size>
Result reg_mr(void* comm, void* data, Size size, int type, void** mr) {
  if (!comm || !data || size <= 0) return Result::invalid_argument;
  if (type != nccl_abi::kHostMemory) return Result::internal_error;
  *mr = new int(0);
  ++fake_live;
  return Result::success;
}

Result dereg_mr(void* comm, void* mr) {
  if (!comm || !mr) return Result::invalid_argument;
  delete static_cast<int*>(mr);
  --fake_live;
  return Result::success;
}

void notify(nccl_abi::ProfilerEvent event, void** handle, void* parent) {
  if (!profiler || !parent) return;
  nccl_abi::ProfilerQp data;
  profiler(handle, static_cast<int>(event), parent, nccl_abi::kProfilerIbV1, &data);
}

/// Null: the receive has not been posted.
Group::Buffer* match(Connection& connection, int tag) {
  if (connection.posted.empty()) return nullptr;
  for (auto& buffer : connection.posted.front()->buffers) {
    if (!buffer.matched && buffer.tag == tag) return &buffer;
  }
  return nullptr;
}

Result send(void* comm, void* data, std::size_t size, int tag, void* mr, void* parent,
            void** request) {
  if (!comm || !mr) return Result::internal_error;
  const std::lock_guard lock(mutex);
  const auto& connection = static_cast<Comm*>(comm)->connection;
  *request = nullptr;
  if (connection->open < 2 && connection->posted.empty()) return Result::remote_error;
  Group::Buffer* buffer = match(*connection, tag);
  if (!buffer) return Result::success;
  if (buffer->size < size) {
    connection->posted.front()->failed = true;
    connection->posted.pop_front();
    return Result::invalid_usage;
  }
  copy(buffer->data, data, size);
  buffer->matched = true;
  buffer->received = static_cast<int>(size);
  if (connection->posted.front()->complete()) connection->posted.pop_front();
  auto* result = new Request{connection, nullptr, static_cast<int>(size)};
  notify(nccl_abi::ProfilerEvent::start, &result->event, parent);
  *request = result;
  return Result::success;
}

template <class Size>
Result isend_v9(void* comm, void* data, Size size, int tag, void* mr, void** request) {
  return send(comm, data, size, tag, mr, nullptr, request);
}

template <class Size>
Result irecv_v9(void* comm, int n, void** data, Size* sizes, int* tags, void** mrs,
                void** request) {
  if (!comm || n < 1 || n > 8) return Result::internal_error;
  for (int i = 0; i < n; ++i) {
    if (!mrs[i]) return Result::internal_error;
  }
  const std::lock_guard lock(mutex);
  const auto& connection = static_cast<Comm*>(comm)->connection;
  auto group = std::make_shared<Group>();
  for (int i = 0; i < n; ++i) {
    group->buffers.push_back({data[i], static_cast<std::size_t>(sizes[i]), tags[i]});
  }
  connection->posted.push_back(group);
  *request = new Request{connection, group};
  return Result::success;
}

Result irecv_v10(void* comm, int n, void** data, std::size_t* sizes, int* tags, void** mrs, void**,
                 void** request) {
  return irecv_v9(comm, n, data, sizes, tags, mrs, request);
}

Result iflush(void* comm, int, void**, int*, void**, void** request) {
  *request = nullptr;
  return comm ? Result::success : Result::internal_error;
}

Result test(void* request, int* done, int* sizes) {
  if (!request) return Result::internal_error;
  const std::lock_guard lock(mutex);
  auto* self = static_cast<Request*>(request);
  *done = 0;
  if (self->group) {
    if (self->group->failed) return Result::invalid_usage;
    if (!self->group->complete()) {
      return self->connection->open == 2 ? Result::success : Result::remote_error;
    }
    for (std::size_t i = 0; sizes && i < self->group->buffers.size(); ++i) {
      sizes[i] = self->group->buffers[i].received;
    }
  } else if (sizes) {
    sizes[0] = self->sent;
  }
  *done = 1;
  if (self->event) notify(nccl_abi::ProfilerEvent::stop, &self->event, self->event);
  delete self;
  return Result::success;
}

Result close(void* comm) {
  if (!comm) return Result::internal_error;
  const std::lock_guard lock(mutex);
  --static_cast<Comm*>(comm)->connection->open;
  delete static_cast<Comm*>(comm);
  --fake_live;
  return Result::success;
}

Result close_listen(void* listen_comm) {
  if (!listen_comm) return Result::internal_error;
  const std::lock_guard lock(mutex);
  auto* listener = static_cast<Listener*>(listen_comm);
  for (auto& connection : listener->waiting) --connection->open;
  listeners.erase(listener->number);
  delete listener;
  --fake_live;
  return Result::success;
}

/// What all versions have in common.
template <class Table>
constexpr Table common() {
  Table table{};
  table.name = FAKE_NAME;
  table.devices = devices;
  table.get_properties = get_properties<typename Table::Properties>;
  table.reg_mr = reg_mr;
  table.dereg_mr = dereg_mr;
  table.iflush = iflush;
  table.test = test;
  table.close_send = close;
  table.close_receive = close;
  table.close_listen = close_listen;
  if constexpr (requires { table.isend = send; }) {
    table.isend = send;
    table.irecv = irecv_v10;
  } else {
    table.isend = isend_v9<typename Table::Size>;
    table.irecv = irecv_v9<typename Table::Size>;
  }
  if constexpr (requires { table.finalize; }) {
    table.init = init_v11;
    table.listen = listen_v11;
    table.connect = connect_v11;
    table.finalize = finalize;
    table.set_net_attributes = set_net_attributes;
  } else {
    table.listen = listen;
  }
  if constexpr (requires { table.init = init; }) {
    table.init = init;
    table.connect = connect_v10;
  } else if constexpr (requires { table.init = init_v9; }) {
    table.init = init_v9;
  }
  if constexpr (requires { table.accept = accept; }) {
    table.accept = accept;
    if constexpr (requires { table.connect = connect_v9; }) table.connect = connect_v9;
  } else {
    table.accept = accept_v6;
    table.connect = connect_v6;
  }
  return table;
}

}  // namespace fake

#if FAKE_OLDEST <= 6
FAKE_EXPORT nccl_abi::NetV6 ncclNetPlugin_v6 = fake::common<nccl_abi::NetV6>();
#endif
#if FAKE_OLDEST <= 7 && FAKE_NEWEST >= 7
FAKE_EXPORT nccl_abi::NetV7 ncclNetPlugin_v7 = fake::common<nccl_abi::NetV7>();
#endif
#if FAKE_OLDEST <= 8 && FAKE_NEWEST >= 8
FAKE_EXPORT nccl_abi::NetV8 ncclNetPlugin_v8 = fake::common<nccl_abi::NetV8>();
#endif
#if FAKE_OLDEST <= 9 && FAKE_NEWEST >= 9
FAKE_EXPORT nccl_abi::NetV9 ncclNetPlugin_v9 = fake::common<nccl_abi::NetV9>();
#endif
#if FAKE_OLDEST <= 10 && FAKE_NEWEST >= 10
FAKE_EXPORT nccl_abi::NetV10 ncclNetPlugin_v10 = fake::common<nccl_abi::NetV10>();
#endif
#if FAKE_OLDEST <= 11 && FAKE_NEWEST >= 11
FAKE_EXPORT nccl_abi::NetV11 ncclNetPlugin_v11 = fake::common<nccl_abi::NetV11>();
#endif
#if FAKE_OLDEST <= 12 && FAKE_NEWEST >= 12
FAKE_EXPORT nccl_abi::NetV12 ncclNetPlugin_v12 = fake::common<nccl_abi::NetV12>();
#endif
