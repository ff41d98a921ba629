// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "nccl_perf/options.hpp"

namespace mrc::nccl_perf {

/// Makes this process what the options say of the rank: its environment variables, its network
/// namespace, its processor. Throws Failure. Before any thread is started.
void enter_environment(const Options& options, int rank);

}  // namespace mrc::nccl_perf
