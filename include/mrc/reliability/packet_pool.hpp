// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "mrc/core/types.hpp"

namespace mrc::reliability {

/// Where a packet of the send window stands.
enum class PacketState : std::uint8_t {
  pending,      ///< has a PSN, not sent yet
  outstanding,  ///< sent, nothing heard
  reported,     ///< the peer has it (a SACK bit or the cumulative number said so)
  lost,         ///< given up: waits for its retransmission
};

/// What SACKs have said about a packet that has not been reported.
enum class Missed : std::uint8_t {
  unknown,    ///< none has covered it since it was sent
  absent,     ///< one covered it and packets behind it, and it was not there
  overtaken,  ///< the same when a packet sent later in its plane had already arrived
  passed,     ///< the same when a packet sent later on its path had already arrived
};

/// What the requester remembers of one packet in its window. 24 bytes, since an engine holds one
/// for each packet in flight.
struct PacketRecord {
  Time sent{};              ///< last transmission
  std::uint32_t order = 0;  ///< number of the last transmission in the QP's send order
  std::uint16_t newer = 0;  ///< neighbours in send order, as window slots
  std::uint16_t older = 0;
  std::uint16_t wqe = 0;           ///< slot of its message on the send queue
  std::uint16_t path = 0;          ///< path of the last transmission
  std::uint16_t size = 0;          ///< nominal size: UDP length + 40 (mrc-1.0 [C-15])
  std::uint8_t transmissions = 0;  ///< saturates
  PacketState state : 4 = PacketState::pending;
  Missed missed : 4 = Missed::unknown;
};
static_assert(sizeof(PacketRecord) == 24);

inline constexpr std::uint32_t kRecordsPerChunk = 64;

/// Records are handed out in chunks of 64 consecutive PSNs, so that an idle QP holds none and a
/// busy one as many as its window spans.
struct PacketChunk {
  std::array<PacketRecord, kRecordsPerChunk> records;
  std::uint64_t lost = 0;  ///< bit i: records[i] is lost
  /// Bit i: records[i] is reported, and a bitmap said so. (Not all that are reported have theirs.)
  std::uint64_t reported = 0;
};

/// The chunks of one engine. Fixed size; one thread.
class PacketPool {
 public:
  using Index = std::uint32_t;
  static constexpr Index kNone = ~Index{0};

  /// Room for at least `packets` records.
  explicit PacketPool(std::size_t packets)
      : chunks_((packets + kRecordsPerChunk - 1) / kRecordsPerChunk) {
    free_.reserve(chunks_.size());
    for (std::size_t i = chunks_.size(); i > 0; --i) free_.push_back(static_cast<Index>(i - 1));
  }

  [[nodiscard]] bool exhausted() const noexcept { return free_.empty(); }
  [[nodiscard]] std::size_t free_chunks() const noexcept { return free_.size(); }
  [[nodiscard]] std::size_t chunk_count() const noexcept { return chunks_.size(); }

  /// A cleared chunk, or kNone.
  [[nodiscard]] Index acquire() noexcept {
    if (free_.empty()) return kNone;
    const Index i = free_.back();
    free_.pop_back();
    chunks_[i].lost = chunks_[i].reported = 0;
    return i;
  }
  void release(Index i) noexcept { free_.push_back(i); }

  [[nodiscard]] PacketChunk& operator[](Index i) noexcept { return chunks_[i]; }
  [[nodiscard]] const PacketChunk& operator[](Index i) const noexcept { return chunks_[i]; }

 private:
  std::vector<PacketChunk> chunks_;
  std::vector<Index> free_;
};

}  // namespace mrc::reliability
