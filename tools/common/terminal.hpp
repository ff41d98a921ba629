// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace mrc::tools {

/// Columns of standard output, 40 at least: those of the terminal; where there is none, of the
/// variable COLUMNS; else `otherwise`.
[[nodiscard]] inline std::size_t output_width(std::size_t otherwise = 80) {
  std::size_t columns = 0;
  winsize window{};
  if (::isatty(STDOUT_FILENO) != 0 && ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &window) == 0)
    columns = window.ws_col;
  if (const char* variable = std::getenv("COLUMNS"); columns == 0 && variable != nullptr)
    columns = std::strtoul(variable, nullptr, 10);
  return std::max<std::size_t>(columns == 0 ? otherwise : columns, 40);
}

/// For tables: a file, or a program that reads them, wants whole rows.
inline constexpr std::size_t kUnlimitedWidth = 100'000;

namespace detail {

/// One row or paragraph.
struct Block {
  std::string text;
  std::size_t column;  ///< where its further lines begin
  bool row;            ///< of two columns, as in "  --name TYPE    what it does"
};

[[nodiscard]] inline Block begin_block(std::string_view line) {
  const std::size_t indent = std::min(line.find_first_not_of(' '), line.size());
  constexpr std::size_t kMostIndent = 32;  // what is further to the right is no second column
  const std::size_t gap = line.find("  ", indent);
  if (gap == line.npos || gap >= kMostIndent) return {std::string(line), indent, false};
  return {std::string(line), line.find_first_not_of(' ', gap), true};
}

inline void put_block(std::string& out, const Block& block, std::size_t width) {
  std::string_view rest = block.text;
  std::size_t start = 0;  // column at which `rest` is put
  while (start + rest.size() > width) {
    // The last blank that fits, but not one in front of the text.
    const std::size_t least = start == 0 ? std::min(block.column, rest.size()) : 0;
    std::size_t at = rest.rfind(' ', width - start);
    if (at == rest.npos || at <= least) at = rest.find(' ', least + 1);  // a word that is too long
    if (at == rest.npos) break;
    out.append(rest.substr(0, std::min(rest.find_last_not_of(' ', at) + 1, at)));
    out += '\n';
    out.append(block.column, ' ');
    start = block.column;
    rest.remove_prefix(std::min(rest.find_first_not_of(' ', at), rest.size()));
  }
  out.append(rest);
  out += '\n';
}

}  // namespace detail

/// `text` with no line longer than `width`, where words allow it. Lines that continue the one
/// before, because they begin where its text does or are a paragraph's, are filled anew; rows,
/// indented lines and empty lines stay lines of their own.
[[nodiscard]] inline std::string fit(std::string_view text, std::size_t width) {
  constexpr std::size_t kFullLine = 64;  // a shorter line of a paragraph ends there on purpose
  std::vector<detail::Block> blocks;
  std::size_t last_size = 0;  // of the line before; 0: nothing continues it
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    line = line.substr(0, line.find_last_not_of(' ') + 1);
    const std::size_t indent = std::min(line.find_first_not_of(' '), line.size());
    detail::Block block = detail::begin_block(line);
    const bool continues = !line.empty() && last_size > 0 && indent == blocks.back().column &&
                           (blocks.back().row || (last_size >= kFullLine && !block.row));
    if (continues) {
      blocks.back().text.append(" ").append(line.substr(indent));
    } else {
      blocks.push_back(std::move(block));
    }
    last_size = line.size();
  }
  std::string out;
  for (const detail::Block& block : blocks) detail::put_block(out, block, width);
  return out;
}

}  // namespace mrc::tools
