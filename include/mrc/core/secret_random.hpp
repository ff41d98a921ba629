// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <utility>

#include "mrc/core/siphash.hpp"

namespace mrc::inline v0_1 {

/// Numbers that cannot be predicted without the key, even from earlier numbers of the same
/// generator: SipHash of a counter. For PSNs, QPNs, keys, tags and request numbers, which peers see
/// and attackers guess. The same on every machine. One thread at a time.
class SecretRandom {
 public:
  /// `key`: from the kernel's generator (detail::random_key()), or fixed where runs are to be
  /// repeated and nobody attacks, as in the simulator.
  explicit SecretRandom(const SipKey& key) noexcept : key_(key) {}

  /// 64 uniformly distributed bits.
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
  /// Uniform in [0, bound); bound > 0, with a bias below 2^-32 per value.
  std::uint32_t below(std::uint32_t bound) noexcept {
    return static_cast<std::uint32_t>(((next() >> 32) * bound) >> 32);
  }
  /// Puts `items` into a random order (Fisher-Yates).
  template <class T>
  void shuffle(std::span<T> items) noexcept {
    for (std::size_t i = items.size(); i > 1; --i)
      std::swap(items[i - 1], items[below(static_cast<std::uint32_t>(i))]);
  }

 private:
  SipKey key_;
  std::uint64_t counter_ = 0;
};

}  // namespace mrc::inline v0_1
