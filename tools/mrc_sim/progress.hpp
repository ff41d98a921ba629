// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "mrc_sim/run.hpp"

namespace mrc::tools {

/// The progress of runs on standard error: one line that is rewritten in place a few times a
/// second, or, without a terminal, a line per finished variant and one every ten seconds. One
/// thread, which need not be a thread of the runs.
class ProgressLine {
 public:
  /// `runs`: of the job's variants, in their order.
  ProgressLine(const Job& job, const std::vector<std::unique_ptr<Progress>>& runs,
               ProgressDisplay display)
      : job_(job),
        runs_(runs),
        display_(display),
        start_(Clock::now()),
        last_(start_),
        reported_(runs.size(), false) {}

  void update() {
    if (display_ == ProgressDisplay::none) return;
    if (display_ == ProgressDisplay::lines && runs_.size() > 1) report_finished();
    const auto now = Clock::now();
    const double since = seconds(now - last_);
    if (since < (display_ == ProgressDisplay::line ? 0.25 : 10)) return;
    const std::string text = progress(now, since);
    if (display_ == ProgressDisplay::line) {
      fmt::print(stderr, "\r{}\x1b[K", text);
      shown_ = true;
    } else {
      fmt::print(stderr, "mrc_sim: {}\n", text);
    }
    std::fflush(stderr);
  }
  /// Erases the line; reports variants that have just finished.
  void finish() {
    if (display_ == ProgressDisplay::lines && runs_.size() > 1) report_finished();
    if (shown_) fmt::print(stderr, "\r\x1b[K");
    std::fflush(stderr);
    shown_ = false;
  }

 private:
  using Clock = std::chrono::steady_clock;
  [[nodiscard]] static double seconds(Clock::duration d) {
    return std::chrono::duration<double>(d).count();
  }

  void report_finished() {
    for (std::size_t i = 0; i < runs_.size(); ++i) {
      if (reported_[i] || !runs_[i]->done) continue;
      reported_[i] = true;
      ++finished_;
      fmt::print(stderr, "mrc_sim: {}: done, {} of {} after {:.0f} s\n", job_.variants[i].name,
                 finished_, runs_.size(), seconds(Clock::now() - start_));
      std::fflush(stderr);
    }
  }

  /// Text of the state now, `since` seconds after the previous one.
  [[nodiscard]] std::string progress(Clock::time_point now, double since) {
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
    return fmt::format("{}{:.3f} ms, {:.2f} M events/s, {:.0f} % done, {} left", runs,
                       static_cast<double>(newest) / 1e6, rate_ / 1e6, share * 100, eta);
  }

  const Job& job_;
  const std::vector<std::unique_ptr<Progress>>& runs_;
  ProgressDisplay display_;
  Clock::time_point start_, last_;
  std::vector<bool> reported_;  // by variant
  std::size_t finished_ = 0;
  std::uint64_t events_ = 0;
  double rate_ = 0;  // events per second of real time, smoothed
  bool shown_ = false;
};

}  // namespace mrc::tools
