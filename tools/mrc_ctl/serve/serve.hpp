// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "mrc_ctl/options.hpp"

namespace mrc::ctl_tool {

/// Shows the devices to browsers and Prometheus until Ctrl-C, which ends the program. Throws
/// mrc::Error if that is not possible.
[[noreturn]] void run_serve(const Options& o);

}  // namespace mrc::ctl_tool
