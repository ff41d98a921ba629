// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "mrc/api/device_config.hpp"
#include "mrc/api/option_table.hpp"
#include "mrc/api/options_markdown.hpp"

namespace mrc::inline v0_1 {

std::string options_markdown() {
  const Config defaults;
  std::string text;
  std::string_view group;
  for (const Option& option : options()) {
    if (option.group != group) {
      group = option.group;
      text += (text.empty() ? "### " : "\n### ") + std::string(group) +
              "\n\n| Option | Variable | Default | Allowed | Meaning |\n"
              "|---|---|---|---|---|\n";
    }
    const std::string value = value_text(option, defaults);
    text += "| `" + std::string(option.name) + "` | `" + variable_name(option) + "` | " +
            (value.empty() ? "empty" : "`" + value + "`") + " | " + allowed_text(option) + " | " +
            std::string(option.doc) + " |\n";
  }
  return text;
}

}  // namespace mrc::inline v0_1
