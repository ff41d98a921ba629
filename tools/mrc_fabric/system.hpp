// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "mrc/core/error.hpp"
#include "mrc/core/unique_fd.hpp"

/// Operating system functions for the tool: programs, files, privileges.
namespace mrc::tools {

/// Runs a program in this process's network namespace, with `input` as its standard input, and
/// returns its standard output. Throws mrc::Error if it is not installed, or if its status is not
/// 0; then with its standard error and `remedy`.
std::string run_program(const std::vector<std::string>& command, const std::string& input = {},
                        const std::string& remedy = {});

/// Throws mrc::Error unless this process may create and enter network namespaces.
void need_root(const std::string& command);

/// The file's contents; empty if it can't be read.
[[nodiscard]] std::string read_text(const std::string& file);

}  // namespace mrc::tools
