// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

/// MRC_* variables that are not options. Set-up only; the environment must not
/// change meanwhile.
namespace mrc::inline v0_1 {

namespace detail {

/// True for the MRC_* variables of the project's own scripts, tests and fuzzers, which programs
/// under test inherit, and for those of the NCCL plugin and the verbs shim: they are not options,
/// and not reported as unknown.
[[nodiscard]] bool reserved_variable(std::string_view name) noexcept;

}  // namespace detail

/// A warning that names the MRC_* variables that no option reads, such as misspelt ones; empty if
/// there are none.
[[nodiscard]] std::string unknown_variables();

/// unknown_variables() on the first call in this process that finds any, afterwards empty. Any
/// thread.
[[nodiscard]] std::string unknown_variables_once();

}  // namespace mrc::inline v0_1
