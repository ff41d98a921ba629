// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdio>
#include <string>

#include "mrc/config/config.hpp"

namespace mrc::inline v0_1::detail {

/// Writes a device's messages to standard error, those up to the level of option log. Not for the
/// data path. Any thread.
class Log {
 public:
  explicit Log(LogLevel level) noexcept : level_(level) {}

  void info(const std::string& line) const { write(LogLevel::info, line); }
  void warn(const std::string& line) const { write(LogLevel::warn, line); }

 private:
  void write(LogLevel level, const std::string& line) const {
    if (static_cast<int>(level) <= static_cast<int>(level_))
      std::fprintf(stderr, "openmrc: %s\n", line.c_str());
  }

  LogLevel level_;
};

}  // namespace mrc::inline v0_1::detail
