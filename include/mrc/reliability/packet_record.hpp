// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>

#include "mrc/core/types.hpp"

namespace mrc::inline v0_1::reliability {

/// State of a packet in the send window.
enum class PacketState : std::uint8_t {
  outstanding,  ///< sent, not reported
  reported,     ///< received by the peer (SACK bit or cumulative PSN)
  lost,         ///< declared lost: waits for its retransmission
};

/// What answers have shown about a packet that is not reported.
enum class Missed : std::uint8_t {
  unknown,  ///< no SACK has covered it since it was sent
  absent,   ///< a SACK covered it and later PSNs, and it was missing
  passed,   ///< absent, and a packet sent later on its path had arrived
  refused,  ///< lost: a NACK said that the peer had no room for it, or no receive
};

/// The requester's record of one packet in its window, accessed through Packet. An engine has one
/// per packet in flight, so size matters: a queue pair with a full window of 4,096 uses 65 KB (113
/// KB with 24-byte records). Derivable values are not stored: the packet's message, its size once
/// retransmitted, its neighbours in send order before that.
struct PacketRecord {
  std::uint32_t sent : 30;  ///< last transmission, ns since its chunk's base
  Missed missed : 2;        ///< what answers have shown
  /// First transmission: the nominal size, UDP length + 40 (mrc-1.0 [C-15]). Retransmissions: the
  /// window slots of the neighbours in send order, 15 bits each.
  std::uint32_t size_or_links : 30;
  std::uint32_t transmissions : 2;  ///< saturates at 3
  std::uint16_t order;              ///< low half of its position in the send order
  std::uint16_t path : 15;          ///< path of the last transmission
  std::uint16_t reported : 1;       ///< the peer has received it
};
static_assert(sizeof(PacketRecord) == 12);

/// Records per chunk, one bit each in a word.
inline constexpr std::uint32_t kRecordsPerChunk = 64;
/// Transmission counts saturate here.
inline constexpr std::uint32_t kManyTransmissions = 3;
/// Upper bound of `now - sent` within a chunk that is being sent from: earlier send times are
/// raised to this. Sufficient for loss inference by age while round trips take at most half of it.
/// Responses that arrive later and carry a timestamp are attributed to an earlier transmission:
/// they confirm arrival, but give neither a round-trip time nor a trim of the current transmission.
/// The retransmission timer stores its own time.
inline constexpr Duration kOldestSent = std::chrono::seconds(1);

/// Records are allocated in chunks of 64 consecutive PSNs: none for an idle QP, as many as its
/// window spans for a busy one.
struct PacketChunk {
  Time base{};                  ///< origin of `sent` in the records
  std::uint64_t first_try = 0;  ///< bit i: records[i] is outstanding and has never been lost
  std::uint64_t lost = 0;       ///< bit i: records[i] is lost
  /// Bit i: a SACK bitmap reported records[i]. (Packets reported otherwise lack the bit.)
  std::uint64_t reported = 0;
  /// The records, indexed by PSN modulo their number.
  std::array<PacketRecord, kRecordsPerChunk> records;

  /// What `sent` of a record has room for.
  static constexpr std::uint32_t kSpanMask = (1u << 30) - 1;
  /// Value of `sent` for a record sent now. Times of a chunk more than a second apart don't fit;
  /// the base then moves, at most once in 73 ms.
  [[nodiscard]] std::uint32_t sent_at(Time now) noexcept {
    if (now - base >= kSpan) [[unlikely]]
      move_base(now - kOldestSent);
    return static_cast<std::uint32_t>((now - base).count());
  }

 private:
  static constexpr Duration kSpan{1 << 30};
  static_assert(kOldestSent < kSpan);

  [[gnu::noinline]] void move_base(Time to) noexcept {
    const Duration by = to - base;
    for (PacketRecord& r : records) {
      const Duration sent = std::max(Duration{r.sent} - by, Duration::zero());
      r.sent = static_cast<std::uint32_t>(sent.count()) & kSpanMask;
    }
    base = to;
  }
};
static_assert(sizeof(PacketChunk) == 800);

/// Accessor of a packet in a send window. Valid as long as the packet is in the window.
class Packet {
 public:
  /// The packet with record `index` of `chunk`.
  Packet(PacketChunk& chunk, std::uint32_t index) noexcept : chunk_(&chunk), index_(index) {}

  /// State of the packet.
  [[nodiscard]] PacketState state() const noexcept {
    if (first_try()) return PacketState::outstanding;
    if (record().reported != 0) return PacketState::reported;
    return (chunk_->lost & bit()) != 0 ? PacketState::lost : PacketState::outstanding;
  }
  /// Outstanding, and has never been lost.
  [[nodiscard]] bool first_try() const noexcept { return (chunk_->first_try & bit()) != 0; }
  /// Time of the last transmission.
  [[nodiscard]] Time sent() const noexcept { return chunk_->base + Duration{record().sent}; }
  /// Path of the last transmission.
  [[nodiscard]] std::uint16_t path() const noexcept { return record().path; }
  /// Number of transmissions; kManyTransmissions: that many or more.
  [[nodiscard]] std::uint32_t transmissions() const noexcept { return record().transmissions; }
  /// Nominal size in bytes; needs first_try(). Other packets' sizes are derived from the message.
  [[nodiscard]] std::uint32_t size() const noexcept { return record().size_or_links; }
  /// What answers have shown about it.
  [[nodiscard]] Missed missed() const noexcept { return record().missed; }
  /// Sets missed().
  void set_missed(Missed m) noexcept { record().missed = m; }

 private:
  friend class SendWindow;
  friend class SendOrder;
  [[nodiscard]] PacketRecord& record() const noexcept { return chunk_->records[index_]; }
  [[nodiscard]] std::uint64_t bit() const noexcept { return std::uint64_t{1} << index_; }

  PacketChunk* chunk_;
  std::uint32_t index_;
};

}  // namespace mrc::inline v0_1::reliability
