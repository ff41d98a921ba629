// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "mrc/json/tree.hpp"

/// JSON with comments into a tree whose values know their lines. The parser (nlohmann::json) is
/// needed for the definitions only.
namespace mrc::inline v0_1::json_file::detail {

/// The values of `text`, added to `tree`; returns the outermost. `from_set`: the text is a value
/// from the command line, not the file, and has no comments. Throws FileError.
[[nodiscard]] Node* read_json(Tree& tree, std::string_view text, bool from_set);

}  // namespace mrc::inline v0_1::json_file::detail
