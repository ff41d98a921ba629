// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "mrc/core/system_error.hpp"
#include "mrc/core/unique_fd.hpp"

/// What the tool needs of the operating system: programs, files, who it is.
namespace mrc::bench {

/// Runs a program in this process's network namespace, with `input` as its standard input, and
/// returns what it wrote to standard output. Throws mrc::Error: it is not installed, or ended with
/// a status other than 0; then with what it wrote to standard error, and with `remedy`.
std::string run_program(const std::vector<std::string>& command, const std::string& input = {},
                        const std::string& remedy = {});

/// Throws mrc::Error unless this process may make and enter network namespaces.
void need_root(const std::string& command);

/// The file's contents; empty if it can't be read.
[[nodiscard]] std::string read_text(const std::string& file);

}  // namespace mrc::bench
