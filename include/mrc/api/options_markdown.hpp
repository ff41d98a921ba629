// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "mrc/core/linkage.hpp"

namespace mrc::inline v0_1 {

/// The option table as Markdown, one table per group: the generated part of
/// docs/configuration.md.
[[nodiscard]] std::string options_markdown();

}  // namespace mrc::inline v0_1

#ifndef MRC_SEPARATE_COMPILATION
#include "mrc/api/options_markdown.inl"
#endif
