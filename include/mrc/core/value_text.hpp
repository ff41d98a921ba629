// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "mrc/core/time.hpp"

/// Conversion between values and text: parse_x() reads what format_x() writes. Set-up only, any
/// thread. Parsers return an empty optional on malformed text, so that the caller can name the
/// option or field.
namespace mrc::inline v0_1 {

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

}  // namespace mrc::inline v0_1
