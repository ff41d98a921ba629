// SPDX-License-Identifier: Apache-2.0
#include "nccl_plugin/calls.hpp"

#include <algorithm>
#include <array>
#include <mutex>
#include <new>
#include <set>
#include <string>

#include "nccl_plugin/plugin.hpp"
#include "nccl_plugin/result.hpp"

namespace mrc_nccl::calls {

static_assert(kMaxGroupedReceives == kMaxGroup);

namespace {

/// Runs a call; what it throws becomes a line in the log and a result.
template <class Call>
Result guarded(const char* name, Call&& call) noexcept {
  const auto failed = [name](Result result, const char* why) {
    try {
      Plugin::get().log().warn(std::string(name) + ": " + why);
    } catch (...) {
      Plugin::get().log().warn(why);
    }
    return result;
  };
  try {
    return call();
  } catch (const Failure& failure) {
    return failed(failure.result(), failure.what());
  } catch (const SettingsError& error) {
    return failed(Result::invalid_usage, error.what());
  } catch (const mrc::Error& error) {
    return failed(Result::system_error, error.what());
  } catch (const std::bad_alloc&) {
    return failed(Result::system_error, "out of memory");
  } catch (const std::exception& error) {
    return failed(Result::internal_error, error.what());
  }
}

Result null_pointer(const char* name) noexcept {
  return guarded(name, []() -> Result {
    throw Failure(Result::invalid_argument, "an argument is a null pointer");
  });
}

/// A connection of that role.
template <class Side>
Side& side(void* comm, Role role) {
  auto* connection = static_cast<Connection*>(comm);
  if (connection->role() != role)
    throw Failure(Result::invalid_argument, role == Role::sender
                                                ? "this is not the sending side of a connection"
                                                : "this is not the receiving side of a connection");
  return static_cast<Side&>(*connection);
}

/// Text that stays valid until the process ends, as NCCL needs it.
const char* lasting(const std::string& text) {
  static auto& mutex = *new std::mutex;
  static auto& texts = *new std::set<std::string>;
  const std::lock_guard lock(mutex);
  return texts.insert(text).first->c_str();
}

}  // namespace

Result init(int version, void** context, const nccl_abi::CommConfig* config,
            nccl_abi::Logger logger, nccl_abi::ProfilerCallback profiler) noexcept {
  return guarded("initialisation failed", [&] {
    ContextHandle* handle = Plugin::get().init(
        version, config == nullptr ? nccl_abi::CommConfig{} : *config, logger, profiler);
    if (context != nullptr)
      *context = handle;
    else
      delete handle;  // of versions up to 10, which use the common one
    return Result::success;
  });
}

Result finalize(void* context) noexcept {
  return guarded("finalize", [&] {
    Plugin::get().finalize(static_cast<ContextHandle*>(context));
    return Result::success;
  });
}

Result devices(int* count) noexcept {
  if (count == nullptr) return null_pointer("devices");
  return guarded("devices", [&] {
    *count = Plugin::get().devices();
    return Result::success;
  });
}

Result properties(int device, Properties& properties) noexcept {
  return guarded("properties", [&] {
    const NicFacts facts = Plugin::get().facts(device);
    properties.name = lasting(facts.name);
    properties.pci_path = facts.pci_path.empty() ? nullptr : lasting(facts.pci_path);
    properties.guid = facts.guid;
    properties.speed = facts.speed_mbps;
    properties.rail = facts.rail;
    properties.plane = facts.plane;
    for (const int member : facts.members)
      if (properties.member_count < nccl_abi::kMaxDevicesPerNicV12)
        properties.members[properties.member_count++] = member;
    return Result::success;
  });
}

Result make_virtual_device(int* device, const int* members, int count) noexcept {
  if (device == nullptr) return null_pointer("makeVDevice");
  return guarded("makeVDevice", [&] {
    *device = Plugin::get().make_virtual({members, members + std::max(count, 0)});
    return Result::success;
  });
}

Result set_attributes(void* context, const nccl_abi::Attributes* attributes) noexcept {
  if (context == nullptr || attributes == nullptr) return null_pointer("setNetAttr");
  return guarded("setNetAttr", [&] {
    static_cast<ContextHandle*>(context)->context->set_attributes(*attributes);
    return Result::success;
  });
}

// ---------------------------------------------------------------------------------- connections

Result listen(void* context, int device, void* handle, void** listen_comm) noexcept {
  if (handle == nullptr || listen_comm == nullptr) return null_pointer("listen");
  return guarded("listen", [&] {
    *listen_comm = Plugin::get().listen(static_cast<ContextHandle*>(context), device, handle);
    return Result::success;
  });
}

Result connect(void* context, int device, void* handle, void** send_comm) noexcept {
  if (handle == nullptr || send_comm == nullptr) return null_pointer("connect");
  return guarded("connect", [&] {
    *send_comm = nullptr;
    Connection* connection =
        Plugin::get().connect(static_cast<ContextHandle*>(context), device, handle);
    *send_comm = connection;
    return Result::success;
  });
}

Result accept(void* listen_comm, void** receive_comm) noexcept {
  if (listen_comm == nullptr || receive_comm == nullptr) return null_pointer("accept");
  return guarded("accept", [&] {
    *receive_comm = nullptr;
    Connection* connection = static_cast<Listener*>(listen_comm)->accept().release();
    *receive_comm = connection;
    return Result::success;
  });
}

Result close_listen(void* listen_comm) noexcept {
  delete static_cast<Listener*>(listen_comm);
  return Result::success;
}

Result close_connection(void* comm) noexcept {
  if (comm != nullptr) Plugin::get().close(static_cast<Connection*>(comm));
  return Result::success;
}

// --------------------------------------------------------------------------------------- memory

Result reg_mr(void* comm, void* data, std::size_t size, int type, void** mr) noexcept {
  if (comm == nullptr || mr == nullptr) return null_pointer("regMr");
  return guarded("regMr", [&] {
    if (type != nccl_abi::kHostMemory)
      throw Failure(Result::invalid_argument,
                    "memory of type " + std::to_string(type) +
                        ": only host memory can be registered (ptrSupport says so)");
    if (data == nullptr || size == 0)
      throw Failure(Result::invalid_argument, "an empty range can't be registered");
    *mr = static_cast<Connection*>(comm)->endpoint().nic->memory().add(data, size);
    return Result::success;
  });
}

Result reg_mr_dma_buf(void* comm, void** mr) noexcept {
  if (comm == nullptr || mr == nullptr) return null_pointer("regMrDmaBuf");
  return guarded("regMrDmaBuf", []() -> Result {
    throw Failure(Result::internal_error, "no port of this NIC can reach DMA-buf memory");
  });
}

Result dereg_mr(void* comm, void* mr) noexcept {
  if (comm == nullptr || mr == nullptr) return null_pointer("deregMr");
  return guarded("deregMr", [&] {
    if (!static_cast<Connection*>(comm)->endpoint().nic->memory().remove(
            static_cast<Registration*>(mr)))
      throw Failure(Result::invalid_argument, "this memory is not registered with this NIC");
    return Result::success;
  });
}

// ----------------------------------------------------------------------------------------- data

namespace {

void expect_registered(const void* mr) {
  if (!static_cast<const Registration*>(mr)->registered())
    throw Failure(Result::invalid_argument, "the memory of this message was deregistered");
}

}  // namespace

Result isend(void* send_comm, void* data, std::size_t size, int tag, void* mr, void* parent,
             void** request) noexcept {
  if (send_comm == nullptr || request == nullptr ||
      (size > 0 && (data == nullptr || mr == nullptr)))
    return null_pointer("isend");
  return guarded("isend", [&] {
    *request = nullptr;
    Sender& sender = side<Sender>(send_comm, Role::sender);
    if (size > kMaxMessage)
      throw Failure(Result::invalid_usage, "a send of " + std::to_string(size) +
                                               " bytes; maxP2pBytes is " +
                                               std::to_string(kMaxMessage));
    if (size > 0) expect_registered(mr);
    Request* made = nullptr;
    const Result result =
        sender.isend(data, size, tag, static_cast<Registration*>(mr), parent, &made);
    *request = made;
    return result;
  });
}

template <class Size>
Result irecv(void* receive_comm, int n, void** data, const Size* sizes, const int* tags, void** mrs,
             void** parents, void** request) noexcept {
  if (receive_comm == nullptr || data == nullptr || sizes == nullptr || tags == nullptr ||
      request == nullptr)
    return null_pointer("irecv");
  return guarded("irecv", [&] {
    const bool optional = *request == nccl_abi::optional_receive_completion();
    *request = nullptr;
    Receiver& receiver = side<Receiver>(receive_comm, Role::receiver);
    if (n < 1 || n > kMaxGroupedReceives)
      throw Failure(Result::invalid_usage, "a grouped receive of " + std::to_string(n) +
                                               " buffers; maxRecvs is " +
                                               std::to_string(kMaxGroupedReceives));
    std::array<ReceiveBuffer, kMaxGroup> buffers;
    for (int i = 0; i < n; ++i) {
      const auto at = static_cast<std::size_t>(i);
      if (sizes[at] > 0 && (data[at] == nullptr || mrs == nullptr || mrs[at] == nullptr))
        throw Failure(Result::invalid_argument, "a receive without memory, or not registered");
      if (sizes[at] > 0) expect_registered(mrs[at]);
      // No send is larger.
      buffers[at] = {data[at], std::min(static_cast<std::size_t>(sizes[at]), kMaxMessage), tags[at],
                     mrs == nullptr ? nullptr : static_cast<Registration*>(mrs[at]),
                     parents == nullptr ? nullptr : parents[at]};
    }
    Request* made = nullptr;
    const bool early = optional && n == 1 && receiver.endpoint().nic->settings().early_receives;
    const Result result =
        receiver.irecv({buffers.data(), static_cast<std::size_t>(n)}, early, &made);
    *request = made;
    return result;
  });
}
template Result irecv(void*, int, void**, const int*, const int*, void**, void**, void**) noexcept;
template Result irecv(void*, int, void**, const std::size_t*, const int*, void**, void**,
                      void**) noexcept;

/// What was received is in host memory: nothing has to be flushed.
Result iflush(void* receive_comm, void** request) noexcept {
  if (receive_comm == nullptr || request == nullptr) return null_pointer("iflush");
  *request = nullptr;
  return Result::success;
}

Result test(void* request, int* done, int* sizes) noexcept {
  if (request == nullptr || done == nullptr) return null_pointer("test");
  return guarded("test", [&] {
    auto* asked = static_cast<Request*>(request);
    return asked->connection->test(*asked, done, sizes);
  });
}

}  // namespace mrc_nccl::calls
