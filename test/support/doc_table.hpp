// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace mrc::test {

/// The page of docs/ has `wanted` between two marks. With MRC_UPDATE_DOCS=1 it is written there.
inline void check_doc_table(const std::string& page, const std::string& begin_mark,
                            const std::string& end_mark, const std::string& wanted) {
  const auto path =
      std::filesystem::absolute(__FILE__).parent_path().parent_path().parent_path() / "docs" / page;
  std::ifstream file(path);
  REQUIRE_MESSAGE(file.good(), path.string());
  std::string text{std::istreambuf_iterator<char>(file), {}};
  const auto begin = text.find(begin_mark), end = text.find(end_mark);
  REQUIRE_MESSAGE((begin != std::string::npos && end != std::string::npos && begin < end),
                  path.string(), " lacks the lines between which the table stands");
  const auto from = begin + begin_mark.size();
  if (std::getenv("MRC_UPDATE_DOCS") != nullptr && text.substr(from, end - from) != wanted) {
    text.replace(from, end - from, wanted);
    std::ofstream(path) << text;
    MESSAGE("rewrote ", path.string());
    return;
  }
  CHECK_MESSAGE(text.substr(from, end - from) == wanted, path.string(),
                " is not what the table says; run this test with MRC_UPDATE_DOCS=1 to rewrite it");
}

}  // namespace mrc::test
