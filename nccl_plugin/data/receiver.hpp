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
/// immediate that it has. Copies eager messages (eager.hpp) to where they belong.
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
  // An eager message that no receive was posted for yet.
  struct Unmatched {
    std::int32_t tag = 0;
    std::uint32_t size = 0;
    std::uint32_t number = 0;  // of those that came, modulo 2^32: its place in the ring
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
  [[nodiscard]] bool has_news() const noexcept;
  void tell() override;
  void arrive(const Immediate& immediate, std::uint32_t bytes);
  void arrive_eager(unsigned place, std::uint32_t bytes);
  [[nodiscard]] std::uint32_t taken() const noexcept;
  void copy(Slot& slot, unsigned index, const Unmatched& message);
  void complete(Slot& slot, unsigned index, std::uint32_t bytes);

  std::array<Request, kRequests> requests_{};
  std::array<std::uint16_t, kRequests> free_{};  // indices, a stack
  unsigned free_count_ = kRequests;
  std::array<Slot, kSlots> slots_{};
  ClearToSendRing records_{};
  std::uint64_t group_ = 0;  // number of the next receive
  std::uint64_t told_ = 0;   // number of the first one that the sender has not been told of
  std::uint64_t first_ = 0;  // number of the first one that is not complete
  std::uint64_t read_ = 0;   // the sender needs no records of receives before this one any more
  unsigned pending_ = 0;     // slots in use
  EagerList<Unmatched> unmatched_;
  std::uint32_t eager_ = 0;       // messages that came eagerly
  std::uint32_t told_taken_ = 0;  // what the sender knows of taken()
};

}  // namespace mrc_nccl
