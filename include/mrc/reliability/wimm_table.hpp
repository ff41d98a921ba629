// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "mrc/core/types.hpp"

namespace mrc::inline v0_1::reliability {

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
/// all packets of this and of all earlier messages have arrived. RQMSNs count WriteImm and SENDs in
/// the order of their PSNs, so each one that the cumulative PSN passes is the next one, or the peer
/// has misnumbered. Fixed size; one thread.
class WimmTable {
 public:
  /// Result of insert().
  enum class Insert : std::uint8_t { ok, overflow, conflict };

  /// `limit`: MAX_WIMM_DEST, 1 .. 32,768.
  explicit WimmTable(std::uint32_t limit) : entries_(limit) {}

  /// Empties the table; numbers start at 0.
  void start() noexcept {
    for (auto& e : entries_) e.present = false;
    next_ = Rqmsn{};
    passed_ = ahead_ = absent_to_ = 0;
  }

  /// Records the last packet of the WriteImm `number`. overflow: more than the limit are in flight
  /// ([C-16]); conflict: that number was delivered or recorded before, which violates the protocol.
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
  /// the last one carry `mtu` bytes. If it is the next WriteImm, it can be delivered, and its
  /// length is known: packets tell how long they are, but not how long their message is, since
  /// peers disagree about RETH.DMALEN (mrc-1.0 [C-7]). False if a WriteImm that is not the next one
  /// has been passed: numbers do not begin at 0, or one was left out. To be called in PSN order,
  /// for each message.
  [[nodiscard]] bool pass(Psn first, Psn last, std::uint32_t mtu) noexcept {
    if (ahead_ == 0) return true;  // a plain write
    if (WimmEntry& e = at(passed_); e.present && e.last_psn == last) {
      if (!e.send) e.length += (static_cast<std::uint32_t>(last - first) & 0xFFFFFF) * mtu;
      ++passed_;
      if (--ahead_ == 0) return true;
    }
    return oldest_ahead().last_psn.after(last);
  }
  /// The next one to deliver, if the cumulative PSN has passed it and it ends with or before `end`;
  /// else null.
  [[nodiscard]] const WimmEntry* ready(Psn end) const noexcept {
    if (passed_ == 0) return nullptr;  // before any other memory is touched
    const WimmEntry& e = entries_[head_];
    return e.last_psn.after(end) ? nullptr : &e;
  }
  /// Removes the one that ready() returned.
  void pop() noexcept {
    entries_[head_].present = false;
    --passed_;
    absent_to_ = static_cast<std::uint16_t>(absent_to_ - (absent_to_ > 0));
    if (++head_ == entries_.size()) head_ = 0;
    ++next_;
  }
  /// MAX_WIMM_DEST.
  [[nodiscard]] std::size_t limit() const noexcept { return entries_.size(); }
  /// Number of the next delivery.
  [[nodiscard]] Rqmsn next() const noexcept { return next_; }
  /// Heap bytes of this table.
  [[nodiscard]] std::size_t memory() const noexcept {
    return entries_.capacity() * sizeof(WimmEntry);
  }

 private:
  /// The entry of a number, by its distance from next_.
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
