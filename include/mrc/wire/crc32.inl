// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <cstddef>

#include "mrc/wire/crc32.hpp"
#include "mrc/wire/crc32_x86.inl"
#include "mrc/wire/endian.hpp"

namespace mrc::inline v0_1::wire {

namespace detail {

/// kCrcTables[k][b]: the CRC register after byte b and then k zero bytes.
using CrcTables = std::array<std::array<std::uint32_t, 256>, 8>;

[[nodiscard]] constexpr CrcTables make_crc_tables() noexcept {
  CrcTables t{};
  for (std::uint32_t b = 0; b < 256; ++b) {
    std::uint32_t crc = b;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0xEDB88320u : 0u);
    t[0][b] = crc;
  }
  for (std::size_t k = 1; k < t.size(); ++k)
    for (std::size_t b = 0; b < 256; ++b) t[k][b] = (t[k - 1][b] >> 8) ^ t[0][t[k - 1][b] & 0xFF];
  return t;
}
inline constexpr CrcTables kCrcTables = make_crc_tables();

}  // namespace detail

std::uint32_t crc32_portable(std::uint32_t crc, Bytes bytes) noexcept {
  const auto& t = detail::kCrcTables;
  const std::uint8_t* p = bytes.data();
  std::size_t left = bytes.size();
  crc = ~crc;
  for (; left >= 8; left -= 8, p += 8) {
    const std::uint32_t low = load_little(p) ^ crc;
    const std::uint32_t high = load_little(p + 4);
    crc = t[7][low & 0xFF] ^ t[6][(low >> 8) & 0xFF] ^ t[5][(low >> 16) & 0xFF] ^ t[4][low >> 24] ^
          t[3][high & 0xFF] ^ t[2][(high >> 8) & 0xFF] ^ t[1][(high >> 16) & 0xFF] ^
          t[0][high >> 24];
  }
  for (; left > 0; --left, ++p) crc = (crc >> 8) ^ t[0][(crc ^ *p) & 0xFF];
  return ~crc;
}

std::span<const Crc32Kernel> crc32_kernels() noexcept {
#if defined(__x86_64__)
  static const std::array<Crc32Kernel, 4> kernels = [] {
    __builtin_cpu_init();  // callers may run before main()
    const bool pclmul = __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("ssse3");
    const bool wide = pclmul && __builtin_cpu_supports("vpclmulqdq");
    const bool avx2 = wide && __builtin_cpu_supports("avx2");
    const bool avx512 = wide && __builtin_cpu_supports("avx512bw") &&
                        __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512vbmi");
    return std::array<Crc32Kernel, 4>{{{"vpclmulqdq512", &detail::crc32_vpclmulqdq512, avx512},
                                       {"vpclmulqdq256", &detail::crc32_vpclmulqdq256, avx2},
                                       {"pclmulqdq", &detail::crc32_pclmulqdq, pclmul},
                                       {"portable", &crc32_portable, true}}};
  }();
#else
  static constexpr std::array<Crc32Kernel, 1> kernels{{{"portable", &crc32_portable, true}}};
#endif
  return kernels;
}

namespace detail {

/// What crc32() calls at first: chooses the kernel that it calls from then on.
[[nodiscard]] inline std::uint32_t crc32_first(std::uint32_t crc, Bytes bytes) noexcept;

/// The kernel in use. Threads that choose at the same time choose the same.
inline constinit std::atomic<Crc32Function*> crc32_in_use{&crc32_first};

inline std::uint32_t crc32_first(std::uint32_t crc, Bytes bytes) noexcept {
  auto kernel = crc32_kernels().begin();
  while (!kernel->supported) ++kernel;
  crc32_in_use.store(kernel->function, std::memory_order_relaxed);
  return kernel->function(crc, bytes);
}

}  // namespace detail

std::uint32_t crc32(std::uint32_t crc, Bytes bytes) noexcept {
  return detail::crc32_in_use.load(std::memory_order_relaxed)(crc, bytes);
}

}  // namespace mrc::inline v0_1::wire
