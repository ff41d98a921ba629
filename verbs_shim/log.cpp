// SPDX-License-Identifier: Apache-2.0
#include "verbs_shim/log.hpp"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace mrc_verbs {

namespace {

enum class Level { off, warn, info };

/// Of the environment, as the device reads it: before a device is open, too. A value that is none
/// is reported when the device opens.
Level level() noexcept {
  static const Level chosen = [] {
    const char* text = std::getenv("MRC_LOG");
    const std::string_view value = text != nullptr ? text : "";
    if (value == "off") return Level::off;
    return value == "info" ? Level::info : Level::warn;
  }();
  return chosen;
}

void write(const std::string& line) noexcept {
  const int kept = errno;
  std::fprintf(stderr, "openmrc: verbs: %s\n", line.c_str());
  errno = kept;
}

}  // namespace

void warn(const std::string& line) noexcept {
  if (level() >= Level::warn) write(line);
}

void info(const std::string& line) noexcept {
  if (level() >= Level::info) write(line);
}

bool info_wanted() noexcept {
  return level() >= Level::info;
}

int refuse(int error, const char* call, const std::string& why) noexcept {
  if (level() >= Level::info) std::fprintf(stderr, "openmrc: verbs: %s: %s\n", call, why.c_str());
  errno = error;
  return error;
}

}  // namespace mrc_verbs
