// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <vector>

#include "mrc/core/containers.hpp"
#include "mrc/core/types.hpp"
#include "mrc/engine/polled_slots.hpp"
#include "mrc/engine/send_pool.hpp"
#include "mrc/engine/verbs_types.hpp"
#include "mrc/wire/headers.hpp"

namespace mrc::inline v0_1::engine {

/// What a message of a send queue is: the values of SendOpcode, and responses.
enum class MessageKind : std::uint8_t {
  write,
  write_imm,
  send,
  send_imm,
  read,
  compare_swap,
  fetch_add,
  read_response,
  atomic_response,
};
static_assert(static_cast<int>(MessageKind::send_imm) == static_cast<int>(SendOpcode::send_imm) &&
              static_cast<int>(MessageKind::fetch_add) == static_cast<int>(SendOpcode::fetch_add));

/// A posted request, or a response.
struct SendWqe {
  std::uint64_t wr_id = 0;      ///< returned in the completion
  std::uint64_t remote = 0;     ///< virtual address at the peer; 0 in what has none
  std::uint32_t rkey = 0;       ///< of the peer's memory region
  std::uint32_t immediate = 0;  ///< with_immediate(); READ, atomic: bytes of the response
  std::uint32_t length = 0;     ///< bytes that its packets carry
  std::uint32_t packets = 0;    ///< packets of the message, at least 1
  Psn first;                    ///< PSN of its first packet, set when that is sent
  std::uint16_t msn = 0;        ///< MSN, low 16 bits, set when its first packet is sent
  std::uint16_t rqmsn = 0;      ///< METH.rqmsn: RQMSN or RequestNumber; 0 in writes
  std::uint8_t sges = 0;        ///< number of local SGEs; 0 if inlined
  MessageKind kind{};           ///< what it is
  std::uint16_t copies = 0;     ///< copies of its payload that ports still read
  SendFlags flags{};            ///< as posted; `signaled` also for queue pairs that signal all

  /// Its last packet has an immediate value.
  [[nodiscard]] bool with_immediate() const noexcept {
    return kind == MessageKind::write_imm || kind == MessageKind::send_imm;
  }
  /// WriteImm, SEND: consumes a receive, has an RQMSN.
  [[nodiscard]] bool numbered() const noexcept {
    return kind >= MessageKind::write_imm && kind <= MessageKind::send_imm;
  }
  /// READ or atomic.
  [[nodiscard]] bool is_request() const noexcept {
    return kind >= MessageKind::read && kind <= MessageKind::fetch_add;
  }
  /// An atomic, whose operands are its payload.
  [[nodiscard]] bool is_atomic() const noexcept {
    return kind == MessageKind::compare_swap || kind == MessageKind::fetch_add;
  }
  /// Length of the message; of a READ or an atomic, of its response (RETH.dma_length).
  [[nodiscard]] std::uint32_t message_length() const noexcept {
    return is_request() ? immediate : length;
  }
};
static_assert(sizeof(SendWqe) == 48);

/// An SGE of a posted write, checked when posted.
struct LocalSge {
  const std::uint8_t* address;  ///< first byte
  std::uint32_t length;         ///< bytes
  std::uint32_t lkey;           ///< of the region that holds the SGE
};
static_assert(sizeof(LocalSge) == 16);

/// The send queue of a queue pair: requests that are posted, being sent, sent and waiting for their
/// Transport ACK, acknowledged but waiting for the response to a READ or an atomic, or done but not
/// retired, since a port still reads their payload. Positions are counters that only grow, modulo
/// 2^32: retired <= done <= acknowledged <= sending <= posted. Entries are in
/// chunks of the engine's pool, each followed by fixed room for its SGEs or inline data. Nothing
/// allocates after the constructor. One thread.
class SendQueue {
 public:
  /// Room for `capacity` entries with up to `sges` SGEs or `inline_bytes` bytes each. Reserves
  /// their chunks in `pool`, which must outlive the queue. `keep_slots`: see PolledSlots. Throws
  /// std::bad_alloc.
  SendQueue(SendPool& pool, std::uint32_t capacity, std::uint32_t sges, std::uint32_t inline_bytes,
            bool keep_slots = false)
      : pool_(&pool),
        capacity_(capacity),
        mask_(std::bit_ceil(capacity) - 1),
        stride_(sizeof(SendWqe) + room(sges, inline_bytes)),
        shift_(static_cast<std::uint32_t>(
            std::countr_zero(std::bit_floor(SendPool::kChunkBytes / stride_)))),
        chunks_((mask_ >> shift_) + 1),
        slots_(keep_slots) {
    pool_->book(chunks_.size());
  }
  ~SendQueue() {
    clear();
    pool_->cancel(chunks_.size());
  }
  SendQueue(const SendQueue&) = delete;
  SendQueue& operator=(const SendQueue&) = delete;

  /// Position behind the newest entry.
  [[nodiscard]] std::uint32_t posted() const noexcept { return posted_; }
  /// Position of the oldest entry with unsent packets; posted() if there is none.
  [[nodiscard]] std::uint32_t sending() const noexcept { return sending_; }
  /// Position of the oldest entry without Transport ACK; posted() if there is none.
  [[nodiscard]] std::uint32_t acknowledged() const noexcept { return acknowledged_; }
  /// Entries that were sent whole and have no Transport ACK.
  [[nodiscard]] std::uint32_t waiting() const noexcept { return sending_ - acknowledged_; }
  /// Position of the oldest entry that is not done; posted() if there is none.
  [[nodiscard]] std::uint32_t done() const noexcept { return done_; }
  /// Position of the oldest entry; done() if all that are done are retired.
  [[nodiscard]] std::uint32_t retired() const noexcept { return retired_; }
  /// Slots that are not free: of requests, and of completions that were made without one.
  [[nodiscard]] std::uint32_t taken() const noexcept { return slots_.taken(posted_, retired_); }
  /// True if post() has no room.
  [[nodiscard]] bool full() const noexcept { return taken() >= capacity_; }
  /// True if more than half of the room is taken.
  [[nodiscard]] bool half_full() const noexcept { return posted_ - retired_ > capacity_ / 2; }
  /// True if every entry is done.
  [[nodiscard]] bool empty() const noexcept { return posted_ == done_; }
  /// Some posted write has packets that were never sent.
  [[nodiscard]] bool backlog() const noexcept { return sending_ != posted_; }

  /// An entry between retired() and posted(), by its position.
  [[nodiscard]] SendWqe& at(std::uint32_t position) noexcept {
    return *std::launder(reinterpret_cast<SendWqe*>(address(slot(position))));
  }
  /// The same, read-only.
  [[nodiscard]] const SendWqe& at(std::uint32_t position) const noexcept {
    return *std::launder(reinterpret_cast<const SendWqe*>(address(slot(position))));
  }

  /// Prefetches where the entry at a position is found. Then, some time later, prefetch_entry().
  void prefetch_index(std::uint32_t position) const noexcept {
    prefetch(&chunks_[slot(position) >> shift_]);
  }
  /// Prefetches the entry at a position, if there is one.
  void prefetch_entry(std::uint32_t position) const noexcept {
    const std::uint16_t s = slot(position);
    if (chunks_[s >> shift_] != nullptr) prefetch(address(s), sizeof(SendWqe) + sizeof(LocalSge));
  }

  /// The SGEs of an entry, in the room behind it; needs !w.flags.inline_data.
  [[nodiscard]] static LocalSge* sges(SendWqe& w) noexcept {
    return reinterpret_cast<LocalSge*>(&w + 1);
  }
  /// The operands of an atomic, behind its SGE; needs room for two SGEs.
  [[nodiscard]] static wire::AtomicOperands& operands(SendWqe& w) noexcept {
    return *reinterpret_cast<wire::AtomicOperands*>(sges(w) + 1);
  }
  /// The data of an entry, in the room behind it; needs w.flags.inline_data.
  [[nodiscard]] static std::uint8_t* inline_data(SendWqe& w) noexcept {
    return reinterpret_cast<std::uint8_t*>(&w + 1);
  }

  /// Appends an entry for the caller to fill; needs !full().
  [[nodiscard]] SendWqe& post() noexcept {
    const std::uint16_t s = slot(posted_++);
    std::byte*& chunk = chunks_[s >> shift_];
    if (chunk == nullptr) chunk = pool_->acquire();
    return *std::construct_at(reinterpret_cast<SendWqe*>(address(s)));
  }
  /// The last packet of the entry at sending() was sent: moves on to the next entry.
  void sent() noexcept { ++sending_; }
  /// No entry has been sent: sending begins again at done().
  void unsend() noexcept { sending_ = acknowledged_ = done_; }
  /// The entry at acknowledged() has its Transport ACK.
  void acknowledge() noexcept { ++acknowledged_; }
  /// The entry at done() is done; it stays until retire().
  void finish() noexcept {
    ++done_;
    if (static_cast<std::int32_t>(acknowledged_ - done_) < 0) acknowledged_ = done_;
    if (static_cast<std::int32_t>(sending_ - done_) < 0) sending_ = done_;
  }
  /// Removes the oldest entry, which must be done.
  void retire() noexcept {
    const std::uint16_t oldest = slot(retired_++);
    const bool none = retired_ == posted_;
    if (!none && (retired_ & ((1u << shift_) - 1)) != 0) return;
    // In a nearly full queue the newest entries can be in the chunk of the oldest.
    if (!none && slot(posted_ - 1) >> shift_ == oldest >> shift_) return;
    release(chunks_[oldest >> shift_]);
  }
  /// A completion without entry takes a slot; needs !full().
  void make() noexcept { slots_.make(); }
  /// A completion of this queue was polled: its slot is free, and with that of an entry those of
  /// all entries before it.
  void on_polled(const Completion& c) noexcept { slots_.on_polled(c, retired_); }
  /// Removes all entries, frees their slots and returns their chunks to the pool.
  void clear() noexcept {
    retired_ = done_ = acknowledged_ = sending_ = posted_;
    slots_.free_all(posted_);
    for (std::byte*& chunk : chunks_) release(chunk);
  }

  /// Heap bytes of this queue, and the pool chunks that it holds at present.
  [[nodiscard]] std::size_t memory() const noexcept {
    const auto none = std::count(chunks_.begin(), chunks_.end(), nullptr);
    return chunks_.capacity() * sizeof(std::byte*) +
           (chunks_.size() - static_cast<std::size_t>(none)) * SendPool::kChunkBytes;
  }

 private:
  static_assert(sizeof(SendWqe) +
                    std::max<std::size_t>(kMaxSendSges * sizeof(LocalSge), kMaxInlineBytes) <=
                SendPool::kChunkBytes);

  [[nodiscard]] static std::uint32_t room(std::uint32_t sges, std::uint32_t inline_bytes) noexcept {
    return (std::max<std::uint32_t>(sges * sizeof(LocalSge), inline_bytes) + 15) / 16 * 16;
  }
  [[nodiscard]] std::uint16_t slot(std::uint32_t position) const noexcept {
    return static_cast<std::uint16_t>(position & mask_);
  }
  [[nodiscard]] std::byte* address(std::uint16_t slot) const noexcept {
    return chunks_[slot >> shift_] + (slot & ((1u << shift_) - 1)) * stride_;
  }
  void release(std::byte*& chunk) noexcept {
    if (chunk != nullptr) pool_->release(chunk);
    chunk = nullptr;
  }

  SendPool* pool_;
  std::uint32_t capacity_;
  std::uint32_t mask_;
  std::uint32_t stride_;  ///< bytes of an entry and its room
  std::uint32_t shift_;   ///< log2 of entries per chunk
  std::vector<std::byte*> chunks_;
  std::uint32_t posted_ = 0;
  std::uint32_t sending_ = 0;
  std::uint32_t acknowledged_ = 0;
  std::uint32_t done_ = 0;
  std::uint32_t retired_ = 0;
  PolledSlots slots_;
};

}  // namespace mrc::inline v0_1::engine
