// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "nccl_plugin/data/connection.hpp"
#include "nccl_plugin/data/memory.hpp"

namespace mrc_nccl {

/// One buffer of a receive.
struct ReceiveBuffer {
  void* data = nullptr;
  std::size_t size = 0;
  int tag = 0;
  const Registration* memory = nullptr;
  void* parent = nullptr;  ///< of the profiler's event
};

/// The receiving side of a connection: tells the sender where to write, and learns from writes with
/// immediate that it has.
class Receiver final : public Connection {
 public:
  Receiver(std::unique_ptr<Endpoint> endpoint, std::shared_ptr<Context> context);

  /// Receives into 1 .. kMaxGroup buffers. *request is null if there is no room. `early`: the
  /// request may be done before its data came, which NCCL finds out from the data itself.
  Result irecv(std::span<const ReceiveBuffer> buffers, bool early, Request** request);

 private:
  // An advertised receive, until all of its buffers have come.
  struct Slot {
    std::uint64_t number = 0;
    bool used = false;
    unsigned count = 0;
    unsigned arrived = 0;        // bits
    Request* request = nullptr;  // null: done early
  };
  // NCCL tests those that were done early after at most as many others.
  static constexpr unsigned kRequests = 2 * kSlots;

  void on_completion(const mrc::Completion& completion) override;
  [[nodiscard]] unsigned pending() const noexcept override { return pending_; }
  [[nodiscard]] mrc::Duration grace() const noexcept override { return mrc::Duration(0); }
  void release(Request& request) noexcept override;
  [[nodiscard]] std::span<Request> requests() noexcept override { return requests_; }

  void note(std::span<const ReceiveBuffer> buffers) noexcept;
  [[nodiscard]] std::size_t told_bytes(std::uint64_t end) const noexcept;
  void tell() override;
  void arrive(const Immediate& immediate, std::uint32_t bytes);

  std::array<Request, kRequests> requests_{};
  std::array<std::uint16_t, kRequests> free_{};  // indices, a stack
  unsigned free_count_ = kRequests;
  std::array<Slot, kSlots> slots_{};
  ClearToSendRing records_{};
  std::uint64_t group_ = 0;  // number of the next receive
  std::uint64_t told_ = 0;   // number of the first one that the sender has not been told of
  unsigned pending_ = 0;     // slots in use
};

}  // namespace mrc_nccl
