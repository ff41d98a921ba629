// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdio>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "nccl_plugin/abi/types.hpp"

namespace nccl_host {

/// NCCL's log: keeps all that was said, and prints what NCCL_DEBUG and NCCL_DEBUG_SUBSYS ask for,
/// in NCCL's format. One for the process, since a logger is a plain function.
///
/// Thread safety: all functions, by any thread.
class DebugLog {
 public:
  /// One message.
  struct Line {
    nccl_abi::LogLevel level{};
    unsigned long flags = 0;
    std::string file;
    int line = 0;
    std::string text;
  };

  /// The one of the process.
  static DebugLog& instance();

  /// What to give to a plugin as its logger.
  [[nodiscard]] static nccl_abi::Logger logger() { return &DebugLog::write; }

  /// All lines so far, whether they were printed or not.
  [[nodiscard]] std::vector<Line> lines() const;
  /// Those of a level that contain the text.
  [[nodiscard]] std::vector<Line> lines(nccl_abi::LogLevel level, std::string_view text) const;
  /// Forgets the lines so far.
  void clear();

  /// Reads NCCL_DEBUG and NCCL_DEBUG_SUBSYS again; done once at the beginning.
  void read_environment();
  /// Where to print; null prints nothing. NCCL prints to stdout, which programs here keep for their
  /// results: stderr.
  void print_to(std::FILE* stream);

 private:
  DebugLog() { read_environment(); }

  __attribute__((format(printf, 5, 6))) static void write(nccl_abi::LogLevel level,
                                                          unsigned long flags, const char* file,
                                                          int line, const char* format, ...);
  void add(Line line);
  void print(const Line& line) const;

  mutable std::mutex mutex_;
  std::vector<Line> lines_;
  std::FILE* stream_ = stderr;
  nccl_abi::LogLevel level_ = nccl_abi::LogLevel::none;
  unsigned long subsystems_ = 0;
};

}  // namespace nccl_host
