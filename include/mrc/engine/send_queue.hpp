// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <memory>

#include "mrc/core/types.hpp"
#include "mrc/engine/types.hpp"

namespace mrc::engine {

/// A posted write.
struct SendWqe {
  std::uint64_t wr_id = 0;
  std::uint64_t remote = 0;
  std::uint32_t rkey = 0;
  std::uint32_t immediate = 0;
  std::uint32_t length = 0;
  std::uint32_t packets = 0;  ///< how many it takes, at least 1
  Psn first;                  ///< PSN of its first packet, once that was sent
  std::uint16_t msn = 0;
  std::uint16_t rqmsn = 0;
  std::uint8_t pieces = 0;
  bool with_immediate : 1 = false;
  bool signaled : 1 = false;
  bool inlined : 1 = false;
};
static_assert(sizeof(SendWqe) == 48);

/// A piece as the queue keeps it: checked when it was posted.
struct LocalPiece {
  const std::uint8_t* address;
  std::uint32_t length;
  std::uint32_t lkey;
};
static_assert(sizeof(LocalPiece) == 16);

/// The send queue of a queue pair: posted, being sent, sent and waiting for its Transport ACK.
/// Positions are counters that only grow; `done <= sending <= posted`. Each entry has a fixed room
/// for its pieces or its inline data. One thread; nothing allocates after the constructor.
class SendQueue {
 public:
  SendQueue(std::uint32_t capacity, std::uint32_t pieces, std::uint32_t inline_bytes)
      : capacity_(capacity),
        mask_(std::bit_ceil(capacity) - 1),
        room_((std::max<std::uint32_t>(pieces * sizeof(LocalPiece), inline_bytes) + 15) / 16 * 16),
        wqes_(std::make_unique<SendWqe[]>(mask_ + 1)),
        data_(std::make_unique<Block[]>(std::size_t{mask_ + 1} * room_ / sizeof(Block))) {}

  [[nodiscard]] std::uint32_t posted() const noexcept { return posted_; }
  [[nodiscard]] std::uint32_t sending() const noexcept { return sending_; }
  [[nodiscard]] std::uint32_t done() const noexcept { return done_; }
  [[nodiscard]] bool full() const noexcept { return posted_ - done_ >= capacity_; }
  [[nodiscard]] bool empty() const noexcept { return posted_ == done_; }
  /// Something is posted whose last packet has not been sent once.
  [[nodiscard]] bool backlog() const noexcept { return sending_ != posted_; }

  [[nodiscard]] std::uint16_t slot(std::uint32_t position) const noexcept {
    return static_cast<std::uint16_t>(position & mask_);
  }
  [[nodiscard]] SendWqe& at(std::uint32_t position) noexcept { return wqes_[position & mask_]; }
  [[nodiscard]] SendWqe& at_slot(std::uint16_t slot) noexcept { return wqes_[slot]; }

  [[nodiscard]] LocalPiece* pieces(std::uint16_t slot) noexcept {
    return reinterpret_cast<LocalPiece*>(inline_data(slot));
  }
  [[nodiscard]] std::uint8_t* inline_data(std::uint16_t slot) noexcept {
    return reinterpret_cast<std::uint8_t*>(data_.get()) + std::size_t{slot} * room_;
  }

  /// The next free entry; needs !full(). Call post() when it is filled.
  [[nodiscard]] SendWqe& next_free() noexcept { return wqes_[posted_ & mask_]; }
  void post() noexcept { ++posted_; }
  void sent() noexcept { ++sending_; }
  void complete() noexcept {
    ++done_;
    if (static_cast<std::int32_t>(sending_ - done_) < 0) sending_ = done_;
  }
  void clear() noexcept { done_ = sending_ = posted_; }

  [[nodiscard]] std::size_t memory() const noexcept {
    return std::size_t{mask_ + 1} * (sizeof(SendWqe) + room_);
  }

 private:
  struct alignas(16) Block {
    std::uint8_t bytes[16];
  };

  std::uint32_t capacity_;
  std::uint32_t mask_;
  std::uint32_t room_;
  std::unique_ptr<SendWqe[]> wqes_;
  std::unique_ptr<Block[]> data_;
  std::uint32_t posted_ = 0;
  std::uint32_t sending_ = 0;
  std::uint32_t done_ = 0;
};

}  // namespace mrc::engine
