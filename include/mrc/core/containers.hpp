// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <boost/intrusive/list.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "mrc/core/types.hpp"

namespace mrc::inline v0_1 {

/// A window over a wrapping sequence space: bit `i` stands for every number congruent to i modulo
/// size(), so that nothing is shifted when it moves (mrc-1.0 §2.4). Positions may be any number,
/// counts above size() are cut to it. One thread at a time.
class CircularBitmap {
 public:
  /// All bits clear. `bits` is rounded up to a power of two, at least 64, and must divide the
  /// sequence space. The only allocation.
  explicit CircularBitmap(std::size_t bits)
      : size_(std::bit_ceil(std::max(bits, kWordBits))), words_(new Word[size_ / kWordBits]()) {}

  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] bool test(std::size_t pos) const noexcept {
    return (words_[index(pos) / kWordBits] & bit(pos)) != 0;
  }
  void set(std::size_t pos) noexcept { words_[index(pos) / kWordBits] |= bit(pos); }
  void clear(std::size_t pos) noexcept { words_[index(pos) / kWordBits] &= ~bit(pos); }
  void clear_all() noexcept { std::fill_n(words_.get(), size_ / kWordBits, Word{0}); }

  /// Distance from `from` to the first set bit among the `count` bits that start there; `count` (at
  /// most size()) when there is none.
  [[nodiscard]] std::size_t find_next_set(std::size_t from, std::size_t count) const noexcept {
    return find(from, count, Word{0});
  }
  /// The same for the first clear bit.
  [[nodiscard]] std::size_t find_next_clear(std::size_t from, std::size_t count) const noexcept {
    return find(from, count, ~Word{0});
  }

  /// The 64 bits that start at `pos`, which becomes bit 0 of the result: a SACK bitmap.
  [[nodiscard]] std::uint64_t extract(std::size_t pos) const noexcept {
    const std::size_t shift = pos % kWordBits;
    const Word low = words_[index(pos) / kWordBits] >> shift;
    if (shift == 0) return low;
    return low | (words_[index(pos + kWordBits) / kWordBits] << (kWordBits - shift));
  }

  /// Clears the `count` bits that start at `from`.
  void clear_range(std::size_t from, std::size_t count) noexcept {
    for_each_word(from, count, [](Word& word, Word mask, std::size_t) noexcept {
      word &= ~mask;
      return true;
    });
  }

 private:
  using Word = std::uint64_t;
  static constexpr std::size_t kWordBits = 64;

  [[nodiscard]] std::size_t index(std::size_t pos) const noexcept { return pos & (size_ - 1); }
  [[nodiscard]] static constexpr Word bit(std::size_t pos) noexcept {
    return Word{1} << (pos % kWordBits);
  }

  /// Calls fn(word, mask of the wanted bits in it, bits passed before) for the `count` bits from
  /// `from` on until it returns false.
  template <class F>
  void for_each_word(std::size_t from, std::size_t count, F&& fn) const noexcept {
    count = std::min(count, size_);
    for (std::size_t done = 0, n; done < count; done += n) {
      const std::size_t shift = (from + done) % kWordBits;
      n = std::min(kWordBits - shift, count - done);
      const Word mask = (~Word{0} >> (kWordBits - n)) << shift;
      if (!fn(words_[index(from + done) / kWordBits], mask, done)) return;
    }
  }

  /// Distance to the first bit that is set in word ^ `flip`.
  [[nodiscard]] std::size_t find(std::size_t from, std::size_t count, Word flip) const noexcept {
    std::size_t found = std::min(count, size_);
    for_each_word(from, count, [&](Word word, Word mask, std::size_t done) noexcept {
      const Word hits = (word ^ flip) & mask;
      if (hits == 0) return true;
      found = done + static_cast<std::size_t>(std::countr_zero(hits) - std::countr_zero(mask));
      return false;
    });
    return found;
  }

  std::size_t size_;
  std::unique_ptr<Word[]> words_;
};

/// A FIFO queue of fixed capacity; 0 makes one that is always full. The constructor allocates;
/// after that nothing allocates or throws. T must be default constructible; a popped element keeps
/// its value until its slot is reused, so T should own nothing that must be released early. A
/// moved-from ring may only be assigned to or destroyed. One thread at a time.
template <class T>
class Ring {
 public:
  explicit Ring(std::size_t capacity)
      : slots_(new T[std::bit_ceil(capacity)]),
        mask_(std::bit_ceil(capacity) - 1),
        capacity_(capacity) {}

  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] std::size_t capacity() const noexcept { return capacity_; }
  [[nodiscard]] bool empty() const noexcept { return size_ == 0; }
  [[nodiscard]] bool full() const noexcept { return size_ == capacity_; }

  /// Appends `value`; returns false and changes nothing when full.
  bool push_back(T value) noexcept {
    if (full()) return false;
    slots_[(head_ + size_++) & mask_] = std::move(value);
    return true;
  }

  /// Oldest element; the ring must not be empty.
  [[nodiscard]] T& front() noexcept { return slots_[head_]; }
  [[nodiscard]] const T& front() const noexcept { return slots_[head_]; }
  /// Element `i` counted from the front; i < size().
  [[nodiscard]] T& operator[](std::size_t i) noexcept { return slots_[(head_ + i) & mask_]; }
  [[nodiscard]] const T& operator[](std::size_t i) const noexcept {
    return slots_[(head_ + i) & mask_];
  }

  /// Removes the oldest element; the ring must not be empty.
  void pop_front() noexcept {
    head_ = (head_ + 1) & mask_;
    --size_;
  }
  /// Takes the oldest element; false if there is none.
  bool pop(T& value) noexcept {
    if (empty()) return false;
    value = std::move(front());
    pop_front();
    return true;
  }

 private:
  std::unique_ptr<T[]> slots_;  // bit_ceil(capacity) slots, so that an index is reduced by a mask
  std::size_t mask_;
  std::size_t capacity_;
  std::size_t head_ = 0;
  std::size_t size_ = 0;
};

/// A timer of a TimingWheel: a member or a base class of the object that it wakes. It must be
/// cancelled before it is destroyed.
class TimerNode {
 public:
  TimerNode() noexcept = default;
  TimerNode(const TimerNode&) = delete;
  TimerNode& operator=(const TimerNode&) = delete;

  /// When it fires; valid while scheduled.
  [[nodiscard]] Time deadline() const noexcept { return deadline_; }
  [[nodiscard]] bool scheduled() const noexcept { return hook_.is_linked(); }

 private:
  friend class TimingWheel;
  using Hook = boost::intrusive::list_member_hook<
      boost::intrusive::link_mode<boost::intrusive::auto_unlink>>;

  Hook hook_;
  Time deadline_{};
  std::uint16_t slot_ = 0;  // slot that it is linked into; valid while scheduled
};

/// Timers in a hierarchical timing wheel: constant time to schedule and cancel, fixed memory (about
/// 11 KiB), no allocation.
///
/// Seven levels of 64 slots. A slot of level 0 spans one tick, of each further level 64 slots of
/// the level below. A node goes to the level of the highest 6-bit digit in which its tick differs
/// from the wheel's: what is in a level is due before all levels above. Each slot keeps its
/// earliest deadline, so firing and next_deadline() are exact to the nanosecond. Deadlines beyond
/// the top level (2^42 ticks, 52 days at 1 us) wait in its last slot.
///
/// A node that moves to a later time, as on every acknowledgement, stays in its slot and is sorted
/// again when that is reached. One thread at a time.
class TimingWheel {
 public:
  /// Times before `origin` count as origin. `tick` is rounded up to a power of two nanoseconds.
  explicit TimingWheel(Time origin, Duration tick = std::chrono::microseconds(1)) noexcept
      : origin_(origin), shift_(tick_shift(tick)) {
    earliest_.fill(kNever);
  }
  TimingWheel(const TimingWheel&) = delete;
  TimingWheel& operator=(const TimingWheel&) = delete;

  /// Makes `node` fire at the first expire() with now >= deadline. A node that is already scheduled
  /// is moved. kNever is allowed.
  void schedule(TimerNode& node, Time deadline) noexcept {
    if (node.scheduled()) {
      if (deadline >= node.deadline_ || stays_in_slot(node, deadline)) {
        node.deadline_ = deadline;
        return;
      }
      unlink(node);
    } else {
      ++size_;
    }
    node.deadline_ = deadline;
    place(node);
  }

  /// Cancels `node`; no effect if it is not scheduled.
  void cancel(TimerNode& node) noexcept {
    if (!node.scheduled()) return;
    unlink(node);
    --size_;
  }

  /// When to call expire(): kNever when nothing is scheduled, else the earliest deadline, or
  /// earlier if its node was cancelled or moved. After expire(now) it is beyond `now`, unless a
  /// callback scheduled something in the past.
  [[nodiscard]] Time next_deadline() const noexcept {
    if (levels_ == 0) return kNever;
    const auto level = static_cast<unsigned>(std::countr_zero(levels_));
    return earliest_[level * kSlots + static_cast<unsigned>(std::countr_zero(occupied_[level]))];
  }

  /// Calls fn(TimerNode&) for each node with deadline <= now, which is no longer scheduled then, in
  /// no particular order. fn may schedule and cancel any node; what it schedules in the past fires
  /// at the next expire(). fn must not throw or call expire(). A `now` before a former one has no
  /// effect.
  template <class F>
  void expire(Time now, F&& fn) {
    if (now < next_deadline() || levels_ == 0) return;
    collect(std::max(current_, tick_of(now)));
    while (!due_.empty()) {
      TimerNode& node = due_.front();
      due_.pop_front();
      if (node.deadline_ > now) {
        place(node);
        continue;
      }
      --size_;
      fn(node);
    }
  }

  [[nodiscard]] std::size_t size() const noexcept { return size_; }

 private:
  static constexpr unsigned kDigit = 6;
  static constexpr unsigned kSlots = 1u << kDigit;
  static constexpr unsigned kLevels = 7;
  static constexpr std::uint64_t kSpan = std::uint64_t{1} << (kDigit * kLevels);
  static constexpr std::uint16_t kDue = kSlots * kLevels;  // slot_ of a node in due_

  using List = boost::intrusive::list<
      TimerNode, boost::intrusive::member_hook<TimerNode, TimerNode::Hook, &TimerNode::hook_>,
      boost::intrusive::constant_time_size<false>>;

  static unsigned tick_shift(Duration tick) noexcept {
    const auto ns = static_cast<std::uint64_t>(std::clamp<Duration::rep>(tick.count(), 1, 1 << 30));
    return static_cast<unsigned>(std::bit_width(ns - 1));
  }

  // Unsigned: the distance between two times may not fit a Duration.
  [[nodiscard]] std::uint64_t tick_of(Time t) const noexcept {
    if (t <= origin_) return 0;
    return (static_cast<std::uint64_t>(t.time_since_epoch().count()) -
            static_cast<std::uint64_t>(origin_.time_since_epoch().count())) >>
           shift_;
  }

  // A node may stay in its slot as long as the slot is reached no later than its deadline.
  [[nodiscard]] bool stays_in_slot(const TimerNode& node, Time deadline) const noexcept {
    return node.slot_ == kDue || deadline >= earliest_[node.slot_];
  }

  void place(TimerNode& node) noexcept {
    std::uint64_t tick = std::max(tick_of(node.deadline_), current_);
    if ((tick ^ current_) >= kSpan) tick = current_ | (kSpan - 1);
    // "| 1": equal ticks, which differ in no digit, go to level 0.
    const auto level = (static_cast<unsigned>(std::bit_width((tick ^ current_) | 1)) - 1) / kDigit;
    const auto index = static_cast<unsigned>(tick >> (level * kDigit)) % kSlots;
    node.slot_ = static_cast<std::uint16_t>(level * kSlots + index);
    lists_[node.slot_].push_back(node);
    earliest_[node.slot_] = std::min(earliest_[node.slot_], node.deadline_);
    occupied_[level] |= std::uint64_t{1} << index;
    levels_ |= 1u << level;
  }

  void unlink(TimerNode& node) noexcept {
    node.hook_.unlink();
    if (node.slot_ != kDue && lists_[node.slot_].empty()) {
      vacate(node.slot_ / kSlots, node.slot_ % kSlots);
    }
  }

  void vacate(unsigned level, unsigned index) noexcept {
    earliest_[level * kSlots + index] = kNever;
    occupied_[level] &= ~(std::uint64_t{1} << index);
    if (occupied_[level] == 0) levels_ &= ~(1u << level);
  }

  // Moves to due_ every slot that begins at or before tick `to`, and advances the wheel to it.
  void collect(std::uint64_t to) noexcept {
    for (unsigned level = 0; level < kLevels; ++level) {
      const unsigned digit = level * kDigit;
      std::uint64_t reached = occupied_[level];
      if ((to >> digit >> kDigit) == (current_ >> digit >> kDigit)) {
        reached &= ~std::uint64_t{0} >> (kSlots - 1 - (to >> digit) % kSlots);
      }
      for (; reached != 0; reached &= reached - 1) {
        take(level, static_cast<unsigned>(std::countr_zero(reached)));
      }
    }
    current_ = to;
  }

  void take(unsigned level, unsigned index) noexcept {
    List& list = lists_[level * kSlots + index];
    for (TimerNode& node : list) node.slot_ = kDue;
    due_.splice(due_.end(), list);
    vacate(level, index);
  }

  Time origin_;
  unsigned shift_;
  std::uint32_t levels_ = 0;   // bit l: occupied_[l] != 0
  std::uint64_t current_ = 0;  // the tick that slots are counted from
  std::size_t size_ = 0;
  std::array<std::uint64_t, kLevels> occupied_{};  // bit i: slot i of the level holds nodes
  std::array<Time, kSlots * kLevels> earliest_;    // lower bound of the deadlines in the slot
  std::array<List, kSlots * kLevels> lists_;
  List due_;  // nodes of reached slots, to be fired or placed again; empty outside expire()

  static_assert(kSlots == 64, "a level's slots are the bits of one word");
  static_assert(kLevels * kDigit < 64);
};

/// Asks for `bytes` of memory from `first` on to be brought into the cache, without waiting.
/// Addresses that are not mapped do no harm.
[[gnu::always_inline]] inline void prefetch(const void* first, std::size_t bytes = 1) noexcept {
  constexpr std::size_t kLine = 64;
  const auto* line = static_cast<const char*>(first);
  for (std::size_t at = 0; at < bytes; at += kLine) __builtin_prefetch(line + at);
  if (bytes > 1) __builtin_prefetch(line + bytes - 1);  // the first byte need not begin a line
  asm volatile("");  // GCC takes a function that only prefetches for one without effect
}

/// Limits how often something is done: `rate` times per second on average, and `burst` times at
/// once. One thread at a time.
class TokenBucket {
 public:
  /// Full at first. Both at least 1; `rate` at most 10^9.
  constexpr TokenBucket(std::uint32_t rate, std::uint32_t burst) noexcept
      : TokenBucket(std::chrono::nanoseconds(1'000'000'000 / rate), burst) {}
  /// The same, by the time in which one token arrives: for what is done less than once per second.
  constexpr TokenBucket(Duration interval, std::uint32_t burst) noexcept
      : interval_(interval), depth_(interval_ * burst) {}

  /// May it be done now? If so, it counts as done.
  constexpr bool take(Time now) noexcept {
    const Time earliest = now - depth_;  // a bucket that has been full since
    const Time from = std::max(spent_, earliest);
    if (from + interval_ > now) return false;
    spent_ = from + interval_;
    return true;
  }

 private:
  Duration interval_;                       ///< in which one token arrives
  Duration depth_;                          ///< in which the bucket fills
  Time spent_ = Time{Duration::min() / 2};  ///< tokens up to this time are used
};

}  // namespace mrc::inline v0_1
