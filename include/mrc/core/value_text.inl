// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <charconv>
#include <cmath>
#include <system_error>
#include <utility>

#include "mrc/core/error.hpp"
#include "mrc/core/value_text.hpp"

namespace mrc::inline v0_1 {

namespace detail {

/// Cuts a number of type T off the front of `text`; what follows it remains. No sign '+', no
/// blanks, no "inf" or "nan".
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

/// The shift of a binary suffix: K, M or G, upper or lower case, "Ki" and "KiB" too; 0 for none.
[[nodiscard]] inline std::optional<unsigned> size_shift(std::string_view suffix) {
  if (suffix.empty()) return 0;
  const std::string_view rest = suffix.substr(1);
  if (!rest.empty() && rest != "i" && rest != "iB") return std::nullopt;
  const auto letter = std::string_view("KkMmGg").find(suffix[0]);
  if (letter == std::string_view::npos) return std::nullopt;
  return 10 * static_cast<unsigned>(letter / 2 + 1);
}

/// Cuts the prefix "0x" off and returns the base that it means.
[[nodiscard]] inline int take_base(std::string_view& text) {
  if (text.size() <= 2 || text[0] != '0' || (text[1] != 'x' && text[1] != 'X')) return 10;
  text.remove_prefix(2);
  return 16;
}

std::optional<double> take_real(std::string_view& text) {
  return take_number<double>(text);
}

std::optional<std::uint64_t> parse_unsigned(std::string_view text, std::uint64_t max) {
  const int base = take_base(text);
  const auto number = take_number<std::uint64_t>(text, base);
  const auto shift = size_shift(text);
  if (!number || !shift || *number > max >> *shift) return std::nullopt;
  return *number << *shift;
}

std::optional<std::int64_t> parse_signed(std::string_view text, std::int64_t min,
                                         std::int64_t max) {
  const int base = take_base(text);
  const auto number = take_number<std::int64_t>(text, base);
  const auto shift = size_shift(text);
  // Negative numbers take no suffix.
  if (!number || !shift || *number < (*shift > 0 ? 0 : min) || *number > max >> *shift)
    return std::nullopt;
  return *number << *shift;
}

}  // namespace detail

std::optional<double> parse_real(std::string_view text) {
  const auto number = detail::take_real(text);
  if (!number || !text.empty() || !std::isfinite(*number)) return std::nullopt;
  return number;
}

std::optional<Duration> parse_duration(std::string_view text) {
  const auto number = detail::take_real(text);
  if (!number || !std::isfinite(*number)) return std::nullopt;
  const double unit = text == "ns"   ? 1
                      : text == "us" ? 1e3
                      : text == "ms" ? 1e6
                      : text == "s"  ? 1e9
                                     : 0;
  if (unit == 0 && !(text.empty() && *number == 0)) return std::nullopt;
  const double ns = std::round(*number * unit);
  if (std::abs(ns) > 9e18) return std::nullopt;  // just below what 64 bits hold
  return Duration{static_cast<Duration::rep>(ns)};
}

std::optional<bool> parse_bool(std::string_view text) {
  if (text == "on" || text == "true" || text == "1") return true;
  if (text == "off" || text == "false" || text == "0") return false;
  return std::nullopt;
}

std::optional<std::vector<unsigned>> parse_cpu_list(std::string_view text) {
  const auto elements = parse_list(text);
  if (!elements) return std::nullopt;
  std::vector<unsigned> cpus;
  for (const std::string& element : *elements) {
    const auto dash = element.find('-');
    const auto first = parse_integer<unsigned>(element.substr(0, dash));
    const auto last =
        dash == std::string::npos ? first : parse_integer<unsigned>(element.substr(dash + 1));
    if (!first || !last || *first > *last || *last >= kMaxCpus) return std::nullopt;
    for (unsigned cpu = *first; cpu <= *last; ++cpu) cpus.push_back(cpu);
  }
  return cpus;
}

std::optional<std::vector<std::string>> parse_list(std::string_view text) {
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

std::string format_size(std::uint64_t bytes) {
  for (const auto& [shift, suffix] : {std::pair{30u, "G"}, {20u, "M"}, {10u, "K"}})
    if (bytes != 0 && (bytes & ((std::uint64_t{1} << shift) - 1)) == 0)
      return std::to_string(bytes >> shift) + suffix;
  return std::to_string(bytes);
}

std::string format_duration(Duration duration) {
  const auto ns = duration.count();
  if (ns == 0) return "0";
  for (const auto& [unit, suffix] :
       {std::pair{1'000'000'000, "s"}, {1'000'000, "ms"}, {1'000, "us"}})
    if (ns % unit == 0) return std::to_string(ns / unit) + suffix;
  return std::to_string(ns) + "ns";
}

std::string format_real(double number) {
  char text[32];
  const auto end = std::to_chars(text, text + sizeof text, number).ptr;
  return {text, end};
}

const char* ErrorCategory::name() const noexcept {
  return "mrc";
}

std::string ErrorCategory::message(int e) const {
  return to_string(static_cast<Errc>(e));
}

const std::error_category& error_category() noexcept {
  static const ErrorCategory category;
  return category;
}

}  // namespace mrc::inline v0_1
