// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/random.h>

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "mrc/core/error.hpp"

namespace mrc::inline v0_1 {

/// What is made of a generator's next(). The same on every machine and compiler, unlike the
/// standard library's distributions.
template <class Generator>
class Draws {
 public:
  /// Uniform in [0, bound); bound > 0. With a bias below 2^-32 per value.
  std::uint32_t below(std::uint32_t bound) noexcept {
    return static_cast<std::uint32_t>(((generator().next() >> 32) * bound) >> 32);
  }
  /// Puts `items` into a random order (Fisher-Yates).
  template <class T>
  void shuffle(std::span<T> items) noexcept {
    for (std::size_t i = items.size(); i > 1; --i)
      std::swap(items[i - 1], items[below(static_cast<std::uint32_t>(i))]);
  }

 private:
  [[nodiscard]] Generator& generator() noexcept { return static_cast<Generator&>(*this); }
};

/// xoshiro256** seeded by splitmix64 (both public domain designs by Blackman and Vigna): fast. Not
/// for secrets. One thread at a time.
class Random : public Draws<Random> {
 public:
  /// Any seed will do; equal seeds give equal sequences.
  explicit Random(std::uint64_t seed) noexcept {
    for (auto& word : state_) {
      seed += 0x9E3779B97F4A7C15u;
      std::uint64_t z = seed;
      z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
      z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
      word = z ^ (z >> 31);
    }
  }

  std::uint64_t next() noexcept {
    const std::uint64_t result = std::rotl(state_[1] * 5, 7) * 9;
    const std::uint64_t t = state_[1] << 17;
    state_[2] ^= state_[0];
    state_[3] ^= state_[1];
    state_[1] ^= state_[2];
    state_[0] ^= state_[3];
    state_[2] ^= t;
    state_[3] = std::rotl(state_[3], 45);
    return result;
  }
  /// True with probability p (0 .. 1).
  bool chance(double p) noexcept { return static_cast<double>(next() >> 11) * 0x1.0p-53 < p; }

 private:
  std::uint64_t state_[4];
};

/// Key of siphash().
using SipKey = std::array<std::uint64_t, 2>;

/// SipHash-2-4 (Aumasson and Bernstein, 2012): a keyed hash of 64 bits, whose values nobody can
/// guess who does not know the key. For short inputs. Free of state, thread-safe.
[[nodiscard]] inline std::uint64_t siphash(const SipKey& key,
                                           std::span<const std::uint8_t> bytes) noexcept {
  std::uint64_t v0 = key[0] ^ 0x736F6D6570736575u, v1 = key[1] ^ 0x646F72616E646F6Du;
  std::uint64_t v2 = key[0] ^ 0x6C7967656E657261u, v3 = key[1] ^ 0x7465646279746573u;
  const auto rounds = [&](int n) {
    for (; n > 0; --n) {
      v0 += v1;
      v1 = std::rotl(v1, 13) ^ v0;
      v0 = std::rotl(v0, 32);
      v2 += v3;
      v3 = std::rotl(v3, 16) ^ v2;
      v0 += v3;
      v3 = std::rotl(v3, 21) ^ v0;
      v2 += v1;
      v1 = std::rotl(v1, 17) ^ v2;
      v2 = std::rotl(v2, 32);
    }
  };
  const auto word = [](std::span<const std::uint8_t> at) {  // little-endian
    std::uint64_t w = 0;
    for (std::size_t i = 0; i < at.size(); ++i) w |= std::uint64_t{at[i]} << (8 * i);
    return w;
  };
  const auto mix = [&](std::uint64_t m) {
    v3 ^= m;
    rounds(2);
    v0 ^= m;
  };
  const std::uint64_t length = bytes.size();
  for (; bytes.size() >= 8; bytes = bytes.subspan(8)) mix(word(bytes.first(8)));
  mix(word(bytes) | length << 56);
  v2 ^= 0xFF;
  rounds(4);
  return v0 ^ v1 ^ v2 ^ v3;
}

namespace detail {

/// 64 bits from the kernel's generator. Throws mrc::Error.
[[nodiscard]] inline std::uint64_t random_seed() {
  std::uint64_t seed = 0;
  if (getrandom(&seed, sizeof seed, 0) != static_cast<ssize_t>(sizeof seed))
    throw_errno("cannot get random numbers");
  return seed;
}

/// A key for SecretRandom or siphash(), likewise.
[[nodiscard]] inline SipKey random_key() {
  return {random_seed(), random_seed()};
}

}  // namespace detail

/// Numbers that cannot be predicted without the key, even from earlier numbers of the same
/// generator: SipHash of a counter. For PSNs, QPNs, keys, tags and request numbers, which peers see
/// and attackers guess. One thread at a time.
class SecretRandom : public Draws<SecretRandom> {
 public:
  /// `key`: detail::random_key(), or fixed for runs that are to be repeated, as in the simulator.
  explicit SecretRandom(const SipKey& key) noexcept : key_(key) {}

  std::uint64_t next() noexcept {
    const std::uint64_t n = counter_++;
    std::array<std::uint8_t, 8> bytes;
    for (unsigned i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::uint8_t>(n >> (8 * i));
    return siphash(key_, bytes);
  }
  /// The upper `count` bits of such a number, 1 .. 32.
  std::uint32_t bits(unsigned count) noexcept {
    return static_cast<std::uint32_t>(next() >> 32 >> (32 - count));
  }

 private:
  SipKey key_;
  std::uint64_t counter_ = 0;
};

}  // namespace mrc::inline v0_1
