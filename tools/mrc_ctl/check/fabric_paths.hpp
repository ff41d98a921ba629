// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "mrc/config.hpp"
#include "mrc/core/types.hpp"
#include "mrc_ctl/check/results.hpp"

namespace mrc::check_tool {

/// What the fabric's description calls this host; empty if it says nothing of it, or can't be read.
[[nodiscard]] std::string name_in_fabric(const Config& config);

/// Probes the paths of a fabric from here to that host, and those that lead back here, as mrc_probe
/// does. What can't be done is said in FabricResult::problem. `patience`: a fiftieth of it is the
/// time that a probe has.
[[nodiscard]] FabricResult probe_fabric(const Config& config, const std::string& to,
                                        Duration patience);

}  // namespace mrc::check_tool
