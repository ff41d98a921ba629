// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace mrc::inline v0_1 {

/// The option table as Markdown, one table per group: the generated part of
/// docs/configuration.md.
[[nodiscard]] std::string options_markdown();

}  // namespace mrc::inline v0_1
