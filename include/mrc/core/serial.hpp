// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace mrc::inline v0_1 {

/// A sequence number of `Bits` bits that wraps around. Two numbers are compared within half the
/// range: `a.before(b)` holds when b is ahead of a by 1 .. 2^(Bits-1)-1 steps. There is
/// deliberately no operator<: a wrapping order is not a total order.
template <class Tag, unsigned Bits>
class Serial {
  static_assert(Bits >= 8 && Bits <= 31);

 public:
  /// The `Bits` bits of a number.
  static constexpr std::uint32_t kMask = (std::uint32_t{1} << Bits) - 1;

  /// Zero.
  constexpr Serial() noexcept = default;
  /// Takes the low `Bits` bits of `value`.
  constexpr explicit Serial(std::uint32_t value) noexcept : value_(value & kMask) {}

  /// The number, 0 .. kMask.
  [[nodiscard]] constexpr std::uint32_t value() const noexcept { return value_; }

  /// Equal numbers; those a full range apart are not told apart.
  friend constexpr bool operator==(Serial, Serial) noexcept = default;

  /// One step ahead, with wrap-around.
  constexpr Serial& operator++() noexcept {
    value_ = (value_ + 1) & kMask;
    return *this;
  }
  /// `n` steps ahead, with wrap-around.
  friend constexpr Serial operator+(Serial a, std::int32_t n) noexcept {
    return Serial{a.value_ + static_cast<std::uint32_t>(n)};
  }
  /// `n` steps back, with wrap-around.
  friend constexpr Serial operator-(Serial a, std::int32_t n) noexcept {
    return Serial{a.value_ - static_cast<std::uint32_t>(n)};
  }
  /// Signed distance from b to a, in [-2^(Bits-1), 2^(Bits-1)).
  friend constexpr std::int32_t operator-(Serial a, Serial b) noexcept {
    return static_cast<std::int32_t>((a.value_ - b.value_) << (32 - Bits)) >> (32 - Bits);
  }
  /// True if `other` is ahead of this number by less than half the range.
  [[nodiscard]] constexpr bool before(Serial other) const noexcept { return other - *this > 0; }
  /// True if this number is ahead of `other` by less than half the range.
  [[nodiscard]] constexpr bool after(Serial other) const noexcept { return *this - other > 0; }

 private:
  std::uint32_t value_ = 0;
};

}  // namespace mrc::inline v0_1
