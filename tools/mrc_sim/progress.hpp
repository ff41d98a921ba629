// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "mrc_sim/run.hpp"

namespace mrc::tools {

/// One line on standard error with the progress of runs, rewritten in place a few times a second.
/// One thread, which need not be a thread of the runs.
class ProgressLine {
 public:
  /// Shows nothing unless `show`: standard error is a terminal and --quiet was not given.
  ProgressLine(const std::vector<std::unique_ptr<Progress>>& runs, bool show)
      : runs_(runs), show_(show), start_(Clock::now()), last_(start_) {}

  void update() {
    const auto now = Clock::now();
    const double since = seconds(now - last_);
    if (!show_ || since < 0.25) return;
    double share = 0;
    std::uint64_t events = 0;
    std::int64_t newest = 0;
    std::size_t done = 0;
    for (const auto& run : runs_) {
      const std::int64_t at = run->now_ns;
      share += run->done ? 1.0 : static_cast<double>(at) / static_cast<double>(run->end_ns);
      events += run->events;
      done += run->done ? 1 : 0;
      if (run->running) newest = std::max(newest, at);
    }
    share /= static_cast<double>(runs_.size());
    const double rate = static_cast<double>(events - events_) / since;
    rate_ = rate_ == 0 ? rate : 0.7 * rate_ + 0.3 * rate;
    events_ = events;
    last_ = now;
    const double used = seconds(now - start_);
    const std::string eta =
        share > 0.001 ? fmt::format("{:.0f} s", used * (1 - share) / share) : "?";
    const std::string runs =
        runs_.size() > 1
            ? fmt::format("run {} of {}, ", std::min(done + 1, runs_.size()), runs_.size())
            : "";
    fmt::print(stderr, "\r{}{:.3f} ms, {:.2f} M events/s, {:.0f} % done, {} left\x1b[K", runs,
               static_cast<double>(newest) / 1e6, rate_ / 1e6, share * 100, eta);
    std::fflush(stderr);
    shown_ = true;
  }
  /// Erases the line.
  void clear() {
    if (shown_) fmt::print(stderr, "\r\x1b[K");
    std::fflush(stderr);
    shown_ = false;
  }

 private:
  using Clock = std::chrono::steady_clock;
  [[nodiscard]] static double seconds(Clock::duration d) {
    return std::chrono::duration<double>(d).count();
  }

  const std::vector<std::unique_ptr<Progress>>& runs_;
  bool show_;
  Clock::time_point start_, last_;
  std::uint64_t events_ = 0;
  double rate_ = 0;  // events per second of real time, smoothed
  bool shown_ = false;
};

}  // namespace mrc::tools
