// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>

#include "mrc/wire/crc32.hpp"
#include "mrc/wire/endian.hpp"

/// 1 if ISA-L is available to link with; set by the build, for every unit of a header-only program
/// alike, otherwise for the unit that compiles the library.
#ifndef MRC_HAVE_ISAL
#define MRC_HAVE_ISAL 0
#endif
#if MRC_HAVE_ISAL
#include <isa-l/crc.h>
#endif

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

MRC_DECL std::uint32_t crc32_portable(std::uint32_t crc, Bytes bytes) noexcept {
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

#if MRC_HAVE_ISAL && defined(__x86_64__)
namespace detail {
[[nodiscard]] inline bool has_avx() noexcept {
  static const bool avx = __builtin_cpu_supports("avx") != 0;
  return avx;
}
}  // namespace detail
#endif

MRC_DECL std::uint32_t crc32(std::uint32_t crc, Bytes bytes) noexcept {
#if MRC_HAVE_ISAL
  crc = crc32_gzip_refl(crc, bytes.data(), bytes.size());
#if defined(__x86_64__)
  // ISA-L 2.30's AVX-512 version leaves the upper halves of the vector registers dirty, after which
  // every SSE instruction is several times slower (measured: a 64-byte packet 700 ns against 251).
  if (bytes.size() >= 256 && detail::has_avx()) {
    asm volatile("vzeroupper" ::
                     : "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8",
                       "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15");
  }
#endif
  return crc;
#else
  return crc32_portable(crc, bytes);
#endif
}

}  // namespace mrc::inline v0_1::wire
