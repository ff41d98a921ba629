// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

#include "mrc/core/containers.hpp"
#include "mrc/core/types.hpp"

namespace mrc::inline v0_1::reliability {

/// The selective part of a SACK: bit i of `bitmap` stands for PSN cack + offset + i.
struct SackRange {
  std::int16_t offset = 1;   ///< PSN of bit 0, relative to cack
  std::uint64_t bitmap = 0;  ///< received packets
};

/// The responder's window: which PSNs have been received, and which of them end a message (mrc-1.0
/// §2.4, §2.5, Table 7-5). A message is complete when the cumulative PSN passes its last packet.
///
/// A packet that is not settled may still be written to memory by another copy of it. SACKs report
/// it, but the cumulative PSN does not pass it before settle(). Only the constructor allocates.
class ReceiveWindow {
 public:
  enum class Verdict : std::uint8_t {
    fresh,      ///< in the window, not seen before
    duplicate,  ///< seen before, or below the window
    beyond,     ///< above the window ([C-6])
  };

  /// `range`: MPR_DEST in packets, 128 .. 32,640. `settling`: packets can be unsettled.
  explicit ReceiveWindow(std::uint32_t range, bool settling = false)
      : range_(range),
        settling_(settling),
        received_(range),
        ends_(range),
        unsettled_(settling ? range : 0) {}

  void start(Psn first) noexcept {
    cack_ = max_received_ = lowest_unsacked_ = first - 1;
    message_ = first;
    out_of_order_ = 0;
    unsettled_count_ = 0;
    received_.clear_all();
    ends_.clear_all();
    unsettled_.clear_all();
  }

  [[nodiscard]] Verdict check(Psn psn) const noexcept {
    const std::int32_t ahead = psn - cack_;
    if (ahead <= 0) return Verdict::duplicate;
    if (static_cast<std::uint32_t>(ahead) > range_) return Verdict::beyond;
    return out_of_order_ != 0 && received_.test(psn.value()) ? Verdict::duplicate : Verdict::fresh;
  }

  /// The progress made by accept().
  struct Advance {
    std::uint32_t packets = 0;   ///< the cumulative PSN advanced by so many
    std::uint32_t messages = 0;  ///< number of messages completed
    Psn last_end;                ///< last PSN of the newest of them
  };

  /// Records a fresh packet. `end`: it is the last one of its message. `settled`: false needs
  /// `settling` in the constructor. Calls complete(first, last) for each message that the
  /// cumulative PSN passes, with its PSNs, in their order.
  template <class F>
  Advance accept(Psn psn, bool end, bool settled, F&& complete) noexcept {
    if (psn.after(max_received_)) max_received_ = psn;
    if (psn == cack_ + 1 && out_of_order_ == 0 && settled) {
      cack_ = psn;
      if (end) pass_message(psn, complete);
      return {1, end ? 1u : 0u, psn};
    }
    received_.set(psn.value());
    if (end) ends_.set(psn.value());
    ++out_of_order_;
    if (!settled) {
      unsettled_.set(psn.value());
      ++unsettled_count_;
    }
    return psn == cack_ + 1 ? advance(complete) : Advance{};
  }
  Advance accept(Psn psn, bool end) noexcept {
    return accept(psn, end, true, [](Psn, Psn) {});
  }
  /// A received packet is unsettled (again). Nothing happens if the cumulative PSN has passed it.
  void unsettle(Psn psn) noexcept {
    const std::int32_t ahead = psn - cack_;
    if (!settling_ || ahead <= 0 || static_cast<std::uint32_t>(ahead) > range_ ||
        !received_.test(psn.value()) || unsettled_.test(psn.value()))
      return;
    unsettled_.set(psn.value());
    ++unsettled_count_;
  }
  /// A packet is settled. Nothing happens if it was, or was not received. `complete`: as above.
  template <class F>
  Advance settle(Psn psn, F&& complete) noexcept {
    const std::int32_t ahead = psn - cack_;
    if (unsettled_count_ == 0 || ahead <= 0 || static_cast<std::uint32_t>(ahead) > range_ ||
        !unsettled_.test(psn.value()))
      return {};
    unsettled_.clear(psn.value());
    --unsettled_count_;
    return psn == cack_ + 1 ? advance(complete) : Advance{};
  }

  /// Highest PSN up to which all packets have been received (cack_psn).
  [[nodiscard]] Psn cack() const noexcept { return cack_; }
  [[nodiscard]] Psn max_received() const noexcept { return max_received_; }
  /// Packets received above cack (CC_STATE.ooo_count).
  [[nodiscard]] std::uint32_t out_of_order() const noexcept { return out_of_order_; }
  [[nodiscard]] bool settling() const noexcept { return settling_; }  ///< unsettled packets
  [[nodiscard]] std::uint32_t range() const noexcept { return range_; }

  /// Consecutive SACKs that cover the window. One more during a pass, which ends at the beginning.
  [[nodiscard]] std::uint32_t sacks_for_all() const noexcept {
    const auto span = static_cast<std::uint32_t>(max_received_ - cack_);
    if (span <= 64) return 1;
    return (span + 63) / 64 + lowest_unsacked_.after(cack_ + 1);
  }

  /// Base and bits of the next SACK: the base advances through the window from SACK to SACK, so
  /// that windows wider than 64 packets are reported completely (mrc-1.0 §2.7, [O-2], [C-25]).
  [[nodiscard]] SackRange next_sack() noexcept {
    const Psn first = cack_ + 1;
    Psn base = lowest_unsacked_.after(first) ? lowest_unsacked_ : first;
    const bool reaches_end = !(base + 63).before(max_received_);
    if (reaches_end) {
      const Psn last_word = max_received_ - 63;
      base = last_word.after(first) ? last_word : first;
    }
    lowest_unsacked_ = reaches_end ? first : base + 64;
    SackRange range;
    range.offset = static_cast<std::int16_t>(base - cack_);
    range.bitmap = out_of_order_ == 0 ? 0 : received_.extract(base.value());
    return range;
  }

  [[nodiscard]] std::size_t memory() const noexcept {
    return (received_.size() + ends_.size() + unsettled_.size()) / 8;
  }

 private:
  template <class F>
  void pass_message(Psn last, F& complete) noexcept {
    complete(message_, last);
    message_ = last + 1;
  }
  template <class F>
  Advance advance(F& complete) noexcept {
    Advance a;
    const auto first = cack_ + 1;
    const auto span = static_cast<std::uint32_t>(max_received_ - cack_);
    a.packets = static_cast<std::uint32_t>(received_.find_next_clear(first.value(), span));
    if (unsettled_count_ > 0)
      a.packets = static_cast<std::uint32_t>(unsettled_.find_next_set(first.value(), a.packets));
    for (std::uint32_t i = 0; i < a.packets;) {
      const std::uint32_t left = a.packets - i;
      i += static_cast<std::uint32_t>(
          ends_.find_next_set((first + static_cast<std::int32_t>(i)).value(), left));
      if (i >= a.packets) break;
      a.last_end = first + static_cast<std::int32_t>(i);
      pass_message(a.last_end, complete);
      ++a.messages;
      ++i;
    }
    received_.clear_range(first.value(), a.packets);
    if (a.messages > 0) ends_.clear_range(first.value(), a.packets);
    cack_ = cack_ + static_cast<std::int32_t>(a.packets);
    out_of_order_ -= a.packets;
    return a;
  }

  std::uint32_t range_;
  bool settling_;
  std::uint32_t out_of_order_ = 0;
  std::uint32_t unsettled_count_ = 0;
  Psn cack_, max_received_, lowest_unsacked_;
  Psn message_;  ///< first PSN of the oldest message that is not complete
  CircularBitmap received_;
  CircularBitmap ends_;
  CircularBitmap unsettled_;
};

/// Number of a READ or an atomic among those of its queue pair, as METH.rqmsn carries it.
using RequestNumber = Rqmsn;

/// Messages that arrive in any order and take effect in that of their numbers, each as soon as the
/// cumulative PSN has passed its last packet.
template <class Entry>
class InOrderTable {
 public:
  /// `limit`: messages that are tracked at a time.
  explicit InOrderTable(std::uint32_t limit = 0)
      : limit_(limit), slots_(limit == 0 ? 0 : std::bit_ceil(limit)) {}

  void start() noexcept {
    for (Slot& s : slots_) s.present = false;
    next_ = {};
    held_ = 0;
  }

  /// Can a message with this number be inserted: is it one of the next `limit`, and not there?
  [[nodiscard]] bool expects(RequestNumber number) const noexcept {
    const std::int32_t ahead = number - next_;
    return ahead >= 0 && static_cast<std::uint32_t>(ahead) < limit_ &&
           !slots_[index(number)].present;
  }
  /// Inserts a message whose last packet is `last`; needs expects().
  void insert(RequestNumber number, Psn last, const Entry& entry) noexcept {
    slots_[index(number)] = {entry, last, true};
    ++held_;
  }
  /// The next message, or null if it or a packet before its end is missing.
  [[nodiscard]] Entry* ready(Psn cack) noexcept {
    if (held_ == 0) return nullptr;
    Slot& s = slots_[index(next_)];
    return s.present && !s.last.after(cack) ? &s.entry : nullptr;
  }
  /// `cack`, or the PSN before the end of the next message if that is passed but not removed yet.
  [[nodiscard]] Psn executed(Psn cack) noexcept {
    return ready(cack) == nullptr ? cack : last() - 1;
  }
  /// Last PSN of the message that ready() returned.
  [[nodiscard]] Psn last() const noexcept { return slots_[index(next_)].last; }
  void pop() noexcept {
    slots_[index(next_)].present = false;
    --held_;
    ++next_;
  }
  [[nodiscard]] RequestNumber next() const noexcept { return next_; }
  [[nodiscard]] bool empty() const noexcept { return held_ == 0; }       ///< none is held
  [[nodiscard]] std::uint32_t limit() const noexcept { return limit_; }  ///< tracked at a time
  [[nodiscard]] std::size_t memory() const noexcept { return slots_.capacity() * sizeof(Slot); }

 private:
  struct Slot {
    Entry entry{};
    Psn last;
    bool present = false;
  };

  /// A power of two of slots, so that numbers and slots wrap around together.
  [[nodiscard]] std::size_t index(RequestNumber number) const noexcept {
    return number.value() & (slots_.size() - 1);
  }

  std::uint32_t limit_;
  std::vector<Slot> slots_;
  RequestNumber next_;
  std::uint32_t held_ = 0;
};

/// A write with immediate, or a SEND, whose last packet has arrived, waiting for in-order delivery.
struct WimmEntry {
  Psn last_psn;                 ///< last packet: delivered once everything up to here has arrived
  std::uint32_t immediate = 0;  ///< immediate value
  std::uint32_t length = 0;     ///< payload of its last packet; of all, in a SEND or after pass()
  bool present = false;         ///< the entry is in use
  bool solicited = false;       ///< its completion is solicited
  bool send = false;            ///< a SEND
  bool has_immediate = false;   ///< `immediate` counts
};

/// The responder's WriteImm table (mrc-1.0 §2.5, §2.8): delivery is in RQMSN order, and only after
/// all packets of this and of all earlier messages have arrived. RQMSNs follow the order of PSNs,
/// so each one that the cumulative PSN passes is the next one, or the peer has misnumbered.
class WimmTable {
 public:
  enum class Insert : std::uint8_t { ok, overflow, conflict };

  /// `limit`: MAX_WIMM_DEST, 1 .. 32,768.
  explicit WimmTable(std::uint32_t limit) : entries_(limit) {}

  void start() noexcept {
    for (auto& e : entries_) e.present = false;
    next_ = Rqmsn{};
    passed_ = ahead_ = absent_to_ = 0;
  }

  /// Records the last packet of the WriteImm `number`. overflow: more than the limit are in flight
  /// ([C-16]); conflict: that number was delivered or recorded before.
  [[nodiscard]] Insert insert(Rqmsn number, const WimmEntry& entry) noexcept {
    const std::int32_t distance = number - next_;
    if (distance < 0) return Insert::conflict;
    if (static_cast<std::size_t>(distance) >= entries_.size()) return Insert::overflow;
    const auto d = static_cast<std::uint16_t>(distance);
    WimmEntry& e = at(d);
    if (e.present) return Insert::conflict;
    e = entry;
    e.present = true;
    ++ahead_;
    if (d > passed_ && d < absent_to_) absent_to_ = d;
    return Insert::ok;
  }

  /// The cumulative PSN has passed the message of the packets `first` to `last`, of which all but
  /// the last one carry `mtu` bytes: that gives the length of a WriteImm, since peers disagree
  /// about RETH.DMALEN (mrc-1.0 [C-7]). False if a WriteImm that is not the next one has been
  /// passed: numbers do not begin at 0, or one was left out. To be called in PSN order, for each
  /// message.
  [[nodiscard]] bool pass(Psn first, Psn last, std::uint32_t mtu) noexcept {
    if (ahead_ == 0) return true;  // a plain write
    if (WimmEntry& e = at(passed_); e.present && e.last_psn == last) {
      if (!e.send) e.length += (static_cast<std::uint32_t>(last - first) & 0xFFFFFF) * mtu;
      ++passed_;
      if (--ahead_ == 0) return true;
    }
    return oldest_ahead().last_psn.after(last);
  }
  /// The next one if the cumulative PSN has passed it and it ends by `end`; else null.
  [[nodiscard]] const WimmEntry* ready(Psn end) const noexcept {
    if (passed_ == 0) return nullptr;  // before any other memory is touched
    const WimmEntry& e = entries_[head_];
    return e.last_psn.after(end) ? nullptr : &e;
  }
  void pop() noexcept {
    entries_[head_].present = false;
    --passed_;
    absent_to_ = static_cast<std::uint16_t>(absent_to_ - (absent_to_ > 0));
    if (++head_ == entries_.size()) head_ = 0;
    ++next_;
  }
  [[nodiscard]] std::size_t limit() const noexcept { return entries_.size(); }  ///< MAX_WIMM_DEST
  [[nodiscard]] Rqmsn next() const noexcept { return next_; }                   ///< next delivery
  [[nodiscard]] std::size_t memory() const noexcept {
    return entries_.capacity() * sizeof(WimmEntry);
  }

 private:
  [[nodiscard]] WimmEntry& at(std::size_t distance) noexcept {
    const std::size_t i = head_ + distance;
    return entries_[i < entries_.size() ? i : i - entries_.size()];
  }
  /// The lowest number that is present and not passed; needs ahead_ > 0.
  [[nodiscard]] const WimmEntry& oldest_ahead() noexcept {
    if (const WimmEntry& e = at(passed_); e.present) return e;
    absent_to_ = std::max(absent_to_, static_cast<std::uint16_t>(passed_ + 1));
    while (!at(absent_to_).present) ++absent_to_;
    return at(absent_to_);
  }

  std::vector<WimmEntry> entries_;
  std::uint16_t head_ = 0;       ///< entry of the next delivery
  std::uint16_t passed_ = 0;     ///< entries from there on that the cumulative PSN has passed
  std::uint16_t ahead_ = 0;      ///< other entries that are present
  std::uint16_t absent_to_ = 0;  ///< numbers between passed_ and this are absent (from next_)
  Rqmsn next_;
};

}  // namespace mrc::inline v0_1::reliability
