// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "nccl_plugin/abi/tables.hpp"

/// NCCL's side of the plugin interface: what a test or a benchmark needs to use a net plugin the
/// way that NCCL does, without NCCL and without a GPU.
namespace nccl_host {

using nccl_abi::Result;

inline constexpr int kOldestApi = 6;
inline constexpr int kNewestApi = 12;
/// Most that NCCL sends at once through the interface of version 8 and older, which count in int.
inline constexpr std::size_t kMostBytesOfOldApi = std::size_t{1} << 30;

/// What a plugin says of a device, in the terms of the newest version. Older versions leave the
/// rest at what NCCL puts there.
struct Properties {
  std::string name;
  std::string pci_path;
  std::uint64_t guid = 0;
  int pointer_support = 0;
  int registration_is_global = 0;
  int force_flush = 0;
  int speed = 0;  ///< Mb/s
  int port = 0;
  float latency = 0;  ///< us
  int max_comms = 0;
  int max_receives = 0;
  int device_type = 0;
  int device_version = 0;
  std::vector<int> members;  ///< of a virtual device; the device itself if it is not one
  std::size_t max_p2p_bytes = kMostBytesOfOldApi;
  std::size_t max_collective_bytes = kMostBytesOfOldApi / 2;
  int max_multi_request_size = 1;
  int rail = -1;   ///< -1: not known
  int plane = -1;  ///< -1: not known

  bool operator==(const Properties&) const = default;
};

/// What NCCL says of a communicator when it initialises a plugin.
struct CommunicatorInit {
  std::uint64_t comm_id = 0;
  int traffic_class = -1;  ///< -1: undefined
  nccl_abi::Logger logger = nullptr;
  nccl_abi::ProfilerCallback profiler = nullptr;
};

/// A plugin's table of functions, whatever its version: what differs is done as NCCL's own adapters
/// do it.
///
/// Up to version 10 a plugin is initialised once, however many communicators there are, and never
/// finalised. Up to version 8 sizes are int, a send or receive of more than 1 GiB is an internal
/// error, and there is no optional completion of receives.
///
/// Thread safety: init() and finalize() by one thread at a time; the rest as the plugin allows.
class Net {
 public:
  virtual ~Net() = default;

  /// Of the table: kOldestApi to kNewestApi.
  [[nodiscard]] virtual int version() const = 0;
  /// The plugin's, which NCCL_NET is compared with.
  [[nodiscard]] virtual const char* name() const = 0;

  /// One communicator more; `context` is its own from now on.
  virtual Result init(const CommunicatorInit& init, void** context) = 0;
  /// The end of a communicator. The context may be null, after an init() that failed.
  virtual Result finalize(void* context) = 0;
  /// Hints of how many peers and flows there will be; without effect up to version 10.
  virtual Result set_attributes(void* context, nccl_abi::Attributes* attributes) = 0;

  /// Number of devices.
  virtual Result devices(int* count) = 0;
  /// What the plugin says of a device.
  virtual Result properties(int device, Properties* properties) = 0;
  /// Fuses devices into one, whose number is returned. Internal error if the plugin can't (up to
  /// version 8 none can).
  virtual Result make_virtual_device(const std::vector<int>& members, int* device) = 0;

  /// `handle` is for kHandleBytes bytes, which connect() on the other side takes.
  virtual Result listen(void* context, int device, void* handle, void** listen_comm) = 0;
  /// To be called, with the same handle, until *send_comm is not null.
  virtual Result connect(void* context, int device, void* handle, void** send_comm) = 0;
  /// To be called until *receive_comm is not null.
  virtual Result accept(void* listen_comm, void** receive_comm) = 0;

  /// `comm` is of either kind; `type` is kHostMemory or kCudaMemory.
  virtual Result reg(void* comm, void* data, std::size_t size, int type, void** mr) = 0;
  /// The same of a dma-buf; invalid usage if the plugin has no such function.
  virtual Result reg_dma_buf(void* comm, void* data, std::size_t size, int type,
                             std::uint64_t offset, int fd, void** mr) = 0;
  /// Ends a registration of either sort.
  virtual Result dereg(void* comm, void* mr) = 0;

  /// *request == null afterwards: try again later. `parent` is the profiler's.
  virtual Result isend(void* send_comm, void* data, std::size_t size, int tag, void* mr,
                       void* parent, void** request) = 0;
  /// A group of n receives, one request. *request may be optional_receive_completion() on entry.
  /// `parents` (n of them) may be null.
  virtual Result irecv(void* receive_comm, int n, void** data, std::size_t* sizes, int* tags,
                       void** mrs, void** parents, void** request) = 0;
  /// Makes received data visible to a GPU. *request == null afterwards: nothing to do.
  virtual Result iflush(void* receive_comm, int n, void** data, int* sizes, void** mrs,
                        void** request) = 0;
  /// Once *done is 1 the request no longer exists. `sizes`: of the send, or of each receive of the
  /// group; may be null.
  virtual Result test(void* request, int* done, int* sizes) = 0;

  /// Ends the sending side of a connection.
  virtual Result close_send(void* send_comm) = 0;
  /// Ends the receiving side of a connection.
  virtual Result close_receive(void* receive_comm) = 0;
  /// Ends listening.
  virtual Result close_listen(void* listen_comm) = 0;
};

/// The Net of a table of that version, which must stay loaded while the Net lives.
[[nodiscard]] std::unique_ptr<Net> make_net(int version, void* table);

/// The name of the symbol that a plugin exports its table of that version as.
[[nodiscard]] std::string symbol_of(int version);

}  // namespace nccl_host
