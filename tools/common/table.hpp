// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace mrc::tools {

/// A column of a table, with a cell per row.
struct TableColumn {
  std::string head;
  bool left = false;  ///< aligned left, as text is
  std::vector<std::string> cells;
};

namespace detail {

[[nodiscard]] inline std::size_t column_width(const TableColumn& column) {
  std::size_t width = column.head.size();
  for (const std::string& cell : column.cells) width = std::max(width, cell.size());
  return width;
}

[[nodiscard]] inline bool is_empty(const TableColumn& column) {
  return std::all_of(column.cells.begin(), column.cells.end(), [](const std::string& cell) {
    return cell.empty() || cell == "0" || cell == "-";
  });
}

/// Columns 0 and `first` .. `end` - 1.
inline void put_columns(std::string& out, const std::vector<TableColumn>& columns,
                        std::size_t first, std::size_t end) {
  const auto put_line = [&](auto text_of) {
    std::string line;
    for (std::size_t c = 0; c < end; c = c == 0 ? first : c + 1) {
      const std::size_t width = column_width(columns[c]);
      line += columns[c].left ? fmt::format("{:<{}}  ", text_of(columns[c]), width)
                              : fmt::format("{:>{}}  ", text_of(columns[c]), width);
    }
    out += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  };
  put_line([](const TableColumn& column) { return column.head; });
  for (std::size_t row = 0; row < columns[0].cells.size(); ++row)
    put_line([row](const TableColumn& column) { return column.cells[row]; });
}

}  // namespace detail

/// Columns that the table needs.
[[nodiscard]] inline std::size_t table_width(const std::vector<TableColumn>& columns) {
  std::size_t sum = 0;
  for (const TableColumn& column : columns) sum += detail::column_width(column) + 2;
  return sum - 2;
}

/// Where the table is wider than `width`: removes columns without a value in any row, and returns
/// their heads.
inline std::string drop_empty(std::vector<TableColumn>& columns, std::size_t width) {
  std::string dropped;
  if (table_width(columns) <= width) return dropped;
  std::vector<TableColumn> kept;
  for (TableColumn& column : columns) {
    if (kept.empty() || !detail::is_empty(column))
      kept.push_back(std::move(column));
    else if (!column.head.empty())
      dropped += (dropped.empty() ? "" : ", ") + column.head;
  }
  columns = std::move(kept);
  return dropped;
}

/// The table, in lines of at most `width` columns if the cells allow it. Where all columns together
/// are wider, those without a value in any row are left out, which a last line says; if that is not
/// enough, the others go below each other in blocks, with the first column in each.
[[nodiscard]] inline std::string table_text(std::vector<TableColumn> columns, std::size_t width) {
  const std::string dropped = drop_empty(columns, width);
  std::string out;
  for (std::size_t first = 1; first < columns.size();) {
    std::size_t end = first, used = detail::column_width(columns[0]);
    while (end < columns.size() &&
           (end == first || used + 2 + detail::column_width(columns[end]) <= width))
      used += 2 + detail::column_width(columns[end++]);
    if (first > 1) out += "\n";
    detail::put_columns(out, columns, first, end);
    first = end;
  }
  if (!dropped.empty()) out += fmt::format("(nothing to show of: {})\n", dropped);
  return out;
}

}  // namespace mrc::tools
