// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "mrc_ctl/devices.hpp"
#include "mrc_ctl/options.hpp"

namespace mrc::ctl_tool {

/// `paths --for TIME`: what the paths of devices carry in that time, and which of them are slow, or
/// what they have in common. --peer, --plane and --bad say which paths are shown; others may be
/// slow, too. Returns the exit status: 1 if something is slow, or a device that counts does not
/// answer.
int run_rates(const Options& o, Found& found);

}  // namespace mrc::ctl_tool
