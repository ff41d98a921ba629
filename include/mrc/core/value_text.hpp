// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "mrc/core/types.hpp"

namespace mrc::inline v0_1 {

/// Conversion between values and text: parse_x() reads what format_x() writes. Set-up only, any
/// thread. Parsers return an empty optional on malformed text, so that the caller can name the
/// option or field.

namespace detail {

/// Cuts a decimal number off the front of `text`; what follows it remains. No sign '+', no blanks,
/// no "inf" or "nan".
[[nodiscard]] std::optional<double> take_real(std::string_view& text);

/// parse_integer() for types of at most 64 bits, whose range is 0 .. max, or min .. max.
[[nodiscard]] std::optional<std::uint64_t> parse_unsigned(std::string_view text, std::uint64_t max);
[[nodiscard]] std::optional<std::int64_t> parse_signed(std::string_view text, std::int64_t min,
                                                       std::int64_t max);

}  // namespace detail

/// "4096", "0x1000", "64K", "8M", "1G" (binary suffixes). Unsigned types accept no sign.
template <std::integral T>
[[nodiscard]] std::optional<T> parse_integer(std::string_view text) {
  using Limits = std::numeric_limits<T>;
  if constexpr (std::is_unsigned_v<T>) {
    if (const auto number = detail::parse_unsigned(text, Limits::max()))
      return static_cast<T>(*number);
  } else {
    if (const auto number = detail::parse_signed(text, Limits::min(), Limits::max()))
      return static_cast<T>(*number);
  }
  return std::nullopt;
}

/// A decimal number, "0.5" or "1e3".
[[nodiscard]] std::optional<double> parse_real(std::string_view text);

/// A number with a unit: "20us", "1.5ms", "2s", "100ns"; zero needs none.
[[nodiscard]] std::optional<Duration> parse_duration(std::string_view text);

/// on, off, true, false, 1, 0.
[[nodiscard]] std::optional<bool> parse_bool(std::string_view text);

/// Elements between commas, without blanks around them. Nothing when an element is empty.
[[nodiscard]] std::optional<std::vector<std::string>> parse_list(std::string_view text);

/// Processors that can be named: 0 .. kMaxCpus - 1.
inline constexpr unsigned kMaxCpus = 1024;

/// Processor numbers and ranges, "0,2,8-11", in that order.
[[nodiscard]] std::optional<std::vector<unsigned>> parse_cpu_list(std::string_view text);

/// With the largest binary suffix that divides it: 65536 is "64K", 1000 is "1000".
[[nodiscard]] std::string format_size(std::uint64_t bytes);

/// With the largest unit that divides it: "500us", "1s", "0".
[[nodiscard]] std::string format_duration(Duration duration);

/// The shortest text that reads back as the same number.
[[nodiscard]] std::string format_real(double number);

/// Reads and writes what hosts tell each other at set-up: numbers, most significant byte first, and
/// bytes, without gaps. One thread. Headers of packets are overlaid instead (wire/ip.hpp).

/// Appends to a vector. A number over the width that is written loses its upper bits.
class ByteWriter {
 public:
  /// `out` must outlive it.
  explicit ByteWriter(std::vector<std::uint8_t>& out) noexcept : out_(out) {}
  ByteWriter& u8(std::uint64_t number) { return append(number, 1); }
  ByteWriter& u16(std::uint64_t number) { return append(number, 2); }
  ByteWriter& u32(std::uint64_t number) { return append(number, 4); }
  ByteWriter& u64(std::uint64_t number) { return append(number, 8); }
  /// Appends bytes: a span, an array, a text.
  template <class Range>
  ByteWriter& bytes(const Range& range) {
    out_.insert(out_.end(), range.begin(), range.end());
    return *this;
  }

 private:
  ByteWriter& append(std::uint64_t number, unsigned width) {
    while (width-- > 0) out_.push_back(static_cast<std::uint8_t>(number >> 8 * width));
    return *this;
  }

  std::vector<std::uint8_t>& out_;
};

/// Takes what a ByteWriter has written off the front of bytes. Any bytes are safe: where some are
/// missing it gives zeros, and no bytes, from then on, and done() tells at the end.
class ByteReader {
 public:
  explicit ByteReader(Bytes bytes) noexcept : rest_(bytes) {}
  [[nodiscard]] std::uint8_t u8() noexcept { return take<std::uint8_t>(); }
  [[nodiscard]] std::uint16_t u16() noexcept { return take<std::uint16_t>(); }
  [[nodiscard]] std::uint32_t u32() noexcept { return take<std::uint32_t>(); }
  [[nodiscard]] std::uint64_t u64() noexcept { return take<std::uint64_t>(); }
  /// Takes `count` bytes, which stay where they are.
  [[nodiscard]] Bytes bytes(std::size_t count) noexcept {
    if (count > rest_.size()) {
      missing_ = true;
      count = 0;
      rest_ = {};
    }
    const Bytes taken = rest_.first(count);
    rest_ = rest_.subspan(count);
    return taken;
  }
  /// Takes N bytes, as an address has them.
  template <std::size_t N>
  [[nodiscard]] std::array<std::uint8_t, N> array() noexcept {
    std::array<std::uint8_t, N> out{};
    const Bytes taken = bytes(N);
    std::copy(taken.begin(), taken.end(), out.begin());
    return out;
  }

  [[nodiscard]] std::size_t left() const noexcept { return rest_.size(); }
  /// Some of what was to be taken was not there.
  [[nodiscard]] bool missing() const noexcept { return missing_; }
  /// All has been taken, and nothing was missing.
  [[nodiscard]] bool done() const noexcept { return rest_.empty() && !missing_; }

 private:
  template <class T>
  [[nodiscard]] T take() noexcept {
    T number = 0;
    for (const std::uint8_t byte : bytes(sizeof(T)))
      number = static_cast<T>(std::uint64_t{number} << 8 | byte);
    return number;
  }

  Bytes rest_;
  bool missing_ = false;
};

}  // namespace mrc::inline v0_1
