// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/resource.h>

#include <cerrno>
#include <string>
#include <system_error>

#include "mrc/core/error.hpp"

namespace mrc::inline v0_1 {

/// Throws Error for a failed system call: "<what>: <reason>". `error` is its errno value. Where the
/// process has no room for another descriptor, the text names its limit.
[[noreturn]] inline void throw_errno(const std::string& what, int error = errno) {
  std::string text = what;
  rlimit files{};
  if (error == EMFILE && ::getrlimit(RLIMIT_NOFILE, &files) == 0)
    text += " (this process may have " + std::to_string(files.rlim_cur) +
            " files open; raise ulimit -n)";
  throw Error(std::error_code(error, std::generic_category()), text);
}

}  // namespace mrc::inline v0_1
