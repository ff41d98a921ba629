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
#include "mrc/core/value_text.hpp"
#include "mrc/json/tree.hpp"

/// Values of a file as C++ values, held to limits. What reads throws the error of the field; what
/// parses a text answers nothing if it is malformed.
namespace mrc::inline v0_1::json_file::detail {

/// Bytes: "512B", "64KiB", "64K" (binary both), "1.5MB" (decimal), "4096". Whole bytes only.
[[nodiscard]] inline std::optional<std::uint64_t> parse_bytes(std::string_view text) {
  const auto number = mrc::detail::take_number<double>(text);
  if (!number || !(*number >= 0)) return std::nullopt;
  double unit = 1;
  if (!text.empty() && text != "B") {
    const std::size_t power = std::string_view("KMGT").find(text[0] == 'k' ? 'K' : text[0]);
    const std::string_view rest = text.substr(1);
    if (power == std::string_view::npos || (!rest.empty() && rest != "B" && rest != "iB"))
      return std::nullopt;
    for (std::size_t i = 0; i <= power; ++i) unit *= rest == "B" ? 1000 : 1024;
  }
  const double bytes = *number * unit;
  constexpr double kExact = 9007199254740992;  // 2^53: whole numbers are exact up to here
  if (!(bytes <= kExact) || bytes != std::floor(bytes)) return std::nullopt;
  return static_cast<std::uint64_t>(bytes);
}

/// "64KiB", "1000B": with the largest binary unit that divides it.
[[nodiscard]] inline std::string format_bytes(std::uint64_t bytes) {
  const std::string text = format_size(bytes);
  const bool has_unit = text.back() < '0' || text.back() > '9';
  return text + (has_unit ? "iB" : "B");
}

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
  // Of signed limits only the part on the value's side of zero matters.
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
[[nodiscard]] inline std::uint16_t read_hex(const Tree& tree, const Node& node) {
  // Of a wider type, whose largest value would stand for no limit.
  if (node.kind != Node::Kind::text)
    return static_cast<std::uint16_t>(read_integer<std::uint32_t>(tree, node, 0, 0xFFFF));
  if (const auto number = parse_hex(node.text)) return *number;
  tree.fail(node, "is " + shown(node) + ", must be a number or a text, \"0x0000\" to \"0xffff\"");
}

[[nodiscard]] inline double read_number(const Tree& tree, const Node& node, double min,
                                        double max) {
  const bool number = node.kind == Node::Kind::integer || node.kind == Node::Kind::real;
  if (number && node.real >= min && node.real <= max) return node.real;
  const std::string range = range_text(min, max, number_text);
  tree.fail(node, "is " + shown(node) + ", must be " + (number ? "" : "a number, ") + range);
}

/// A time with its unit, "1.5us"; zero needs none.
[[nodiscard]] inline Duration read_duration(const Tree& tree, const Node& node, Duration min,
                                            Duration max) {
  std::optional<Duration> time;
  if (node.kind == Node::Kind::text) time = parse_duration(node.text);
  if (node.kind == Node::Kind::integer && node.magnitude == 0) time = Duration::zero();
  if (time && *time >= min && *time <= max) return *time;
  const std::string range =
      range_text(min.count(), max.count(), [](auto ns) { return format_duration(Duration{ns}); });
  tree.fail(node, "is " + shown(node) + ", must be " +
                      (time ? "" : "a time with its unit (ns, us, ms, s), ") + range);
}

[[nodiscard]] inline std::uint64_t read_bytes(const Tree& tree, const Node& node, std::uint64_t min,
                                              std::uint64_t max) {
  std::optional<std::uint64_t> bytes;
  if (node.kind == Node::Kind::text) bytes = parse_bytes(node.text);
  if (node.kind == Node::Kind::integer && !node.negative) bytes = node.magnitude;
  if (node.kind == Node::Kind::real) bytes = parse_bytes(node.text);
  if (bytes && *bytes >= min && *bytes <= max) return *bytes;
  const std::string range = range_text(min, max, format_bytes);
  tree.fail(node, "is " + shown(node) + ", must be " +
                      (bytes ? "" : "a size (4096, \"64KiB\", \"1MB\"), ") + range);
}

[[nodiscard]] inline bool read_boolean(const Tree& tree, const Node& node) {
  if (node.kind == Node::Kind::boolean) return node.truth;
  tree.fail(node, "is " + shown(node) + ", must be true or false");
}

/// What came from the command line is text even where it reads as a number.
[[nodiscard]] inline std::string read_text(const Tree& tree, const Node& node) {
  const bool nested = node.kind == Node::Kind::list || node.kind == Node::Kind::object;
  if (node.kind == Node::Kind::text || (node.from_set && !nested)) return node.text;
  tree.fail(node, "is " + shown(node) + ", must be a text");
}

}  // namespace mrc::inline v0_1::json_file::detail
