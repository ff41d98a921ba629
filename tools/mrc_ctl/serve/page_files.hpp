// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace mrc::ctl_tool {

/// A file of the page, which is part of the program.
struct PageFile {
  std::string_view path;  ///< in URLs
  const char* type;
  std::string_view content;
};

/// Nullptr if there is none with that path.
[[nodiscard]] const PageFile* find_page_file(std::string_view path);

}  // namespace mrc::ctl_tool
