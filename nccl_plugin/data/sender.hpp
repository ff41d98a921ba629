// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>

#include "nccl_plugin/data/connection.hpp"
#include "nccl_plugin/data/memory.hpp"

namespace mrc_nccl {

/// The sending side of a connection. Sends match receives in the order in which the receiver posted
/// them; within a grouped receive, by tag. A send that finds no receive yet leaves as an eager
/// message (eager.hpp) if it is small, and is NCCL's to repeat otherwise.
class Sender final : public Connection {
 public:
  Sender(std::unique_ptr<Endpoint> endpoint, std::shared_ptr<Context> context);

  /// Messages up to this size are copied when they are posted, while there is room, so that NCCL
  /// has their buffers back at once, as from TCP.
  static constexpr std::size_t kMostCopied = 64 << 10;

  /// Sends `size` bytes. *request is null if there is no receive for it yet, or no room.
  Result isend(const void* data, std::size_t size, int tag, const Registration* memory,
               void* parent, Request** request);
  /// See Context::set_attributes(). Any thread.
  void set_hint(const nccl_abi::CommAttributes& attributes) noexcept;

 private:
  void on_completion(const mrc::Completion& completion) override;
  [[nodiscard]] unsigned pending() const noexcept override { return pending_; }
  [[nodiscard]] bool owes_delivery() const noexcept override {
    return pending_ == 0 && unconfirmed_ && !failed();
  }
  [[nodiscard]] mrc::Duration grace() const noexcept override {
    return std::chrono::milliseconds(200);
  }
  void release(Request& request) noexcept override;
  [[nodiscard]] std::span<Request> requests() noexcept override { return requests_; }

  // A send that the receiver may not have a receive for yet.
  struct Unmatched {
    std::int32_t tag = 0;
    std::uint32_t size = 0;
  };

  [[nodiscard]] unsigned group_size() noexcept;
  void serve(unsigned index, unsigned count) noexcept;
  [[nodiscard]] unsigned look();
  Result isend_eager(const void* data, std::size_t size, int tag, void* parent, Request** request);
  Result post(const void* data, std::size_t size, const Registration* memory, const Target& target,
              unsigned index, Request& request);
  Result not_posted(mrc::Errc e, std::size_t size);
  void start(Request& request, std::size_t size, bool copied);
  [[nodiscard]] bool may_copy(std::size_t size) noexcept;
  Result refuse(std::size_t size, const Target& target, unsigned index);

  std::array<Request, Endpoint::kMostSends> requests_{};
  std::array<std::uint16_t, Endpoint::kMostSends> free_{};  // indices, a stack
  unsigned free_count_ = Endpoint::kMostSends;
  std::uint64_t group_ = 0;  // number of the receive that is served now
  unsigned served_ = 0;      // its buffers that have their send; bits
  EagerList<Unmatched> unmatched_;
  std::uint32_t eager_ = 0;     // messages sent eagerly
  std::uint32_t taken_ = 0;     // those before this one have left their places
  unsigned pending_ = 0;        // posted, not copied, and not complete
  bool unconfirmed_ = false;    // the newest was copied, and need not have a completion
  bool no_copies_ = false;      // they could not be made
  std::uint64_t signaled_ = 0;  // end of the copies that the newest signaled write follows
  std::array<std::uint64_t, Endpoint::kMostSends> copied_until_{};  // by request: those before it
};

}  // namespace mrc_nccl
