// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "mrc/wire/icrc.hpp"

#include <atomic>

namespace mrc::inline v0_1::wire {

namespace detail {

/// Sets the fields that switches may change to all ones.
inline void mask(Ipv6& ip) noexcept {
  ip.set_first_word(0xFF, 0xFFFFF);
  ip.hop_limit = 0xFF;
}
inline void mask(Ipv4& ip) noexcept {
  ip.tos = 0xFF;
  ip.ttl = 0xFF;
  ip.checksum = 0xFFFF;
}

}  // namespace detail

IcrcPrefix IcrcPrefix::of_packet(Bytes ip, const Udp& udp) noexcept {
  assert(ip.size() >= sizeof(Ipv4) && ip.size() <= kMaxIpHeader);
  IcrcPrefix prefix;
  prefix.image.fill(0xFF);
  std::uint8_t* at = prefix.image.data() + kOnes;
  std::memcpy(at, ip.data(), ip.size());
  if ((ip[0] >> 4) == 6)
    detail::mask(*reinterpret_cast<Ipv6*>(at));
  else
    detail::mask(*reinterpret_cast<Ipv4*>(at));
  Udp masked = udp;
  masked.checksum = 0xFFFF;
  std::memcpy(at + ip.size(), &masked, sizeof masked);
  prefix.length = static_cast<std::uint8_t>(kOnes + ip.size() + sizeof masked);
  return prefix;
}

IcrcPrefix IcrcPrefix::make(const IpAddress& source, const IpAddress& destination,
                            std::uint16_t udp_destination_port) noexcept {
  Udp udp;
  udp.destination_port = udp_destination_port;
  if (is_mapped_ipv4(destination)) {
    Ipv4 ip;
    ip.flags_fragment = Ipv4::kDontFragment;
    ip.protocol = kNextUdp;
    ip.source = unmap_ipv4(source);
    ip.destination = unmap_ipv4(destination);
    return of_packet({reinterpret_cast<const std::uint8_t*>(&ip), sizeof ip}, udp);
  }
  Ipv6 ip;
  ip.next_header = kNextUdp;
  ip.source = source;
  ip.destination = destination;
  return of_packet({reinterpret_cast<const std::uint8_t*>(&ip), sizeof ip}, udp);
}

}  // namespace mrc::inline v0_1::wire

#if defined(__x86_64__)

#include <cstdint>
#include <cstring>

/// CRC-32 by multiplication without carries, for processors with PCLMULQDQ or VPCLMULQDQ.
///
/// Bytes are a polynomial over GF(2), the lowest bit of the first byte its highest power. The CRC
/// is that polynomial times x^32, modulo P. Bit i of a block of 16 bytes, as in memory, stands for
/// x^(127 - i), of half a block for x^(63 - i), of a remainder for x^(31 - i).
///
/// A block with n bits behind it is folded by n bits, replaced by one without that has the same
/// remainder: each half is multiplied by a power of x modulo P. The one that is left in the end is
/// reduced to 32 bits.
///
/// Vectors and instructions are the compiler's own: <immintrin.h> takes longer to compile than all
/// of wire/.
namespace mrc::inline v0_1::wire::detail {

inline constexpr std::uint32_t kCrcPolynomial = 0xEDB88320;  ///< P, reflected, without x^32

/// x^0, as a remainder modulo P: bit i stands for x^(31 - i).
inline constexpr std::uint32_t kOne = 0x80000000;

/// A remainder times x^n, modulo P. P has the term 1, so that x has an inverse.
[[nodiscard]] constexpr std::uint32_t by_x(std::uint32_t remainder, int n) noexcept {
  for (; n > 0; --n) remainder = (remainder >> 1) ^ ((remainder & 1) != 0 ? kCrcPolynomial : 0u);
  for (; n < 0; ++n)
    remainder = (remainder & kOne) != 0 ? (remainder ^ kCrcPolynomial) << 1 | 1 : remainder << 1;
  return remainder;
}

/// x^95 divided by P, without the remainder. Bit i stands for x^(63 - i).
[[nodiscard]] constexpr std::uint64_t divide_x95() noexcept {
  std::uint64_t quotient = 0;
  std::uint32_t rest = by_x(kOne, 31);  // the leading 32 coefficients of x^95
  for (unsigned i = 0; i < 64; ++i, rest = by_x(rest, 1)) quotient |= std::uint64_t{rest & 1} << i;
  return quotient;
}

using Block = long long __attribute__((vector_size(16)));   ///< 16 bytes
using Block2 = long long __attribute__((vector_size(32)));  ///< 2 of them
using Block4 = long long __attribute__((vector_size(64)));  ///< 4 of them
using BlockBytes = char __attribute__((vector_size(16)));
using Block4Bytes = char __attribute__((vector_size(64)));

[[nodiscard]] constexpr Block halves(std::uint64_t first, std::uint64_t second) noexcept {
  return Block{static_cast<long long>(first), static_cast<long long>(second)};
}

/// The longest way, in blocks, over which a kernel folds.
inline constexpr std::size_t kMostBlocks = 28;

/// kFold[n] folds by n blocks: the factors of first and second half. A remainder stands in half a
/// block times x^32, and a product of halves, of 127 bits, times x: hence x^-33. Behind the first
/// half are 64 bits more. kFold[0] keeps the remainder.
inline constexpr auto kFold = [] {
  std::array<Block, kMostBlocks + 1> fold{};
  std::uint32_t second = by_x(kOne, -33);
  for (Block& factors : fold) {
    factors = halves(by_x(second, 64), second);
    second = by_x(second, 128);
  }
  return fold;
}();

/// For reduce(): x^95 / P, and P, whose bit i stands for x^(32 - i).
inline constexpr Block kDivide = halves(divide_x95(), std::uint64_t{kCrcPolynomial} << 1 | 1);

/// For PSHUFB: 16 bytes from kToEnd[n] on move the first n bytes to the end, behind zeros.
inline constexpr auto kToEnd = [] {
  std::array<std::uint8_t, 32> index{};
  for (std::size_t i = 0; i < 32; ++i) index[i] = static_cast<std::uint8_t>(i < 16 ? 0x80 : i - 16);
  return index;
}();

#define MRC_TARGET_128 __attribute__((target("pclmul,ssse3")))
#define MRC_TARGET_256 __attribute__((target("pclmul,avx2,vpclmulqdq")))
#define MRC_TARGET_512 \
  __attribute__((target("pclmul,avx512f,avx512bw,avx512vl,avx512vbmi,vpclmulqdq")))
#define MRC_INLINED __attribute__((always_inline)) inline

MRC_TARGET_128 MRC_INLINED Block load_block(const std::uint8_t* from) noexcept {
  Block block;
  std::memcpy(&block, from, sizeof block);
  return block;
}

MRC_TARGET_128 MRC_INLINED Block fold(Block x, Block by) noexcept {
  return __builtin_ia32_pclmulqdq128(x, by, 0x00) ^ __builtin_ia32_pclmulqdq128(x, by, 0x11);
}

/// The remainder of a block times x^32: what the register is after its bytes.
MRC_TARGET_128 MRC_INLINED std::uint32_t reduce(Block x) noexcept {
  // To 96 bits; bit i stands for x^(95 - i). Their quotient by P is what is left of the first 64
  // times x^95 / P without the last 63 powers.
  x = __builtin_ia32_pclmulqdq128(x, kFold[1], 0x10) ^ __builtin_shufflevector(x, Block{}, 1, 2);
  const Block quotient = __builtin_ia32_pclmulqdq128(x, kDivide, 0x00);
  x ^= __builtin_ia32_pclmulqdq128(quotient, kDivide, 0x10);
  return static_cast<std::uint32_t>(x[1]);
}

/// CRC-32 of up to 15 bytes.
MRC_TARGET_128 MRC_INLINED std::uint32_t crc_of_few(std::uint32_t crc, Bytes bytes) noexcept {
  const std::uint8_t* p = bytes.data();
  const std::size_t n = bytes.size();
  if (n < 4) return crc32_portable(crc, bytes);
  crc = ~crc;
  // At the end of a block, with zeros before them, which do not count.
  if (n >= 8) {
    std::uint64_t first, last;
    std::memcpy(&first, p, 8);
    std::memcpy(&last, p + n - 8, 8);
    return ~reduce(
        halves((first ^ crc) << (8 * (15 - n)) << 8, last ^ (std::uint64_t{crc} >> (8 * (n - 8)))));
  }
  std::uint32_t first, last;
  std::memcpy(&first, p, 4);
  std::memcpy(&last, p + n - 4, 4);
  const std::uint64_t low = std::uint64_t{first ^ crc} << (8 * (8 - n));
  const std::uint64_t high = last ^ (std::uint64_t{crc} >> (8 * (n - 4)));
  return ~reduce(halves(0, high << 32 | (low & 0xFFFFFFFF)));
}

// Kernels, called as crc32(), for vectors of 1, 2 or 4 blocks. Bytes that do not fill a vector come
// first, behind zeros, with the register (the CRC so far, inverted) added to the first 4. Each
// block is folded from vector to vector, at last those of one vector into one. Of many vectors four
// go side by side, since a product takes longer than the time until the next one can start.

/// The first `n` of 16 bytes, 1 to 16, at the end of a block, the register added.
MRC_TARGET_128 MRC_INLINED Block first_block(std::uint32_t crc, const std::uint8_t* from,
                                             std::size_t n) noexcept {
  BlockBytes to_end;
  std::memcpy(&to_end, kToEnd.data() + n, sizeof to_end);
  const Block block = load_block(from) ^ halves(crc, 0);
  return reinterpret_cast<Block>(
      __builtin_ia32_pshufb128(reinterpret_cast<BlockBytes>(block), to_end));
}
/// What of the register belongs to the bytes after the first `n`.
MRC_TARGET_128 MRC_INLINED Block rest_of(std::uint32_t crc, std::size_t n) noexcept {
  return halves(n < 4 ? crc >> (8 * n) : 0, 0);
}

/// A block and the `n` after it in memory, as one.
MRC_TARGET_128 MRC_INLINED Block fold_all(Block x, const std::uint8_t* p, std::size_t n) noexcept {
  if (n == 0) return x;
  x = fold(x, kFold[n]);
  for (; --n > 0; p += 16) x ^= fold(load_block(p), kFold[n]);
  return x ^ load_block(p);
}

MRC_TARGET_128 inline std::uint32_t crc32_pclmulqdq(std::uint32_t crc, Bytes bytes) noexcept {
  if (bytes.size() < 16) return crc_of_few(crc, bytes);
  const std::uint8_t* p = bytes.data();
  std::size_t n = bytes.size();
  crc = ~crc;
  const std::size_t head = (n - 1) % 16 + 1;
  Block x = first_block(crc, p, head);
  p += head;
  n = (n - head) / 16;
  if (n > 0 && head < 4) {
    x = fold(x, kFold[1]) ^ rest_of(crc, head) ^ load_block(p);
    p += 16, --n;
  }
  if (n < 12) return ~reduce(fold_all(x, p, n));
  const std::size_t before = (n + 1) % 4;
  x = fold_all(x, p, before);
  p += 16 * before;
  Block a = load_block(p), b = load_block(p + 16), c = load_block(p + 32);
  p += 48;
  for (n -= before + 3; n > 0; n -= 4, p += 64) {
    x = fold(x, kFold[4]) ^ load_block(p);
    a = fold(a, kFold[4]) ^ load_block(p + 16);
    b = fold(b, kFold[4]) ^ load_block(p + 32);
    c = fold(c, kFold[4]) ^ load_block(p + 48);
  }
  return ~reduce(fold(x, kFold[3]) ^ fold(a, kFold[2]) ^ fold(b, kFold[1]) ^ c);
}

#if defined(__clang__)
#define MRC_CLMUL_2 __builtin_ia32_pclmulqdq256
#define MRC_CLMUL_4 __builtin_ia32_pclmulqdq512
#else
#define MRC_CLMUL_2 __builtin_ia32_vpclmulqdq_v4di
#define MRC_CLMUL_4 __builtin_ia32_vpclmulqdq_v8di
#endif

MRC_TARGET_256 MRC_INLINED Block2 load_2(const std::uint8_t* from) noexcept {
  Block2 blocks;
  std::memcpy(&blocks, from, sizeof blocks);
  return blocks;
}

MRC_TARGET_256 MRC_INLINED Block2 fold(Block2 x, Block by) noexcept {
  const Block2 both = __builtin_shufflevector(by, by, 0, 1, 0, 1);
  return MRC_CLMUL_2(x, both, 0x00) ^ MRC_CLMUL_2(x, both, 0x11);
}

/// A vector and the `n` after it in memory, as one.
MRC_TARGET_256 MRC_INLINED Block2 fold_all(Block2 x, const std::uint8_t* p,
                                           std::size_t n) noexcept {
  if (n == 0) return x;
  x = fold(x, kFold[2 * n]);
  for (; --n > 0; p += 32) x ^= fold(load_2(p), kFold[2 * n]);
  return x ^ load_2(p);
}

MRC_TARGET_256 inline std::uint32_t crc32_vpclmulqdq256(std::uint32_t crc, Bytes bytes) noexcept {
  if (bytes.size() < 16) return crc_of_few(crc, bytes);
  const std::uint8_t* p = bytes.data();
  std::size_t n = bytes.size();
  crc = ~crc;
  const std::size_t head = (n - 1) % 16 + 1;
  const Block first = first_block(crc, p, head);
  p += head;
  n = (n - head) / 16;
  Block2 x;
  if (n % 2 != 0) {
    const Block second = load_block(p) ^ rest_of(crc, head);
    x = __builtin_shufflevector(first, second, 0, 1, 2, 3);
    p += 16;
    n /= 2;
  } else {
    if (n == 0) return ~reduce(first);
    const Block folded = fold(first, kFold[1]) ^ rest_of(crc, head);
    x = load_2(p) ^ __builtin_shufflevector(folded, Block{}, 0, 1, 2, 3);
    p += 32;
    n = n / 2 - 1;
  }
  if (n < 12) {
    x = fold_all(x, p, n);
  } else {
    const std::size_t before = (n + 1) % 4;
    x = fold_all(x, p, before);
    p += 32 * before;
    Block2 a = load_2(p), b = load_2(p + 32), c = load_2(p + 64);
    p += 96;
    for (n -= before + 3; n > 0; n -= 4, p += 128) {
      x = fold(x, kFold[8]) ^ load_2(p);
      a = fold(a, kFold[8]) ^ load_2(p + 32);
      b = fold(b, kFold[8]) ^ load_2(p + 64);
      c = fold(c, kFold[8]) ^ load_2(p + 96);
    }
    x = fold(x, kFold[6]) ^ fold(a, kFold[4]) ^ fold(b, kFold[2]) ^ c;
  }
  return ~reduce(fold(__builtin_shufflevector(x, x, 0, 1), kFold[1]) ^
                 __builtin_shufflevector(x, x, 2, 3));
}

MRC_TARGET_512 MRC_INLINED Block4 load_4(const std::uint8_t* from) noexcept {
  Block4 blocks;
  std::memcpy(&blocks, from, sizeof blocks);
  return blocks;
}

MRC_TARGET_512 MRC_INLINED Block4 fold(Block4 x, Block4 by) noexcept {
  return MRC_CLMUL_4(x, by, 0x00) ^ MRC_CLMUL_4(x, by, 0x11);
}
MRC_TARGET_512 MRC_INLINED Block4 fold(Block4 x, Block by) noexcept {
  const Block2 two = __builtin_shufflevector(by, by, 0, 1, 0, 1);
  return fold(x, __builtin_shufflevector(two, two, 0, 1, 2, 3, 0, 1, 2, 3));
}

/// A vector and the `n` after it in memory, as one.
MRC_TARGET_512 MRC_INLINED Block4 fold_all(Block4 x, const std::uint8_t* p,
                                           std::size_t n) noexcept {
  if (n == 0) return x;
  x = fold(x, kFold[4 * n]);
  for (; --n > 0; p += 64) x ^= fold(load_4(p), kFold[4 * n]);
  return x ^ load_4(p);
}

/// The first 1 to 63 bytes, and zeros.
MRC_TARGET_512 MRC_INLINED Block4 load_some(const std::uint8_t* from, std::size_t n) noexcept {
#if defined(__clang__)
  const auto* address = reinterpret_cast<const Block4Bytes*>(from);
#else
  const auto* address = reinterpret_cast<const char*>(from);
#endif
  return reinterpret_cast<Block4>(
      __builtin_ia32_loaddquqi512_mask(address, Block4Bytes{}, ~std::uint64_t{0} >> (64 - n)));
}

/// The bytes that these numbers name, modulo 64.
MRC_TARGET_512 MRC_INLINED Block4Bytes permute(Block4Bytes bytes, Block4Bytes by) noexcept {
#if defined(__clang__)
  return __builtin_ia32_permvarqi512(bytes, by);
#else
  return __builtin_ia32_permvarqi512_mask(bytes, by, bytes, ~std::uint64_t{0});
#endif
}

/// The numbers 0 .. 63.
inline constexpr auto kCount = [] {
  std::array<char, 64> count{};
  for (std::size_t i = 0; i < count.size(); ++i) count[i] = static_cast<char>(i);
  return count;
}();

MRC_TARGET_512 inline std::uint32_t crc32_vpclmulqdq512(std::uint32_t crc, Bytes bytes) noexcept {
  if (bytes.size() <= 48) return crc32_pclmulqdq(crc, bytes);  // sooner done
  const std::uint8_t* p = bytes.data();
  std::size_t n = bytes.size();
  crc = ~crc;
  const std::size_t head = n % 64;
  n /= 64;
  Block4 x = {static_cast<long long>(std::uint64_t{crc}), 0, 0, 0, 0, 0, 0, 0};
  if (head != 0) {
    // Turned so that it ends with the vector. What is left of the register after 1 to 3 bytes comes
    // to the beginning of the next one.
    x ^= load_some(p, head);
    Block4Bytes count;
    std::memcpy(&count, kCount.data(), sizeof count);
    const Block4Bytes turned =
        permute(reinterpret_cast<Block4Bytes>(x), count + static_cast<char>(head));
    const auto last = count >= static_cast<char>(64 - head);
    const Block4 first = reinterpret_cast<Block4>(turned) & reinterpret_cast<Block4>(last);
    p += head;
    x = first;
    if (n > 0) x = fold(x, kFold[4]) ^ (reinterpret_cast<Block4>(turned) ^ first);
  }
  if (n > 0) {
    x ^= load_4(p);
    p += 64, --n;
    if (n < 8) {
      x = fold_all(x, p, n);
    } else {
      const std::size_t before = (n + 1) % 4;
      x = fold_all(x, p, before);
      p += 64 * before;
      Block4 a = load_4(p), b = load_4(p + 64), c = load_4(p + 128);
      p += 192;
      for (n -= before + 3; n > 0; n -= 4, p += 256) {
        x = fold(x, kFold[16]) ^ load_4(p);
        a = fold(a, kFold[16]) ^ load_4(p + 64);
        b = fold(b, kFold[16]) ^ load_4(p + 128);
        c = fold(c, kFold[16]) ^ load_4(p + 192);
      }
      x = fold(x, kFold[12]) ^ fold(a, kFold[8]) ^ fold(b, kFold[4]) ^ c;
    }
  }
  const Block2 one = __builtin_shufflevector(kFold[3], kFold[2], 0, 1, 2, 3);
  const Block2 two = __builtin_shufflevector(kFold[1], kFold[0], 0, 1, 2, 3);
  x = fold(x, __builtin_shufflevector(one, two, 0, 1, 2, 3, 4, 5, 6, 7));
  const Block2 y =
      __builtin_shufflevector(x, x, 0, 1, 2, 3) ^ __builtin_shufflevector(x, x, 4, 5, 6, 7);
  return ~reduce(__builtin_shufflevector(y, y, 0, 1) ^ __builtin_shufflevector(y, y, 2, 3));
}

#undef MRC_CLMUL_2
#undef MRC_CLMUL_4
#undef MRC_INLINED
#undef MRC_TARGET_128
#undef MRC_TARGET_256
#undef MRC_TARGET_512

}  // namespace mrc::inline v0_1::wire::detail

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
