// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <concepts>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "mrc/core/time.hpp"
#include "mrc/json/tree.hpp"

/// Values of a file as C++ values, checked against limits. read_x() throws the error of the field;
/// parse_x() returns nothing if the text is malformed.
namespace mrc::inline v0_1::json_file::detail {

/// Bytes: "512B", "64KiB", "64K" (binary both), "1.5MB" (decimal), "4096". Whole bytes only.
[[nodiscard]] std::optional<std::uint64_t> parse_bytes(std::string_view text);

/// "64KiB", "1000B": with the largest binary unit that divides it.
[[nodiscard]] std::string format_bytes(std::uint64_t bytes);

/// "1 to 32", "1 or more". The largest value of the type stands for no limit.
template <class T, class Format>
[[nodiscard]] std::string range_text(T min, T max, Format format) {
  const bool open =
      max == std::numeric_limits<T>::max() || max == std::numeric_limits<T>::infinity();
  return open ? format(min) + " or more" : format(min) + " to " + format(max);
}

/// Whole numbers; reals too where they are whole, as 1e6 is.
template <std::integral T>
[[nodiscard]] T read_integer(const Tree& tree, const Node& node, T min, T max) {
  const auto range = [&] { return range_text(min, max, [](T x) { return std::to_string(x); }); };
  bool negative = node.negative;
  std::uint64_t magnitude = node.magnitude;
  bool fits = true;
  if (node.kind == Node::Kind::real && node.real == std::trunc(node.real)) {
    constexpr double kTwo64 = 18446744073709551616.0;
    negative = node.real < 0;
    fits = std::abs(node.real) < kTwo64;
    if (fits) magnitude = static_cast<std::uint64_t>(std::abs(node.real));
  } else if (node.kind != Node::Kind::integer) {
    tree.fail(node, "is " + shown(node) + ", must be a whole number, " + range());
  }
  // Compares magnitudes: a negative value needs only the negative part of the range, another one
  // only the other part.
  const auto size = [](T x) {
    const auto bits = static_cast<std::uint64_t>(x);
    return std::cmp_less(x, 0) ? 0 - bits : bits;
  };
  if (negative && magnitude > 0)
    fits = fits && std::cmp_less(min, 0) && magnitude <= size(min) &&
           (std::cmp_greater_equal(max, 0) || magnitude >= size(max));
  else
    fits = fits && std::cmp_greater_equal(max, magnitude) && std::cmp_less_equal(min, magnitude);
  if (!fits) tree.fail(node, "is " + shown(node) + ", must be " + range());
  return static_cast<T>(negative ? 0 - magnitude : magnitude);
}

/// A 16-bit number, or one as hexadecimal text, which JSON lacks: "0x0f00".
[[nodiscard]] std::uint16_t read_hex(const Tree& tree, const Node& node);

/// The number of something that has one and is called `prefix` and its number: "h3" with prefix
/// "h". The number alone means the same.
[[nodiscard]] unsigned read_index(const Tree& tree, const Node& node, std::string_view prefix,
                                  unsigned max);

[[nodiscard]] double read_number(const Tree& tree, const Node& node, double min, double max);

/// A time with its unit, "1.5us"; zero needs none.
[[nodiscard]] Duration read_duration(const Tree& tree, const Node& node, Duration min,
                                     Duration max);

[[nodiscard]] std::uint64_t read_bytes(const Tree& tree, const Node& node, std::uint64_t min,
                                       std::uint64_t max);

[[nodiscard]] bool read_boolean(const Tree& tree, const Node& node);

/// What came from the command line is text even where it reads as a number.
[[nodiscard]] std::string read_text(const Tree& tree, const Node& node);

}  // namespace mrc::inline v0_1::json_file::detail
