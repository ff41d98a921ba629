// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <boost/intrusive/list.hpp>
#include <cassert>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "mrc/core/types.hpp"

namespace mrc::inline v0_1 {

namespace detail {

using Word = std::uint64_t;
inline constexpr std::size_t kWordBits = 64;

[[nodiscard]] constexpr std::size_t words_for(std::size_t bits) noexcept {
  return (bits + kWordBits - 1) / kWordBits;
}

/// Calls fn(word index, mask of the wanted bits in that word) over the bits [first, last) until it
/// returns false.
template <class F>
constexpr void for_each_word(std::size_t first, std::size_t last, F&& fn) noexcept {
  while (first < last) {
    const std::size_t shift = first % kWordBits;
    const std::size_t n = std::min(kWordBits - shift, last - first);
    if (!fn(first / kWordBits, (~Word{0} >> (kWordBits - n)) << shift)) return;
    first += n;
  }
}

/// Index of the first bit in [first, last) that equals `wanted`, or `last`.
[[nodiscard]] inline std::size_t find_bit(const Word* words, std::size_t first, std::size_t last,
                                          bool wanted) noexcept {
  const Word flip = wanted ? Word{0} : ~Word{0};
  std::size_t found = last;
  for_each_word(first, last, [&](std::size_t i, Word mask) noexcept {
    const Word hits = (words[i] ^ flip) & mask;
    if (hits == 0) return true;
    found = i * kWordBits + static_cast<std::size_t>(std::countr_zero(hits));
    return false;
  });
  return found;
}

[[nodiscard]] inline std::size_t count_bits(const Word* words, std::size_t first,
                                            std::size_t last) noexcept {
  std::size_t count = 0;
  for_each_word(first, last, [&](std::size_t i, Word mask) noexcept {
    count += static_cast<std::size_t>(std::popcount(words[i] & mask));
    return true;
  });
  return count;
}

inline void write_bits(Word* words, std::size_t first, std::size_t last, bool value) noexcept {
  for_each_word(first, last, [&](std::size_t i, Word mask) noexcept {
    words[i] = value ? words[i] | mask : words[i] & ~mask;
    return true;
  });
}

}  // namespace detail

/// A fixed number of bits, in memory of its own or the caller's. Indexes must be below size(). A
/// moved-from Bitmap may only be assigned to or destroyed. One thread at a time.
class Bitmap {
 public:
  /// All bits clear. The only allocation is here.
  explicit Bitmap(std::size_t bits)
      : owned_(new detail::Word[std::max<std::size_t>(detail::words_for(bits), 1)]()),
        words_(owned_.get()),
        size_(bits) {}
  /// Uses the caller's memory, which must hold `bits` bits and outlive this. Its content is kept.
  Bitmap(std::span<std::uint64_t> storage, std::size_t bits) noexcept
      : words_(storage.data()), size_(bits) {
    assert(storage.size() >= detail::words_for(bits));
  }

  /// Number of bits.
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  /// Whether bit `i` is set.
  [[nodiscard]] bool test(std::size_t i) const noexcept { return (words_[i / 64] & bit(i)) != 0; }
  /// Sets bit `i`.
  void set(std::size_t i) noexcept { words_[i / 64] |= bit(i); }
  /// Clears bit `i`.
  void clear(std::size_t i) noexcept { words_[i / 64] &= ~bit(i); }
  /// Clears all bits.
  void clear_all() noexcept { std::fill_n(words_, detail::words_for(size_), detail::Word{0}); }

  /// The first set bit at or after `from`; size() when there is none.
  [[nodiscard]] std::size_t find_first_set(std::size_t from = 0) const noexcept {
    return from < size_ ? detail::find_bit(words_, from, size_, true) : size_;
  }
  /// The first clear bit at or after `from`; size() when there is none.
  [[nodiscard]] std::size_t find_first_clear(std::size_t from = 0) const noexcept {
    return from < size_ ? detail::find_bit(words_, from, size_, false) : size_;
  }
  /// Number of set bits.
  [[nodiscard]] std::size_t count() const noexcept { return detail::count_bits(words_, 0, size_); }

 private:
  static constexpr detail::Word bit(std::size_t i) noexcept { return detail::Word{1} << (i % 64); }

  std::unique_ptr<detail::Word[]> owned_;
  detail::Word* words_;
  std::size_t size_;
};

/// A window over a wrapping sequence space: bit `i` stands for every number congruent to i modulo
/// size(), so a PSN is an index as it is and nothing is shifted when the window moves. Used by the
/// receive window (mrc-1.0 §2.4). Positions may be any number; counts above size() are cut to
/// size(). One thread at a time.
class CircularBitmap {
 public:
  /// All bits clear. `bits` is rounded up to a power of two, at least 64; the size must divide the
  /// sequence space for positions to wrap with it. The only allocation is here.
  explicit CircularBitmap(std::size_t bits)
      : size_(std::bit_ceil(std::max(bits, detail::kWordBits))),
        words_(new detail::Word[detail::words_for(size_)]()) {}

  /// Number of bits.
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  /// Whether the bit at `pos` is set.
  [[nodiscard]] bool test(std::size_t pos) const noexcept { return (word(pos) & bit(pos)) != 0; }
  /// Sets the bit at `pos`.
  void set(std::size_t pos) noexcept { words_[index(pos) / 64] |= bit(pos); }
  /// Clears the bit at `pos`.
  void clear(std::size_t pos) noexcept { words_[index(pos) / 64] &= ~bit(pos); }
  /// Sets the bit and returns its previous value.
  bool test_and_set(std::size_t pos) noexcept {
    const bool was = test(pos);
    set(pos);
    return was;
  }
  /// Clears all bits.
  void clear_all() noexcept { std::fill_n(words_.get(), size_ / 64, detail::Word{0}); }

  /// Distance from `from` to the first set bit among the `count` bits that start there; `count` (at
  /// most size()) when there is none.
  [[nodiscard]] std::size_t find_next_set(std::size_t from, std::size_t count) const noexcept {
    return find(from, count, true);
  }
  /// The same for the first clear bit.
  [[nodiscard]] std::size_t find_next_clear(std::size_t from, std::size_t count) const noexcept {
    return find(from, count, false);
  }

  /// The 64 bits that start at `pos`, which becomes bit 0 of the result: a SACK bitmap.
  [[nodiscard]] std::uint64_t extract(std::size_t pos) const noexcept {
    const std::size_t shift = pos % 64;
    const detail::Word low = word(pos) >> shift;
    return shift == 0 ? low : low | (word(pos + 64) << (64 - shift));
  }

  /// Clears the `count` bits that start at `from`.
  void clear_range(std::size_t from, std::size_t count) noexcept { write(from, count, false); }
  /// Sets the `count` bits that start at `from`.
  void set_range(std::size_t from, std::size_t count) noexcept { write(from, count, true); }
  /// Number of set bits among the `count` bits that start at `from`.
  [[nodiscard]] std::size_t count_range(std::size_t from, std::size_t count) const noexcept {
    const Split s = split(from, count);
    return detail::count_bits(words_.get(), s.first, s.last) +
           detail::count_bits(words_.get(), 0, s.wrapped);
  }
  /// Number of set bits.
  [[nodiscard]] std::size_t count() const noexcept {
    return detail::count_bits(words_.get(), 0, size_);
  }

 private:
  // A circular range as two linear ones: [first, last) and [0, wrapped).
  struct Split {
    std::size_t first, last, wrapped;
  };

  [[nodiscard]] std::size_t index(std::size_t pos) const noexcept { return pos & (size_ - 1); }
  [[nodiscard]] const detail::Word& word(std::size_t pos) const noexcept {
    return words_[index(pos) / 64];
  }
  static constexpr detail::Word bit(std::size_t pos) noexcept {
    return detail::Word{1} << (pos % 64);
  }

  [[nodiscard]] Split split(std::size_t from, std::size_t count) const noexcept {
    const std::size_t first = index(from);
    const std::size_t n = std::min(count, size_);
    const std::size_t last = std::min(first + n, size_);
    return {first, last, n - (last - first)};
  }

  [[nodiscard]] std::size_t find(std::size_t from, std::size_t count, bool wanted) const noexcept {
    const Split s = split(from, count);
    const std::size_t found = detail::find_bit(words_.get(), s.first, s.last, wanted);
    if (found < s.last || s.wrapped == 0) return found - s.first;
    return s.last - s.first + detail::find_bit(words_.get(), 0, s.wrapped, wanted);
  }

  void write(std::size_t from, std::size_t count, bool value) noexcept {
    const Split s = split(from, count);
    detail::write_bits(words_.get(), s.first, s.last, value);
    detail::write_bits(words_.get(), 0, s.wrapped, value);
  }

  std::size_t size_;
  std::unique_ptr<detail::Word[]> words_;
};

/// A FIFO queue of fixed capacity. The constructor allocates; after that nothing allocates or
/// throws. T must be default constructible; a popped element keeps its value until its slot is
/// reused, so T should own nothing that must be released early. One thread at a time.
template <class T>
class Ring {
 public:
  /// Holds at most `capacity` elements; 0 makes a ring that is always full.
  explicit Ring(std::size_t capacity)
      : slots_(new T[std::bit_ceil(capacity)]),
        mask_(std::bit_ceil(capacity) - 1),
        capacity_(capacity) {}

  /// Leaves `other` empty, with capacity 0.
  Ring(Ring&& other) noexcept
      : slots_(std::move(other.slots_)),
        mask_(std::exchange(other.mask_, 0)),
        capacity_(std::exchange(other.capacity_, 0)),
        head_(std::exchange(other.head_, 0)),
        size_(std::exchange(other.size_, 0)) {}
  /// Leaves `other` empty, with capacity 0.
  Ring& operator=(Ring&& other) noexcept {
    Ring taken(std::move(other));
    swap(taken);
    return *this;
  }
  Ring(const Ring&) = delete;
  Ring& operator=(const Ring&) = delete;

  /// Number of elements.
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  /// Largest number of elements.
  [[nodiscard]] std::size_t capacity() const noexcept { return capacity_; }
  /// Whether there are no elements.
  [[nodiscard]] bool empty() const noexcept { return size_ == 0; }
  /// Whether push_back() would fail.
  [[nodiscard]] bool full() const noexcept { return size_ == capacity_; }

  /// Appends `value`; returns false and changes nothing when full.
  bool push_back(T value) noexcept {
    T* slot = push_slot();
    if (slot == nullptr) return false;
    *slot = std::move(value);
    return true;
  }

  /// Appends an element for the caller to fill in place; nullptr when full. The element holds the
  /// slot's previous content.
  [[nodiscard]] T* push_slot() noexcept {
    if (full()) return nullptr;
    return &slots_[(head_ + size_++) & mask_];
  }

  /// Oldest element; the ring must not be empty.
  [[nodiscard]] T& front() noexcept { return slots_[head_]; }
  /// Oldest element; the ring must not be empty.
  [[nodiscard]] const T& front() const noexcept { return slots_[head_]; }
  /// Newest element; the ring must not be empty.
  [[nodiscard]] T& back() noexcept { return (*this)[size_ - 1]; }
  /// Newest element; the ring must not be empty.
  [[nodiscard]] const T& back() const noexcept { return (*this)[size_ - 1]; }

  /// Element `i` counted from the front; i < size().
  [[nodiscard]] T& operator[](std::size_t i) noexcept { return slots_[(head_ + i) & mask_]; }
  /// Element `i` counted from the front; i < size().
  [[nodiscard]] const T& operator[](std::size_t i) const noexcept {
    return slots_[(head_ + i) & mask_];
  }

  /// Removes the oldest element; the ring must not be empty.
  void pop_front() noexcept {
    head_ = (head_ + 1) & mask_;
    --size_;
  }

  /// Removes the newest element, for instance to undo push_slot(); the ring must not be empty.
  void pop_back() noexcept { --size_; }

  /// Removes all elements.
  void clear() noexcept { head_ = size_ = 0; }

  /// Exchanges contents and capacities.
  void swap(Ring& other) noexcept {
    std::swap(slots_, other.slots_);
    std::swap(mask_, other.mask_);
    std::swap(capacity_, other.capacity_);
    std::swap(head_, other.head_);
    std::swap(size_, other.size_);
  }

 private:
  std::unique_ptr<T[]> slots_;  // bit_ceil(capacity) slots, so that an index is reduced by a mask
  std::size_t mask_;
  std::size_t capacity_;
  std::size_t head_ = 0;
  std::size_t size_ = 0;
};

/// A timer: a member or a base class of the object that it wakes. It can neither be copied nor
/// moved, and must be cancelled before it is destroyed. Scheduled through a TimingWheel.
class TimerNode {
 public:
  TimerNode() noexcept = default;
  TimerNode(const TimerNode&) = delete;
  TimerNode& operator=(const TimerNode&) = delete;

  /// When it fires; valid while scheduled.
  [[nodiscard]] Time deadline() const noexcept { return deadline_; }
  /// Whether it is in a wheel.
  [[nodiscard]] bool scheduled() const noexcept { return hook_.is_linked(); }

 private:
  friend class TimingWheel;
  using Hook = boost::intrusive::list_member_hook<
      boost::intrusive::link_mode<boost::intrusive::auto_unlink>>;

  Hook hook_;
  Time deadline_{};
  std::uint16_t slot_ = 0;  // slot that it is linked into; valid while scheduled
};

/// Timers in a hierarchical timing wheel: scheduling and cancelling take constant time for any
/// number of timers; memory is fixed (about 11 KiB) and nothing allocates.
///
/// Seven levels of 64 slots. A slot of level 0 spans one tick, a slot of each further level 64
/// slots of the level below. A node goes to the level of the highest 6-bit digit in which its tick
/// differs from the wheel's, so everything in a level is due before everything in the levels above,
/// and the first non-empty slot of the lowest non-empty level is due next. Each slot also keeps the
/// earliest deadline put into it, so firing and next_deadline() are exact to the nanosecond; the
/// tick only sets how finely timers are sorted. Deadlines beyond the top level (2^42 ticks, 52 days
/// at 1 us) wait in its last slot and are sorted again from there.
///
/// A scheduled node that moves to a later time, as a retransmission timer does on every
/// acknowledgement, stays in its slot and only gets a new deadline; it is sorted again when that
/// slot is reached. One thread at a time.
class TimingWheel {
 public:
  /// Times before `origin` count as origin. `tick` is rounded up to a power of two nanoseconds.
  explicit TimingWheel(Time origin, Duration tick = std::chrono::microseconds(1)) noexcept
      : origin_(origin), shift_(tick_shift(tick)) {
    earliest_.fill(kNever);
  }
  TimingWheel(const TimingWheel&) = delete;
  TimingWheel& operator=(const TimingWheel&) = delete;

  /// Makes `node` fire at the first expire() with now >= deadline; a deadline in the past fires at
  /// the next expire(). A node that is already scheduled is moved. kNever is allowed.
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

  /// When to call expire(): never later than the earliest deadline; kNever when nothing is
  /// scheduled. It is earlier than that only when the node with a slot's earliest deadline has
  /// since been cancelled or moved; an expire() at that time then sorts the slot again. After
  /// expire(now) the result is beyond `now` (unless a callback scheduled something in the past).
  [[nodiscard]] Time next_deadline() const noexcept {
    if (levels_ == 0) return kNever;
    const auto level = static_cast<unsigned>(std::countr_zero(levels_));
    return earliest_[level * kSlots + static_cast<unsigned>(std::countr_zero(occupied_[level]))];
  }

  /// Calls fn(TimerNode&) once for each node with deadline <= now, in no particular order; the node
  /// is not scheduled any more when fn is called. fn may schedule and cancel any node, including
  /// its argument; what it schedules in the past fires at the next expire(). fn must not throw and
  /// must not call expire(). A `now` earlier than in a former call has no effect.
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

  /// Number of scheduled nodes.
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

/// A latency histogram of fixed size (about 17 KiB): exact below 64 ns, then 64 buckets for each
/// doubling up to 1000 s. A percentile is off by at most 0.8 % of its value; minimum, maximum and
/// mean are exact. Values outside 0 .. 1000 s are clamped. record() takes a few nanoseconds and
/// does not allocate. One thread at a time; merge() joins the histograms of several.
class Histogram {
 public:
  /// Larger values are recorded as this.
  static constexpr Duration kLargest = std::chrono::seconds(1000);

  /// Adds one value.
  void record(Duration value) noexcept {
    const auto ns =
        static_cast<std::uint64_t>(std::clamp(value, Duration::zero(), kLargest).count());
    ++buckets_[bucket_of(ns)];
    ++count_;
    sum_ += static_cast<double>(ns);
    min_ = std::min(min_, ns);
    max_ = std::max(max_, ns);
  }

  /// Number of values recorded.
  [[nodiscard]] std::uint64_t count() const noexcept { return count_; }
  /// Smallest value; zero when nothing was recorded, as are max(), mean() and percentile().
  [[nodiscard]] Duration min() const noexcept { return count_ == 0 ? Duration{0} : as_time(min_); }
  /// Largest value.
  [[nodiscard]] Duration max() const noexcept { return as_time(max_); }
  /// Arithmetic mean, rounded to nanoseconds.
  [[nodiscard]] Duration mean() const noexcept {
    return count_ == 0 ? Duration{0} : Duration{std::llround(sum_ / static_cast<double>(count_))};
  }

  /// The `p`-th percentile (p: 0 .. 100) by nearest rank.
  [[nodiscard]] Duration percentile(double p) const noexcept {
    if (count_ == 0) return Duration{0};
    const double rank = std::ceil(static_cast<double>(count_) * (p > 0 ? p : 0) / 100.0);
    if (rank <= 1) return min();
    if (rank >= static_cast<double>(count_)) return max();
    auto left = static_cast<std::uint64_t>(rank);
    for (std::size_t i = 0; i < kBuckets; ++i) {
      if (buckets_[i] >= left) return as_time(std::clamp(middle_of(i), min_, max_));
      left -= buckets_[i];
    }
    return max();
  }

  /// Adds everything that `other` recorded.
  void merge(const Histogram& other) noexcept {
    for (std::size_t i = 0; i < kBuckets; ++i) buckets_[i] += other.buckets_[i];
    count_ += other.count_;
    sum_ += other.sum_;
    min_ = std::min(min_, other.min_);
    max_ = std::max(max_, other.max_);
  }

  /// Removes all values.
  void clear() noexcept { *this = Histogram{}; }

 private:
  // Values below 2^kPrecision have a bucket each; a value with highest bit h keeps its top
  // kPrecision + 1 bits, so its bucket is 2^(h - kPrecision) wide.
  static constexpr unsigned kPrecision = 6;
  static constexpr std::uint64_t kExact = std::uint64_t{1} << kPrecision;

  [[nodiscard]] static constexpr std::size_t bucket_of(std::uint64_t ns) noexcept {
    if (ns < kExact) return static_cast<std::size_t>(ns);
    const auto drop = static_cast<unsigned>(std::bit_width(ns)) - 1 - kPrecision;
    return static_cast<std::size_t>(drop * kExact + (ns >> drop));
  }
  [[nodiscard]] static constexpr std::uint64_t middle_of(std::size_t bucket) noexcept {
    if (bucket < kExact) return bucket;
    const auto drop = bucket / kExact - 1;
    return ((bucket - drop * kExact) << drop) + ((std::uint64_t{1} << drop) >> 1);
  }
  [[nodiscard]] static constexpr Duration as_time(std::uint64_t ns) noexcept {
    return Duration{static_cast<Duration::rep>(ns)};
  }

  static constexpr unsigned kHighestBit = 39;  // of 1000 s in ns
  static constexpr std::size_t kBuckets = (kHighestBit - kPrecision + 2) * kExact;
  static_assert(std::bit_width(static_cast<std::uint64_t>(kLargest.count())) - 1 == kHighestBit);

  std::array<std::uint64_t, kBuckets> buckets_{};
  std::uint64_t count_ = 0;
  double sum_ = 0;
  std::uint64_t min_ = static_cast<std::uint64_t>(kLargest.count());
  std::uint64_t max_ = 0;
};

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
