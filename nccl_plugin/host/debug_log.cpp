// SPDX-License-Identifier: Apache-2.0
#include "nccl_plugin/host/debug_log.hpp"

#include <strings.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdarg>
#include <cstdlib>
#include <iterator>

namespace nccl_host {

using nccl_abi::LogLevel;

namespace {

/// NCCL's names of levels, by number.
constexpr const char* kLevels[] = {"NONE", "VERSION", "WARN", "INFO", "ABORT", "TRACE"};

LogLevel level_of(const char* name) {
  for (std::size_t i = 0; name && i < std::size(kLevels); ++i) {
    if (strcasecmp(name, kLevels[i]) == 0) return static_cast<LogLevel>(i);
  }
  return LogLevel::none;
}

/// Bits of a list such as INIT,NET. The other subsystems have no lines from net plugins.
unsigned long subsystems_of(const char* names) {
  if (!names) return nccl_abi::kLogInit;  // NCCL's default has BOOTSTRAP and ENV, too
  unsigned long bits = 0;
  std::string_view rest = names;
  while (!rest.empty()) {
    const std::string name(rest.substr(0, rest.find(',')));
    if (strcasecmp(name.c_str(), "INIT") == 0) bits |= nccl_abi::kLogInit;
    if (strcasecmp(name.c_str(), "NET") == 0) bits |= nccl_abi::kLogNet;
    if (strcasecmp(name.c_str(), "ALL") == 0) bits = ~0ul;
    rest.remove_prefix(std::min(rest.size(), name.size() + 1));
  }
  return bits;
}

}  // namespace

DebugLog& DebugLog::instance() {
  // Never destroyed: a plugin that stays resident may log while the process exits.
  static auto* const log = new DebugLog;
  return *log;
}

void DebugLog::write(LogLevel level, unsigned long flags, const char* file, int line,
                     const char* format, ...) {
  char text[1024];  // NCCL's own limit
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof(text), format, arguments);
  va_end(arguments);
  instance().add({level, flags, file ? file : "", line, text});
}

void DebugLog::add(Line line) {
  const std::lock_guard lock(mutex_);
  print(line);
  lines_.push_back(std::move(line));
}

void DebugLog::print(const Line& line) const {
  if (!stream_ || line.level > level_) return;
  const bool warning = line.level == LogLevel::warn;
  if (!warning && (line.flags & subsystems_) == 0) return;
  char host[64] = "";
  gethostname(host, sizeof(host) - 1);
  const auto thread = static_cast<int>(syscall(SYS_gettid));
  const auto number = static_cast<std::size_t>(line.level);
  const char* level = number < std::size(kLevels) ? kLevels[number] : "?";
  if (warning) {
    std::fprintf(stream_, "\n%s:%d:%d [0] %s:%d NCCL WARN %s\n", host, getpid(), thread,
                 line.file.c_str(), line.line, line.text.c_str());
  } else {
    std::fprintf(stream_, "%s:%d:%d [0] NCCL %s %s\n", host, getpid(), thread, level,
                 line.text.c_str());
  }
}

std::vector<DebugLog::Line> DebugLog::lines() const {
  const std::lock_guard lock(mutex_);
  return lines_;
}

std::vector<DebugLog::Line> DebugLog::lines(LogLevel level, std::string_view text) const {
  std::vector<Line> found;
  for (Line& line : lines()) {
    if (line.level == level && line.text.find(text) != std::string::npos) {
      found.push_back(std::move(line));
    }
  }
  return found;
}

void DebugLog::clear() {
  const std::lock_guard lock(mutex_);
  lines_.clear();
}

void DebugLog::read_environment() {
  const std::lock_guard lock(mutex_);
  level_ = level_of(std::getenv("NCCL_DEBUG"));
  subsystems_ = subsystems_of(std::getenv("NCCL_DEBUG_SUBSYS"));
}

void DebugLog::print_to(std::FILE* stream) {
  const std::lock_guard lock(mutex_);
  stream_ = stream;
}

}  // namespace nccl_host
