// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

namespace CLI {
class App;
}

namespace mrc::bench {

/// What `mrc_sim soak` is to do.
struct SoakCommand {
  std::uint64_t count = 100;          ///< seeds to run ...
  std::uint64_t from = 1;             ///< ... from this one on
  std::optional<std::uint64_t> seed;  ///< instead: this one, twice, with all that is known of it
  unsigned threads = 0;               ///< 0: one per core
};

/// Adds the command's arguments to its sub-command, which takes them into `command`.
void add_soak_arguments(CLI::App& app, SoakCommand& command);

/// Runs seeds of small random fabrics with random faults and traffic (mrc_sim/soak/run.hpp) on
/// several threads; some of them twice, since a seed has to give the same run each time. Prints
/// failures as they come, at the end how many passed and failed, and how to replay those. SIGINT
/// and SIGTERM end it after the seeds under way. Returns the exit status: 0 when all passed, 1 when
/// not, 130 when it was interrupted.
int run_soak(const SoakCommand& command);

}  // namespace mrc::bench
