// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstdlib>
#include <map>
#include <stdexcept>
#include <string>

namespace mrc::forge {

/// The arguments NAME=VALUE of a command line. Throws std::runtime_error that says what is wrong.
class Arguments {
 public:
  /// From `first` on.
  Arguments(int argc, char** argv, int first) {
    for (int i = first; i < argc; ++i) {
      const std::string text = argv[i];
      const auto at = text.find('=');
      if (at == std::string::npos) throw std::runtime_error(text + ": must be NAME=VALUE");
      values_[text.substr(0, at)] = text.substr(at + 1);
    }
  }
  /// The text, or `otherwise` if the argument is not given.
  [[nodiscard]] std::string text(const std::string& name, const std::string& otherwise = "") const {
    const auto at = values_.find(name);
    return at == values_.end() ? otherwise : at->second;
  }
  /// A text that must be given.
  [[nodiscard]] std::string needed(const std::string& name) const {
    const std::string value = text(name);
    if (value.empty()) throw std::runtime_error("argument " + name + "=... is missing");
    return value;
  }
  /// A number, decimal or with 0x.
  [[nodiscard]] std::uint64_t number(const std::string& name, std::uint64_t otherwise) const {
    const std::string value = text(name);
    if (value.empty()) return otherwise;
    char* end = nullptr;
    const std::uint64_t n = std::strtoull(value.c_str(), &end, 0);
    if (*end != '\0') throw std::runtime_error(name + "=" + value + ": must be a number");
    return n;
  }

 private:
  std::map<std::string, std::string> values_;
};

}  // namespace mrc::forge
