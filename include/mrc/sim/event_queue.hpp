// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <optional>
#include <vector>

#include "mrc/core/types.hpp"

namespace mrc::inline v0_1::sim {

/// Kind of an event; dispatched by Network. `call` has the index of a function.
enum class EventKind : std::uint8_t {
  link_free,   ///< the transmitter of link `target` has sent its packet
  link_rx,     ///< packet `argument` has reached the end of link `target`
  link_pause,  ///< flow control reaches link `target`: `argument` 1 pauses its data, 0 resumes it
  node_timer,  ///< a timer of node `target` expires
  call,        ///< run function `target`
};

/// An event that is due.
struct Event {
  Time when;                   ///< virtual time
  std::uint32_t target = 0;    ///< index by kind
  std::uint32_t argument = 0;  ///< value by kind
  EventKind kind{};            ///< what happens
};

/// Events ordered by time; those of the same nanosecond in the order of posting, so that runs are
/// reproducible on every machine. Optimized for a dense near future: a wheel with one bucket for
/// each of the next 8,192 nanoseconds, and a heap for later events. Posting and popping take a few
/// nanoseconds for any number of events. Grows as needed. One thread at a time.
class EventQueue {
 public:
  EventQueue() { buckets_.fill(kEmptyBucket); }

  /// Adds an event; `when` must not be before now().
  void post(Time when, EventKind kind, std::uint32_t target, std::uint32_t argument = 0) {
    const std::int64_t at = when.time_since_epoch().count();
    ++size_;
    if (at - now_ < kSpan)
      append(at, kind, target, argument);
    else {
      far_.push_back({at, number_++, target, argument, kind});
      std::push_heap(far_.begin(), far_.end(), Later{});
    }
  }

  /// Whether there are no events.
  [[nodiscard]] bool empty() const noexcept { return size_ == 0; }
  /// Number of events.
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  /// Time of the last event popped, or of pass_to().
  [[nodiscard]] Time now() const noexcept { return Time{Duration{now_}}; }

  /// Time of the next event; kNever when there is none.
  [[nodiscard]] Time next() const noexcept {
    if (size_ == 0) return kNever;
    return Time{Duration{next_time()}};
  }

  /// Advances the time to `when` without an event; no event may be before it.
  void pass_to(Time when) {
    const std::int64_t at = when.time_since_epoch().count();
    if (at > now_) advance(at);
  }

  /// The next event if it belongs to the current nanosecond, otherwise one of kind `call`. A hint
  /// for prefetching.
  [[nodiscard]] Event upcoming() const noexcept {
    const std::uint32_t n = buckets_[index(now_)].head;
    if (n == kNone) return {now(), 0, 0, EventKind::call};
    return {now(), nodes_[n].target, nodes_[n].argument, nodes_[n].kind};
  }

  /// Removes the next event; empty if there is none up to `limit`.
  [[nodiscard]] std::optional<Event> pop(Time limit = kNever) {
    if (size_ == 0) return std::nullopt;
    const std::int64_t at = next_time();
    if (Time{Duration{at}} > limit) return std::nullopt;
    advance(at);
    Bucket& bucket = buckets_[index(at)];
    const std::uint32_t n = bucket.head;
    const Node node = nodes_[n];
    bucket.head = node.next;
    if (bucket.head == kNone) {
      bucket.tail = kNone;
      clear_bit(index(at));
    }
    nodes_[n].next = free_;
    free_ = n;
    --in_wheel_;
    --size_;
    return Event{Time{Duration{at}}, node.target, node.argument, node.kind};
  }

 private:
  static constexpr std::int64_t kSpan = 8192;
  static constexpr std::size_t kWords = kSpan / 64;
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};
  struct Bucket {
    std::uint32_t head, tail;
  };
  static constexpr Bucket kEmptyBucket{kNone, kNone};
  struct Node {
    std::uint32_t next, target, argument;
    EventKind kind;
  };
  struct Far {
    std::int64_t at;
    std::uint64_t number;
    std::uint32_t target, argument;
    EventKind kind;
  };
  struct Later {
    bool operator()(const Far& a, const Far& b) const noexcept {
      return a.at != b.at ? a.at > b.at : a.number > b.number;
    }
  };

  [[nodiscard]] static std::size_t index(std::int64_t at) noexcept {
    return static_cast<std::size_t>(at) % kSpan;
  }

  void append(std::int64_t at, EventKind kind, std::uint32_t target, std::uint32_t argument) {
    std::uint32_t n = free_;
    if (n != kNone)
      free_ = nodes_[n].next;
    else {
      n = static_cast<std::uint32_t>(nodes_.size());
      nodes_.emplace_back();
    }
    nodes_[n] = {kNone, target, argument, kind};
    const std::size_t i = index(at);
    Bucket& bucket = buckets_[i];
    if (bucket.head == kNone) {
      bucket.head = n;
      words_[i / 64] |= std::uint64_t{1} << i % 64;
      summary_[i / 4096] |= std::uint64_t{1} << i / 64 % 64;
    } else {
      nodes_[bucket.tail].next = n;
    }
    bucket.tail = n;
    ++in_wheel_;
  }

  /// Moves now to `at`. Events that thereby come within the wheel's span are moved to the wheel
  /// before any other can be posted there, which preserves the order of posting.
  void advance(std::int64_t at) {
    now_ = at;
    while (!far_.empty() && far_.front().at - now_ < kSpan) {
      std::pop_heap(far_.begin(), far_.end(), Later{});
      const Far f = far_.back();
      far_.pop_back();
      append(f.at, f.kind, f.target, f.argument);
    }
  }

  void clear_bit(std::size_t i) noexcept {
    words_[i / 64] &= ~(std::uint64_t{1} << i % 64);
    if (words_[i / 64] == 0) summary_[i / 4096] &= ~(std::uint64_t{1} << i / 64 % 64);
  }

  /// Time of the next event; needs one.
  [[nodiscard]] std::int64_t next_time() const noexcept {
    return in_wheel_ != 0 ? next_bucket() : far_.front().at;
  }

  /// Time of the first non-empty bucket; needs one.
  [[nodiscard]] std::int64_t next_bucket() const noexcept {
    const std::size_t start = index(now_);
    const std::uint64_t rest = words_[start / 64] >> start % 64;
    if (rest != 0) return now_ + std::countr_zero(rest);
    // The remaining words in circular order, each at most once.
    for (std::size_t step = 1; step <= kWords;) {
      const std::size_t w = (start / 64 + step) % kWords;
      const std::uint64_t group = summary_[w / 64] >> w % 64;
      if (group == 0) {
        step += 64 - w % 64;
        continue;
      }
      const auto skip = static_cast<std::size_t>(std::countr_zero(group));
      const std::size_t found = w + skip;
      const std::size_t i = found * 64 + static_cast<std::size_t>(std::countr_zero(words_[found]));
      return now_ + static_cast<std::int64_t>((i + kSpan - start) % kSpan);
    }
    return now_;
  }

  std::array<Bucket, kSpan> buckets_;
  std::array<std::uint64_t, kWords> words_{};
  std::array<std::uint64_t, kWords / 64> summary_{};
  std::vector<Node> nodes_;
  std::vector<Far> far_;
  std::int64_t now_ = 0;
  std::uint64_t number_ = 0;
  std::size_t size_ = 0;
  std::size_t in_wheel_ = 0;
  std::uint32_t free_ = kNone;
};

}  // namespace mrc::inline v0_1::sim
