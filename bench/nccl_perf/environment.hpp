// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "nccl_perf/options.hpp"

namespace mrc::nccl_perf {

/// Makes this process what the options say of the rank: its environment variables, its network
/// namespace, its processor. Throws Failure. Before any thread is started.
void enter_environment(const Options& options, int rank);

/// Sets the rank's of these environment variables; the destructor restores what they were.
///
/// Thread safety: while no other thread reads the environment. Plugins do when they are opened.
class ScopedVariables {
 public:
  ScopedVariables(const std::vector<RankVariable>& variables, int rank);
  ~ScopedVariables();
  ScopedVariables(const ScopedVariables&) = delete;
  ScopedVariables& operator=(const ScopedVariables&) = delete;

 private:
  std::vector<std::pair<std::string, std::optional<std::string>>> before_;
};

}  // namespace mrc::nccl_perf
