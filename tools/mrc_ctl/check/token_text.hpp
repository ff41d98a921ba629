// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <optional>
#include <string>
#include <string_view>

#include "mrc_ctl/check/probe_packet.hpp"

namespace mrc::check_tool {

/// In hexadecimal digits.
[[nodiscard]] inline std::string token_text(const Token& token) {
  std::string text;
  for (const std::uint8_t byte : token) text += fmt::format("{:02x}", byte);
  return text;
}

/// Nothing if the text is none.
[[nodiscard]] inline std::optional<Token> token_from(std::string_view text) {
  Token token;
  if (text.size() != 2 * token.size()) return std::nullopt;
  const auto digit = [](char c) {
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
  };
  for (std::size_t i = 0; i < token.size(); ++i) {
    const int high = digit(text[2 * i]), low = digit(text[2 * i + 1]);
    if (high < 0 || low < 0) return std::nullopt;
    token[i] = static_cast<std::uint8_t>(high << 4 | low);
  }
  return token;
}

}  // namespace mrc::check_tool
