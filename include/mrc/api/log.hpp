// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdio>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include "mrc/api/device_config.hpp"
#include "mrc/core/unique_fd.hpp"

namespace mrc::inline v0_1::detail {

/// Writes a device's messages to Config::log_sink, or standard error without one: those up to the
/// level of option log. Not for the data path. Any thread.
class Log {
 public:
  /// What takes a line; empty: standard error.
  using Sink = std::function<void(LogLevel, std::string_view)>;

  explicit Log(LogLevel level, Sink sink = {}) : level_(level), sink_(std::move(sink)) {}

  Log(const Log& other) : level_(other.level()), sink_(other.sink_) {}
  Log& operator=(const Log&) = delete;

  /// Lines up to this level are written from now on.
  void set_level(LogLevel level) noexcept { level_.store(level, std::memory_order_relaxed); }
  [[nodiscard]] LogLevel level() const noexcept { return level_.load(std::memory_order_relaxed); }

  void info(const std::string& line) const { write(LogLevel::info, line); }
  void warn(const std::string& line) const { write(LogLevel::warn, line); }

 private:
  void write(LogLevel level, const std::string& line) const {
    if (static_cast<int>(level) > static_cast<int>(this->level())) return;
    const Uncancelled writing;
    if (sink_)
      sink_(level, line);
    else
      std::fprintf(stderr, "openmrc: %s\n", line.c_str());
  }

  std::atomic<LogLevel> level_;
  Sink sink_;
};

}  // namespace mrc::inline v0_1::detail
