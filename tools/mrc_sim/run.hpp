// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "mrc/sim/simulation.hpp"
#include "mrc_sim/job.hpp"

namespace mrc::tools {

/// Result of a variant.
struct Outcome {
  bool started = false;
  bool complete = false;                      ///< it ran to its end
  double build_seconds = 0, run_seconds = 0;  ///< real time
  sim::Summary summary;                       ///< without its flows if there are other variants
  std::string json;  ///< what json_report() has of it, if that was asked for
};

/// How progress is shown on standard error.
enum class ProgressDisplay : std::uint8_t {
  none,
  line,   ///< one line, rewritten in place: for terminals
  lines,  ///< a line per finished variant, and one now and then
};

/// Progress of a variant; written by its thread, read by the progress line.
struct Progress {
  std::atomic<bool> running{false}, done{false};
  std::atomic<std::int64_t> now_ns{0};
  std::atomic<std::uint64_t> events{0};
  std::int64_t end_ns = 0;
};

/// Takes what is wanted of a run that has ended, or was cut short, before its memory is released.
/// Called in the thread that ran it. May throw mrc::Error.
using Harvest = std::function<void(const Variant&, Outcome&, const sim::Simulation&)>;

/// Runs all variants of a job, `threads` at a time; only those that run take up memory. The
/// outcomes are in the order of the variants. Throws the mrc::Error of the first variant that can't
/// run, with its name.
[[nodiscard]] std::vector<Outcome> run_job(const Job& job, unsigned threads,
                                           ProgressDisplay display, const Harvest& harvest);

}  // namespace mrc::tools
