// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "mrc/sim/simulation.hpp"
#include "mrc/sim/summary.hpp"
#include "mrc_sim/job.hpp"

namespace mrc::tools {

/// Result of a variant.
struct Outcome {
  bool started = false;
  bool complete = false;                      ///< it ran to its end
  double build_seconds = 0, run_seconds = 0;  ///< real time
  sim::Summary summary;
  /// The run itself, for series and messages; nullptr if it did not start.
  std::unique_ptr<sim::Simulation> simulation;
};

/// Progress of a variant; written by its thread, read by the progress line.
struct Progress {
  std::atomic<bool> running{false}, done{false};
  std::atomic<std::int64_t> now_ns{0};
  std::atomic<std::uint64_t> events{0};
  std::int64_t end_ns = 0;
};

/// Runs all variants of a job, `threads` at a time, with a progress line on standard error if
/// `progress` is set. The outcomes are in the order of the variants. Throws the mrc::Error of the
/// first variant that can't run, with its name.
[[nodiscard]] std::vector<Outcome> run_job(const Job& job, unsigned threads, bool progress);

}  // namespace mrc::tools
