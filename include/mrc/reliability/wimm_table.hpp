// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "mrc/core/types.hpp"

namespace mrc::inline v0_1::reliability {

/// A write with immediate, or a SEND, whose last packet has arrived, waiting for in-order delivery.
struct WimmEntry {
  Psn last_psn;                 ///< last packet: delivered once everything up to here has arrived
  std::uint32_t immediate = 0;  ///< immediate value
  std::uint32_t length =
      0;  ///< payload of the last packet; of a SEND, or after measure(), of the message
  bool present = false;        ///< the entry is in use
  bool solicited = false;      ///< its completion is solicited
  bool send = false;           ///< a SEND
  bool has_immediate = false;  ///< `immediate` counts
};

/// The responder's WriteImm table (mrc-1.0 §2.5, §2.8): delivery is in RQMSN order, and only after
/// all packets of this and of all earlier messages have arrived. Fixed size; one thread.
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
    measured_ = 0;
  }

  /// Records the last packet of the WriteImm `number`. overflow: more than the limit are in flight
  /// ([C-16]); conflict: that number was delivered or recorded before, which violates the protocol.
  [[nodiscard]] Insert insert(Rqmsn number, const WimmEntry& entry) noexcept {
    const std::int32_t ahead = number - next_;
    if (ahead < 0) return Insert::conflict;
    if (static_cast<std::size_t>(ahead) >= entries_.size()) return Insert::overflow;
    WimmEntry& e = entries_[index(ahead)];
    if (e.present) return Insert::conflict;
    e = entry;
    e.present = true;
    return Insert::ok;
  }

  /// The message of the packets `first` to `last` is complete; all but the last one carry `mtu`
  /// bytes. If it is the next WriteImm that is not measured yet, its length is known now. Packets
  /// tell how long they are, but not how long their message is: peers disagree about RETH.DMALEN
  /// (mrc-1.0 [C-7]). To be called in PSN order, for each message.
  void measure(Psn first, Psn last, std::uint32_t mtu) noexcept {
    if (measured_ == entries_.size()) return;
    WimmEntry& e = entries_[index(static_cast<std::int32_t>(measured_))];
    if (!e.present || e.last_psn != last) return;
    if (!e.send) e.length += (static_cast<std::uint32_t>(last - first) & 0xFFFFFF) * mtu;
    ++measured_;
  }
  /// The next one to deliver, or null if it or an earlier packet is missing.
  [[nodiscard]] const WimmEntry* ready(Psn cack) const noexcept {
    const WimmEntry& e = entries_[head_];
    return e.present && !e.last_psn.after(cack) ? &e : nullptr;
  }
  /// Removes the one that ready() returned.
  void pop() noexcept {
    entries_[head_].present = false;
    measured_ -= measured_ > 0;
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
  [[nodiscard]] std::size_t index(std::int32_t ahead) const noexcept {
    const std::size_t i = head_ + static_cast<std::size_t>(ahead);
    return i < entries_.size() ? i : i - entries_.size();
  }

  std::vector<WimmEntry> entries_;
  std::uint32_t head_ = 0;
  std::uint32_t measured_ = 0;  ///< entries from head_ on whose length is that of the message
  Rqmsn next_;
};

}  // namespace mrc::inline v0_1::reliability
