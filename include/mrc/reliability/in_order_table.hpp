// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstdint>
#include <vector>

#include "mrc/core/types.hpp"

namespace mrc::inline v0_1::reliability {

/// Number of a READ or an atomic among those of its queue pair, as METH.rqmsn carries it.
using RequestNumber = Rqmsn;

/// Messages with consecutive numbers that arrive in any order and take effect in that order, each
/// as soon as the cumulative PSN has passed its last packet. Fixed size; one thread.
template <class Entry>
class InOrderTable {
 public:
  /// `limit`: messages that are tracked at a time.
  explicit InOrderTable(std::uint32_t limit = 0)
      : limit_(limit), slots_(limit == 0 ? 0 : std::bit_ceil(limit)) {}

  /// Empties the table; numbers start at 0.
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
  /// Removes it.
  void pop() noexcept {
    slots_[index(next_)].present = false;
    --held_;
    ++next_;
  }
  /// Number of the next message.
  [[nodiscard]] RequestNumber next() const noexcept { return next_; }
  /// True if none has been inserted that was not removed.
  [[nodiscard]] bool empty() const noexcept { return held_ == 0; }
  /// Messages that are tracked at a time.
  [[nodiscard]] std::uint32_t limit() const noexcept { return limit_; }
  /// Heap bytes of this table.
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

}  // namespace mrc::inline v0_1::reliability
