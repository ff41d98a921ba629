// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstring>
#include <vector>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "mrc/core/types.hpp"

/// How payload gets into the application's memory.
namespace mrc::inline v0_1::engine {

#if defined(__SANITIZE_THREAD__)
#define MRC_THREAD_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define MRC_THREAD_SANITIZER 1
#endif
#endif
/// The largest aligned word that stores what a program may poll. The thread sanitizer pairs atomic
/// stores and loads by address, and which word is polled is not known here: there it is each byte.
#if defined(MRC_THREAD_SANITIZER)
inline constexpr std::size_t kPolledWord = 1;
#else
inline constexpr std::size_t kPolledWord = 8;
#endif

/// Stores bytes that a program may poll: whoever sees one of them with an atomic load (acquire)
/// also sees everything that was written before.
inline void store_released(std::uint8_t* to, const std::uint8_t* from, std::size_t n) noexcept {
  const auto store = [&]<class Word>(Word* at) {
    Word word;
    std::memcpy(&word, from, sizeof word);
    __atomic_store_n(at, word, __ATOMIC_RELEASE);
    to += sizeof word;
    from += sizeof word;
    n -= sizeof word;
  };
  const auto fits = [&](std::size_t word) {
    return word <= kPolledWord && n >= word && reinterpret_cast<std::uintptr_t>(to) % word == 0;
  };
  while (n > 0) {
    if (fits(8))
      store(reinterpret_cast<std::uint64_t*>(to));
    else if (fits(4))
      store(reinterpret_cast<std::uint32_t*>(to));
    else if (fits(2))
      store(reinterpret_cast<std::uint16_t*>(to));
    else
      store(to);
  }
}

/// Copies in ascending order and releases the last bytes, so that a program that polls the last
/// one, or an aligned word that ends with it, finds the others in place. memcpy() promises no order
/// and in fact often writes the tail first.
inline void copy_ascending(std::uint8_t* to, const std::uint8_t* from, std::size_t n) noexcept {
#if defined(__SSE2__)
  for (; n > 64; n -= 64, to += 64, from += 64) {
    const auto* s = reinterpret_cast<const __m128i*>(from);
    const __m128i a = _mm_loadu_si128(s), b = _mm_loadu_si128(s + 1);
    const __m128i c = _mm_loadu_si128(s + 2), d = _mm_loadu_si128(s + 3);
    auto* t = reinterpret_cast<__m128i*>(to);
    _mm_storeu_si128(t, a);
    _mm_storeu_si128(t + 1, b);
    _mm_storeu_si128(t + 2, c);
    _mm_storeu_si128(t + 3, d);
    asm volatile("" ::: "memory");  // keeps the compiler from turning the loop into memcpy()
  }
#endif
  for (; n > 8; n -= 8, to += 8, from += 8) {
    std::uint64_t word;
    std::memcpy(&word, from, 8);
    std::memcpy(to, &word, 8);
    asm volatile("" ::: "memory");
  }
  store_released(to, from, n);
}

/// The last bytes of messages that arrived before packets in front of them, held back in memory
/// regions without relaxed ordering until those have come. One pool per engine, one list per queue
/// pair, in PSN order. Fixed size; one thread.
class HeldTails {
 public:
  using Index = std::uint32_t;
  static constexpr Index kNone = ~Index{0};
  /// Bytes held back: what a program polls at once.
  static constexpr std::uint32_t kBytes = 8;

  struct Tail {
    std::uint64_t address;
    std::uint32_t key;
    Psn psn;
    Index next;
    std::uint8_t length;
    std::uint8_t bytes[kBytes];
  };
  struct List {
    Index head = kNone;
    Index last = kNone;
  };

  explicit HeldTails(std::size_t capacity) : tails_(capacity) {
    free_.reserve(capacity);
    for (std::size_t i = capacity; i > 0; --i) free_.push_back(static_cast<Index>(i - 1));
  }

  [[nodiscard]] bool full() const noexcept { return free_.empty(); }

  /// Holds `length` <= kBytes bytes until release() reaches `psn`. Needs !full().
  void hold(List& list, Psn psn, std::uint32_t key, std::uint64_t address,
            const std::uint8_t* bytes, std::uint32_t length) noexcept {
    const Index i = free_.back();
    free_.pop_back();
    Tail& t = tails_[i];
    t = {address, key, psn, kNone, static_cast<std::uint8_t>(length), {}};
    std::memcpy(t.bytes, bytes, length);
    if (list.head == kNone) {
      list.head = list.last = i;
    } else if (psn.after(tails_[list.last].psn)) {
      tails_[list.last].next = i;
      list.last = i;
    } else {
      Index* link = &list.head;
      while (psn.after(tails_[*link].psn)) link = &tails_[*link].next;
      t.next = *link;
      *link = i;
    }
  }

  /// Hands out, in PSN order, what is held for PSNs up to `cack`: place(tail).
  template <class F>
  void release(List& list, Psn cack, F&& place) noexcept {
    while (list.head != kNone && !tails_[list.head].psn.after(cack)) {
      const Tail& t = tails_[list.head];
      place(t);
      free_.push_back(list.head);
      list.head = t.next;
    }
    if (list.head == kNone) list.last = kNone;
  }
  /// Forgets everything that a list holds.
  void drop(List& list) noexcept {
    for (Index i = list.head; i != kNone; i = tails_[i].next) free_.push_back(i);
    list = {};
  }

 private:
  std::vector<Tail> tails_;
  std::vector<Index> free_;
};

}  // namespace mrc::inline v0_1::engine
