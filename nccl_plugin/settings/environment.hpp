// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "mrc/config.hpp"

/// The environment as the plugin reads it, and the errors for what is wrong in it.
namespace mrc_nccl {

/// A setting that is wrong. The text names the variable, its value and what is allowed.
class SettingsError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The error for a value that is not allowed, in the form of the library's own messages.
[[nodiscard]] SettingsError not_allowed(std::string_view variable, std::string_view value,
                                        std::string_view allowed);

/// The element of `names` that a misspelt `name` is closest to; empty if none is close.
[[nodiscard]] std::string nearest(std::string_view name, const std::vector<std::string>& names);

/// Reads environment variables. An empty value counts as not set, as in the library. Set-up only:
/// the environment must not change meanwhile.
class Environment {
 public:
  /// Returns the value of a variable, or nullptr, as getenv() does.
  using Getter = std::function<const char*(const char* name)>;

  /// The environment of this process.
  Environment();
  /// Another one: `get` knows the values, `names` are the variables that exist.
  Environment(Getter get, std::vector<std::string> names);
  /// Another one that has these variables.
  explicit Environment(std::vector<std::pair<std::string, std::string>> variables);

  /// The variable's value, if it is set.
  [[nodiscard]] std::optional<std::string> find(const std::string& name) const;
  /// The same for the name of a file to write. Not taken from users who lend a privileged program
  /// their environment and not their rights (secure_getenv()).
  [[nodiscard]] std::optional<std::string> find_file(const std::string& name) const;
  /// Whether the variable is set.
  [[nodiscard]] bool has(const std::string& name) const { return find(name).has_value(); }
  /// The value as a number from `min` to `max`. `meaning` follows the range in the error's text.
  [[nodiscard]] std::optional<int> integer(const std::string& name, int min, int max,
                                           std::string_view meaning = {}) const;
  /// The value as one of `words`; the index of its group. Each group is a list of synonyms,
  /// separated by '|'; the first is the one to use.
  [[nodiscard]] std::optional<std::size_t> choice(const std::string& name,
                                                  const std::vector<std::string>& words) const;
  /// Names of all variables, in alphabetical order.
  [[nodiscard]] std::vector<std::string> names() const;
  /// `defaults`, changed by the library's MRC_* variables, and validated. Throws SettingsError with
  /// the library's text.
  [[nodiscard]] mrc::Config library_config(const mrc::Config& defaults) const;
  /// The library's warning about MRC_* variables that it does not know; empty if there are none.
  [[nodiscard]] std::string unknown_to_library() const;

 private:
  Getter get_;
  std::vector<std::string> names_;
  bool own_ = false;  // this process's: names_ are not used
};

}  // namespace mrc_nccl
