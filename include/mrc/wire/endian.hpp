// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace mrc::inline v0_1::wire {

namespace detail {

template <class T>
[[nodiscard]] constexpr T swap_bytes(T value) noexcept {
  if constexpr (sizeof(T) == 2) return static_cast<T>(__builtin_bswap16(value));
  if constexpr (sizeof(T) == 4) return static_cast<T>(__builtin_bswap32(value));
  if constexpr (sizeof(T) == 8) return static_cast<T>(__builtin_bswap64(value));
}

}  // namespace detail

/// An unsigned integer of N bytes as in a packet: most significant byte first, no alignment. It
/// converts to and from T, its host value; a value over N bytes loses its upper bits. Headers made
/// of these can be overlaid on received bytes at any address.
template <class T, std::size_t N = sizeof(T)>
class BigEndian {
  static_assert(std::is_unsigned_v<T> && N >= 2 && N <= sizeof(T));
  /// Whole machine words take one load and a byte swap, others go byte by byte.
  static constexpr bool kWord = N == sizeof(T);

 public:
  constexpr BigEndian() noexcept = default;
  /// Stores `value`, most significant byte first.
  constexpr BigEndian(T value) noexcept { store(value); }  // NOLINT(google-explicit-constructor)
  /// The host value.
  constexpr operator T() const noexcept { return load(); }  // NOLINT(google-explicit-constructor)

  /// The host value, for contexts that do not convert implicitly.
  [[nodiscard]] constexpr T value() const noexcept { return load(); }

 private:
  [[nodiscard]] constexpr T load() const noexcept {
    if (kWord && !std::is_constant_evaluated()) {
      T raw = 0;
      std::memcpy(&raw, bytes_, N);
      return to_or_from_big(raw);
    }
    T result = 0;
    for (std::size_t i = 0; i < N; ++i) result = static_cast<T>((result << 8) | bytes_[i]);
    return result;
  }

  constexpr void store(T value) noexcept {
    if (kWord && !std::is_constant_evaluated()) {
      const T raw = to_or_from_big(value);
      std::memcpy(bytes_, &raw, N);
      return;
    }
    for (std::size_t i = 0; i < N; ++i)
      bytes_[i] = static_cast<std::uint8_t>(value >> (8 * (N - 1 - i)));
  }

  [[nodiscard]] static constexpr T to_or_from_big(T value) noexcept {
    return std::endian::native == std::endian::little ? detail::swap_bytes(value) : value;
  }

  std::uint8_t bytes_[N] = {};
};

/// 16 bits on the wire.
using Be16 = BigEndian<std::uint16_t>;
/// 24 bits on the wire.
using Be24 = BigEndian<std::uint32_t, 3>;
/// 32 bits on the wire.
using Be32 = BigEndian<std::uint32_t>;
/// 64 bits on the wire.
using Be64 = BigEndian<std::uint64_t>;

static_assert(sizeof(Be16) == 2 && sizeof(Be24) == 3 && sizeof(Be32) == 4 && sizeof(Be64) == 8);
static_assert(alignof(Be16) == 1 && alignof(Be24) == 1 && alignof(Be32) == 1 && alignof(Be64) == 1);
static_assert(std::is_trivially_copyable_v<Be24> && std::is_trivially_copyable_v<Be64>);

/// The little-endian 32-bit number at `p`.
[[nodiscard]] constexpr std::uint32_t load_little(const std::uint8_t* p) noexcept {
  return static_cast<std::uint32_t>(p[0]) | static_cast<std::uint32_t>(p[1]) << 8 |
         static_cast<std::uint32_t>(p[2]) << 16 | static_cast<std::uint32_t>(p[3]) << 24;
}

}  // namespace mrc::inline v0_1::wire
