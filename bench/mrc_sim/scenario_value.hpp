// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <cmath>
#include <concepts>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "mrc/core/time.hpp"
#include "mrc/device/option_value.hpp"
#include "mrc_sim/scenario_tree.hpp"

/// Values of a scenario as C++ values, with their limits. Nothing: the value is of another kind.
namespace mrc::bench::detail {

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
[[nodiscard]] T read_integer(const ScenarioTree& tree, const ScenarioNode& node, T min, T max) {
  const auto range = [&] { return range_text(min, max, [](T x) { return fmt::format("{}", x); }); };
  bool negative = node.negative;
  std::uint64_t magnitude = node.magnitude;
  bool fits = true;
  if (node.kind == ScenarioNode::Kind::real && node.real == std::trunc(node.real)) {
    constexpr double kTwo64 = 18446744073709551616.0;
    negative = node.real < 0;
    fits = std::abs(node.real) < kTwo64;
    if (fits) magnitude = static_cast<std::uint64_t>(std::abs(node.real));
  } else if (node.kind != ScenarioNode::Kind::integer) {
    tree.fail(node, fmt::format("is {}, must be a whole number, {}", shown(node), range()));
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
  if (!fits) tree.fail(node, fmt::format("is {}, must be {}", shown(node), range()));
  return static_cast<T>(negative ? 0 - magnitude : magnitude);
}

[[nodiscard]] inline double read_number(const ScenarioTree& tree, const ScenarioNode& node,
                                        double min, double max) {
  const bool number =
      node.kind == ScenarioNode::Kind::integer || node.kind == ScenarioNode::Kind::real;
  if (number && node.real >= min && node.real <= max) return node.real;
  const std::string range = range_text(min, max, [](double x) { return fmt::format("{}", x); });
  tree.fail(node,
            fmt::format("is {}, must be {}{}", shown(node), number ? "" : "a number, ", range));
}

/// A time with its unit, "1.5us"; zero needs none.
[[nodiscard]] inline Duration read_duration(const ScenarioTree& tree, const ScenarioNode& node,
                                            Duration min, Duration max) {
  std::optional<Duration> time;
  if (node.kind == ScenarioNode::Kind::text) time = parse_duration(node.text);
  if (node.kind == ScenarioNode::Kind::integer && node.magnitude == 0) time = Duration::zero();
  if (time && *time >= min && *time <= max) return *time;
  const std::string range =
      range_text(min.count(), max.count(), [](auto ns) { return format_duration(Duration{ns}); });
  tree.fail(node, fmt::format("is {}, must be {}{}", shown(node),
                              time ? "" : "a time with its unit (ns, us, ms, s), ", range));
}

[[nodiscard]] inline std::uint64_t read_bytes(const ScenarioTree& tree, const ScenarioNode& node,
                                              std::uint64_t min, std::uint64_t max) {
  std::optional<std::uint64_t> bytes;
  if (node.kind == ScenarioNode::Kind::text) bytes = parse_bytes(node.text);
  if (node.kind == ScenarioNode::Kind::integer && !node.negative) bytes = node.magnitude;
  if (node.kind == ScenarioNode::Kind::real) bytes = parse_bytes(node.text);
  if (bytes && *bytes >= min && *bytes <= max) return *bytes;
  const std::string range = range_text(min, max, format_bytes);
  tree.fail(node, fmt::format("is {}, must be {}{}", shown(node),
                              bytes ? "" : "a size (4096, \"64KiB\", \"1MB\"), ", range));
}

[[nodiscard]] inline bool read_boolean(const ScenarioTree& tree, const ScenarioNode& node) {
  if (node.kind == ScenarioNode::Kind::boolean) return node.truth;
  tree.fail(node, fmt::format("is {}, must be true or false", shown(node)));
}

/// What came from the command line is text even where it reads as a number.
[[nodiscard]] inline std::string read_text(const ScenarioTree& tree, const ScenarioNode& node) {
  const bool nested =
      node.kind == ScenarioNode::Kind::list || node.kind == ScenarioNode::Kind::object;
  if (node.kind == ScenarioNode::Kind::text || (node.from_set && !nested)) return node.text;
  tree.fail(node, fmt::format("is {}, must be a text", shown(node)));
}

}  // namespace mrc::bench::detail
