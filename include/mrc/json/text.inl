// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <charconv>
#include <cmath>
#include <system_error>
#include <vector>

#include "mrc/json/text.hpp"

namespace mrc::inline v0_1::json_file {

std::string printable(std::string_view text, std::size_t limit) {
  std::string out;
  for (const char c : text.substr(0, limit))
    out += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? '?' : c;
  if (text.size() <= limit) return out;
  // No incomplete UTF-8 sequence at the end.
  while (!out.empty() && (static_cast<unsigned char>(out.back()) & 0xc0) == 0x80) out.pop_back();
  if (!out.empty() && static_cast<unsigned char>(out.back()) >= 0xc0) out.pop_back();
  return out + "...";
}

std::string number_text(double number) {
  const double size = std::abs(number);
  const bool plain = size == 0 || (size >= 1e-4 && size < 1e16);
  const auto format = plain ? std::chars_format::fixed : std::chars_format::scientific;
  char text[32];
  const std::to_chars_result done = std::to_chars(text, text + sizeof text, number, format);
  return {text, static_cast<std::size_t>(done.ptr - text)};
}

std::string hex_text(std::uint16_t number) {
  std::string text = "0x";
  for (int shift = 12; shift >= 0; shift -= 4) text += "0123456789abcdef"[number >> shift & 0xf];
  return text;
}

std::optional<std::uint16_t> parse_hex(std::string_view text) {
  if (!text.starts_with("0x") || text.size() > 6) return std::nullopt;
  std::uint16_t number = 0;
  const char* const end = text.data() + text.size();
  const std::from_chars_result done = std::from_chars(text.data() + 2, end, number, 16);
  if (done.ec != std::errc{} || done.ptr != end) return std::nullopt;
  return number;
}

std::string nearest_name(std::string_view typed, const Names& names) {
  constexpr std::size_t kLongest = 64;
  if (typed.size() > kLongest) return {};
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; };
  std::string best;
  std::size_t best_distance = typed.size() / 3 + 2;
  for (const std::string& name : names) {
    if (name.size() > kLongest) continue;
    // Edit distance, with two neighbours swapped as one edit; the last three rows are enough.
    std::vector<std::size_t> before(name.size() + 1);
    std::vector<std::size_t> above(name.size() + 1);
    std::vector<std::size_t> row(name.size() + 1);
    for (std::size_t j = 0; j <= name.size(); ++j) row[j] = j;
    for (std::size_t i = 1; i <= typed.size(); ++i) {
      before.swap(above);
      above.swap(row);
      row[0] = i;
      for (std::size_t j = 1; j <= name.size(); ++j) {
        const bool same = lower(typed[i - 1]) == lower(name[j - 1]);
        row[j] = std::min({above[j] + 1, row[j - 1] + 1, above[j - 1] + (same ? 0 : 1)});
        if (i > 1 && j > 1 && lower(typed[i - 1]) == lower(name[j - 2]) &&
            lower(typed[i - 2]) == lower(name[j - 1]))
          row[j] = std::min(row[j], before[j - 2] + 1);
      }
    }
    if (row[name.size()] < best_distance && row[name.size()] < name.size()) {
      best = name;
      best_distance = row[name.size()];
    }
  }
  return best;
}

}  // namespace mrc::inline v0_1::json_file
