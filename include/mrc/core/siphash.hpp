// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

namespace mrc::inline v0_1 {

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

}  // namespace mrc::inline v0_1
