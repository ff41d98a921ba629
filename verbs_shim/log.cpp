// SPDX-License-Identifier: Apache-2.0
#include "verbs_shim/log.hpp"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <set>
#include <string_view>

#include "mrc/core/unique_fd.hpp"

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

/// Whether this call has not been refused before. The names of the calls are few.
bool is_first_of(const char* call) noexcept {
  static std::mutex& mutex = *new std::mutex;  // programs may still call while they exit
  static std::set<std::string>& known = *new std::set<std::string>;
  const std::lock_guard lock(mutex);
  return known.insert(call).second;
}

void write(const std::string& line) noexcept {
  const mrc::Uncancelled writing;
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

void note(const char* call, const std::string& how) noexcept {
  if (level() >= Level::info) {
    write(std::string(call) + ": " + how);
  } else if (level() == Level::warn && is_first_of(call)) {
    write(std::string(call) + ": " + how + " (said once; MRC_LOG=info says it each time)");
  }
}

int refuse(int error, const char* call, const std::string& why) noexcept {
  note(call, why);
  errno = error;
  return error;
}

int decline(int error, const char* call, const std::string& why) noexcept {
  if (level() >= Level::info) write(std::string(call) + ": " + why);
  errno = error;
  return error;
}

}  // namespace mrc_verbs
