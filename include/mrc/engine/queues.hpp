// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "mrc/core/containers.hpp"
#include "mrc/core/error.hpp"
#include "mrc/core/types.hpp"
#include "mrc/engine/options.hpp"
#include "mrc/engine/verbs_types.hpp"
#include "mrc/path/path_set.hpp"
#include "mrc/path/trials.hpp"
#include "mrc/wire/burst.hpp"
#include "mrc/wire/headers.hpp"

namespace mrc::inline v0_1::engine {

/// Which slots of a send queue are taken: those of requests that are not complete; if they are
/// `kept`, as in verbs, those of all requests behind the newest whose completion was polled.
class PolledSlots {
 public:
  explicit PolledSlots(bool kept) noexcept : kept_(kept) {}  ///< as in verbs

  [[nodiscard]] std::uint32_t taken(std::uint32_t posted, std::uint32_t retired) const noexcept {
    return posted - (kept_ ? freed_ : retired) + made_;
  }
  /// A completion that no request of the queue stands for takes a slot (Completion::made).
  void make() noexcept { ++made_; }
  /// A completion of the queue was polled. One that came before free_all() changes nothing.
  void on_polled(const Completion& c, std::uint32_t retired) noexcept {
    if (c.made) {
      made_ -= made_ > 0;
      return;
    }
    const auto count = static_cast<std::uint16_t>(c.position + 1u - freed_);
    if (count <= retired - freed_) freed_ += count;
  }
  /// The queue is empty, and no completion of it will be polled.
  void free_all(std::uint32_t posted) noexcept {
    freed_ = posted;
    made_ = 0;
  }

 private:
  bool kept_;
  std::uint32_t freed_ = 0;  ///< position of the oldest request whose slot is kept
  std::uint32_t made_ = 0;   ///< completions without request that were not polled
};

/// Memory for the posted writes of an engine, given to send queues in chunks, so that an idle queue
/// pair holds none. Only book() allocates, by which each queue reserves its worst case. Chunks are
/// reused last in, first out: those beyond the highest simultaneous use cost address space only.
class SendPool {
 public:
  /// Fits the largest entry (kMaxSendSges, kMaxInlineBytes), or 16 of default size. One cache line
  /// more than 1024 bytes keeps chunks from mapping to the same cache sets.
  static constexpr std::size_t kChunkBytes = 1088;
  static constexpr std::size_t kAlignment = 64;  ///< of chunks: a cache line

  SendPool() = default;
  SendPool(const SendPool&) = delete;
  SendPool& operator=(const SendPool&) = delete;

  /// Throws std::bad_alloc.
  void book(std::size_t chunks) {
    while (blocks_.size() * kBlockChunks < booked_ + chunks)
      blocks_.push_back(std::make_unique_for_overwrite<Chunk[]>(kBlockChunks));
    booked_ += chunks;
  }
  void cancel(std::size_t chunks) noexcept { booked_ -= chunks; }  ///< its chunks are released

  /// A chunk with undefined contents. The caller must hold fewer than it has reserved.
  [[nodiscard]] std::byte* acquire() noexcept {
    ++used_;
    if (free_ != nullptr) {
      std::byte* const chunk = reinterpret_cast<std::byte*>(free_);
      free_ = free_->next;
      return chunk;
    }
    const std::size_t i = touched_++;
    return blocks_[i / kBlockChunks][i % kBlockChunks].bytes;
  }
  void release(std::byte* chunk) noexcept {
    --used_;
    free_ = std::construct_at(reinterpret_cast<Free*>(chunk), free_);
  }

  [[nodiscard]] std::size_t booked() const noexcept { return booked_; }    ///< chunks reserved
  [[nodiscard]] std::size_t used() const noexcept { return used_; }        ///< chunks in use
  [[nodiscard]] std::size_t touched() const noexcept { return touched_; }  ///< most ever in use

 private:
  static constexpr std::size_t kBlockChunks = 256;
  struct alignas(kAlignment) Chunk {
    std::byte bytes[kChunkBytes];
  };
  struct Free {
    explicit Free(Free* n) noexcept : next(n) {}
    Free* next;
  };

  std::vector<std::unique_ptr<Chunk[]>> blocks_;
  Free* free_ = nullptr;
  std::size_t booked_ = 0;   ///< chunks reserved by all queues
  std::size_t used_ = 0;     ///< chunks in use
  std::size_t touched_ = 0;  ///< most chunks ever in use: the part of the pool that takes memory
};

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

  [[nodiscard]] bool with_immediate() const noexcept {
    return kind == MessageKind::write_imm || kind == MessageKind::send_imm;
  }
  /// WriteImm, SEND: consumes a receive, has an RQMSN.
  [[nodiscard]] bool numbered() const noexcept {
    return kind >= MessageKind::write_imm && kind <= MessageKind::send_imm;
  }
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

/// The send queue of a queue pair. Positions are counters that only grow, modulo 2^32:
/// retired <= done <= acknowledged <= sending <= posted. Entries are in chunks of the engine's
/// pool, each followed by fixed room for its SGEs or inline data. Only the constructor allocates.
class SendQueue {
 public:
  /// `sges`, `inline_bytes`: most of an entry. `keep_slots`: see PolledSlots. Throws
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

  [[nodiscard]] std::uint32_t posted() const noexcept { return posted_; }  ///< behind the newest
  /// Position of the oldest entry with unsent packets; posted() if there is none.
  [[nodiscard]] std::uint32_t sending() const noexcept { return sending_; }
  /// Position of the oldest entry without Transport ACK; posted() if there is none.
  [[nodiscard]] std::uint32_t acknowledged() const noexcept { return acknowledged_; }
  /// Entries that were sent whole and have no Transport ACK.
  [[nodiscard]] std::uint32_t waiting() const noexcept { return sending_ - acknowledged_; }
  /// Position of the oldest entry that is not done: a READ or an atomic also waits for its
  /// response.
  [[nodiscard]] std::uint32_t done() const noexcept { return done_; }
  /// Position of the oldest entry: ports may still read the payload of one that is done.
  [[nodiscard]] std::uint32_t retired() const noexcept { return retired_; }
  /// Slots that are not free: of requests, and of completions that were made without one.
  [[nodiscard]] std::uint32_t taken() const noexcept { return slots_.taken(posted_, retired_); }
  [[nodiscard]] bool full() const noexcept { return taken() >= capacity_; }  ///< no room
  [[nodiscard]] bool half_full() const noexcept { return posted_ - retired_ > capacity_ / 2; }
  [[nodiscard]] bool empty() const noexcept { return posted_ == done_; }
  [[nodiscard]] bool backlog() const noexcept { return sending_ != posted_; }

  /// An entry between retired() and posted(), by its position.
  [[nodiscard]] SendWqe& at(std::uint32_t position) noexcept {
    return *std::launder(reinterpret_cast<SendWqe*>(address(slot(position))));
  }
  [[nodiscard]] const SendWqe& at(std::uint32_t position) const noexcept {
    return *std::launder(reinterpret_cast<const SendWqe*>(address(slot(position))));
  }

  /// Prefetches where prefetch_entry(), some time later, finds the entry.
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
  void make() noexcept { slots_.make(); }  ///< a completion without entry
  /// The slot of a completion that was polled is free, and with that of an entry those before it.
  void on_polled(const Completion& c) noexcept { slots_.on_polled(c, retired_); }
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

/// An SGE of a posted receive, checked when posted.
struct ReceiveSge {
  std::uint8_t* address;  ///< first byte
  std::uint32_t length;   ///< bytes
  std::uint32_t lkey;     ///< of the region that holds the SGE
};

/// Posted receive requests in order, each with its scatter list.
class ReceiveQueue {
 public:
  ReceiveQueue(std::uint32_t capacity, std::uint32_t sges)
      : ids_(capacity),
        room_(sges),
        counts_(sges > 0 ? capacity : 0),
        sges_(std::size_t{capacity} * sges) {}

  [[nodiscard]] bool empty() const noexcept { return ids_.empty(); }  ///< no request
  [[nodiscard]] bool full() const noexcept { return ids_.size() + kept_ >= ids_.capacity(); }
  [[nodiscard]] std::size_t capacity() const noexcept { return ids_.capacity(); }
  [[nodiscard]] std::size_t size() const noexcept { return ids_.size(); }  ///< requests
  [[nodiscard]] std::uint32_t sge_limit() const noexcept { return room_; }

  /// Appends a request, if not full(), and returns the room for its SGEs, at most sge_limit().
  [[nodiscard]] std::span<ReceiveSge> post(std::uint64_t wr_id, std::size_t sges) noexcept {
    const std::size_t i = ids_.size();
    (void)ids_.push_back(wr_id);
    if (room_ == 0) return {};
    counts_[slot(i)] = static_cast<std::uint8_t>(sges);
    return sges_at(i);
  }
  [[nodiscard]] std::uint64_t front() const noexcept { return ids_.front(); }
  /// Scatter list of the request behind the `ahead` oldest.
  [[nodiscard]] std::span<ReceiveSge> sges_at(std::size_t ahead) noexcept {
    if (room_ == 0) return {};
    return {sges_.data() + slot(ahead) * room_, counts_[slot(ahead)]};
  }
  /// Takes over the oldest request of another queue with no more SGEs per request.
  void take_front(ReceiveQueue& from) noexcept {
    const std::span<const ReceiveSge> theirs = from.sges_at(0);
    const std::span<ReceiveSge> own = post(from.front(), theirs.size());
    std::copy(theirs.begin(), theirs.end(), own.begin());
    from.pop_front();
  }
  void pop_front() noexcept {
    ids_.pop_front();
    if (++first_ == ids_.capacity()) first_ = 0;
  }

  /// The slot of a request that is not in the queue any more is not free yet,
  void keep_slot() noexcept { ++kept_; }
  /// and now it is.
  void free_slot() noexcept { kept_ -= kept_ > 0; }
  void free_slots() noexcept { kept_ = 0; }

  template <class F>
  void for_each_sge(F&& fn) noexcept {
    for (std::size_t i = 0; i < ids_.size(); ++i)
      for (const ReceiveSge& sge : sges_at(i)) fn(sge);
  }

  [[nodiscard]] std::size_t memory() const noexcept {
    return ids_.capacity() * sizeof(std::uint64_t) + counts_.capacity() +
           sges_.capacity() * sizeof(ReceiveSge);
  }

 private:
  static_assert(kMaxReceiveSges <= UINT8_MAX);

  [[nodiscard]] std::size_t slot(std::size_t i) const noexcept {
    return (first_ + i) % ids_.capacity();
  }

  Ring<std::uint64_t> ids_;
  std::uint32_t room_;
  std::size_t kept_ = 0;              ///< slots of requests that were taken out
  std::size_t first_ = 0;             ///< slot of the oldest request
  std::vector<std::uint8_t> counts_;  ///< by slot: SGEs
  std::vector<ReceiveSge> sges_;      ///< by slot, room_ each
};

/// Each queue pair takes the oldest receive when the first packet of a message that needs it, or a
/// datagram, arrives.
struct SharedReceiveQueue {
  SharedReceiveQueue(SrqId number, PdId domain, std::uint32_t depth, std::uint32_t sges)
      : id(number), pd(domain), receives(depth, sges) {}

  const SrqId id;           ///< its number
  const PdId pd;            ///< protection domain of its memory
  ReceiveQueue receives;    ///< posted, and not taken by a queue pair
  std::uint32_t limit = 0;  ///< an event is raised when fewer are left; 0: none
  std::uint32_t users = 0;  ///< queue pairs
};

/// Removes the entries of a ring for which gone(entry) is true; it is called once for each.
template <class T, class F>
void remove_if(Ring<T>& ring, F&& gone) noexcept {
  for (std::size_t n = ring.size(); n > 0; --n) {
    const T entry = ring.front();
    ring.pop_front();
    if (!gone(entry)) (void)ring.push_back(entry);
  }
}

/// A completion queue inside an engine. A completion that does not fit is never lost silently: the
/// queue is overrun from then on and its queue pairs move to ERR.
class CompletionRing {
 public:
  explicit CompletionRing(std::uint32_t depth) : ring_(depth) {}  ///< completions that fit

  bool push(const Completion& c) noexcept {
    if (ring_.push_back(c)) return true;
    overrun = true;
    return false;
  }
  /// Moves the oldest completions to `out`, as many as fit; returns how many.
  std::size_t poll(std::span<Completion> out) noexcept {
    const std::size_t n = std::min(out.size(), ring_.size());
    for (std::size_t i = 0; i < n; ++i) {
      out[i] = ring_.front();
      ring_.pop_front();
    }
    return n;
  }
  /// Removes the completions of a queue pair; fn(Completion) is told of each.
  template <class F>
  void discard(Qpn qpn, F&& fn) noexcept {
    remove_if(ring_, [&](const Completion& c) {
      if (c.qpn == qpn) fn(c);
      return c.qpn == qpn;
    });
  }
  [[nodiscard]] std::size_t size() const noexcept { return ring_.size(); }  ///< waiting

  std::uint32_t users = 0;  ///< queue pairs attached, counted once for send and once for receive
  Arm armed = Arm::none;    ///< what raises an event, once
  bool signalled = false;   ///< its completion event waits to be polled
  bool solicited = false;   ///< a completion of that event is solicited or an error
  bool failing = false;     ///< its overrun was reported; its queue pairs move to ERR
  bool keeps = false;       ///< some of its queue pairs are as in verbs (QpInit::as_verbs)
  bool overrun = false;     ///< a completion did not fit; for good

 private:
  Ring<Completion> ring_;
};

/// What an application waits for beside completions.
struct EngineEvent {
  enum class Kind : std::uint8_t {
    completion,  ///< an armed completion queue got a completion
    cq_overrun,  ///< a completion queue had no room for a completion
    qp_error,    ///< a queue pair moved to ERR
    srq_limit,   ///< fewer receives are left in a shared receive queue than its limit
    last_wqe,    ///< a queue pair in ERR takes no more receives from its shared receive queue
  };
  Kind kind{};             ///< what happened
  CqId cq{};               ///< completion, cq_overrun: the queue
  Qpn qpn{};               ///< qp_error, last_wqe: the queue pair
  SrqId srq{};             ///< srq_limit: the queue
  QpErrorCause cause{};    ///< qp_error: why it is in ERR
  bool solicited = false;  ///< completion: one at least was solicited, or an error
};

/// The completion queues of an engine, and the events about them and about failed queue pairs.
class Completions {
 public:
  Completions(std::uint32_t max_queues, std::uint32_t max_qps, std::uint32_t max_srqs)
      : max_queues_(max_queues),
        signalled_(max_queues),
        overrun_(max_queues),
        failed_(max_qps),
        drained_(max_qps),
        limits_(max_srqs) {
    queues_.reserve(max_queues);
  }

  Result<CqId> create(std::uint32_t depth) {
    if (depth == 0 || depth > kMaxCqDepth) return Errc::invalid_argument;
    for (std::uint32_t i = 0; i < max_queues_; ++i) {
      if (i == queues_.size()) queues_.emplace_back();
      if (queues_[i]) continue;
      queues_[i] = std::make_unique<CompletionRing>(depth);
      return CqId{i};
    }
    return Errc::no_resources;
  }
  Errc destroy(CqId id) noexcept {
    const CompletionRing* cq = find(id);
    if (cq == nullptr) return Errc::not_found;
    if (cq->users > 0) return Errc::in_use;
    forget(signalled_, id);  // its number will be used again
    forget(overrun_, id);
    queues_[static_cast<std::uint32_t>(id)].reset();
    return Errc::ok;
  }
  [[nodiscard]] CompletionRing* find(CqId id) noexcept {
    const auto i = static_cast<std::uint32_t>(id);
    return i < queues_.size() ? queues_[i].get() : nullptr;
  }
  [[nodiscard]] const CompletionRing* find(CqId id) const noexcept {
    return const_cast<Completions*>(this)->find(id);
  }

  /// Appends a completion and raises the event of an armed queue. False: no room; the queue is
  /// overrun, and take_overrun() says so.
  bool complete(CqId id, const Completion& completion) noexcept {
    CompletionRing* cq = find(id);
    const bool room = cq->push(completion);
    if (!room && !cq->failing) {
      cq->failing = true;
      overrun_pending_ = true;
      overrun_.push_back(id);
    }
    const bool solicited = completion.solicited || completion.status != WcStatus::success;
    const bool wanted = cq->armed == Arm::all || (cq->armed == Arm::solicited && solicited);
    if (wanted && !cq->signalled) {
      cq->armed = Arm::none;
      cq->signalled = signalled_.push_back(id);
      cq->solicited = false;
    }
    cq->solicited = cq->solicited || solicited;
    return room;
  }
  std::size_t poll(CqId id, std::span<Completion> out) noexcept {
    CompletionRing* cq = find(id);
    return cq == nullptr ? 0 : cq->poll(out);
  }
  /// `solicited` does not change a queue that is armed for all.
  Errc arm(CqId id, Arm what) noexcept {
    CompletionRing* cq = find(id);
    if (cq == nullptr) return Errc::not_found;
    cq->armed = std::max(cq->armed, what);
    return Errc::ok;
  }

  [[nodiscard]] bool has_event() const noexcept {
    return !signalled_.empty() || !overrun_.empty() || !failed_.empty() || !drained_.empty() ||
           !limits_.empty();
  }
  [[nodiscard]] bool take_overrun() noexcept { return std::exchange(overrun_pending_, false); }

  // One event of each kind waits for each number at a time: the callers of report_error() and
  // report_srq_limit() see to that.

  bool report_error(Qpn qpn) noexcept { return failed_.push_back(qpn); }
  void report_last_wqe(Qpn qpn) noexcept {
    forget(drained_, qpn);
    (void)drained_.push_back(qpn);
  }
  void report_srq_limit(SrqId srq) noexcept { (void)limits_.push_back(srq); }
  void forget(Qpn qpn) noexcept {
    forget(failed_, qpn);
    forget(drained_, qpn);
  }
  void forget(SrqId srq) noexcept { forget(limits_, srq); }
  bool poll_event(EngineEvent& event) noexcept {
    using Kind = EngineEvent::Kind;
    event = {};
    const auto take = [&](auto& ring, Kind kind, auto& about) {
      if (ring.empty()) return false;
      event.kind = kind;
      about = ring.front();
      ring.pop_front();
      return true;
    };
    if (take(signalled_, Kind::completion, event.cq)) {
      if (CompletionRing* cq = find(event.cq)) {
        cq->signalled = false;
        event.solicited = cq->solicited;
      }
      return true;
    }
    return take(overrun_, Kind::cq_overrun, event.cq) || take(failed_, Kind::qp_error, event.qpn) ||
           take(drained_, Kind::last_wqe, event.qpn) || take(limits_, Kind::srq_limit, event.srq);
  }

 private:
  template <class T>
  static void forget(Ring<T>& ring, T number) noexcept {
    remove_if(ring, [=](T entry) { return entry == number; });
  }

  std::vector<std::unique_ptr<CompletionRing>> queues_;  // by CqId
  std::uint32_t max_queues_;
  Ring<CqId> signalled_;  // armed queues that got a completion
  Ring<CqId> overrun_;
  Ring<Qpn> failed_;
  Ring<Qpn> drained_;   // in ERR, with a shared receive queue
  Ring<SrqId> limits_;  // queues that have fewer receives than their limit
  bool overrun_pending_ = false;
};

/// A control packet or probe that waits to be sent. Its header is written when it is sent, from the
/// state at that time; the item has only what comes from the packet that triggered it.
struct ControlItem {
  enum class Kind : std::uint8_t {
    sack,             ///< SACK for the packet `psn`
    probe_sack,       ///< SACK that answers the reliability probe `id`
    nack,             ///< NACK `reason` for `psn`
    ack,              ///< Transport ACK of the newest finished message
    nak,              ///< Transport ACK with the NAK `syndrome` for `psn`
    probe,            ///< reliability probe `id`
    ev_probe,         ///< endpoint request: EV probe on `path`
    port_status,      ///< endpoint request: port status
    endpoint_answer,  ///< endpoint response to request `id`
  };
  Kind kind{};      ///< decides which of the other fields count
  Plane plane = 0;  ///< in which the trigger arrived; preferred for the answer ([O-18])
  wire::SackMark mark = wire::SackMark::none;  ///< sack, probe_sack: SETH.m (mrc-1.0 §2.7)
  wire::NackReason reason{};                   ///< nack: NETH reason (mrc-1.0 §1.13)
  wire::Syndrome syndrome{};                   ///< nak: AETH syndrome
  wire::EndpointOp op{};                       ///< endpoint_answer: operation of the request
  path::PathIndex path = path::kNoPath;        ///< ev_probe: the path to probe
  std::uint16_t timestamp = 0;                 ///< of the trigger, reflected
  std::uint16_t id = 0;                        ///< number of the probe or endpoint request
  bool full_size = false;  ///< ev_probe: filled up to the size of the largest data packet
  path::Piece piece = path::Piece::single;  ///< ev_probe: that it leaves in
  bool again = false;  ///< answers a retransmission or a probe: earlier answers may be lost
  Psn psn;             ///< sack, nack: PSN of the trigger; nak: of the refused request
  Ev entropy{};        ///< sack, probe_sack, nack: EV of the trigger, reflected
  /// Own queue pair. Endpoint packets: the one whose tag they carry, 0 if none.
  Qpn qpn{};
  PeerId peer{};  ///< endpoint packets: the destination
};

/// Low 16 bits of a QPN, as SPDCID and DPDCID carry them ([C-21]).
[[nodiscard]] constexpr std::uint16_t connection_id(Qpn qpn) noexcept {
  return static_cast<std::uint16_t>(value(qpn));
}

/// A header to be sent, for the caller to fill in behind `bth`.
template <class Header>
[[nodiscard]] Header& make_header(wire::TxPacket& packet, const wire::Bth& bth) noexcept {
  static_assert(alignof(Header) == 1 && std::is_trivially_copyable_v<Header>);
  static_assert(sizeof(Header) <= sizeof(packet.header));
  Header& header = *std::construct_at(reinterpret_cast<Header*>(packet.header.data()));
  header.bth = bth;
  packet.header_length = sizeof(Header);
  return header;
}

/// Control packets, first in first out. Entries are numbered, so that a queue pair can find its
/// newest SACK and update it instead of queueing another.
class ControlQueue {
 public:
  explicit ControlQueue(std::size_t capacity) : ring_(capacity) {}  ///< items that fit

  [[nodiscard]] bool empty() const noexcept { return ring_.empty(); }    ///< no item
  [[nodiscard]] ControlItem& front() noexcept { return ring_.front(); }  ///< the oldest
  void pop() noexcept {
    ring_.pop_front();
    ++first_;
  }
  /// False when full. `number` receives the entry's number, for find().
  bool push(const ControlItem& item, std::uint32_t* number = nullptr) noexcept {
    if (number != nullptr) *number = first_ + static_cast<std::uint32_t>(ring_.size());
    return ring_.push_back(item);
  }
  /// The targets of entries for which gone(item) is true exist no more.
  template <class F>
  void invalidate(F&& gone) noexcept {
    for (std::size_t i = 0; i < ring_.size(); ++i) {
      if (!gone(static_cast<const ControlItem&>(ring_[i]))) continue;
      ring_[i].qpn = Qpn{};  // reserved
      ring_[i].peer = kNobody;
    }
  }
  /// The entry with that number, or null if it was taken out.
  [[nodiscard]] ControlItem* find(std::uint32_t number) noexcept {
    const std::uint32_t i = number - first_;
    return i < ring_.size() ? &ring_[i] : nullptr;
  }

 private:
  static constexpr PeerId kNobody{0xFFFFFFFF};

  Ring<ControlItem> ring_;
  std::uint32_t first_ = 1;
};

}  // namespace mrc::inline v0_1::engine
