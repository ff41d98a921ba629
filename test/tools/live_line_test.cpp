// SPDX-License-Identifier: Apache-2.0
#include "mrc_perf/live_line.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

using mrc::perf::live_line;
using mrc::perf::LiveLine;

namespace live_line_test {

LiveLine line_of(std::vector<double> shares) {
  for (double& share : shares) share *= 123.45;
  return {3600.5, 123.45, 3.7654, 12345, std::move(shares)};
}

std::size_t columns(const std::string& text) {  // of UTF-8: bytes that begin a character
  std::size_t n = 0;
  for (const unsigned char c : text) n += (c & 0xC0) != 0x80;
  return n;
}

std::size_t filled(const std::string& text, std::size_t plane) {  // '#' in the bar of `plane`
  std::size_t at = 0;
  for (std::size_t i = 0; i <= plane; ++i) at = text.find('|', at) + 1;
  std::size_t n = 0;
  while (text[at + n] == '#') ++n;
  return n;
}

TEST_CASE("tools: live lines fit the terminal, with any number of planes") {
  for (std::size_t planes = 1; planes <= 32; ++planes) {
    const LiveLine line = line_of(std::vector<double>(planes, 1.0 / static_cast<double>(planes)));
    for (const std::size_t width : {60, 80, 100, 146, 200})
      for (const bool unicode : {false, true}) {
        CAPTURE(planes);
        CAPTURE(width);
        CHECK(columns(live_line(line, width, unicode)) <= width);
      }
  }
}

TEST_CASE("tools: eight planes have bars in 80 columns") {
  const std::string text = live_line(line_of(std::vector<double>(8, 0.125)), 80, false);
  CHECK(std::count(text.begin(), text.end(), '|') == 8);
  CHECK(text.find(" 12") != text.npos);
}

TEST_CASE("tools: bars are to scale, and say so when they can't be") {
  const std::string text = live_line(line_of({0.0, 0.125, 0.25, 0.625}), 80, false);
  CHECK(filled(text, 0) == 0);
  CHECK(filled(text, 1) * 2 == filled(text, 2));
  CHECK(filled(text, 2) >= 4);
  CHECK(text.find('>') != text.npos);
  CHECK(live_line(line_of({0.5, 0.5}), 80, false).find('>') == std::string::npos);
}

}  // namespace live_line_test
