// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "mrc_ctl/options.hpp"

namespace mrc::ctl_tool {

/// `mrc_ctl check`: checks the hosts that are named, or answers those who check this one. Returns
/// the exit status: 1 if something does not fit, 3 if a host does not answer. Throws mrc::Error.
[[nodiscard]] int run_check(const Options& o);

}  // namespace mrc::ctl_tool
