// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>

/// Texts of the messages about a file.
namespace mrc::inline v0_1::json_file {

/// Names in alphabetical order.
using Names = std::set<std::string, std::less<>>;

/// Text as it can stand in a message: no control characters, and "..." in place of what is beyond
/// `limit` bytes.
[[nodiscard]] std::string printable(std::string_view text, std::size_t limit = 40);

/// A number as a person writes it: 100000 and 0.001, and powers of ten only where it is long.
[[nodiscard]] std::string number_text(double number);

/// "0x00f0".
[[nodiscard]] std::string hex_text(std::uint16_t number);

/// What hex_text() writes, with one to four digits. Nothing for any other text.
[[nodiscard]] std::optional<std::uint16_t> parse_hex(std::string_view text);

/// "a, b, c".
template <class Range>
[[nodiscard]] std::string joined(const Range& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

/// Of all `names` the one that `typed` is most likely a slip of; empty if none is near.
[[nodiscard]] std::string nearest_name(std::string_view typed, const Names& names);

}  // namespace mrc::inline v0_1::json_file
