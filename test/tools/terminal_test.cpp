// SPDX-License-Identifier: Apache-2.0
#include "common/terminal.hpp"

#include <doctest/doctest.h>

#include <string>

using mrc::tools::fit;

TEST_CASE("tools: the text of an option goes on under its beginning") {
  CHECK(fit("  --size N          A message of so many bytes\n", 34) ==
        "  --size N          A message of\n"
        "                    so many bytes\n");
  // Filled anew when it was broken for another width.
  CHECK(fit("  --size N          A message of\n"
            "                    so many bytes\n",
            60) == "  --size N          A message of so many bytes\n");
}

TEST_CASE("tools: paragraphs are filled, rows and headings stay") {
  const std::string words = "one two three four five six seven eight nine ten eleven twelve x";
  CHECK(fit(words + "\nthirteen\n\nOptions:\n  a\n  b\n", 80) ==
        words + " thirteen\n\nOptions:\n  a\n  b\n");
  CHECK(fit("Heading:\ntext\n", 80) == "Heading:\ntext\n");
  CHECK(fit("one two three\n", 8) == "one two\nthree\n");
}

TEST_CASE("tools: a row is no part of the paragraph above it") {
  const std::string row =
      "  random_faults {begin, end, max_faults, ...}      bad_cables {share, loss}";
  CHECK(fit(row + "\n  samples    interval, per_host\n", 80) ==
        row + "\n  samples    interval, per_host\n");
}

TEST_CASE("tools: what can't be broken is left whole") {
  CHECK(fit("unbreakable-word next", 5) == "unbreakable-word\nnext\n");
  CHECK(fit("", 40).empty());
  CHECK(fit("\n\n", 40) == "\n\n");
}
