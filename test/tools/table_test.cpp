// SPDX-License-Identifier: Apache-2.0
#include "common/table.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <sstream>
#include <string>
#include <vector>

using mrc::tools::table_text;
using mrc::tools::TableColumn;

namespace table_test {

std::vector<TableColumn> wide() {
  return {{"name", true, {"a", "bcd"}},
          {"sent", false, {"10", "2000"}},
          {"lost", false, {"0", "-"}},
          {"bytes", false, {"123456789", "1"}}};
}

std::size_t longest_line(const std::string& text) {
  std::istringstream lines(text);
  std::size_t most = 0;
  for (std::string line; std::getline(lines, line);) most = std::max(most, line.size());
  return most;
}

TEST_CASE("tools: a table that fits shows every column") {
  CHECK(table_text(wide(), 80) ==
        "name  sent  lost      bytes\n"
        "a       10     0  123456789\n"
        "bcd   2000     -          1\n");
}

TEST_CASE("tools: a table that is too wide leaves out what has no value, and says so") {
  const std::string text = table_text(wide(), 24);
  CHECK(text.find("name  sent      bytes\n") == 0);
  CHECK(text.find("(nothing to show of: lost)\n") != text.npos);
  CHECK(longest_line(table_text(wide(), 26)) <= 26);
}

TEST_CASE("tools: then it goes on in a block below, with names") {
  CHECK(table_text(wide(), 16).find("name  sent\na       10\nbcd   2000\n\nname      bytes\n") ==
        0);
}

}  // namespace table_test
