// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "mrc/core/types.hpp"
#include "mrc/engine/queues.hpp"

namespace mrc::inline v0_1::engine {

/// Where datagrams go, as a queue pair names it (Engine::add_destination()).
enum class DestinationId : std::uint32_t {};

/// A posted datagram.
struct DatagramWqe {
  /// How far it has come.
  enum class Progress : std::uint8_t {
    posted,  ///< waits for a port with room
    given,   ///< in the newest burst; ports may still hand it back
    gone,    ///< sent, or lost before it was
  };
  std::uint64_t wr_id = 0;               ///< returned in the completion
  std::uint32_t length = 0;              ///< of the payload, bytes
  std::uint32_t immediate = 0;           ///< used only `with_immediate`
  std::uint32_t q_key = 0;               ///< sent
  Qpn remote{};                          ///< destination queue pair
  DestinationId to{};                    ///< its device
  std::uint32_t path = 0;                ///< chooses the path
  std::uint16_t copies = 0;              ///< copies of its payload that ports still read
  std::uint8_t sges = 0;                 ///< number of local SGEs; 0 if inlined
  std::uint8_t traffic_class = 0;        ///< DSCP and ECN
  Progress progress = Progress::posted;  ///< how far it has come
  bool with_immediate : 1 = false;       ///< has an ImmDt
  bool signaled : 1 = false;             ///< produces a completion on success
  bool solicited : 1 = false;            ///< the peer's completion is solicited
  bool inlined : 1 = false;              ///< its data is in the queue, not in the user's memory
};

/// The send queue of a datagram queue pair. Positions are counters that only grow, modulo 2^32:
/// retired <= sending <= posted. Entries behind sending() are posted; those in front of it were
/// given to ports, except those that came back, to which sending() then returns. Nothing allocates
/// after the constructor. One thread.
class DatagramQueue {
 public:
  /// Room for `capacity` entries with up to `sges` SGEs or `inline_bytes` bytes each.
  /// `keep_slots`: see PolledSlots. Throws std::bad_alloc.
  DatagramQueue(std::uint32_t capacity, std::uint32_t sges, std::uint32_t inline_bytes,
                bool keep_slots = false)
      : capacity_(capacity),
        sge_room_(sges),
        inline_room_(inline_bytes),
        entries_(std::bit_ceil(capacity)),
        sges_(entries_.size() * sges),
        inline_(entries_.size() * inline_bytes),
        slots_(keep_slots) {}

  /// Position behind the newest entry.
  [[nodiscard]] std::uint32_t posted() const noexcept { return posted_; }
  /// Position from which on entries may have to be sent.
  [[nodiscard]] std::uint32_t sending() const noexcept { return sending_; }
  /// Position of the oldest entry; posted() if there is none.
  [[nodiscard]] std::uint32_t retired() const noexcept { return retired_; }
  /// As in SendQueue.
  [[nodiscard]] std::uint32_t taken() const noexcept { return slots_.taken(posted_, retired_); }
  /// True if post() has no room.
  [[nodiscard]] bool full() const noexcept { return taken() >= capacity_; }
  /// Some entry may have to be sent.
  [[nodiscard]] bool backlog() const noexcept { return sending_ != posted_; }
  /// Is there an entry at that position?
  [[nodiscard]] bool contains(std::uint32_t position) const noexcept {
    return position - retired_ < posted_ - retired_;
  }

  /// An entry, by its position; needs contains().
  [[nodiscard]] DatagramWqe& at(std::uint32_t position) noexcept {
    return entries_[slot(position)];
  }
  /// Room for the SGEs of an entry.
  [[nodiscard]] std::span<LocalSge> sges(std::uint32_t position) noexcept {
    return {sges_.data() + slot(position) * sge_room_, sge_room_};
  }
  /// Room for the inline data of an entry.
  [[nodiscard]] MutableBytes inline_data(std::uint32_t position) noexcept {
    return {inline_.data() + slot(position) * inline_room_, inline_room_};
  }

  /// Appends an entry for the caller to fill; needs !full().
  [[nodiscard]] DatagramWqe& post() noexcept { return at(posted_++) = {}; }
  /// The entry at sending() needs no more: moves on.
  void skip() noexcept { ++sending_; }
  /// A port handed back the entry at that position.
  void return_to(std::uint32_t position) noexcept {
    if (static_cast<std::int32_t>(position - sending_) < 0) sending_ = position;
  }
  /// Removes the oldest entry.
  void retire() noexcept {
    if (retired_++ == sending_) ++sending_;
  }
  /// As SendQueue::make().
  void make() noexcept { slots_.make(); }
  /// As SendQueue::on_polled().
  void on_polled(const Completion& c) noexcept { slots_.on_polled(c, retired_); }
  /// All entries were retired: frees their slots.
  void free_slots() noexcept { slots_.free_all(posted_); }

 private:
  [[nodiscard]] std::size_t slot(std::uint32_t position) const noexcept {
    return position & (entries_.size() - 1);
  }

  std::uint32_t capacity_, sge_room_, inline_room_;
  std::vector<DatagramWqe> entries_;
  std::vector<LocalSge> sges_;        ///< sge_room_ of each entry
  std::vector<std::uint8_t> inline_;  ///< inline_room_ of each entry
  std::uint32_t posted_ = 0, sending_ = 0, retired_ = 0;
  PolledSlots slots_;
};

}  // namespace mrc::inline v0_1::engine
