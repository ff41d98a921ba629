// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "mrc_ctl/options.hpp"

/// `mrc_ctl profiles`: those that hold for all devices of the host, as a file.
namespace mrc::ctl_tool {

/// get, put and diff. Returns the exit status.
[[nodiscard]] int run_profiles(const Options& o);

}  // namespace mrc::ctl_tool
