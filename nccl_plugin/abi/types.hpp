// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

/// NCCL's interface for net plugins, written from its documented layout: only what crosses the
/// border between NCCL and a plugin. Names follow NCCL's, in this project's spelling. Layouts are
/// those of 64-bit Linux; static_asserts pin them.
namespace nccl_abi {

/// ncclResult_t.
enum class Result : int {
  success = 0,
  unhandled_cuda_error = 1,
  system_error = 2,
  internal_error = 3,
  invalid_argument = 4,
  invalid_usage = 5,
  remote_error = 6,
  in_progress = 7,
};

/// The result as NCCL's messages name it.
[[nodiscard]] constexpr const char* to_string(Result result) noexcept {
  switch (result) {
    case Result::success:
      return "success";
    case Result::unhandled_cuda_error:
      return "unhandled CUDA error";
    case Result::system_error:
      return "system error";
    case Result::internal_error:
      return "internal error";
    case Result::invalid_argument:
      return "invalid argument";
    case Result::invalid_usage:
      return "invalid usage";
    case Result::remote_error:
      return "remote error";
    case Result::in_progress:
      return "in progress";
  }
  return "unknown result";
}

/// ncclDebugLogLevel.
enum class LogLevel : int { none = 0, version = 1, warn = 2, info = 3, abort = 4, trace = 5 };

/// ncclDebugLogSubSys: bits.
inline constexpr unsigned long kLogInit = 0x1;
inline constexpr unsigned long kLogNet = 0x10;

/// ncclDebugLogger_t. NCCL adds host, process and rank, and a line end.
using Logger = void (*)(LogLevel level, unsigned long flags, const char* file, int line,
                        const char* format, ...);

/// Largest number of devices in a virtual one, by version.
inline constexpr int kMaxDevicesPerNic = 4;
inline constexpr int kMaxDevicesPerNicV12 = 8;

/// Opaque bytes that a listener gives to those who connect to it.
inline constexpr std::size_t kHandleBytes = 128;
/// Requests in flight per connection that NCCL may have.
inline constexpr int kMaxRequests = 32;
/// Kinds of memory, bits of Properties::pointer_support, and the `type` of a registration.
inline constexpr int kHostMemory = 1;
inline constexpr int kCudaMemory = 2;
inline constexpr int kDmaBuf = 4;

/// On entry *request of an irecv may be this: the receive may complete before its data came.
inline void* optional_receive_completion() noexcept {
  return reinterpret_cast<void*>(0x1);  // NOLINT: NCCL's NCCL_NET_OPTIONAL_RECV_COMPLETION
}

/// ncclNetCommConfig_t.
struct CommConfig {
  int traffic_class = -1;  ///< -1: undefined
};
static_assert(sizeof(CommConfig) == 4);

/// ncclNetDeviceHandle_t: of plugins that move data from a GPU's kernels. Not used here.
struct DeviceHandle {
  int type = 0;     ///< 0: none, the host moves the data
  int version = 0;  ///< of that interface
  void* handle = nullptr;
  std::size_t size = 0;
  int needs_proxy_progress = 1;
};
static_assert(sizeof(DeviceHandle) == 32);

/// ncclNetCommAttr_t: how many peers and flows a communicator is about to use.
struct CommAttributes {
  std::int32_t max_concurrent_peers = -1;
  std::int32_t min_concurrent_peers = -1;
  std::int32_t max_flows_per_peer = -1;
  std::int32_t min_flows_per_peer = -1;

  bool operator==(const CommAttributes&) const = default;
};
/// ncclNetAttr_t.
struct Attributes {
  CommAttributes send;
  CommAttributes receive;
  std::uint32_t op = ~0u;         ///< bits of collective operations; all: undefined
  std::uint32_t algorithm = ~0u;  ///< bits
  std::uint32_t protocol = ~0u;   ///< bits
};
static_assert(sizeof(Attributes) == 44 && offsetof(Attributes, receive) == 16);
static_assert(offsetof(Attributes, op) == 32 && offsetof(Attributes, protocol) == 40);

/// Kinds of a profiler event.
enum class ProfilerEvent : int { start = 0, stop = 1, update = 2, update_and_stop = 3 };

/// ncclProfilerCallback_t: `handle` is the event's, filled in at the start; `parent` is what came
/// with the request.
using ProfilerCallback = Result (*)(void** handle, int type, void* parent, std::int64_t plugin,
                                    void* data);

/// Identifies events as those of an InfiniBand plugin, version 1, so that NCCL's profilers show
/// them.
inline constexpr std::int64_t kProfilerIbV1 = (std::int64_t{1} << 16) | 1;

/// ncclProfilerNetIbDescr_v1: one request on a queue pair.
struct ProfilerQp {
  std::uint8_t type = 1;  ///< 1: queue pair
  struct {
    int device = 0;
    std::uint64_t wr_id = 0;
    int opcode = 0;
    int qp_number = 0;
    std::size_t length = 0;
  } qp;
};
static_assert(sizeof(ProfilerQp) == 40 && offsetof(ProfilerQp, qp) == 8);
static_assert(sizeof(ProfilerQp::qp) == 32);

}  // namespace nccl_abi
