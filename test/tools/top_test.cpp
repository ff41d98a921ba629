// SPDX-License-Identifier: Apache-2.0
// The picture of `mrc_ctl top`, in a terminal of 80 columns.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "mrc_ctl/top_pictures.hpp"

namespace top_test {

using namespace mrc::ctl_tool;

Row busy_row(int i) {
  Row row;
  row.id = std::to_string(i);
  row.title = "all_reduce_perf (pid " + std::to_string(4'194'304 - i) + ")";
  row.tx = i == 0 ? 399.9e9 : 1e6;
  row.rx = 123;
  row.again = 12'345;
  row.rtt_us = 123'456;
  row.window_k = 12'345;
  row.queue_pairs = 1024;
  row.paths = row.paths_up = 128;
  row.planes.assign(8, {1e6, 2e9});
  row.states.assign(8, "up");
  return row;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = text.find('\n', at);
    lines.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return lines;
}

TEST_CASE("top: a table of 80 columns, in one piece") {
  const std::vector<Row> rows{busy_row(0), busy_row(1)};
  const std::string text = overview_text(rows, 1, 3, 21, 80);
  CAPTURE(text);
  const auto lines = lines_of(text);
  for (const std::string& line : lines) CHECK(line.size() <= 80);
  REQUIRE(lines.size() > 5);
  CHECK(lines[0] ==
        "mrc_ctl top: 2 devices, sending 399.9 Gb/s, receiving 246 b/s, 3 silent or slow");
  CHECK(lines[2].find("paths up") != std::string::npos);
  CHECK(lines[3].starts_with("  all_"));
  CHECK(lines[3].find(" 4194304 ") != std::string::npos);
  CHECK(lines[3].find("399.9 G") != std::string::npos);
  CHECK(lines[3].ends_with("128/128"));
  CHECK(lines[4].starts_with("> all_"));
  CHECK(lines[4].find(" 1.0 M ") != std::string::npos);
  CHECK(text.find("arrows") == std::string::npos);
  // Where there is room, names are whole.
  CHECK(overview_text(rows, 0, 0, 21, 200).find("> all_reduce_perf 4194304") != std::string::npos);
}

TEST_CASE("top: of many processes those around the selected one, and how many there are") {
  std::vector<Row> rows;
  for (int i = 0; i < 50; ++i) rows.push_back(busy_row(i));
  for (const std::size_t selected : {0u, 20u, 49u}) {
    CAPTURE(selected);
    const std::string text = overview_text(rows, selected, 0, 30, 80);
    const auto lines = lines_of(text);
    CHECK(lines.size() <= 30);
    const auto shown = std::count_if(lines.begin(), lines.end(), [](const std::string& line) {
      return line.ends_with("128/128");
    });
    const std::size_t last = std::max<std::size_t>(static_cast<std::size_t>(shown), selected + 1);
    CHECK(text.find("  " + std::to_string(last - static_cast<std::size_t>(shown) + 1) + " to " +
                    std::to_string(last) + " of 50: arrows show the others\n") !=
          std::string::npos);
    CHECK(text.find("> all_") != std::string::npos);
  }
}

}  // namespace top_test
