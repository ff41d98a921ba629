// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>

#include "mrc/core/types.hpp"

namespace mrc::inline v0_1::reliability {

/// Where a packet of the send window stands.
enum class PacketState : std::uint8_t {
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

/// What the requester keeps of one packet in its window, to be read through Packet. An engine has
/// one for each packet in flight, so bits count: a queue pair with a full window of 4,096 takes 65
/// KB, with records of 24 bytes it took 113 KB. What can be told from elsewhere is not here: which
/// message it belongs to, its size once it was sent again, neighbours as long as it was not.
struct PacketRecord {
  std::uint32_t sent : 30;  ///< last transmission, ns since its chunk's base
  Missed missed : 2;
  /// By the first transmission: the nominal size, UDP length + 40 (mrc-1.0 [C-15]). By a later one:
  /// the window slots of its neighbours in send order, 15 bits each.
  std::uint32_t size_or_links : 30;
  std::uint32_t transmissions : 2;  ///< stays at 3
  std::uint16_t order;              ///< low half of its place in the send order
  std::uint16_t path : 15;          ///< path of the last transmission
  std::uint16_t reported : 1;       ///< the peer has it
};
static_assert(sizeof(PacketRecord) == 12);

inline constexpr std::uint32_t kRecordsPerChunk = 64;
/// Transmissions count as many from here on, and are not told apart.
inline constexpr std::uint32_t kManyTransmissions = 3;
/// When a packet is sent, the others of its chunk were sent at most so long ago: what was sent
/// earlier counts as sent then. Loss inference by age needs no more while round trips take half of
/// it at most. Answers that come later than that and name the time are taken for those to an
/// earlier copy: they say what has arrived, but neither a round-trip time nor that the packet was
/// trimmed. The retransmission timer has a time of its own.
inline constexpr Duration kOldestSent = std::chrono::seconds(1);

/// Records are handed out in chunks of 64 consecutive PSNs, so that an idle QP holds none and a
/// busy one as many as its window spans.
struct PacketChunk {
  Time base{};                  ///< `sent` of the records counts from here
  std::uint64_t first_try = 0;  ///< bit i: records[i] is outstanding and has never been given up
  std::uint64_t lost = 0;       ///< bit i: records[i] is lost
  /// Bit i: records[i] is reported, and a bitmap said so. (Not all that are reported have theirs.)
  std::uint64_t reported = 0;
  std::array<PacketRecord, kRecordsPerChunk> records;

  /// What `sent` is of a record that is sent now. Times of a chunk that are more than a second
  /// apart don't fit; then its base moves, at most once in 73 ms.
  [[nodiscard]] std::uint32_t sent_at(Time now) noexcept {
    if (now - base >= kSpan) [[unlikely]]
      move_base(now - kOldestSent);
    return static_cast<std::uint32_t>((now - base).count()) & kSpanMask;
  }

 private:
  static constexpr std::uint32_t kSpanMask = (1u << 30) - 1;
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

/// A packet of a send window, as others see it. Good as long as the window holds it.
class Packet {
 public:
  Packet(PacketChunk& chunk, std::uint32_t index) noexcept : chunk_(&chunk), index_(index) {}

  [[nodiscard]] PacketState state() const noexcept {
    if (first_try()) return PacketState::outstanding;
    if (record().reported != 0) return PacketState::reported;
    return (chunk_->lost & bit()) != 0 ? PacketState::lost : PacketState::outstanding;
  }
  /// Outstanding, and has never been given up.
  [[nodiscard]] bool first_try() const noexcept { return (chunk_->first_try & bit()) != 0; }
  /// Time and path of the last transmission.
  [[nodiscard]] Time sent() const noexcept { return chunk_->base + Duration{record().sent}; }
  [[nodiscard]] std::uint16_t path() const noexcept { return record().path; }
  /// How often it was sent; kManyTransmissions: as often or more often.
  [[nodiscard]] std::uint32_t transmissions() const noexcept { return record().transmissions; }
  /// Nominal size; needs first_try(). Of others it follows from the message.
  [[nodiscard]] std::uint32_t size() const noexcept { return record().size_or_links; }
  [[nodiscard]] Missed missed() const noexcept { return record().missed; }
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
