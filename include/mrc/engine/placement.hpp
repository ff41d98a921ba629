// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstring>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "mrc/core/system.hpp"
#include "mrc/core/types.hpp"

/// Copies of payload into the application's memory.
namespace mrc::inline v0_1::engine {

/// Largest word, in bytes, of a store that a program may poll. The thread sanitizer matches atomic
/// stores and loads by address, and which word the program polls is unknown here: with it, each
/// byte is stored by itself.
#if defined(MRC_THREAD_SANITIZER)
inline constexpr std::size_t kPolledWord = 1;
#else
inline constexpr std::size_t kPolledWord = 8;
#endif

/// Stores bytes that a program may poll, in aligned words of up to `kWord` bytes. Each store is a
/// release: a thread that sees one of the bytes through an acquire load also sees everything
/// written before.
template <std::size_t kWord = kPolledWord>
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
    return word <= kWord && n >= word && reinterpret_cast<std::uintptr_t>(to) % word == 0;
  };
  while (n > 0) {  // NOLINT(bugprone-infinite-loop): store() lowers n
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

#if defined(__SSE2__) && !defined(MRC_THREAD_SANITIZER)
/// True if a store of 16 aligned bytes appears as a whole. Intel and AMD promise it for CPUs with
/// AVX (Intel SDM volume 3A, 9.1.1 "Guaranteed Atomic Operations").
[[nodiscard]] inline bool stores_16_whole() noexcept {
#if defined(__AVX__)
  return true;
#else
  return __builtin_cpu_supports("avx") != 0;
#endif
}

/// Stores 16 bytes to an aligned address, after the stores before in the program: x86 keeps the
/// order of a CPU's stores (no string instructions and no non-temporal stores among them), so that
/// only the compiler must not change it.
inline void store_16(std::uint8_t* to, __m128i bytes) noexcept {
  _mm_store_si128(reinterpret_cast<__m128i*>(to), bytes);
  asm volatile("" ::: "memory");
}
#endif

/// Copies as Access::line_ordering promises: in ascending order, in aligned words of 8 bytes that
/// appear whole, each after all before it. The order is that of all bytes, not only of each line:
/// on x86 that costs nothing more.
inline void copy_lines(std::uint8_t* to, const std::uint8_t* from, std::size_t n) noexcept {
#if defined(__SSE2__) && !defined(MRC_THREAD_SANITIZER)
  if (n >= 32 && stores_16_whole()) [[likely]] {
    const std::size_t head = (16 - reinterpret_cast<std::uintptr_t>(to) % 16) % 16;
    if (head != 0) {
      store_released<8>(to, from, head);
      asm volatile("" ::: "memory");  // what follows stays behind it
      to += head, from += head, n -= head;
    }
    for (; n >= 64; n -= 64, to += 64, from += 64) {
      const auto* s = reinterpret_cast<const __m128i*>(from);
      const __m128i a = _mm_loadu_si128(s), b = _mm_loadu_si128(s + 1);
      const __m128i c = _mm_loadu_si128(s + 2), d = _mm_loadu_si128(s + 3);
      store_16(to, a);
      store_16(to + 16, b);
      store_16(to + 32, c);
      store_16(to + 48, d);
    }
    for (; n >= 16; n -= 16, to += 16, from += 16)
      store_16(to, _mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
    if (n == 0) return;
  }
#endif
  store_released<8>(to, from, n);
}

/// Copies payload into a memory region with these rights, in the order that they promise.
inline void copy_payload(Access access, std::uint8_t* to, const std::uint8_t* from,
                         std::size_t n) noexcept {
  if (has(access, Access::relaxed_ordering))
    std::memcpy(to, from, n);
  else if (has(access, Access::line_ordering))
    copy_lines(to, from, n);
  else
    copy_ascending(to, from, n);
}

}  // namespace mrc::inline v0_1::engine
