// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "mrc_ctl/devices.hpp"
#include "mrc_ctl/options.hpp"

namespace mrc::ctl_tool {

/// Whether option --peer names it: by its number, or by one of its addresses.
[[nodiscard]] bool names_peer(const std::string& wanted, const Json& peer);

/// `mrc_ctl probe`: has each path to the peers of devices probed, and prints what came back.
/// Returns the exit status: 1 if some path did not answer.
[[nodiscard]] int run_probe(const Options& o, const Found& found);

}  // namespace mrc::ctl_tool
