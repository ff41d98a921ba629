// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace mrc::inline v0_1::engine {

/// Memory for the posted writes of an engine, given to send queues in chunks, so that an idle queue
/// pair holds none. Each queue reserves its worst case with book() when it is created, and only
/// that allocates: acquire() neither fails nor allocates. Free chunks are reused last in, first
/// out, so chunks beyond the highest simultaneous use are never touched and cost address space
/// only. One thread.
class SendPool {
 public:
  /// Fits the largest entry (kMaxSendSges, kMaxInlineBytes), or 16 of default size. One cache line
  /// more than 1024 bytes keeps chunks from mapping to the same cache sets.
  static constexpr std::size_t kChunkBytes = 1088;
  static constexpr std::size_t kAlignment = 64;  ///< of chunks: a cache line

  SendPool() = default;
  SendPool(const SendPool&) = delete;
  SendPool& operator=(const SendPool&) = delete;

  /// Reserves `chunks` more. Throws std::bad_alloc.
  void book(std::size_t chunks) {
    while (blocks_.size() * kBlockChunks < booked_ + chunks)
      blocks_.push_back(std::make_unique_for_overwrite<Chunk[]>(kBlockChunks));
    booked_ += chunks;
  }
  /// Gives up a reservation. Its chunks have been released.
  void cancel(std::size_t chunks) noexcept { booked_ -= chunks; }

  /// A chunk with undefined contents. The caller must hold fewer than it has reserved.
  [[nodiscard]] std::byte* acquire() noexcept {
    ++used_;
    if (free_ != nullptr) {
      std::byte* const chunk = reinterpret_cast<std::byte*>(free_);
      free_ = free_->next;
      return chunk;
    }
    const std::size_t i = touched_++;
    return blocks_[i / kBlockChunks][i % kBlockChunks].bytes;
  }
  /// Returns a chunk from acquire(); its contents are lost.
  void release(std::byte* chunk) noexcept {
    --used_;
    free_ = std::construct_at(reinterpret_cast<Free*>(chunk), free_);
  }

  /// Chunks reserved by all queues.
  [[nodiscard]] std::size_t booked() const noexcept { return booked_; }
  /// Chunks in use at present.
  [[nodiscard]] std::size_t used() const noexcept { return used_; }
  /// Most chunks ever in use at a time: the part of the pool that takes memory.
  [[nodiscard]] std::size_t touched() const noexcept { return touched_; }

 private:
  static constexpr std::size_t kBlockChunks = 256;
  struct alignas(kAlignment) Chunk {
    std::byte bytes[kChunkBytes];
  };
  struct Free {
    explicit Free(Free* n) noexcept : next(n) {}
    Free* next;
  };

  std::vector<std::unique_ptr<Chunk[]>> blocks_;
  Free* free_ = nullptr;
  std::size_t booked_ = 0;
  std::size_t used_ = 0;
  std::size_t touched_ = 0;
};

}  // namespace mrc::inline v0_1::engine
