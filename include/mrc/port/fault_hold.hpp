// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "mrc/core/time.hpp"
#include "mrc/core/types.hpp"
#include "mrc/port/address.hpp"
#include "mrc/wire/burst.hpp"

namespace mrc::inline v0_1::port {

/// A received packet before its iCRC was checked, as faults act on it.
struct RawPacket {
  wire::RxPacket facts;       ///< all but `bytes`, which is set after the check
  MutableBytes bytes;         ///< BTH .. iCRC
  IpAddress from{};           ///< the sender: the iCRC covers its address ...
  std::uint16_t port = 0;     ///< ... and its UDP port, host byte order, ...
  std::uint16_t to_port = 0;  ///< ... and the one that it was sent to
  bool trimmable = false;     ///< a switch may trim it, by its DSCP
};

/// Copies of packets that a fault holds back, each until a time or, for reordering, until a number
/// of later packets went by. All memory is allocated at construction; a copy that was given out
/// stays valid until recycle(). One thread at a time.
class FaultHold {
 public:
  /// Largest number of later packets that can overtake a packet held for reordering.
  static constexpr std::uint32_t kReorderSpan = 8;
  /// Longest time that such a packet waits for them.
  static constexpr Duration kReorderTime = std::chrono::milliseconds{1};
  /// Bytes per slot: any UDP datagram. Untouched pages of the memory cost nothing.
  static constexpr std::size_t kSlotBytes = 65536;

  explicit FaultHold(std::uint32_t slots)
      : memory_(std::make_unique_for_overwrite<std::uint8_t[]>(slots * kSlotBytes)), held_(slots) {
    free_.reserve(slots);
    given_.reserve(slots);
    timed_.reserve(slots);
    for (std::uint32_t i = slots; i > 0; --i) free_.push_back(i - 1);
  }

  /// Holds a copy until `release`. False: no slot is free.
  [[nodiscard]] bool until(Time release, const RawPacket& packet) noexcept {
    std::uint32_t slot = 0;
    if (!store(packet, slot)) return false;
    timed_.push_back({release, sequence_++, slot});
    std::push_heap(timed_.begin(), timed_.end(), later);
    return true;
  }

  /// Holds a copy until `packets` (1 .. kReorderSpan) later packets went by, or kReorderTime.
  [[nodiscard]] bool overtaken(Time now, std::uint32_t packets, const RawPacket& packet) noexcept {
    std::uint32_t slot = 0;
    if (counted_size_ == counted_.size() || !store(packet, slot)) return false;
    counted_[counted_size_++] = {now + kReorderTime, passed_ + packets, slot};
    return true;
  }

  /// One more packet went by; those that it was to overtake become due.
  void packet_passed() noexcept { ++passed_; }

  /// Gives the next packet that is due at `now`, oldest first; false if there is none.
  [[nodiscard]] bool take_due(Time now, RawPacket& packet) noexcept {
    for (std::size_t i = 0; i < counted_size_; ++i) {
      if (counted_[i].release > now && counted_[i].passed > passed_) continue;
      const std::uint32_t slot = counted_[i].slot;
      std::copy(counted_.begin() + static_cast<std::ptrdiff_t>(i) + 1,
                counted_.begin() + static_cast<std::ptrdiff_t>(counted_size_),
                counted_.begin() + static_cast<std::ptrdiff_t>(i));
      --counted_size_;
      return give(slot, packet);
    }
    if (timed_.empty() || timed_.front().release > now) return false;
    std::pop_heap(timed_.begin(), timed_.end(), later);
    const std::uint32_t slot = timed_.back().slot;
    timed_.pop_back();
    return give(slot, packet);
  }

  /// When take_due() will have something, or kNever.
  [[nodiscard]] Time next_release() const noexcept {
    Time next = timed_.empty() ? kNever : timed_.front().release;
    for (std::size_t i = 0; i < counted_size_; ++i) {
      const Counted& c = counted_[i];
      next = std::min(next, c.passed <= passed_ ? Time::min() : c.release);
    }
    return next;
  }

  /// The packets given out by take_due() are no longer in use.
  void recycle() noexcept {
    free_.insert(free_.end(), given_.begin(), given_.end());
    given_.clear();
  }

  [[nodiscard]] bool empty() const noexcept { return timed_.empty() && counted_size_ == 0; }

 private:
  struct Timed {
    Time release;
    std::uint64_t sequence;  ///< packets of one release time leave in the order they came
    std::uint32_t slot;
  };
  struct Counted {
    Time release{};
    std::uint64_t passed = 0;
    std::uint32_t slot = 0;
  };

  /// Heap order: the earliest release is on top.
  [[nodiscard]] static bool later(const Timed& a, const Timed& b) noexcept {
    return a.release != b.release ? a.release > b.release : a.sequence > b.sequence;
  }

  [[nodiscard]] bool store(const RawPacket& packet, std::uint32_t& slot) noexcept {
    if (free_.empty() || packet.bytes.size() > kSlotBytes) return false;
    slot = free_.back();
    free_.pop_back();
    std::uint8_t* copy = memory_.get() + slot * kSlotBytes;
    std::memcpy(copy, packet.bytes.data(), packet.bytes.size());
    held_[slot] = packet;
    held_[slot].bytes = {copy, packet.bytes.size()};
    return true;
  }

  [[nodiscard]] bool give(std::uint32_t slot, RawPacket& packet) noexcept {
    packet = held_[slot];
    given_.push_back(slot);
    return true;
  }

  std::unique_ptr<std::uint8_t[]> memory_;
  std::vector<RawPacket> held_;       ///< by slot
  std::vector<std::uint32_t> free_;   ///< last freed is used first: its memory is warm
  std::vector<std::uint32_t> given_;  ///< out until recycle()
  std::vector<Timed> timed_;          ///< heap
  /// A packet and its duplicate can both wait, each for kReorderSpan packets at most.
  std::array<Counted, 2 * kReorderSpan> counted_{};
  std::size_t counted_size_ = 0;
  std::uint64_t sequence_ = 0;
  std::uint64_t passed_ = 0;
};

}  // namespace mrc::inline v0_1::port
