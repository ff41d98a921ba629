// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "mrc/core/types.hpp"
#include "mrc/net/address.hpp"
#include "mrc/wire/burst.hpp"

namespace mrc::inline v0_1::port {

/// A received packet before its iCRC is checked: what faults act on. The iCRC covers the addresses
/// and ports here (mrc-1.0 §1.12).
struct RawPacket {
  wire::RxPacket facts;            ///< all but `bytes`, which is set after the check
  MutableBytes bytes;              ///< BTH .. iCRC
  IpAddress from{};                ///< the sender's address
  std::uint16_t port = 0;          ///< UDP source port, host byte order
  std::uint16_t to_port = 0;       ///< UDP destination port, host byte order
  std::uint32_t flow_label = 0;    ///< of the IP header nearest to UDP; 0 on IPv4
  std::uint8_t traffic_class = 0;  ///< of that header, or the outermost one
  bool trimmable = false;          ///< its DSCP allows switches to trim it
};

/// Copies of packets that a fault holds back, each until a time or, for reordering, until a number
/// of later packets have passed. All memory is allocated at construction; a copy that take_due()
/// returned stays valid until recycle(). One thread at a time.
class FaultHold {
 public:
  /// Largest number of later packets that can overtake a packet held for reordering.
  static constexpr std::uint32_t kReorderSpan = 8;
  /// Longest time that a packet held for reordering waits for them.
  static constexpr Duration kReorderTime = std::chrono::milliseconds{1};
  /// Bytes per slot: any UDP datagram fits. Pages that are never touched use no memory.
  static constexpr std::size_t kSlotBytes = 65536;

  /// `slots`: number of packets that can be held at a time.
  explicit FaultHold(std::uint32_t slots);

  /// Holds a copy until `release`. False: no slot is free.
  [[nodiscard]] bool until(Time release, const RawPacket& packet) noexcept;

  /// Holds a copy until `packets` (1 .. kReorderSpan) later packets have passed, kReorderTime at
  /// most. False: no slot is free.
  [[nodiscard]] bool overtaken(Time now, std::uint32_t packets, const RawPacket& packet) noexcept;

  /// Counts a packet that was not held: those waiting for it to pass become due.
  void packet_passed() noexcept { ++passed_; }

  /// Takes out the next packet that is due at `now`, oldest first; false if there is none.
  [[nodiscard]] bool take_due(Time now, RawPacket& packet) noexcept;

  /// When take_due() will have something, or kNever.
  [[nodiscard]] Time next_release() const noexcept;

  /// Frees the slots of the packets that take_due() returned.
  void recycle() noexcept;

  /// True if no packet is held back.
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
  [[nodiscard]] static bool later(const Timed& a, const Timed& b) noexcept;

  [[nodiscard]] bool store(const RawPacket& packet, std::uint32_t& slot) noexcept;

  [[nodiscard]] bool give(std::uint32_t slot, RawPacket& packet) noexcept;

  std::unique_ptr<std::uint8_t[]> memory_;
  std::vector<RawPacket> held_;       ///< by slot
  std::vector<std::uint32_t> free_;   ///< last freed is used first: it is still in the cache
  std::vector<std::uint32_t> given_;  ///< returned by take_due(), in use until recycle()
  std::vector<Timed> timed_;          ///< heap
  /// A packet and its duplicate can both wait, each for kReorderSpan packets at most.
  std::array<Counted, 2 * kReorderSpan> counted_{};
  std::size_t counted_size_ = 0;
  std::uint64_t sequence_ = 0;
  std::uint64_t passed_ = 0;
};

}  // namespace mrc::inline v0_1::port
