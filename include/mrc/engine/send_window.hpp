// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "mrc/core/containers.hpp"
#include "mrc/core/types.hpp"

namespace mrc::inline v0_1::reliability {

/// State of a packet in the send window.
enum class PacketState : std::uint8_t {
  outstanding,  ///< sent, not reported
  reported,     ///< received by the peer (SACK bit or cumulative PSN)
  lost,         ///< declared lost: waits for its retransmission
};

/// What answers have shown about a packet that is not reported.
enum class Missed : std::uint8_t {
  unknown,  ///< no SACK has covered it since it was sent
  absent,   ///< a SACK covered it and later PSNs, and it was missing
  passed,   ///< absent, and a packet sent later on its path had arrived
  refused,  ///< lost: a NACK said that the peer had no room for it, or no receive
};

/// The requester's record of one packet in its window, accessed through Packet. An engine has one
/// per packet in flight, so size matters, and derivable values are not stored: the packet's
/// message, its size once retransmitted, its neighbours in send order before that.
struct PacketRecord {
  std::uint32_t sent : 30;  ///< last transmission, ns since its chunk's base
  Missed missed : 2;        ///< what answers have shown
  /// First transmission: the nominal size, UDP length + 40 (mrc-1.0 [C-15]). Retransmissions: the
  /// window slots of the neighbours in send order, 15 bits each.
  std::uint32_t size_or_links : 30;
  std::uint32_t transmissions : 2;  ///< saturates at 3
  std::uint16_t order;              ///< low half of its position in the send order
  std::uint16_t path : 15;          ///< path of the last transmission
  std::uint16_t reported : 1;       ///< the peer has received it
};
static_assert(sizeof(PacketRecord) == 12);

/// Records per chunk, one bit each in a word.
inline constexpr std::uint32_t kRecordsPerChunk = 64;
/// Transmission counts saturate here.
inline constexpr std::uint32_t kManyTransmissions = 3;
/// Upper bound of `now - sent` within a chunk that is being sent from: earlier send times are
/// raised to this. Sufficient for loss inference by age while round trips take at most half of it.
/// Responses that arrive later confirm arrival only. The retransmission timer has its own time.
inline constexpr Duration kOldestSent = std::chrono::seconds(1);

/// Records are allocated in chunks of 64 consecutive PSNs: none for an idle QP, as many as its
/// window spans for a busy one.
struct PacketChunk {
  Time base{};                  ///< origin of `sent` in the records
  std::uint64_t first_try = 0;  ///< bit i: records[i] is outstanding and has never been lost
  std::uint64_t lost = 0;       ///< bit i: records[i] is lost
  /// Bit i: a SACK bitmap reported records[i]. (Packets reported otherwise lack the bit.)
  std::uint64_t reported = 0;
  std::array<PacketRecord, kRecordsPerChunk> records;  ///< by PSN modulo their number

  static constexpr std::uint32_t kSpanMask = (1u << 30) - 1;
  /// Value of `sent` for a record sent now. Times of a chunk more than a second apart don't fit;
  /// the base then moves, at most once in 73 ms.
  [[nodiscard]] std::uint32_t sent_at(Time now) noexcept {
    if (now - base >= kSpan) [[unlikely]]
      move_base(now - kOldestSent);
    return static_cast<std::uint32_t>((now - base).count());
  }

 private:
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

/// Accessor of a packet in a send window. Valid as long as the packet is in the window.
class Packet {
 public:
  Packet(PacketChunk& chunk, std::uint32_t index) noexcept : chunk_(&chunk), index_(index) {}

  [[nodiscard]] PacketState state() const noexcept {
    if (first_try()) return PacketState::outstanding;
    if (record().reported != 0) return PacketState::reported;
    return (chunk_->lost & bit()) != 0 ? PacketState::lost : PacketState::outstanding;
  }
  [[nodiscard]] bool first_try() const noexcept { return (chunk_->first_try & bit()) != 0; }
  [[nodiscard]] Time sent() const noexcept { return chunk_->base + Duration{record().sent}; }
  [[nodiscard]] std::uint16_t path() const noexcept { return record().path; }
  /// Number of transmissions; kManyTransmissions: that many or more.
  [[nodiscard]] std::uint32_t transmissions() const noexcept { return record().transmissions; }
  /// Nominal size in bytes; needs first_try(). Other packets' sizes are derived from the message.
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

/// The record chunks of one engine. Fixed size; one thread.
class PacketPool {
 public:
  using Index = std::uint32_t;  ///< of a chunk
  static constexpr Index kNone = ~Index{0};

  explicit PacketPool(std::size_t packets)
      : chunks_((packets + kRecordsPerChunk - 1) / kRecordsPerChunk) {
    free_.reserve(chunks_.size());
    for (std::size_t i = chunks_.size(); i > 0; --i) free_.push_back(static_cast<Index>(i - 1));
  }

  [[nodiscard]] std::size_t free_chunks() const noexcept { return free_.size(); }
  [[nodiscard]] std::size_t chunk_count() const noexcept { return chunks_.size(); }

  /// A cleared chunk whose first packet is sent at `now`; kNone when the pool is exhausted.
  [[nodiscard]] Index acquire(Time now) noexcept {
    if (free_.empty()) return kNone;
    const Index i = free_.back();
    free_.pop_back();
    PacketChunk& chunk = chunks_[i];
    chunk.base = now;
    chunk.first_try = chunk.lost = chunk.reported = 0;
    return i;
  }
  void release(Index i) noexcept { free_.push_back(i); }

  [[nodiscard]] PacketChunk& operator[](Index i) noexcept { return chunks_[i]; }

 private:
  std::vector<PacketChunk> chunks_;
  std::vector<Index> free_;
};

/// The requester's window: one record for each PSN from the oldest not cumulatively acknowledged to
/// the newest assigned (mrc-1.0 §2.5, Table 7-4). Outstanding packets also have a send order, that
/// of their last transmissions, which loss inference walks (SendOrder). For packets at their first
/// try it equals the PSN order, so only retransmitted packets are linked.
///
/// Bounded by the peer's MPR (§2.4). Takes record chunks from a pool shared by the engine's QPs.
/// One thread. Only the constructor and resize() allocate.
class SendWindow {
 public:
  /// `limit`: largest span of the window in PSNs, 1 .. 32,768; rounded up to a power of two, at
  /// least 64.
  SendWindow(PacketPool& pool, std::uint32_t limit)
      : pool_(&pool),
        slots_(std::max(kRecordsPerChunk, std::bit_ceil(limit))),
        chunks_(slots_ / kRecordsPerChunk, PacketPool::kNone) {}
  SendWindow(const SendWindow&) = delete;
  SendWindow& operator=(const SendWindow&) = delete;
  ~SendWindow() { clear(); }

  /// Empties the window. Throws std::bad_alloc.
  void resize(std::uint32_t limit) {
    clear();
    slots_ = std::max(kRecordsPerChunk, std::bit_ceil(limit));
    chunks_.resize(slots_ / kRecordsPerChunk, PacketPool::kNone);
  }
  void start(Psn first) noexcept {
    clear();
    unacked_ = next_ = first_try_from_ = first;
  }
  void clear() noexcept {
    for (auto& c : chunks_) {
      if (c != PacketPool::kNone) pool_->release(c);
      c = PacketPool::kNone;
    }
    unacked_ = first_try_from_ = next_;
    outstanding_ = resent_ = lost_ = 0;
    next_order_ = probe_order_ = 0;
  }

  /// Oldest PSN that is not cumulatively acknowledged; next() if none.
  [[nodiscard]] Psn unacked() const noexcept { return unacked_; }
  [[nodiscard]] Psn next() const noexcept { return next_; }
  /// PSNs in the window.
  [[nodiscard]] std::uint32_t span() const noexcept {
    return static_cast<std::uint32_t>(next_ - unacked_);
  }
  [[nodiscard]] std::uint32_t outstanding() const noexcept { return outstanding_; }
  [[nodiscard]] std::uint32_t lost() const noexcept { return lost_; }
  [[nodiscard]] bool empty() const noexcept { return next_ == unacked_; }
  [[nodiscard]] bool contains(Psn psn) const noexcept {
    return static_cast<std::uint32_t>((psn - unacked_)) < span();
  }

  /// Assigns the next PSN to a packet that is sent now for the first time. Needs open(); false if
  /// the pool is exhausted. (Inlined, without linking and written in one go it saves, with the same
  /// in acknowledge(), a twelfth of the requester's time per packet.)
  [[nodiscard, gnu::always_inline]] bool append(Time now, std::uint16_t path,
                                                std::uint32_t size) noexcept {
    auto& index = chunks_[chunk_of(next_)];
    if (index == PacketPool::kNone && (index = pool_->acquire(now)) == PacketPool::kNone)
      return false;
    PacketChunk& chunk = (*pool_)[index];
    const std::uint32_t i = next_.value() % kRecordsPerChunk;
    chunk.reported &= ~(std::uint64_t{1} << i);  // stale bit of the PSN that had this record before
    PacketRecord& r = chunk.records[i];
    r.sent = chunk.sent_at(now) & PacketChunk::kSpanMask;
    r.missed = Missed::unknown;
    r.size_or_links = size & kLinksMask;
    r.transmissions = 1;
    r.order = next_place();
    r.path = path & kPathMask;
    r.reported = 0;
    chunk.first_try |= std::uint64_t{1} << i;
    ++outstanding_;
    ++next_;
    return true;
  }
  [[nodiscard]] bool open(std::uint32_t range) const noexcept {
    return span() < std::min(range, slots_);
  }

  [[nodiscard]] Packet at(Psn psn) const noexcept {
    return {(*pool_)[chunks_[chunk_of(psn)]], psn.value() % kRecordsPerChunk};
  }

  /// Prefetches where the record of `psn` is found. Then, some time later, prefetch_record().
  void prefetch_index(Psn psn) const noexcept { prefetch(&chunks_[chunk_of(psn)]); }
  /// Prefetches the record of `psn` and those that follow it, if there are any.
  void prefetch_record(Psn psn) const noexcept {
    const PacketPool::Index chunk = chunks_[chunk_of(psn)];
    if (chunk == PacketPool::kNone) return;
    prefetch(&(*pool_)[chunk]);
    prefetch(&(*pool_)[chunk].records[psn.value() % kRecordsPerChunk], 8 * sizeof(PacketRecord));
  }

  void resend(Psn psn, Time now, std::uint16_t path) noexcept {
    const Packet packet = at(psn);
    PacketRecord& r = packet.record();
    packet.chunk_->lost &= ~packet.bit();
    --lost_;
    r.sent = packet.chunk_->sent_at(now) & PacketChunk::kSpanMask;
    r.missed = Missed::unknown;
    r.order = next_place();
    r.path = path & kPathMask;
    if (r.transmissions < kManyTransmissions) ++r.transmissions;
    link_newest(psn, r);
    ++outstanding_;
  }

  /// The peer has received `psn`. Calls f(psn, packet) if this is new, with the packet's previous
  /// state; f must not change the window.
  template <class F>
  void report(Psn psn, F&& f) noexcept {
    report_packet(psn, at(psn), f);
  }

  /// The peer has received those of the 64 packets starting at `base` whose bits are set; bits
  /// outside the window are ignored. Bits reported before cost nothing.
  template <class F>
  void report(Psn base, std::uint64_t bits, F&& f) noexcept {
    const std::int32_t begin = unacked_ - base, end = next_ - base;
    if (begin >= 64 || end <= 0) return;
    if (begin > 0) bits &= ~std::uint64_t{0} << begin;
    if (end < 64) bits &= low_bits(static_cast<std::uint32_t>(end));
    // They span two chunks, the second of which begins at `base` + `split`.
    const std::uint32_t split = left_in_chunk(base);
    report_in_chunk(base, bits & low_bits(split), f);
    if (split < 64) report_in_chunk(next_chunk(base), bits >> split, f);
  }

  /// The peer has received everything up to and including `cack`; those records are freed. Calls f
  /// as report() does. `cack` must be before next().
  template <class F>
  void acknowledge(Psn cack, F&& f) noexcept {
    while (!cack.before(unacked_)) {
      PacketChunk& chunk = (*pool_)[chunks_[chunk_of(unacked_)]];
      std::uint32_t i = unacked_.value() % kRecordsPerChunk;
      for (; i < kRecordsPerChunk && !cack.before(unacked_); ++i, ++unacked_)
        report_packet(unacked_, Packet(chunk, i), f);
      if (i == kRecordsPerChunk) release_chunk(unacked_ - 1);
    }
    if (first_try_from_.before(unacked_)) first_try_from_ = unacked_;
    if (empty() && next_.value() % kRecordsPerChunk != 0) release_chunk(next_);
  }

  /// Declares an outstanding packet lost: it now waits for retransmission.
  void lose(Psn psn) noexcept {
    const Packet packet = at(psn);
    if (packet.state() != PacketState::outstanding) return;
    if (!packet.first_try()) unlink(psn, packet.record());
    packet.chunk_->first_try &= ~packet.bit();
    packet.chunk_->lost |= packet.bit();
    --outstanding_;
    ++lost_;
  }
  /// Undoes the last transmission of an outstanding packet (the port had no room for it): it is
  /// lost, and its position in the send order is closed, since later packets would seem to have
  /// overtaken it. Of a retransmission path and time stay, since which copy arrived is unknown.
  /// Linear in the packets sent after it and in those between them in the window.
  void unsend(Psn psn) noexcept {
    const Packet packet = at(psn);
    if (packet.state() != PacketState::outstanding) return;
    const std::uint32_t order = order_of(packet);
    std::uint16_t slot = newest_resent_;
    for (std::uint32_t n = resent_; n > 0 && after(order_of(at_slot(slot)), order); --n) {
      --at_slot(slot).record().order;
      slot = older(at_slot(slot).record());
    }
    for (Psn p = next_; p != unacked_;) {  // first tries, in ascending order
      p = p - 1;
      if (!at(p).first_try()) continue;
      if (!after(order_of(at(p)), order)) break;
      --at(p).record().order;
    }
    --next_order_;
    if (after(probe_order_, order)) --probe_order_;
    lose(psn);
    PacketRecord& r = packet.record();
    if (r.transmissions == 1) r.transmissions = 0;
  }
  [[nodiscard]] Psn first_lost() const noexcept { return first_lost(unacked_); }
  [[nodiscard]] Psn first_lost(Psn from) const noexcept {
    return find(from, [](const PacketChunk& c) { return c.lost; });
  }
  /// next() if none.
  [[nodiscard]] Psn first_unreported() const noexcept {
    Psn p = unacked_;
    while (p != next_ && at(p).state() == PacketState::reported) ++p;
    return p;
  }

  /// Position of an outstanding packet's last transmission in the send order. The distance to the
  /// newest position saturates at 49,152, which exceeds any window.
  [[nodiscard]] std::uint32_t order_of(Packet packet) const noexcept {
    const std::uint32_t newest = next_order_ - 1;
    return newest - static_cast<std::uint16_t>(newest - packet.record().order);
  }
  /// Number of packets sent after `psn` that are known to have arrived, given that `older`
  /// outstanding ones were sent before it. A NACK for a trimmed packet counts as an arrival, and so
  /// does an answered probe.
  [[nodiscard]] std::uint32_t reports_after(Psn psn, std::uint32_t older) const noexcept {
    const std::uint32_t order = order_of(at(psn));
    const std::uint32_t sent_later = next_order_ - 1 - order;
    const std::uint32_t silent_later = outstanding_ - 1 - older;
    const std::uint32_t reports = sent_later - silent_later;
    return reports == 0 && probed_after(order) ? 1 : reports;
  }
  [[nodiscard]] bool probed_after(std::uint32_t order) const noexcept {
    return after(probe_order_, order);
  }
  [[nodiscard]] std::uint32_t send_order() const noexcept { return next_order_; }
  /// A probe sent at this position was answered, so it overtook packets sent before it.
  void on_probe_answered(std::uint32_t order) noexcept {
    if (after(order, probe_order_)) probe_order_ = order;
  }

  [[nodiscard]] std::size_t memory() const noexcept {
    const auto none = std::count(chunks_.begin(), chunks_.end(), PacketPool::kNone);
    return chunks_.capacity() * sizeof(PacketPool::Index) +
           (chunks_.size() - static_cast<std::size_t>(none)) * sizeof(PacketChunk);
  }

 private:
  friend class SendOrder;
  static constexpr std::uint32_t kLinksMask = (1u << 30) - 1, kLinkMask = (1u << 15) - 1;
  static constexpr std::uint16_t kPathMask = (1u << 15) - 1;
  /// Records store 16 bits of the position: interval of the checks that keep it unambiguous.
  static constexpr std::uint32_t kOrderCheck = 1u << 13;
  static constexpr std::uint16_t kFarthestOrder = 0xC000;
  static_assert(kFarthestOrder + kOrderCheck <= 0xFFFF);

  [[nodiscard]] static bool after(std::uint32_t order, std::uint32_t other) noexcept {
    return static_cast<std::int32_t>(order - other) > 0;
  }
  [[nodiscard]] static std::uint64_t low_bits(std::uint32_t n) noexcept {
    return ~std::uint64_t{0} >> (64 - n);
  }
  [[nodiscard]] std::uint32_t slot(Psn psn) const noexcept { return psn.value() & (slots_ - 1); }
  [[nodiscard]] std::size_t chunk_of(Psn psn) const noexcept {
    return slot(psn) / kRecordsPerChunk;
  }
  [[nodiscard]] Psn psn_of_slot(std::uint16_t s) const noexcept {
    return unacked_ + static_cast<std::int32_t>((s - unacked_.value()) & (slots_ - 1));
  }
  [[nodiscard]] Packet at_slot(std::uint16_t s) const noexcept {
    return {(*pool_)[chunks_[s / kRecordsPerChunk]], s % kRecordsPerChunk};
  }
  [[nodiscard]] static std::uint32_t left_in_chunk(Psn p) noexcept {
    return kRecordsPerChunk - p.value() % kRecordsPerChunk;
  }
  [[nodiscard]] static Psn next_chunk(Psn p) noexcept {
    return p + static_cast<std::int32_t>(left_in_chunk(p));
  }

  /// The first PSN not before `from` whose bit is set in bits(chunk); next() if none.
  template <class Bits>
  [[nodiscard]] Psn find(Psn from, Bits&& bits) const noexcept {
    for (Psn p = from; p.before(next_); p = next_chunk(p)) {
      const std::uint64_t mask =
          bits((*pool_)[chunks_[chunk_of(p)]]) >> (p.value() % kRecordsPerChunk);
      if (mask == 0) continue;
      const Psn found = p + std::countr_zero(mask);
      return found.before(next_) ? found : next_;
    }
    return next_;
  }
  [[nodiscard]] Psn find_first_try(Psn from) const noexcept {
    return find(from, [](const PacketChunk& c) { return c.first_try; });
  }

  void release_chunk(Psn done) noexcept {
    auto& c = chunks_[chunk_of(done)];
    // In a window that spans nearly all slots, the newest packets share the oldest ones' chunk.
    if (c == PacketPool::kNone || (!empty() && chunk_of(next_ - 1) == chunk_of(done))) return;
    pool_->release(c);
    c = PacketPool::kNone;
  }

  /// Reports packets of one chunk, all in the window; bit 0 is `base`.
  template <class F>
  void report_in_chunk(Psn base, std::uint64_t bits, F& f) noexcept {
    if (bits == 0) return;
    const std::uint32_t index = base.value() % kRecordsPerChunk;
    PacketChunk& chunk = (*pool_)[chunks_[chunk_of(base)]];
    const std::uint64_t news = (bits << index) & ~chunk.reported;
    for (std::uint64_t left = news; left != 0; left &= left - 1) {
      const Packet packet(chunk, static_cast<std::uint32_t>(std::countr_zero(left)));
      report_packet(base + static_cast<std::int32_t>(packet.index_ - index), packet, f);
    }
    chunk.reported |= news;
  }

  template <class F>
  void report_packet(Psn psn, Packet packet, F& f) noexcept {
    PacketRecord& r = packet.record();
    if (r.reported != 0) return;
    f(psn, packet);
    r.reported = 1;
    PacketChunk& chunk = *packet.chunk_;
    if (packet.first_try()) {
      chunk.first_try &= ~packet.bit();
      --outstanding_;
    } else if ((chunk.lost & packet.bit()) != 0) {
      chunk.lost &= ~packet.bit();
      --lost_;
    } else {
      unlink(psn, r);
      --outstanding_;
    }
  }

  [[nodiscard]] std::uint16_t next_place() noexcept {
    if (next_order_ % kOrderCheck == 0) [[unlikely]]
      keep_orders_near();
    return static_cast<std::uint16_t>(next_order_++);
  }

  // List of the outstanding packets that were retransmitted.

  [[nodiscard]] static std::uint16_t newer(const PacketRecord& r) noexcept {
    return r.size_or_links & kLinkMask;
  }
  [[nodiscard]] static std::uint16_t older(const PacketRecord& r) noexcept {
    return static_cast<std::uint16_t>(r.size_or_links >> 15);
  }
  static void set_links(PacketRecord& r, std::uint32_t newer, std::uint32_t older) noexcept {
    r.size_or_links = (older << 15 | newer) & kLinksMask;
  }
  void link_newest(Psn psn, PacketRecord& r) noexcept {
    const auto s = static_cast<std::uint16_t>(slot(psn));
    set_links(r, 0, newest_resent_);
    if (resent_++ == 0) {
      oldest_resent_ = s;
    } else {
      PacketRecord& before = at_slot(newest_resent_).record();
      set_links(before, s, older(before));
    }
    newest_resent_ = s;
  }
  [[gnu::noinline]] void unlink(Psn psn, const PacketRecord& r) noexcept {
    --resent_;
    const auto s = static_cast<std::uint16_t>(slot(psn));
    const std::uint16_t o = older(r), n = newer(r);
    const bool oldest = s == oldest_resent_, newest = s == newest_resent_;
    if (oldest)
      oldest_resent_ = n;
    else
      set_links(at_slot(o).record(), n, older(at_slot(o).record()));
    if (newest)
      newest_resent_ = o;
    else
      set_links(at_slot(n).record(), newer(at_slot(n).record()), o);
  }

  /// Limits the distance of old positions before 16 bits become ambiguous.
  [[gnu::noinline]] void keep_orders_near() noexcept {
    const auto farthest = static_cast<std::uint16_t>(next_order_ - 1 - kFarthestOrder);
    const auto bring = [&](Packet packet) {
      const bool far = next_order_ - 1 - order_of(packet) > kFarthestOrder;
      if (far) packet.record().order = farthest;
      return far;
    };
    Psn p = find_first_try(first_try_from_);
    while (p != next_ && bring(at(p))) p = find_first_try(p + 1);
    std::uint16_t s = oldest_resent_;
    for (std::uint32_t n = resent_; n > 0 && bring(at_slot(s)); --n) s = newer(at_slot(s).record());
  }

  PacketPool* pool_;
  std::uint32_t slots_;
  std::vector<PacketPool::Index> chunks_;
  Psn unacked_;
  Psn next_;
  Psn first_try_from_;  ///< no packet before it is at its first try; for SendOrder
  std::uint32_t outstanding_ = 0;
  std::uint32_t resent_ = 0;  ///< number of these that were retransmitted: a list in send order
  std::uint32_t lost_ = 0;
  std::uint32_t next_order_ = 0;
  std::uint32_t probe_order_ = 0;
  std::uint16_t oldest_resent_ = 0;
  std::uint16_t newest_resent_ = 0;
};

/// A window's outstanding packets in send order: those at their first try merged with the
/// retransmitted ones. Packets already visited may be declared lost meanwhile.
class SendOrder {
 public:
  explicit SendOrder(SendWindow& window) noexcept
      : window_(&window),
        first_try_(window.find_first_try(window.first_try_from_)),
        resent_(window.oldest_resent_),
        resent_left_(window.resent_) {
    window.first_try_from_ = first_try_;
    choose();
  }

  [[nodiscard]] bool done() const noexcept {
    return resent_left_ == 0 && first_try_ == window_->next_;
  }
  [[nodiscard]] Psn psn() const noexcept {
    return on_resent_ ? window_->psn_of_slot(resent_) : first_try_;
  }
  void advance() noexcept {
    if (!on_resent_)
      first_try_ = window_->find_first_try(first_try_ + 1);
    else if (--resent_left_ > 0)
      resent_ = SendWindow::newer(window_->at_slot(resent_).record());
    choose();
  }

 private:
  void choose() noexcept {
    on_resent_ =
        resent_left_ > 0 && (first_try_ == window_->next_ ||
                             SendWindow::after(window_->order_of(window_->at(first_try_)),
                                               window_->order_of(window_->at_slot(resent_))));
  }

  SendWindow* window_;
  Psn first_try_;
  std::uint16_t resent_;
  std::uint32_t resent_left_;
  bool on_resent_ = false;
};

inline constexpr unsigned kMaxTimeoutExponent = 24;  ///< largest n of timeout_value()
/// Value of the exponential retry count for unlimited retries (mrc-1.0 §2.10).
inline constexpr unsigned kRetryForever = 25;

/// T(n) = 1.024 us x 2^n, n = 0 .. 24 (mrc-1.0 §2.10).
[[nodiscard]] constexpr Duration timeout_value(unsigned n) noexcept {
  return Duration{1024} * (std::int64_t{1} << std::min(n, kMaxTimeoutExponent));
}

/// The retry counters of a queue pair (mrc-1.0 §2.10, [C-8]): `linear` expirations after T, then
/// `exponential` ones after 2T, 4T .. T(24), then they are exhausted. Refusals (NACKs for lack of
/// resources) use up retries, too, but do not lengthen the timeout, since the peer responds. A peer
/// that has received everything and lacks only its Transport ACK has a limit of its own.
class RetryCounter {
 public:
  /// A live peer may leave a Transport ACK missing for so many expirations of the timer,
  static constexpr std::uint32_t kMostUnacknowledged = 32;
  /// and for so long if that is longer.
  static constexpr Duration kLongestUnacknowledged = std::chrono::seconds(10);

  RetryCounter() = default;
  /// `longest`: the n at which doubling ends.
  RetryCounter(unsigned timeout_exponent, unsigned linear, unsigned exponential,
               unsigned longest = kMaxTimeoutExponent) noexcept
      : exponent_(static_cast<std::uint8_t>(std::min(timeout_exponent, kMaxTimeoutExponent))),
        longest_(static_cast<std::uint8_t>(std::max<unsigned>(longest, exponent_))),
        linear_(static_cast<std::uint8_t>(linear)),
        exponential_(static_cast<std::uint8_t>(exponential)) {}

  /// `floor`: mrc-1.0 [O-20], 2 x base_rtt.
  [[nodiscard]] Duration timeout(Duration floor) const noexcept {
    const unsigned doublings = expired_ > linear_ ? expired_ - linear_ : 0;
    return std::max(floor, timeout_value(std::min<unsigned>(exponent_ + doublings, longest_)));
  }
  [[nodiscard]] bool take() noexcept {
    if (!take_refused()) return false;
    wait_longer();
    return true;
  }
  /// An expired timer that uses no retry: the timeout grows all the same.
  void wait_longer() noexcept {
    if (expired_ < linear_ + kMaxTimeoutExponent) ++expired_;
  }
  [[nodiscard]] bool take_refused() noexcept {
    if (exponential_ >= kRetryForever) {
      if (used_ < linear_ + kMaxTimeoutExponent) ++used_;
      return true;
    }
    if (used_ >= linear_ + exponential_) return false;
    ++used_;
    return true;
  }
  /// For an expired timer when everything has arrived and a probe was answered since the last one:
  /// the peer is alive, so no retry is used and all are restored. False once that has gone on for
  /// too long; never with unlimited retries. `floor`: as for timeout().
  [[nodiscard]] bool take_unacknowledged(Duration floor) noexcept {
    used_ = expired_ = 0;
    const bool too_long = unacknowledged_ >= kMostUnacknowledged &&
                          unacknowledged_ * timeout(floor) >= kLongestUnacknowledged;
    if (too_long && exponential_ < kRetryForever) return false;
    ++unacknowledged_;
    return true;
  }
  void on_answer() noexcept {
    ++answers_;
    answered_ = true;
  }
  [[nodiscard]] bool take_answered() noexcept { return std::exchange(answered_, false); }
  void reset() noexcept {
    used_ = expired_ = 0;
    answers_ = unacknowledged_ = 0;
  }
  [[nodiscard]] unsigned used() const noexcept { return used_; }
  /// Expirations since then, those of wait_longer(), which take no retry, included.
  [[nodiscard]] unsigned expired() const noexcept { return expired_; }
  [[nodiscard]] std::uint32_t answers() const noexcept { return answers_; }

 private:
  std::uint8_t exponent_ = 12;
  std::uint8_t longest_ = kMaxTimeoutExponent;
  std::uint8_t linear_ = 7;
  std::uint8_t exponential_ = 10;
  bool answered_ = false;
  std::uint8_t used_ = 0;
  std::uint8_t expired_ = 0;
  std::uint32_t answers_ = 0;
  std::uint32_t unacknowledged_ = 0;  // expirations taken by take_unacknowledged()
};

/// The time from the last progress until fresh counters are exhausted, each timeout at least
/// `floor`. Not for those that never are.
[[nodiscard]] inline Duration give_up_time(RetryCounter retries, Duration floor) noexcept {
  Duration total{0};
  do {
    total += retries.timeout(floor);
  } while (retries.take());
  return total;
}

/// Smoothed round-trip time and its variation, as in RFC 6298: protects loss inference against
/// delays added by hosts (a receiver that is not scheduled), which base_rtt does not include.
class RttEstimator {
 public:
  void sample(Duration rtt) noexcept {
    latest_ = rtt;
    if (samples_ == 0) {
      smoothed_ = rtt;
      variation_ = rtt / 2;
    } else {
      const Duration error = rtt > smoothed_ ? rtt - smoothed_ : smoothed_ - rtt;
      variation_ += (error - variation_) / 4;
      smoothed_ += (rtt - smoothed_) / 8;
    }
    if (samples_ < 8) ++samples_;
  }
  [[nodiscard]] Duration smoothed() const noexcept { return smoothed_; }
  /// After which it pays to ask whether something was lost: unlike bound() neither one late sample
  /// nor a strong variation takes it far. 0 before the first sample.
  [[nodiscard]] Duration usual() const noexcept {
    return smoothed_ + std::min(smoothed_, 4 * variation_);
  }
  /// Most round trips take no longer; of evenly spread ones none. 0 before the first sample.
  [[nodiscard]] Duration likely() const noexcept { return smoothed_ + 2 * variation_; }
  /// The newest sample and a quarter: after a stall of the peer its other responses are as late.
  [[nodiscard]] Duration recent() const noexcept { return latest_ + latest_ / 4; }
  /// A rarely exceeded round-trip time; 0 before the first sample.
  [[nodiscard]] Duration bound() const noexcept {
    return std::max(smoothed_ + 4 * variation_, recent());
  }

 private:
  Duration latest_{};
  Duration smoothed_{};
  Duration variation_{};
  std::uint8_t samples_ = 0;
};

/// When an unreported packet counts as lost (mrc-1.0 §2.9, [O-3]). A SACK covers 64 packets and
/// carries no information on others, so a packet is missing only if a SACK that covers it shows it
/// missing. A path preserves order; planes with many paths don't, since each path has its own
/// queues.
struct LossRule {
  /// Number of packets marked as passed (Missed::passed) since the last call: lost at any age.
  std::uint32_t passed = 0;
  /// A packet is lost at 1.75 times this age if it is absent: the queues of paths differ, and most
  /// just after a failure, when paths that are called bad by mistake are missed most. With 1.5 one
  /// packet in eight was then only late; more lengthens the tail of messages that lost a packet.
  Duration age{};
  /// A packet of this age is lost if a probe sent after it has been answered. At most `age`.
  Duration probed{};
  /// A packet of this age is lost if it was passed but not counted in `passed`, or is beyond this
  /// call's walk limit. At most `age`.
  Duration passed_age{};
  /// The sender itself did not run for this long,
  Duration stalled{};
  /// until then. It does not count for the age of packets sent before.
  Time stalled_until = Time::min();

  /// Age at which an absent packet is lost.
  [[nodiscard]] Duration absent_age() const noexcept { return age + age * 3 / 4; }
  /// From when on the age of a packet sent at `sent` counts.
  [[nodiscard]] Time begin(Time sent) const noexcept {
    return sent < stalled_until ? std::min(sent + stalled, stalled_until) : sent;
  }
};

/// Most packets that one walk over the send order visits.
inline constexpr std::uint32_t kMaxLossWalk = 64;
/// The same while packets marked as passed are still to be found.
inline constexpr std::uint32_t kMaxPassedWalk = 512;

/// Age at which a packet is lost; Duration::max() if only a SACK can decide that.
[[nodiscard]] inline Duration lost_at_age(const SendWindow& window, Packet packet,
                                          const LossRule& rule) noexcept {
  const Missed missed = packet.missed();
  const bool probed = window.probed_after(window.order_of(packet));
  if (missed == Missed::passed) return std::min(rule.passed_age, probed ? rule.probed : rule.age);
  if (probed) return rule.probed;
  return missed == Missed::absent ? rule.absent_age() : Duration::max();
}

/// Marks the packets that the rule declares lost, oldest transmission first; f(psn, packet) is
/// called just before each. Returns when to call again (kNever: not before the next SACK).
template <class F>
Time infer_losses(SendWindow& window, Time now, LossRule rule, F&& f) noexcept {
  Time again = kNever;
  std::uint32_t walked = 0;  // outstanding packets sent before the current one
  const Duration young = std::min(rule.probed, rule.passed_age);
  SendOrder walk(window);
  while (!walk.done() && walked < (rule.passed > 0 ? kMaxPassedWalk : kMaxLossWalk)) {
    const Psn psn = walk.psn();
    const Packet packet = window.at(psn);
    // No packet sent later was reported, which then holds for the packets after it too.
    if (rule.passed == 0 && window.reports_after(psn, walked) == 0) break;
    const Time begin = rule.begin(packet.sent());
    const Duration age = now - begin;
    const Duration limit = lost_at_age(window, packet, rule);
    const bool passed = rule.passed > 0 && packet.missed() == Missed::passed;
    const bool lost = passed || age >= limit;
    rule.passed -= passed;
    // Look again at packets that no SACK has covered once one covering them could have arrived.
    // Packets after the young one that ends the walk may be lost sooner than it.
    const Duration next_look = age < young                ? young
                               : limit != Duration::max() ? limit
                               : age < rule.age           ? rule.age
                                                          : rule.absent_age();
    if (!lost && age < next_look) again = std::min(again, begin + next_look);
    if (!lost && age < young && rule.passed == 0) break;
    walk.advance();
    if (lost) {
      f(psn, packet);
      window.lose(psn);
    } else {
      ++walked;
    }
  }
  return again;
}

}  // namespace mrc::inline v0_1::reliability
