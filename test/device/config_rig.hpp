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

/// Environments and errors for the tests of the configuration.
namespace mrc::config_test {

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

/// The text of the mrc::Error (invalid_argument) that `f` throws.
template <class F>
std::string error_of(F&& f) {
  try {
    f();
  } catch (const mrc::Error& error) {
    CHECK(error.code() == mrc::Errc::invalid_argument);
    return error.what();
  }
  return "no error";
}

inline bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

/// Checks that `f` throws an error whose text has all `parts`.
template <class F>
void check_error(F&& f, std::initializer_list<std::string_view> parts) {
  const std::string text = error_of(f);
  for (const auto part : parts) {
    CAPTURE(part);
    CAPTURE(text);
    CHECK(contains(text, part));
  }
}

}  // namespace mrc::config_test
