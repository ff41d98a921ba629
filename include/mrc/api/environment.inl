// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <vector>

#include "mrc/api/environment.hpp"
#include "mrc/api/option_table.hpp"
#include "mrc/core/error.hpp"

namespace mrc::inline v0_1 {

namespace detail {

/// "MRC_CC_BASE_RTT" becomes "cc_base_rtt".
[[nodiscard]] std::string option_name(std::string_view variable) {
  std::string name;
  for (const char c : variable.substr(4))
    name += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return name;
}

/// Variables of the project's own scripts, tests and fuzzers. Every name that begins with
/// kTestVariables is reserved for them; with kNcclVariables for the NCCL plugin, which reports
/// those that it does not know itself; and with kVerbsVariables for the verbs shim.
inline constexpr std::string_view kTestVariables = "MRC_TEST_";
inline constexpr std::string_view kNcclVariables = "MRC_NCCL_";
inline constexpr std::string_view kVerbsVariables = "MRC_VERBS_";
inline constexpr std::array<std::string_view, 4> kProjectVariables{
    "MRC_BUILD_DIR", "MRC_FUZZ_SECONDS", "MRC_SOURCE_DIR", "MRC_UPDATE_DOCS"};
/// Variables of programs for libMRC, the vendors' C API.
inline constexpr std::array<std::string_view, 9> kLibmrcVariables{
    "MRC_LOG_LEVEL", "MRC_H_PATH", "MRC_LIB_DIR",          "MRC_LIB_PATH",        "MRC_LIB_SO",
    "MRC_HOME",      "MRC_LIBDIR", "MRC_QP_EV_PROFILE_ID", "MRC_QP_CC_PROFILE_ID"};

bool reserved_variable(std::string_view name) noexcept {
  const auto contains = [name](const auto& names) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  return name.starts_with(kTestVariables) || name.starts_with(kNcclVariables) ||
         name.starts_with(kVerbsVariables) || contains(kProjectVariables) ||
         contains(kLibmrcVariables);
}

/// Names of the MRC_* variables that no option reads and that are not reserved.
[[nodiscard]] std::vector<std::string> unknown_variable_names() {
  std::vector<std::string> names;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    std::string_view name = *entry;
    name = name.substr(0, name.find('='));
    if (!name.starts_with("MRC_") || reserved_variable(name)) continue;
    const bool known = std::any_of(options().begin(), options().end(), [&](const Option& option) {
      return variable_name(option) == name;
    });
    if (!known) names.insert(std::upper_bound(names.begin(), names.end(), name), std::string(name));
  }
  return names;
}

}  // namespace detail

std::string unknown_variables() {
  std::string text;
  for (const auto& name : detail::unknown_variable_names()) {
    text += (text.empty() ? "unknown environment variables, ignored: " : ", ") + name;
    if (const Option* similar = detail::similar_option(detail::option_name(name)))
      text += " (did you mean " + variable_name(*similar) + "?)";
  }
  return text;
}

std::string unknown_variables_once() {
  static std::atomic<bool> reported{false};
  std::string text = unknown_variables();
  if (!text.empty() && reported.exchange(true)) text.clear();
  return text;
}

}  // namespace mrc::inline v0_1
