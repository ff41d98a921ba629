// SPDX-License-Identifier: Apache-2.0
#include "units.hpp"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <cstdlib>
#include <limits>

namespace mrc::perf {
namespace {

std::optional<std::uint64_t> parse_scaled(std::string_view text, std::uint64_t kilo) {
  std::uint64_t number = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc{}) return std::nullopt;
  std::uint64_t unit = 1;
  const std::string_view suffix(rest, static_cast<std::size_t>(end - rest));
  if (suffix == "K" || suffix == "k") {
    unit = kilo;
  } else if (suffix == "M" || suffix == "m") {
    unit = kilo * kilo;
  } else if (suffix == "G" || suffix == "g") {
    unit = kilo * kilo * kilo;
  } else if (!suffix.empty()) {
    return std::nullopt;
  }
  if (number > std::numeric_limits<std::uint64_t>::max() / unit) return std::nullopt;
  return number * unit;
}

}  // namespace

std::optional<std::uint64_t> parse_size(std::string_view text) {
  return parse_scaled(text, 1024);
}
std::optional<std::uint64_t> parse_count(std::string_view text) {
  return parse_scaled(text, 1000);
}

std::optional<Duration> parse_duration(std::string_view text) {
  double number = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc{} || !std::isfinite(number) || number < 0) return std::nullopt;
  const std::string_view suffix(rest, static_cast<std::size_t>(end - rest));
  double unit = 0;
  if (suffix.empty() || suffix == "s") {
    unit = 1e9;
  } else if (suffix == "ms") {
    unit = 1e6;
  } else if (suffix == "us") {
    unit = 1e3;
  } else if (suffix == "ns") {
    unit = 1;
  } else {
    return std::nullopt;
  }
  constexpr double kLongest = 1e9 * 86400 * 365;
  if (number * unit > kLongest) return std::nullopt;
  return Duration{std::llround(number * unit)};
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
