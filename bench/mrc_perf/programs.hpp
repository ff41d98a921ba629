// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "options.hpp"

/// The two programs in one. Both return the exit status and throw mrc::Error or Failure when they
/// can't start.
namespace mrc::perf {

int run_client(const Options& options);
int run_server(const Options& options);

}  // namespace mrc::perf
