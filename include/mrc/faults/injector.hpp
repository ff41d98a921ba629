// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "mrc/core/random.hpp"
#include "mrc/core/types.hpp"
#include "mrc/faults/schedule.hpp"
#include "mrc/net/address.hpp"
#include "mrc/plane/plane.hpp"
#include "mrc/wire/burst.hpp"
#include "mrc/wire/headers.hpp"

namespace mrc::inline v0_1::port {

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

/// True if the fault can be injected on a single path at the sending side: only loss, black_hole
/// and down can.
[[nodiscard]] bool works_outbound(const FaultSpec& spec) noexcept;

/// Throws Error if a value is out of range, or (unsupported) unless works_outbound().
void check_outbound(const FaultSpec& spec);

namespace detail {

/// Faults by entropy value or path, in order.
using FaultTable = std::vector<std::pair<std::uint32_t, FaultSpec>>;

}  // namespace detail

/// Injects faults into a port. Received packets pass it before their iCRC is checked, so that
/// corruption is detected as if the network had caused it; packets to be sent can only be dropped.
/// The same seed and the same calls give the same faults.
///
/// The set_*() and clear() calls are set-up: they may allocate, and throw mrc::Error. The rest is
/// data path; without faults a port calls active() only. One thread at a time, the one that owns
/// the port (Port::set_impairment()).
class FaultInjector final : public Impairment {
 public:
  /// Bytes that a trimmed packet keeps, counted from BTH: BTH, METH, TSETH and RETH. (A switch must
  /// keep wire::kTrimKeep bytes from the UDP header on at least, mrc-1.0 §1.12: 20 of these.)
  static constexpr std::size_t kTrimKeep = wire::write_header_size(true, false);
  /// Packets up to this size (BTH .. iCRC) are never trimmed: no control packet is larger.
  static constexpr std::size_t kTrimMinimum = 64;
  /// Packets that are held back at a time, unless told otherwise.
  static constexpr std::uint32_t kSlots = 2048;

  /// `slots`: packets that can be held back at a time; allocated when first needed.
  /// `drops_damaged`: see Capabilities; `corrupt` and trimming act as loss then.
  explicit FaultInjector(std::uint64_t seed, std::uint32_t slots = kSlots,
                         bool drops_damaged = false);

  /// Faults of all packets of the port. A spec without faults ends them.
  void set(const FaultSpec& spec);

  /// Faults of the received packets with this entropy value, in addition to the port's.
  void set_inbound(Ev ev, const FaultSpec& spec);

  /// Faults of the packets sent on one of the port's own paths, in addition to the port's: loss and
  /// black_hole. `down` acts as black_hole, since a sender does not see that a link further along
  /// the path is down. Other faults are rejected (check_outbound()).
  void set_outbound(std::uint16_t port_path, const FaultSpec& spec);

  /// Ends all faults. Packets that are held back are still delivered when they are due.
  void clear();

  // As Impairment: a packet that finds the sink full is held back and due at the next release(); it
  // is counted as overflow and dropped if it can't be held.
  [[nodiscard]] const FaultStats& stats() const noexcept override { return stats_; }
  [[nodiscard]] Time next_release() const noexcept override {
    return hold_ == nullptr ? kNever : hold_->next_release();
  }
  [[nodiscard]] bool vanishes(std::uint16_t port_path) noexcept override;
  void count_refused(std::uint32_t packets) noexcept override { stats_.link_down += packets; }
  void release(Time now, PacketSink& sink) noexcept override;
  void receive(Time now, RawPacket& packet, PacketSink& sink) noexcept override;

 private:
  /// Recomputes what depends on the specs.
  void update();
  [[nodiscard]] FaultSpec as_seen(FaultSpec spec) const noexcept;

  [[nodiscard]] const FaultSpec& spec_of(Ev ev) const noexcept;

  /// A probability of 0, the usual case, draws no random number.
  [[nodiscard]] bool hits(double probability) noexcept {
    return probability > 0 && random_.chance(probability);
  }

  /// False: the packet is lost.
  [[nodiscard]] bool survives(const FaultSpec& spec) noexcept;
  void damage(const FaultSpec& spec, RawPacket& packet) noexcept;
  void trim(RawPacket& packet, wire::Trim kind) noexcept;

  void pass_on(const FaultSpec& spec, Time now, const RawPacket& packet, PacketSink& sink) noexcept;
  void send_once(const FaultSpec& spec, Time now, const RawPacket& packet, PacketSink& sink,
                 bool overtaken) noexcept;

  /// Uniform in [0, limit).
  [[nodiscard]] Duration share_of(Duration limit) noexcept;

  void deliver_due(Time now, PacketSink& sink) noexcept;

  /// BTH byte 4 is not covered by the iCRC (mrc-1.0 §1.12), so corruption never hits it: it would
  /// go undetected.
  static constexpr std::size_t kVariantByte = 4;

  Random random_;
  FaultSpec port_;
  detail::FaultTable inbound_;
  detail::FaultTable both_;  ///< inbound_, each combined with port_
  detail::FaultTable outbound_;
  std::unique_ptr<FaultHold> hold_;
  std::uint32_t slots_;
  bool drops_damaged_;
  bool any_ = false;
  bool only_loss_ = true;  ///< no faults other than the port's loss
  FaultStats stats_;
};

/// The faults of a port, which it has from the first call on. Not for ports that have another
/// impairment. `seed`: of that first call. Throws std::bad_alloc.
[[nodiscard]] FaultInjector& faults_of(Port& port, std::uint64_t seed = 1);

}  // namespace mrc::inline v0_1::port
