// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <optional>
#include <vector>

#include "mrc/core/types.hpp"
#include "mrc/engine/deferred_stores.hpp"
#include "mrc/engine/queues.hpp"
#include "mrc/engine/verbs_types.hpp"
#include "mrc/reliability/receive_window.hpp"
#include "mrc/wire/opcode.hpp"

/// What a queue pair has beside MRC's state for SEND, READ and atomics (docs/extensions.md).
namespace mrc::inline v0_1::engine {

using reliability::RequestNumber;

/// A READ or an atomic of the peer that has arrived and is not executed yet.
struct PeerRequest {
  wire::Opcode opcode{};          ///< read_request, compare_swap or fetch_add
  std::uint16_t msn = 0;          ///< its number among all messages, as the peer counts
  std::uint32_t rkey = 0;         ///< of the region that it is about
  std::uint32_t length = 0;       ///< bytes of the response
  std::uint64_t address = 0;      ///< in that region
  std::uint64_t swap_or_add = 0;  ///< operands of an atomic
  std::uint64_t compare = 0;      ///< likewise
};

/// Own READs and atomics that wait for their response, by number. A response is whole when all of
/// its packets have arrived, whatever else of the peer's is missing: messages before it may have to
/// wait for a receive that this side posts only after its READ. The table also keeps the ends of
/// responses that must not be visible before the responses in front of them. One thread.
class ReadTable {
 public:
  /// Bytes of a response that can be held back.
  static constexpr std::uint32_t kHeldBytes = DeferredStores::kBytes;

  /// `limit`: most of them, 0 .. 128.
  explicit ReadTable(std::uint32_t limit)
      : entries_(limit == 0 ? 1 : std::bit_ceil(limit)), limit_(limit) {}

  /// Empties the table; numbers start at 0.
  void start(std::uint32_t limit) noexcept {
    begin_ = next_ = {};
    set_limit(limit);
  }
  /// At most so many wait from now on, if there is room for them.
  void set_limit(std::uint32_t limit) noexcept {
    limit_ = std::min(limit, static_cast<std::uint32_t>(entries_.size()));
  }
  /// Makes room for up to `limit`, while none waits. Throws std::bad_alloc.
  void reserve(std::uint32_t limit) {
    if (limit > entries_.size() && count() == 0) entries_.resize(std::bit_ceil(limit));
  }
  /// Requests that wait.
  [[nodiscard]] std::uint32_t count() const noexcept {
    return static_cast<std::uint32_t>(next_ - begin_);
  }
  /// No further one may be sent.
  [[nodiscard]] bool full() const noexcept { return count() >= limit_; }
  /// A request is sent for the first time: its number. `packets`: of its response. Needs !full().
  [[nodiscard]] RequestNumber add(std::uint32_t position, std::uint32_t packets) noexcept {
    entries_[slot(next_)] = {position, packets, 0, {}};
    const RequestNumber number = next_;
    ++next_;
    return number;
  }
  /// The oldest request that waits; the next one to be sent if none does.
  [[nodiscard]] RequestNumber oldest() const noexcept { return begin_; }
  /// Does the request with this number wait?
  [[nodiscard]] bool waits(RequestNumber number) const noexcept {
    const std::int32_t ahead = number - begin_;
    return ahead >= 0 && static_cast<std::uint32_t>(ahead) < count();
  }
  /// Position in the send queue of a request that waits.
  [[nodiscard]] std::uint32_t position(RequestNumber number) const noexcept {
    return entries_[slot(number)].position;
  }
  /// Packets of its response that have not arrived.
  [[nodiscard]] std::uint32_t& missing(RequestNumber number) noexcept {
    return entries_[slot(number)].missing;
  }
  /// Keeps the last bytes of a response, which must not be empty, until the request is the oldest
  /// one and its response is whole. Returns how many.
  std::uint32_t hold(RequestNumber number, Bytes response) noexcept {
    Entry& e = entries_[slot(number)];
    e.held = static_cast<std::uint32_t>(std::min<std::size_t>(response.size(), kHeldBytes));
    std::memcpy(e.end, response.last(e.held).data(), e.held);
    return e.held;
  }
  /// What is held back of the response to the oldest request.
  [[nodiscard]] Bytes held() const noexcept {
    const Entry& e = entries_[slot(begin_)];
    return {e.end, e.held};
  }
  /// The oldest request that waits has its response.
  [[nodiscard]] bool answered() const noexcept {
    return count() > 0 && entries_[slot(begin_)].missing == 0;
  }
  /// Removes it.
  void pop() noexcept { ++begin_; }
  /// Heap bytes of this table.
  [[nodiscard]] std::size_t memory() const noexcept { return entries_.capacity() * sizeof(Entry); }

 private:
  struct Entry {
    std::uint32_t position = 0, missing = 0;
    std::uint32_t held = 0;             ///< bytes in `end`
    std::uint8_t end[kHeldBytes] = {};  ///< of the response
  };

  [[nodiscard]] std::size_t slot(RequestNumber number) const noexcept {
    return number.value() & (entries_.size() - 1);
  }

  std::vector<Entry> entries_;
  std::uint32_t limit_;
  RequestNumber begin_, next_;
};

/// Where a requester stands that waits because the peer has no receive posted (RNR). Messages that
/// need none go on.
struct ReceiverWait {
  bool waiting = false;    ///< no message from `from` on is sent before `until`
  bool oldest = false;     ///< it is the oldest packet that was refused in this wait
  std::uint8_t tries = 0;  ///< waits since a message was delivered, at most 8
  Rqmsn from;              ///< the oldest message that was refused
  Time until{};            ///< end of the wait
  Time counted{};          ///< end of the newest wait in `tries`

  /// Does this message wait?
  [[nodiscard]] bool holds(const SendWqe& w) const noexcept {
    return waiting && w.numbered() && !Rqmsn{w.rqmsn}.before(from);
  }
};

/// The state of both halves, of queue pairs that offer the operations.
struct RcState {
  /// Room for as many READs and atomics as `attributes` say, in both directions. `responses` are
  /// entries of `pool`, which must outlive it. Throws std::bad_alloc.
  RcState(const QpAttributes& attributes, SendPool& pool)
      : responses(pool, std::max<std::uint32_t>(1, attributes.max_rd_atomic_dest), 1, 16),
        reads(attributes.max_rd_atomic),
        requests(attributes.max_rd_atomic_dest) {}

  /// The first PSN to send where the peer offers RC: it may have to be told, and used, before the
  /// program says in RTS which one it wants.
  Psn drawn_psn;
  std::optional<Psn> own_psn;  ///< the one that it wants: counts with other peers

  // Requester half.
  SendQueue responses;         ///< to the peer's READs and atomics, sent beside the send queue
  ReadTable reads;             ///< own READs and atomics without their response
  ReceiverWait receiver;       ///< RNR
  bool answering = false;      ///< the message that is being sent, or was sent last, is a response
  std::uint32_t reported = 0;  ///< packets of the oldest response that the peer has, in a row

  // Responder half.
  reliability::InOrderTable<PeerRequest> requests;  ///< of the peer, not executed yet

  /// All READs and atomics of the peer up to this PSN are executed, and it has the responses.
  [[nodiscard]] bool all_answered(Psn cack) noexcept {
    return requests.ready(cack) == nullptr && responses.empty();
  }
  /// Bytes of this object and its heap memory.
  [[nodiscard]] std::size_t memory() const noexcept {
    return sizeof(*this) + responses.memory() + reads.memory() + requests.memory();
  }
};

}  // namespace mrc::inline v0_1::engine
