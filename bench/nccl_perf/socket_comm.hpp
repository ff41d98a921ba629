// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "mrc/core/unique_fd.hpp"
#include "nccl_perf/socket_net.hpp"

/// One connection of the socket transport: its requests and its helper threads.
namespace mrc::nccl_perf {

using nccl_abi::Result;

/// Moves bytes in one direction until the socket would block.
[[nodiscard]] Result move_bytes(int socket, bool sends, std::byte* data, std::size_t size,
                                std::size_t& done);

/// A piece of a message, moved by a helper thread.
struct Piece {
  int socket = -1;
  bool sends = false;
  std::byte* data = nullptr;
  std::size_t size = 0, done = 0;
  Result result = Result::success;
  std::atomic<bool> finished{false};  // released after `result`
};

/// Moves the pieces that it is given, in turn.
class Helper {
 public:
  Helper();
  ~Helper();
  Helper(const Helper&) = delete;
  Helper& operator=(const Helper&) = delete;

  void add(Piece* piece);

 private:
  void serve();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Piece*> pieces_;
  bool ended_ = false;
  std::thread thread_;
};

class SocketComm;

/// A send or receive in flight.
struct SocketRequest {
  SocketComm* comm = nullptr;
  bool used = false;
  bool sized = false;  ///< the size has been told, or heard
  std::byte* data = nullptr;
  std::size_t size = 0, done = 0;  ///< bytes
  std::size_t header_done = 0;
  std::array<std::byte, sizeof(std::uint32_t) + 128> header{};
  std::deque<Piece> pieces;
};

/// Both kinds of comm.
///
/// Thread safety: one thread at a time. Requests have to be tested in the order in which they were
/// posted, as NCCL's proxy does.
class SocketComm {
 public:
  /// `sockets`: those for data, if there are helper threads, then the main one.
  SocketComm(bool sends, std::vector<UniqueFd> sockets, const SocketSettings& settings);

  /// Null if all requests are in use.
  [[nodiscard]] SocketRequest* post(void* data, std::size_t size);
  [[nodiscard]] Result test(SocketRequest& request, bool& done);

 private:
  Result tell_size(SocketRequest& request);
  Result hear_size(SocketRequest& request);
  void divide(SocketRequest& request);

  bool sends_;
  std::size_t sockets_per_thread_, data_sockets_;
  std::vector<UniqueFd> sockets_;
  int main_;
  std::size_t next_socket_ = 0;
  std::array<SocketRequest, nccl_abi::kMaxRequests> requests_{};
  std::deque<Helper> helpers_;  // last: ends before what its pieces belong to
};

}  // namespace mrc::nccl_perf
