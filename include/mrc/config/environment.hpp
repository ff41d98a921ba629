// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "mrc/config/check.hpp"
#include "mrc/config/config.hpp"
#include "mrc/config/option_table.hpp"
#include "mrc/core/error.hpp"

/// MRC_* variables, and help for names that are nearly right. Set-up only; the environment must not
/// change meanwhile.
namespace mrc::inline v0_1 {

namespace detail {

/// Letters to insert, remove or replace to make `b` of `a` (Levenshtein).
[[nodiscard]] inline std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row[b.size()];
}

/// The option whose name is closest to `name`, or nullptr when none is close.
[[nodiscard]] inline const Option* similar_option(std::string_view name) {
  const Option* best = nullptr;
  std::size_t best_distance = std::min<std::size_t>(3, name.size() / 2 + 1);
  for (const Option& option : options()) {
    const std::size_t distance = edit_distance(name.substr(0, 64), option.name);
    if (distance >= best_distance) continue;
    best = &option;
    best_distance = distance;
  }
  return best;
}

/// "MRC_CC_BASE_RTT" becomes "cc_base_rtt".
[[nodiscard]] inline std::string option_name(std::string_view variable) {
  std::string name;
  for (const char c : variable.substr(4))
    name += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return name;
}

/// Variables of the project's own scripts, tests and fuzzers, which also programs under test see.
/// Those that begin with kTestVariables are free for further ones, so no option has such a name.
inline constexpr std::string_view kTestVariables = "MRC_TEST_";
inline constexpr std::array<std::string_view, 4> kProjectVariables{
    "MRC_BUILD_DIR", "MRC_FUZZ_SECONDS", "MRC_SOURCE_DIR", "MRC_UPDATE_DOCS"};

/// True for the variables that are not options and yet no mistake.
[[nodiscard]] inline bool reserved_variable(std::string_view name) noexcept {
  return name.starts_with(kTestVariables) ||
         std::find(kProjectVariables.begin(), kProjectVariables.end(), name) !=
             kProjectVariables.end();
}

/// Names of the MRC_* variables that no option reads and that are not reserved.
[[nodiscard]] inline std::vector<std::string> unknown_variable_names() {
  std::vector<std::string> names;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    std::string_view name = *entry;
    name = name.substr(0, name.find('='));
    if (!name.starts_with("MRC_") || reserved_variable(name)) continue;
    const bool known = std::any_of(options().begin(), options().end(), [&](const Option& option) {
      return variable_name(option) == name;
    });
    if (!known) names.emplace_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace detail

/// The option of that name. Throws mrc::Error (invalid_argument) that proposes a similar one.
[[nodiscard]] inline const Option& require_option(std::string_view name) {
  if (const Option* option = find_option(name)) return *option;
  std::string text = "no option '" + std::string(name) + "'";
  if (const Option* similar = detail::similar_option(name))
    text += "; did you mean '" + std::string(similar->name) + "'?";
  else
    text += "; docs/configuration.md lists them";
  throw Error(Errc::invalid_argument, text);
}

/// A warning that names the MRC_* variables that no option reads, such as misspelt ones; empty if
/// there are none.
[[nodiscard]] inline std::string unknown_variables() {
  std::string text;
  for (const auto& name : detail::unknown_variable_names()) {
    text += (text.empty() ? "unknown environment variables, ignored: " : ", ") + name;
    if (const Option* similar = detail::similar_option(detail::option_name(name)))
      text += " (did you mean " + variable_name(*similar) + "?)";
  }
  return text;
}

/// unknown_variables(), but empty after the first time in a process that there was something to
/// say. Any thread.
[[nodiscard]] inline std::string unknown_variables_once() {
  static std::atomic<bool> reported{false};
  std::string text = unknown_variables();
  if (!text.empty() && reported.exchange(true)) text.clear();
  return text;
}

inline Config Config::from_environment() {
  Config config;
  for (const Option& option : options()) {
    const std::string variable = variable_name(option);
    const char* value = std::getenv(variable.c_str());
    if (value != nullptr && *value != '\0')
      assign_option(option, config, value, "environment variable " + variable);
  }
  config.validate();
  return config;
}

}  // namespace mrc::inline v0_1
