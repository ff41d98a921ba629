// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <vector>

#include "nccl_perf/options.hpp"
#include "nccl_perf/rank.hpp"

namespace mrc::nccl_perf {

/// How a rank's process ended.
struct RankEnd {
  int status = 0;         ///< exit status; 128 + the signal that ended it
  double seconds = 0;     ///< since the ranks were started
  bool was_late = false;  ///< it did not end by itself, long after another one failed
};

/// What a run was.
struct Outcome {
  std::vector<RankEnd> ends;     ///< of each rank
  std::optional<double> killed;  ///< when --kill was carried out, seconds since the start
  std::uint64_t checked = 0;     ///< bytes, of all ranks
  bool interrupted = false;
};

/// Called with the results of all ranks for an operation and size.
class ResultSink {
 public:
  virtual ~ResultSink() = default;
  virtual void add(const std::vector<RankResult>& ranks) = 0;
};

/// Starts a process per rank, passes on what they exchange, and waits until all have ended. When a
/// rank has failed, those that do not end within --patience are ended by SIGKILL.
[[nodiscard]] Outcome launch(const Options& options, ResultSink& sink);

}  // namespace mrc::nccl_perf
