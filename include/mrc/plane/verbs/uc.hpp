// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "mrc/core/types.hpp"
#include "mrc/plane/verbs/uc_message.hpp"
#include "mrc/plane/verbs/uc_waits.hpp"
#include "mrc/wire/burst.hpp"

namespace mrc::inline v0_1::port {

/// Settings of a UcReceiver.
struct UcReceiverOptions {
  std::uint16_t paths = 16;  ///< UC paths from the peer, 1 .. kMaxUcPaths
  /// Packets of each path that can wait for their header, or the header for them; 68 bytes each,
  /// rounded up to a power of two, 2 .. 65,536.
  std::uint32_t ring = 1024;
  /// Unsettled packets, times the paths that each waits for; 60 bytes each, 1 .. 2^20.
  std::uint32_t waits = 4096;
  /// How long a path may bring nothing while packets wait for it, before it must be reset.
  Duration reset_after = std::chrono::milliseconds{10};
};

/// Counters of a UcReceiver. Packets are those with payload, if not said otherwise.
struct UcReceiverStats {
  std::uint64_t joined = 0;              ///< packets given to the caller
  std::uint64_t unmatched_headers = 0;   ///< headers whose packet did not come
  std::uint64_t unmatched_arrivals = 0;  ///< packets whose header did not come
  std::uint64_t length_mismatches = 0;   ///< pairs dropped: header and packet differ
  std::uint64_t markers = 0;             ///< packets without payload
  std::uint64_t duplicates = 0;   ///< packets and markers that came twice, as far as is known
  std::uint64_t overtaken = 0;    ///< packets and markers that came after a later one
  std::uint64_t late_writes = 0;  ///< both, with payload: memory may have changed when it must not
  std::uint64_t resets = 0;       ///< of all paths
  /// Packets, headers and markers of an epoch that is not the path's.
  std::uint64_t stale_epochs = 0;
  std::uint64_t malformed = 0;  ///< headers and retransmissions with impossible names
  std::uint64_t no_room = 0;    ///< retransmissions dropped: too many are unsettled
};

/// A packet whose payload is in its place and whose header is known.
struct UcJoined {
  Bytes header;                      ///< transport header, as it was sent
  std::uint16_t payload_length = 0;  ///< bytes placed
  std::uint16_t path = 0;            ///< on which it came
  std::uint8_t pad = 0;              ///< UcHeader::pad
  std::uint32_t check = 0;           ///< UcHeader::check, to be compared
};

/// What to do with a retransmission.
enum class UcVerdict : std::uint8_t {
  settled,    ///< hand it on
  unsettled,  ///< hand it on as RxPacket::unsettled; take_settled() will name it
  drop,       ///< drop it: no room (it comes again), or malformed
};

/// The receiving end of one peer's UC paths: joins placed payload with the headers that follow by
/// UD, and knows when no earlier copy of a retransmitted packet can be written any more: each path
/// on which one was sent has brought it, or something later, or was reset.
///
/// It relies on a path that keeps order and duplicates nothing. A packet that contradicts this,
/// because it is not later than what its path has brought, makes the receiver broken(). Such a path
/// gives no joined packets and settles nothing from then on, before it is reset; but what was
/// settled before cannot be taken back, so the caller stops using UC with that peer.
///
/// Whether a copy was written is known when its completion has been read: arrived() must be called
/// for all completions in the order of the path. Names that the peer says may be anything.
///
/// One thread. Only the constructor allocates and throws. `now` never goes back.
class UcReceiver {
 public:
  /// Paths begin with epoch 0 and sequence number 0. Throws Error if the options are out of range.
  explicit UcReceiver(const UcReceiverOptions& options = {});

  /// A UC packet came on a queue pair of `path` that belongs to `epoch`, with immediate `seq` and
  /// `length` bytes of payload; 0 is a marker. Returns it if its header is here, until the next
  /// call.
  [[nodiscard]] const UcJoined* arrived(std::uint16_t path, std::uint8_t epoch, std::uint32_t seq,
                                        std::uint32_t length, Time now) noexcept;
  /// An entry of a `headers` message. Returns the packet if its payload is here, until the next
  /// call; `entry.header` must be there as long.
  [[nodiscard]] const UcJoined* header(const UcHeader& entry) noexcept;
  /// A packet to `packet.qpn`, that was sent before as one or several of `origins`. Call this when
  /// the packet is handed on, not when it is put aside: who takes it must learn of it before it
  /// learns what take_settled() returns.
  [[nodiscard]] UcVerdict retransmitted(std::span<const UcName> origins,
                                        const wire::PacketName& packet, Time now) noexcept;
  /// Nothing that was sent to the path so far can be written any more: its queue pair is destroyed.
  /// Its next one has `epoch` and begins with sequence number 0. False, and nothing happens, if the
  /// epoch is not a newer one. Give arrived() the old queue pair's completions before: later they
  /// are stale, their packets lost, and late writes among them not counted.
  bool reset(std::uint16_t path, std::uint8_t epoch) noexcept;

  /// Retransmitted packets that have become settled since the last call; valid until the next call.
  [[nodiscard]] std::span<const wire::PacketName> take_settled() noexcept {
    return waits_.take_settled();
  }
  /// Packets that are not settled.
  [[nodiscard]] std::size_t unsettled() const noexcept { return waits_.packets(); }

  /// Paths that must be reset, bit i for path i: packets wait for them, and they have brought
  /// nothing for UcReceiverOptions::reset_after; or they are broken. Names a path again after that
  /// time.
  [[nodiscard]] std::uint64_t wants_reset(Time now) noexcept;
  /// When wants_reset() will name a path; kNever: not before something comes.
  [[nodiscard]] Time next_deadline() const noexcept;

  /// Epoch of a path.
  [[nodiscard]] std::uint8_t epoch(std::uint16_t path) const noexcept { return paths_[path].epoch; }
  /// A path has brought a packet twice or too late. For ever.
  [[nodiscard]] bool broken() const noexcept { return broken_; }
  /// What has happened so far.
  [[nodiscard]] const UcReceiverStats& stats() const noexcept { return stats_; }

 private:
  /// No path has a deadline.
  [[nodiscard]] bool idle() const noexcept { return waits_.packets() == 0 && !broken_; }

  struct Path {
    std::uint32_t highest = ~std::uint32_t{0};  ///< sequence number; all before it need no waiting
    std::uint8_t epoch = 0;
    bool broken = false;
    Time deadline = kNever;
  };
  enum class Has : std::uint8_t { nothing, header, payload, both };
  struct Slot {
    std::uint32_t seq = 0;
    std::uint32_t arrived = 0;  ///< sequence number of the last packet that came, and belongs here
    std::uint32_t check = 0;
    std::uint16_t length = 0;  ///< of the payload
    Has has = Has::nothing;
    std::uint8_t pad = 0;
    std::uint8_t header_length = 0;
    std::array<std::uint8_t, wire::kMaxTransportHeader> header{};
  };

  [[nodiscard]] Slot& slot(std::uint16_t path, std::uint32_t seq) noexcept {
    return slots_[std::size_t{path} * (ring_mask_ + std::size_t{1}) + (seq & ring_mask_)];
  }
  /// Empties a slot and counts what it held in vain.
  void vacate(Slot& slot) noexcept;
  void empty_ring(std::uint16_t path) noexcept;
  /// A packet that its path had promised not to bring.
  void promise_broken(std::uint16_t path, std::uint32_t seq, std::uint32_t length,
                      Time now) noexcept;
  [[nodiscard]] const UcJoined* join(const UcHeader& entry, std::uint32_t arrived_length) noexcept;

  Duration reset_after_;
  std::uint32_t ring_mask_;
  bool broken_ = false;
  std::vector<Path> paths_;
  std::vector<Slot> slots_;  ///< of all paths
  UcWaits waits_;
  UcJoined joined_;
  UcReceiverStats stats_;
};

}  // namespace mrc::inline v0_1::port
