// SPDX-License-Identifier: Apache-2.0
#include "units.hpp"

#include <fmt/format.h>

#include <cctype>
#include <chrono>
#include <limits>

#include "mrc/core/value_text.hpp"

namespace mrc::perf {

std::optional<std::uint64_t> parse_size(std::string_view text) {
  return parse_integer<std::uint64_t>(text);
}

namespace {

/// Takes a decimal unit, K, M, G or T, from the end of the text; 1 if there is none.
std::uint64_t take_unit(std::string_view& text) {
  constexpr std::string_view kUnits = "kmgt";
  if (text.empty()) return 1;
  std::size_t at =
      kUnits.find(static_cast<char>(std::tolower(static_cast<unsigned char>(text.back()))));
  if (at == text.npos) return 1;
  text.remove_suffix(1);
  std::uint64_t unit = 1000;
  for (; at > 0; --at) unit *= 1000;
  return unit;
}

}  // namespace

std::optional<std::uint64_t> parse_count(std::string_view text) {
  const std::uint64_t unit = take_unit(text);
  if (text.empty() || text.find_first_not_of("0123456789") != text.npos) return std::nullopt;
  const auto number = parse_integer<std::uint64_t>(text);
  if (!number || *number > std::numeric_limits<std::uint64_t>::max() / unit) return std::nullopt;
  return *number * unit;
}

std::optional<std::uint64_t> parse_rate(std::string_view text) {
  constexpr double kMost = 1e18;
  const auto unit = static_cast<double>(take_unit(text));
  const auto number = parse_real(text);
  if (!number || !(*number >= 0 && *number * unit <= kMost)) return std::nullopt;
  return static_cast<std::uint64_t>(*number * unit + 0.5);
}

std::optional<Duration> parse_duration(std::string_view text) {
  constexpr Duration kLongest = std::chrono::hours(24 * 365);
  const auto time =
      parse_real(text) ? mrc::parse_duration(std::string(text) + "s") : mrc::parse_duration(text);
  if (!time || *time < Duration{} || *time > kLongest) return std::nullopt;
  return time;
}

std::string size_text(std::uint64_t bytes) {
  constexpr std::uint64_t kKilo = 1024;
  if (bytes >= kKilo * kKilo * kKilo && bytes % (kKilo * kKilo * kKilo) == 0)
    return fmt::format("{} GiB", bytes / (kKilo * kKilo * kKilo));
  if (bytes >= kKilo * kKilo && bytes % (kKilo * kKilo) == 0)
    return fmt::format("{} MiB", bytes / (kKilo * kKilo));
  if (bytes >= kKilo && bytes % kKilo == 0) return fmt::format("{} KiB", bytes / kKilo);
  return fmt::format("{} B", bytes);
}

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  while (!text.empty()) {
    const auto at = text.find(separator);
    if (at != 0) parts.emplace_back(text.substr(0, at));
    if (at == std::string_view::npos) break;
    text.remove_prefix(at + 1);
  }
  return parts;
}

std::string printable(std::string_view text) {
  constexpr std::size_t kMost = 200;
  std::string clean(text.substr(0, kMost));
  for (char& c : clean)
    if (c < ' ' || c > '~') c = '?';
  if (text.size() > kMost) clean += "...";
  return clean;
}

}  // namespace mrc::perf
