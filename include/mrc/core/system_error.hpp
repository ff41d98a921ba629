// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cerrno>
#include <string>
#include <system_error>

#include "mrc/core/error.hpp"

namespace mrc::inline v0_1 {

/// Throws Error for a failed system call: "<what>: <reason>". `error` is its errno value.
[[noreturn]] inline void throw_errno(const std::string& what, int error = errno) {
  throw Error(std::error_code(error, std::generic_category()), what);
}

}  // namespace mrc::inline v0_1
