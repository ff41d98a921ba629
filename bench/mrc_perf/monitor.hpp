// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "meter.hpp"
#include "options.hpp"
#include "results.hpp"

namespace mrc::perf {

/// The client's view of a run: live lines, the timeline, and the figures of each result. One
/// thread.
class Monitor {
 public:
  Monitor(Session& session, const Options& options);

  /// The measured phase of a message size begins.
  void start(Time now, std::uint64_t size, std::uint64_t payload);
  /// Whether an interval is over, so that tick() has work.
  [[nodiscard]] bool due(Time now) const noexcept { return now >= next_; }
  void tick(Time now, std::uint64_t payload);
  /// The measured phase ends; fills in the measured values of `result`.
  void finish(Time now, std::uint64_t payload, Result& result);

  /// The CSV so far.
  [[nodiscard]] const std::string& timeline() const noexcept { return csv_; }

 private:
  [[nodiscard]] std::vector<std::string> news();
  void print_line(Time now, const Sample& sample);
  void add_row(Time now, const Sample& sample);

  const Options& options_;
  Session& session_;
  Meter whole_, live_, fine_;
  FaultNotes live_faults_, fine_faults_;
  std::vector<bool> up_;
  std::vector<std::string> live_notes_, fine_notes_;
  Time origin_ = kNever, start_{}, next_ = kNever, next_live_ = kNever, next_fine_ = kNever;
  std::chrono::system_clock::time_point start_clock_;
  std::string csv_;
  bool unicode_;
};

}  // namespace mrc::perf
