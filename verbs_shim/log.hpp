// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace mrc_verbs {

/// Writes a line to standard error, after "openmrc: verbs: ", unless MRC_LOG=off. For what keeps
/// the library from being used at all. Any thread.
void warn(const std::string& line) noexcept;

/// The same with MRC_LOG=info only: why a call of the program was refused, or a request failed. The
/// program itself learns an errno value, or a status. Any thread.
void info(const std::string& line) noexcept;

/// Whether info() writes anything; to avoid making text that nobody reads.
[[nodiscard]] bool info_wanted() noexcept;

/// info() with `call` in front, and sets errno. Returns `error`, an errno value.
int refuse(int error, const char* call, const std::string& why) noexcept;

}  // namespace mrc_verbs
