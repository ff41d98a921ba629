// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstdint>
#include <span>
#include <utility>

namespace mrc::inline v0_1 {

/// xoshiro256** seeded by splitmix64 (both public domain designs by Blackman and Vigna): fast, and
/// the same sequence on every machine and compiler, unlike the standard library's distributions.
/// Not for secrets. One thread at a time.
class Random {
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

  /// 64 uniformly distributed bits.
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

  /// Uniform in [0, bound); bound > 0. The bias (below 2^-32 per value for bounds under 2^32) is
  /// irrelevant for spraying and simulation.
  std::uint32_t below(std::uint32_t bound) noexcept {
    return static_cast<std::uint32_t>(((next() >> 32) * bound) >> 32);
  }

  /// True with probability p (0 .. 1).
  bool chance(double p) noexcept { return static_cast<double>(next() >> 11) * 0x1.0p-53 < p; }

  /// Puts `items` into a random order (Fisher-Yates).
  template <class T>
  void shuffle(std::span<T> items) noexcept {
    for (std::size_t i = items.size(); i > 1; --i)
      std::swap(items[i - 1], items[below(static_cast<std::uint32_t>(i))]);
  }

 private:
  std::uint64_t state_[4];
};

}  // namespace mrc::inline v0_1
