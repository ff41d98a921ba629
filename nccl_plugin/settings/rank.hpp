// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "nccl_plugin/settings/environment.hpp"

namespace mrc_nccl {

/// The rank of this process in its job.
struct ProcessRank {
  int number = 0;
  std::string variable;  ///< which says so
};

/// What torchrun or the launcher has put into the environment: NCCL does not tell plugins the rank.
/// Nothing if no variable holds a number. A process with several ranks has the first one's.
[[nodiscard]] std::optional<ProcessRank> rank_of_process(const Environment& environment);

}  // namespace mrc_nccl
