// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <doctest/doctest.h>
#include <stdlib.h>
#include <unistd.h>

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "mrc/core/error.hpp"
#include "support/errors.hpp"

/// Environments and errors for the tests of the configuration.
namespace mrc::test {

/// Sets variables for one test case; all other MRC_* variables are hidden meanwhile.
class Environment {
 public:
  Environment(std::initializer_list<std::pair<const char*, const char*>> variables)
      : Environment(std::vector(variables)) {}
  explicit Environment(const std::vector<std::pair<const char*, const char*>>& variables) {
    std::vector<std::string> present;
    for (char** entry = environ; *entry != nullptr; ++entry)
      if (std::string_view(*entry).starts_with("MRC_")) present.emplace_back(*entry);
    for (const auto& entry : present) {
      const auto equals = entry.find('=');
      hidden_.emplace_back(entry.substr(0, equals), entry.substr(equals + 1));
      unsetenv(hidden_.back().first.c_str());
    }
    for (const auto& [name, value] : variables) {
      names_.emplace_back(name);
      setenv(name, value, 1);
    }
  }
  ~Environment() {
    for (const auto& name : names_) unsetenv(name.c_str());
    for (const auto& [name, value] : hidden_) setenv(name.c_str(), value.c_str(), 1);
  }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

 private:
  std::vector<std::pair<std::string, std::string>> hidden_;
  std::vector<std::string> names_;
};

/// Checks that `f` throws an error of bad arguments whose text has all `parts`.
template <class F>
void check_error(F&& f, std::initializer_list<std::string_view> parts) {
  const Error error = thrown_by(f);
  CHECK(error.code() == Errc::invalid_argument);
  const std::string text = error.what();
  for (const auto part : parts) {
    CAPTURE(part);
    CAPTURE(text);
    CHECK(contains(text, part));
  }
}

}  // namespace mrc::test
