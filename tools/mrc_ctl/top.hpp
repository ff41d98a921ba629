// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "mrc_ctl/options.hpp"

namespace mrc::ctl_tool {

/// Throughput of all selected devices, one picture after the other, in the terminal: until Ctrl-C
/// or q, or for Options::rounds pictures. Devices come and go meanwhile. Returns the exit status.
[[nodiscard]] int run_top(const Options& o);

}  // namespace mrc::ctl_tool
