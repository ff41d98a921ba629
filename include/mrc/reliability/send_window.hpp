// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

#include "mrc/core/types.hpp"
#include "mrc/reliability/packet_pool.hpp"

namespace mrc::reliability {

/// The requester's window: one record for each PSN from the oldest that is not cumulatively
/// acknowledged to the newest that was given out (mrc-1.0 §2.5, Table 7-4). Besides, the
/// outstanding packets form a list in send order, which is what loss inference walks.
///
/// Bounded by the peer's MPR (§2.4). Takes record chunks from a pool shared by the engine's QPs.
/// One thread. Nothing allocates after the constructor.
class SendWindow {
 public:
  /// `limit`: most PSNs that the window may ever span, 1 .. 32,768.
  SendWindow(PacketPool& pool, std::uint32_t limit)
      : pool_(&pool),
        slots_(std::max(kRecordsPerChunk, std::bit_ceil(limit))),
        chunks_(slots_ / kRecordsPerChunk, PacketPool::kNone) {}
  SendWindow(const SendWindow&) = delete;
  SendWindow& operator=(const SendWindow&) = delete;
  ~SendWindow() { clear(); }

  /// Empties the window; the next packet gets PSN `first`.
  void start(Psn first) noexcept {
    clear();
    unacked_ = next_ = first;
  }
  /// Forgets all packets and gives the chunks back.
  void clear() noexcept {
    for (auto& c : chunks_) {
      if (c != PacketPool::kNone) pool_->release(c);
      c = PacketPool::kNone;
    }
    unacked_ = next_;
    outstanding_ = lost_ = 0;
    next_order_ = probe_order_ = 0;
  }

  [[nodiscard]] Psn unacked() const noexcept { return unacked_; }
  [[nodiscard]] Psn next() const noexcept { return next_; }
  [[nodiscard]] std::uint32_t span() const noexcept {
    return static_cast<std::uint32_t>(next_ - unacked_);
  }
  [[nodiscard]] bool empty() const noexcept { return next_ == unacked_; }
  [[nodiscard]] std::uint32_t outstanding() const noexcept { return outstanding_; }
  [[nodiscard]] std::uint32_t lost() const noexcept { return lost_; }
  [[nodiscard]] bool contains(Psn psn) const noexcept {
    return static_cast<std::uint32_t>((psn - unacked_)) < span();
  }

  /// Gives out the next PSN: it must stay within `range` of the oldest unacknowledged one. Returns
  /// its record, or null when the window is closed or the pool is empty.
  [[nodiscard]] PacketRecord* append(std::uint32_t range, std::uint16_t wqe) noexcept {
    if (!open(range)) return nullptr;
    auto& chunk = chunks_[chunk_of(next_)];
    if (chunk == PacketPool::kNone && (chunk = pool_->acquire()) == PacketPool::kNone)
      return nullptr;
    const std::uint32_t index = next_.value() % kRecordsPerChunk;
    if (index == 0) (*pool_)[chunk].reported = 0;  // it may still hold the window's oldest packets
    PacketRecord& r = (*pool_)[chunk].records[index];
    r.wqe = wqe;
    r.transmissions = 0;
    r.state = PacketState::pending;
    ++next_;
    return &r;
  }
  [[nodiscard]] bool open(std::uint32_t range) const noexcept {
    return span() < std::min(range, slots_);
  }

  /// The record of a PSN for which contains() holds.
  [[nodiscard]] PacketRecord& at(Psn psn) noexcept {
    return (*pool_)[chunks_[chunk_of(psn)]].records[psn.value() % kRecordsPerChunk];
  }
  [[nodiscard]] const PacketRecord& at(Psn psn) const noexcept {
    return (*pool_)[chunks_[chunk_of(psn)]].records[psn.value() % kRecordsPerChunk];
  }

  /// Notes a transmission of `psn`, the first one or a later one, and makes the packet the newest
  /// in send order. `r` is its record.
  void on_sent(Psn psn, PacketRecord& r, Time now, std::uint16_t path,
               std::uint16_t size) noexcept {
    leave_state(psn, r);
    r.sent = now;
    r.path = path;
    r.size = size;
    r.order = next_order_++;
    if (r.transmissions < 255) ++r.transmissions;
    r.state = PacketState::outstanding;
    r.missed = Missed::unknown;
    link_newest(psn, r);
  }

  /// The peer has `psn`. Calls f(psn, record, previous state) if this is news.
  template <class F>
  void report(Psn psn, F&& f) noexcept {
    PacketRecord& r = at(psn);
    if (r.state == PacketState::reported || r.state == PacketState::pending) return;
    const PacketState before = r.state;
    leave_state(psn, r);
    r.state = PacketState::reported;
    f(psn, static_cast<const PacketRecord&>(r), before);
  }

  /// The peer has those of the 64 packets from `base` on whose bits are set; others than the
  /// window's are ignored. Bitmaps repeat themselves: what one has said before costs nothing.
  template <class F>
  void report(Psn base, std::uint64_t bits, F&& f) noexcept {
    const std::int32_t begin = unacked_ - base, end = next_ - base;
    if (begin >= 64 || end <= 0) return;
    if (begin > 0) bits &= ~std::uint64_t{0} << begin;
    if (end < 64) bits &= ~(~std::uint64_t{0} << end);
    // They lie in two chunks, the second of which begins `split` packets behind `base`.
    const auto split = static_cast<int>(kRecordsPerChunk - base.value() % kRecordsPerChunk);
    const std::uint64_t first = split == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << split) - 1;
    report_in_chunk(base, bits & first, f);
    report_in_chunk(base + split, split == 64 ? 0 : bits >> split, f);
  }

  /// The peer has everything up to and including `cack`; those records are freed. Calls f as
  /// report() does. `cack` must be before next().
  template <class F>
  void acknowledge(Psn cack, F&& f) noexcept {
    while (!cack.before(unacked_)) {
      report(unacked_, f);
      const Psn done = unacked_;
      ++unacked_;
      if (done.value() % kRecordsPerChunk == kRecordsPerChunk - 1) release_chunk(done);
    }
    if (empty() && next_.value() % kRecordsPerChunk != 0) release_chunk(next_);
  }

  /// Gives an outstanding packet up; it waits for retransmission from now on.
  void lose(Psn psn) noexcept {
    PacketRecord& r = at(psn);
    if (r.state != PacketState::outstanding) return;
    unlink(psn, r);
    r.state = PacketState::lost;
    (*pool_)[chunks_[chunk_of(psn)]].lost |= std::uint64_t{1} << (psn.value() % kRecordsPerChunk);
    ++lost_;
  }
  /// The last transmission of an outstanding packet did not take place after all (the port had no
  /// room for it): the packet is lost, and its place in the send order closes, since otherwise it
  /// would count as one that was sent later and has arrived. Cost: what was sent after it.
  void unsend(Psn psn) noexcept {
    PacketRecord& r = at(psn);
    if (r.state != PacketState::outstanding) return;
    for (std::uint16_t s = newest_; &at_slot(s) != &r; s = at_slot(s).older) --at_slot(s).order;
    --next_order_;
    if (static_cast<std::int32_t>(probe_order_ - r.order) > 0) --probe_order_;
    if (r.transmissions < 255) --r.transmissions;
    lose(psn);
  }
  /// The oldest lost PSN; needs lost() > 0.
  [[nodiscard]] Psn first_lost() const noexcept {
    for (Psn p = unacked_;; p = next_chunk(p)) {
      const std::uint64_t mask =
          (*pool_)[chunks_[chunk_of(p)]].lost >> (p.value() % kRecordsPerChunk);
      if (mask != 0) return p + std::countr_zero(mask);
    }
  }

  /// The packet sent longest ago of those outstanding; needs outstanding() > 0.
  [[nodiscard]] Psn oldest_sent() const noexcept { return psn_of_slot(oldest_); }
  /// The outstanding packet sent next after an outstanding one that is not the newest.
  [[nodiscard]] Psn next_sent(Psn psn) const noexcept { return psn_of_slot(at(psn).newer); }
  /// How many packets sent after `psn` are known to have arrived, when `older` outstanding ones
  /// were sent before it. (A trimmed packet's NACK counts: it shows as much.) An answered probe
  /// counts as one.
  [[nodiscard]] std::uint32_t reports_after(Psn psn, std::uint32_t older) const noexcept {
    const std::uint32_t order = at(psn).order;
    const std::uint32_t sent_later = next_order_ - 1 - order;
    const std::uint32_t silent_later = outstanding_ - 1 - older;
    const std::uint32_t reports = sent_later - silent_later;
    return reports == 0 && probed_after(order) ? 1 : reports;
  }
  /// A probe sent after the transmission of that place was answered.
  [[nodiscard]] bool probed_after(std::uint32_t order) const noexcept {
    return static_cast<std::int32_t>(probe_order_ - order) > 0;
  }
  /// The place of a probe that is sent now in the send order.
  [[nodiscard]] std::uint32_t send_order() const noexcept { return next_order_; }
  /// A probe that was sent at that place was answered: it overtook what was sent before it.
  void on_probe_answered(std::uint32_t order) noexcept {
    if (static_cast<std::int32_t>(order - probe_order_) > 0) probe_order_ = order;
  }

  /// The oldest PSN that the peer has not reported; needs that there is one (outstanding or lost).
  [[nodiscard]] bool first_unreported(Psn& psn) const noexcept {
    for (Psn p = unacked_; p != next_; ++p) {
      const PacketState s = at(p).state;
      if (s == PacketState::outstanding || s == PacketState::lost) {
        psn = p;
        return true;
      }
    }
    return false;
  }

  /// Heap bytes of this window, with the pool's chunks that it holds at present.
  [[nodiscard]] std::size_t memory() const noexcept {
    const auto none = std::count(chunks_.begin(), chunks_.end(), PacketPool::kNone);
    return chunks_.capacity() * sizeof(PacketPool::Index) +
           (chunks_.size() - static_cast<std::size_t>(none)) * sizeof(PacketChunk);
  }

 private:
  [[nodiscard]] std::uint32_t slot(Psn psn) const noexcept { return psn.value() & (slots_ - 1); }
  [[nodiscard]] std::size_t chunk_of(Psn psn) const noexcept {
    return slot(psn) / kRecordsPerChunk;
  }
  [[nodiscard]] Psn psn_of_slot(std::uint16_t s) const noexcept {
    return unacked_ + static_cast<std::int32_t>((s - unacked_.value()) & (slots_ - 1));
  }
  [[nodiscard]] static Psn next_chunk(Psn p) noexcept {
    return p + static_cast<std::int32_t>(kRecordsPerChunk - p.value() % kRecordsPerChunk);
  }
  [[nodiscard]] PacketRecord& at_slot(std::uint16_t s) noexcept {
    return (*pool_)[chunks_[s / kRecordsPerChunk]].records[s % kRecordsPerChunk];
  }
  void release_chunk(Psn done) noexcept {
    auto& c = chunks_[chunk_of(done)];
    // A window that spans nearly all slots has its newest packets in the oldest ones' chunk.
    if (c == PacketPool::kNone || (!empty() && chunk_of(next_ - 1) == chunk_of(done))) return;
    pool_->release(c);
    c = PacketPool::kNone;
  }

  /// Packets of one chunk, all of them in the window; bit 0 is `base`.
  template <class F>
  void report_in_chunk(Psn base, std::uint64_t bits, F& f) noexcept {
    if (bits == 0) return;
    PacketChunk& chunk = (*pool_)[chunks_[chunk_of(base)]];
    const std::uint32_t index = base.value() % kRecordsPerChunk;
    for (bits &= ~(chunk.reported >> index); bits != 0; bits &= bits - 1) {
      const Psn psn = base + std::countr_zero(bits);
      report(psn, f);
      const std::uint32_t i = psn.value() % kRecordsPerChunk;
      const bool now = chunk.records[i].state == PacketState::reported;
      chunk.reported |= std::uint64_t{now} << i;
    }
  }

  void leave_state(Psn psn, PacketRecord& r) noexcept {
    if (r.state == PacketState::outstanding) {
      unlink(psn, r);
    } else if (r.state == PacketState::lost) {
      (*pool_)[chunks_[chunk_of(psn)]].lost &=
          ~(std::uint64_t{1} << (psn.value() % kRecordsPerChunk));
      --lost_;
    }
  }
  void link_newest(Psn psn, PacketRecord& r) noexcept {
    const auto s = static_cast<std::uint16_t>(slot(psn));
    r.older = newest_;
    if (outstanding_ == 0)
      oldest_ = s;
    else
      at_slot(newest_).newer = s;
    newest_ = s;
    ++outstanding_;
  }
  void unlink(Psn psn, PacketRecord& r) noexcept {
    --outstanding_;
    const auto s = static_cast<std::uint16_t>(slot(psn));
    if (s == oldest_)
      oldest_ = r.newer;
    else
      at_slot(r.older).newer = r.newer;
    if (s == newest_)
      newest_ = r.older;
    else
      at_slot(r.newer).older = r.older;
  }

  PacketPool* pool_;
  std::uint32_t slots_;
  std::vector<PacketPool::Index> chunks_;
  Psn unacked_;
  Psn next_;
  std::uint32_t outstanding_ = 0;
  std::uint32_t lost_ = 0;
  std::uint32_t next_order_ = 0;
  std::uint32_t probe_order_ = 0;
  std::uint16_t oldest_ = 0;
  std::uint16_t newest_ = 0;
};

}  // namespace mrc::reliability
