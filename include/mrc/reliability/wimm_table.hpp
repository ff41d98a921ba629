// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "mrc/core/types.hpp"

namespace mrc::inline v0_1::reliability {

/// A write with immediate whose last packet has arrived, waiting for its turn.
struct WimmEntry {
  Psn last_psn;  ///< delivered when everything up to here has arrived
  std::uint32_t immediate = 0;
  std::uint32_t length = 0;  ///< of the whole message (RETH.DMALEN, mrc-1.0 [C-7])
  bool present = false;
};

/// The responder's WriteImm table (mrc-1.0 §2.5, §2.8): deliveries happen in RQMSN order, and only
/// when every packet of this and of all earlier messages is in. Fixed size; one thread.
class WimmTable {
 public:
  enum class Insert : std::uint8_t { ok, overflow, conflict };

  /// `limit`: MAX_WIMM_DEST, 1 .. 32,768.
  explicit WimmTable(std::uint32_t limit) : entries_(limit) {}

  void start() noexcept {
    for (auto& e : entries_) e.present = false;
    next_ = Rqmsn{};
  }

  /// Notes the last packet of the WriteImm `number`. overflow: more than the limit are in flight
  /// ([C-16]); conflict: that number was delivered or noted before, which a correct peer never
  /// does.
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

  /// The next one to deliver, or null: it has arrived and nothing before it is missing.
  [[nodiscard]] const WimmEntry* ready(Psn cack) const noexcept {
    const WimmEntry& e = entries_[head_];
    return e.present && !e.last_psn.after(cack) ? &e : nullptr;
  }
  /// Takes the one that ready() showed.
  void pop() noexcept {
    entries_[head_].present = false;
    if (++head_ == entries_.size()) head_ = 0;
    ++next_;
  }
  [[nodiscard]] Rqmsn next() const noexcept { return next_; }
  [[nodiscard]] std::size_t memory() const noexcept {
    return entries_.capacity() * sizeof(WimmEntry);
  }

 private:
  [[nodiscard]] std::size_t index(std::int32_t ahead) const noexcept {
    const std::size_t i = head_ + static_cast<std::size_t>(ahead);
    return i < entries_.size() ? i : i - entries_.size();
  }

  std::vector<WimmEntry> entries_;
  std::size_t head_ = 0;
  Rqmsn next_;
};

}  // namespace mrc::inline v0_1::reliability
