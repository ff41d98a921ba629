// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <charconv>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <utility>
#include <vector>

#include "mrc/core/time.hpp"

/// Conversion between values and text: parse_x() reads what format_x() writes. Set-up only; parsers
/// return an empty optional on malformed text, so that the caller can name the option or field.
namespace mrc::inline v0_1 {

namespace detail {

/// Removes a number of type T from the front of `text`. Accepts no '+', no blanks, no "inf" or
/// "nan".
template <class T>
[[nodiscard]] std::optional<T> take_number(std::string_view& text, int base = 10) {
  if (text.empty() ||
      (text[0] != '-' && text[0] != '.' && !((text[0] >= '0' && text[0] <= '9') || base == 16)))
    return std::nullopt;
  T number{};
  std::from_chars_result result{};
  if constexpr (std::is_floating_point_v<T>)
    result = std::from_chars(text.data(), text.data() + text.size(), number);
  else
    result = std::from_chars(text.data(), text.data() + text.size(), number, base);
  if (result.ec != std::errc{}) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(result.ptr - text.data()));
  return number;
}

/// The shift of a binary suffix: K, M or G, upper or lower case, also "Ki" and "KiB"; 0 for none.
[[nodiscard]] inline std::optional<unsigned> size_shift(std::string_view suffix) {
  if (suffix.empty()) return 0;
  const std::string_view rest = suffix.substr(1);
  if (!rest.empty() && rest != "i" && rest != "iB") return std::nullopt;
  switch (suffix[0]) {
    case 'K':
    case 'k':
      return 10;
    case 'M':
    case 'm':
      return 20;
    case 'G':
    case 'g':
      return 30;
    default:
      return std::nullopt;
  }
}

}  // namespace detail

/// "4096", "0x1000", "64K", "8M", "1G" (binary suffixes). Unsigned types accept no sign.
template <std::integral T>
[[nodiscard]] std::optional<T> parse_integer(std::string_view text) {
  int base = 10;
  if (text.size() > 2 && text[0] == '0' && (text[1] == 'x' || text[1] == 'X')) {
    text.remove_prefix(2);
    base = 16;
  }
  const auto number = detail::take_number<T>(text, base);
  if (!number) return std::nullopt;
  const auto shift = detail::size_shift(text);
  if (!shift) return std::nullopt;
  const T unit_limit = static_cast<T>(std::numeric_limits<T>::max() >> *shift);
  // A negative number is accepted only without a suffix, where no range check is needed.
  if (*shift > 0 && (*number < 0 || *number > unit_limit)) return std::nullopt;
  return static_cast<T>(*number << *shift);
}

/// A decimal number, "0.5" or "1e3".
[[nodiscard]] inline std::optional<double> parse_real(std::string_view text) {
  const auto number = detail::take_number<double>(text);
  if (!number || !text.empty() || !std::isfinite(*number)) return std::nullopt;
  return number;
}

/// A number with a unit: "20us", "1.5ms", "2s", "100ns"; "0" needs no unit.
[[nodiscard]] inline std::optional<Duration> parse_duration(std::string_view text) {
  const auto number = detail::take_number<double>(text);
  if (!number || !std::isfinite(*number)) return std::nullopt;
  double unit = 0;
  if (text == "ns") unit = 1;
  if (text == "us") unit = 1e3;
  if (text == "ms") unit = 1e6;
  if (text == "s") unit = 1e9;
  if (unit == 0 && !(text.empty() && *number == 0)) return std::nullopt;
  const double ns = std::round(*number * unit);
  if (std::abs(ns) > 9e18) return std::nullopt;  // just below what 64 bits hold
  return Duration{static_cast<Duration::rep>(ns)};
}

/// Accepts on, off, true, false, 1, 0.
[[nodiscard]] inline std::optional<bool> parse_bool(std::string_view text) {
  if (text == "on" || text == "true" || text == "1") return true;
  if (text == "off" || text == "false" || text == "0") return false;
  return std::nullopt;
}

/// Splits at commas and removes surrounding blanks. Fails when an element is empty.
[[nodiscard]] inline std::optional<std::vector<std::string>> parse_list(std::string_view text) {
  std::vector<std::string> elements;
  for (bool more = true; more;) {
    const auto comma = text.find(',');
    more = comma != std::string_view::npos;
    std::string_view element = text.substr(0, comma);
    text.remove_prefix(more ? comma + 1 : text.size());
    while (!element.empty() && element.front() == ' ') element.remove_prefix(1);
    while (!element.empty() && element.back() == ' ') element.remove_suffix(1);
    if (element.empty()) return std::nullopt;
    elements.emplace_back(element);
  }
  return elements;
}

/// With the largest binary suffix that divides it: 65536 is "64K", 1000 is "1000".
[[nodiscard]] inline std::string format_size(std::uint64_t bytes) {
  for (const auto& [shift, suffix] : {std::pair{30u, "G"}, {20u, "M"}, {10u, "K"}})
    if (bytes != 0 && (bytes & ((std::uint64_t{1} << shift) - 1)) == 0)
      return std::to_string(bytes >> shift) + suffix;
  return std::to_string(bytes);
}

/// With the largest unit that divides it: "500us", "1s", "0".
[[nodiscard]] inline std::string format_duration(Duration duration) {
  const auto ns = duration.count();
  if (ns == 0) return "0";
  for (const auto& [unit, suffix] :
       {std::pair{1'000'000'000, "s"}, {1'000'000, "ms"}, {1'000, "us"}})
    if (ns % unit == 0) return std::to_string(ns / unit) + suffix;
  return std::to_string(ns) + "ns";
}

/// The shortest text that parses to the same number.
[[nodiscard]] inline std::string format_real(double number) {
  char text[32];
  const auto end = std::to_chars(text, text + sizeof text, number).ptr;
  return {text, end};
}

}  // namespace mrc::inline v0_1
