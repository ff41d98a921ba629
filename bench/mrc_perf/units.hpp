// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "mrc/core/types.hpp"

/// Numbers with units, as mrc/core/value_text.hpp reads them, and what a command line adds.
namespace mrc::perf {

/// Bytes: "4096", "64K", "64KiB", "2G" (binary). Empty on malformed text.
[[nodiscard]] std::optional<std::uint64_t> parse_size(std::string_view text);
/// A count: "5000", "5K", "2M", "1G", "1T" (decimal).
[[nodiscard]] std::optional<std::uint64_t> parse_count(std::string_view text);
/// Bits per second: "800000", "500M", "2.5G", "1T" (decimal); rounded.
[[nodiscard]] std::optional<std::uint64_t> parse_rate(std::string_view text);
/// A time: "10" is seconds; "500ms", "20us", "1.5s", "100ns".
[[nodiscard]] std::optional<Duration> parse_duration(std::string_view text);

/// "64 KiB" or "1000 B".
[[nodiscard]] std::string size_text(std::uint64_t bytes);
/// The text as it may be shown on a terminal, whoever sent it: other than printable ASCII becomes
/// '?', and it ends after 200 characters.
[[nodiscard]] std::string printable(std::string_view text);
/// The non-empty elements of a list.
[[nodiscard]] std::vector<std::string> split(std::string_view text, char separator);

[[nodiscard]] inline double seconds(Duration d) noexcept {
  return std::chrono::duration<double>(d).count();
}
[[nodiscard]] inline double microseconds(Duration d) noexcept {
  return std::chrono::duration<double, std::micro>(d).count();
}
/// Gb/s; 0 when no time has passed.
[[nodiscard]] inline double gbps(std::uint64_t bytes, Duration time) noexcept {
  return time.count() <= 0 ? 0 : static_cast<double>(bytes) * 8 / static_cast<double>(time.count());
}

}  // namespace mrc::perf
