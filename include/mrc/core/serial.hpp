// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace mrc::inline v0_1 {

/// A sequence number of `Bits` bits that wraps around. Two numbers are compared within half the
/// range: `a.before(b)` holds when b is ahead of a by 1 .. 2^(Bits-1)-1 steps. There is no
/// operator<, because a wrapping order is not a total order.
template <class Tag, unsigned Bits>
class Serial {
  static_assert(Bits >= 8 && Bits <= 31);

 public:
  /// All value bits set.
  static constexpr std::uint32_t kMask = (std::uint32_t{1} << Bits) - 1;

  constexpr Serial() noexcept = default;
  /// Takes the low `Bits` bits of `value`.
  constexpr explicit Serial(std::uint32_t value) noexcept : value_(value & kMask) {}

  /// The number, 0 .. 2^Bits - 1.
  [[nodiscard]] constexpr std::uint32_t value() const noexcept { return value_; }

  /// Equal numbers.
  friend constexpr bool operator==(Serial, Serial) noexcept = default;

  /// The next number, modulo 2^Bits.
  constexpr Serial& operator++() noexcept {
    value_ = (value_ + 1) & kMask;
    return *this;
  }
  /// `n` steps ahead, modulo 2^Bits.
  friend constexpr Serial operator+(Serial a, std::int32_t n) noexcept {
    return Serial{a.value_ + static_cast<std::uint32_t>(n)};
  }
  /// `n` steps back, modulo 2^Bits.
  friend constexpr Serial operator-(Serial a, std::int32_t n) noexcept {
    return Serial{a.value_ - static_cast<std::uint32_t>(n)};
  }
  /// Signed distance from b to a, in [-2^(Bits-1), 2^(Bits-1)).
  friend constexpr std::int32_t operator-(Serial a, Serial b) noexcept {
    return static_cast<std::int32_t>((a.value_ - b.value_) << (32 - Bits)) >> (32 - Bits);
  }
  /// Whether `other` is ahead of this.
  [[nodiscard]] constexpr bool before(Serial other) const noexcept { return other - *this > 0; }
  /// Whether this is ahead of `other`.
  [[nodiscard]] constexpr bool after(Serial other) const noexcept { return *this - other > 0; }

 private:
  std::uint32_t value_ = 0;
};

}  // namespace mrc::inline v0_1
