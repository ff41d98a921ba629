// SPDX-License-Identifier: Apache-2.0
// docs/nccl_plugin.md lists the variables that the plugin reads.
#include "nccl_plugin/settings/variables.hpp"

#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace variables_test {

TEST_CASE("the page about the plugin lists its variables") {
  const std::string begin_mark = "<!-- variables: made by test/nccl/variables_test.cpp -->\n";
  const std::string end_mark = "<!-- end of variables -->";
  const auto path = std::filesystem::path(__FILE__).parent_path().parent_path().parent_path() /
                    "docs" / "nccl_plugin.md";
  std::ifstream file(path);
  REQUIRE_MESSAGE(file.good(), path.string());
  std::string text{std::istreambuf_iterator<char>(file), {}};
  const auto begin = text.find(begin_mark), end = text.find(end_mark);
  REQUIRE_MESSAGE((begin != std::string::npos && end != std::string::npos && begin < end),
                  path.string(), " lacks the lines between which the table stands");
  const auto from = begin + begin_mark.size();
  const std::string wanted = mrc_nccl::variables_markdown();
  if (std::getenv("MRC_UPDATE_DOCS") != nullptr && text.substr(from, end - from) != wanted) {
    text.replace(from, end - from, wanted);
    std::ofstream(path) << text;
    MESSAGE("rewrote ", path.string());
    return;
  }
  CHECK_MESSAGE(text.substr(from, end - from) == wanted, path.string(),
                " is not what the table of variables says; run this test with MRC_UPDATE_DOCS=1 "
                "to rewrite it");
}

}  // namespace variables_test
