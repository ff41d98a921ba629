// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "mrc/reliability/packet_record.hpp"

namespace mrc::inline v0_1::reliability {

/// The record chunks of one engine. Fixed size; one thread.
class PacketPool {
 public:
  /// Index of a chunk.
  using Index = std::uint32_t;
  /// No chunk.
  static constexpr Index kNone = ~Index{0};

  /// Room for at least `packets` records.
  explicit PacketPool(std::size_t packets)
      : chunks_((packets + kRecordsPerChunk - 1) / kRecordsPerChunk) {
    free_.reserve(chunks_.size());
    for (std::size_t i = chunks_.size(); i > 0; --i) free_.push_back(static_cast<Index>(i - 1));
  }

  /// Whether no chunk is free.
  [[nodiscard]] bool exhausted() const noexcept { return free_.empty(); }
  /// Number of free chunks.
  [[nodiscard]] std::size_t free_chunks() const noexcept { return free_.size(); }
  /// Number of chunks in all.
  [[nodiscard]] std::size_t chunk_count() const noexcept { return chunks_.size(); }

  /// A cleared chunk whose first packet is sent at `now`; kNone when the pool is exhausted.
  [[nodiscard]] Index acquire(Time now) noexcept {
    if (free_.empty()) return kNone;
    const Index i = free_.back();
    free_.pop_back();
    PacketChunk& chunk = chunks_[i];
    chunk.base = now;
    chunk.first_try = chunk.lost = chunk.reported = 0;
    return i;
  }
  /// Returns a chunk to the pool.
  void release(Index i) noexcept { free_.push_back(i); }

  /// The chunk with this index.
  [[nodiscard]] PacketChunk& operator[](Index i) noexcept { return chunks_[i]; }
  /// The chunk with this index.
  [[nodiscard]] const PacketChunk& operator[](Index i) const noexcept { return chunks_[i]; }

 private:
  std::vector<PacketChunk> chunks_;
  std::vector<Index> free_;
};

}  // namespace mrc::inline v0_1::reliability
