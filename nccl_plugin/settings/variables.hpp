// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "nccl_plugin/settings/environment.hpp"

/// The variables that the plugin reads besides the library's MRC_* options.
namespace mrc_nccl {

/// One variable, for documentation and for proposing the right name.
struct Variable {
  std::string_view name;      ///< of the environment
  std::string_view allowed;   ///< values
  std::string_view standard;  ///< the default, in words
  std::string_view doc;       ///< one or two sentences
};

/// All variables, in the order of the documentation.
[[nodiscard]] std::span<const Variable> variables();

/// The table of all variables as Markdown, for docs/nccl_plugin.md.
[[nodiscard]] std::string variables_markdown();

/// Warnings about variables MRC_NCCL_* and NCCL_MRC_* that the plugin does not know.
[[nodiscard]] std::vector<std::string> unknown_variables(const Environment& environment);

}  // namespace mrc_nccl
