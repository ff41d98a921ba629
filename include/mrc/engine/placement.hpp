// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstring>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

/// Copies of payload into the application's memory.
namespace mrc::inline v0_1::engine {

#if defined(__SANITIZE_THREAD__)
#define MRC_THREAD_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define MRC_THREAD_SANITIZER 1
#endif
#endif
/// Largest word, in bytes, of a store that a program may poll. The thread sanitizer matches atomic
/// stores and loads by address, and which word the program polls is unknown here: with it, each
/// byte is stored by itself.
#if defined(MRC_THREAD_SANITIZER)
inline constexpr std::size_t kPolledWord = 1;
#else
inline constexpr std::size_t kPolledWord = 8;
#endif

/// Stores bytes that a program may poll. Each store is a release: a thread that sees one of the
/// bytes through an acquire load also sees everything written before.
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

/// Copies in ascending order, the last bytes as release stores: a program that polls the last byte,
/// or an aligned word that ends with it, then finds all others in place. memcpy() guarantees no
/// order and often writes the end first.
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

}  // namespace mrc::inline v0_1::engine
