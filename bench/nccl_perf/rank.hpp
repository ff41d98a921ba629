// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "mrc/core/unique_fd.hpp"
#include "nccl_perf/options.hpp"

namespace mrc::nccl_perf {

/// What a rank tells of one operation of one size.
struct RankResult {
  std::uint32_t collective = 0;   ///< index into Options::collectives
  std::uint32_t size = 0;         ///< index into Options::sizes
  std::uint32_t net = 0;          ///< index into Options::nets()
  std::vector<double> seconds{};  ///< per operation, of each repetition
};
[[nodiscard]] std::string to_text(const RankResult& result);
[[nodiscard]] RankResult result_of(const std::string& text);

/// A rank's process: returns its exit status. Errors are printed.
[[nodiscard]] int run_rank(const Options& options, int rank, UniqueFd bootstrap);

}  // namespace mrc::nccl_perf
