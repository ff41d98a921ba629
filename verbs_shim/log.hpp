// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace mrc_verbs {

/// Writes a line to standard error, after "openmrc: verbs: ", unless MRC_LOG=off. For what keeps
/// the library from being used at all. Any thread.
void warn(const std::string& line) noexcept;

/// The same with MRC_LOG=info only: why a request failed. The program itself learns a status. Any
/// thread.
void info(const std::string& line) noexcept;

/// Whether info() writes anything; to avoid making text that nobody reads.
[[nodiscard]] bool info_wanted() noexcept;

/// A call is not done as the program has asked, which may surprise its user: writes how, for each
/// call the first time only unless MRC_LOG=info. Any thread.
void note(const char* call, const std::string& how) noexcept;

/// A call of the program is refused, and probably ends it with a message that does not say why:
/// writes the reason, for each call the first time only unless MRC_LOG=info, and sets errno.
/// Returns `error`, an errno value. Any thread.
int refuse(int error, const char* call, const std::string& why) noexcept;

/// The same for calls that programs make to find out what there is, and do without: the reason is
/// written with MRC_LOG=info only.
int decline(int error, const char* call, const std::string& why) noexcept;

}  // namespace mrc_verbs
