// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "mrc/fabric/description.hpp"
#include "mrc/json/json.hpp"

/// Reads a file (docs/fabric.md) into a Description and checks all of it. Set-up only; any thread.
namespace mrc::inline v0_1::fabric {

/// Reads text that errors call `name`. Throws json_file::FileError with file, line and field.
[[nodiscard]] Description parse(const std::string& name, std::string_view text);

/// Reads a file; the same errors.
[[nodiscard]] Description read(const std::string& path);

}  // namespace mrc::inline v0_1::fabric
