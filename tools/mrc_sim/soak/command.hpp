// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

namespace mrc::tools {

/// A limit of `mrc_sim soak`.
inline constexpr unsigned kMostSoakThreads = 256;

/// Parameters of `mrc_sim soak`.
struct SoakCommand {
  std::uint64_t count = 100;          ///< number of seeds to run
  std::uint64_t from = 1;             ///< first seed
  std::optional<std::uint64_t> seed;  ///< instead: run this one twice, with full details
  unsigned threads = 0;               ///< 0: one per core
};

/// Runs seeds of small random fabrics with random faults and traffic (mrc_sim/soak/run.hpp) on
/// several threads; some of them twice, since a seed must give the same run each time. Prints
/// failures as they occur, and finally the numbers of passed and failed seeds and how to replay the
/// latter. SIGINT and SIGTERM end it after the running seeds. Returns the exit status: 0 when all
/// passed, 1 when not, 130 when it was interrupted.
int run_soak(const SoakCommand& command);

}  // namespace mrc::tools
