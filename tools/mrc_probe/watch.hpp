// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "mrc_probe/network.hpp"
#include "mrc_probe/options.hpp"
#include "mrc_probe/prober.hpp"
#include "probe/changes.hpp"

namespace mrc::probe_tool {

using namespace probe;

/// Sweeps again and again and prints what changes, until the program is interrupted. Returns its
/// exit status. Throws mrc::Error.
int watch(const Options& o, const Description& d, Network& network, Prober& prober);

/// Writes the files that the options ask for.
void write_files(const Options& o, const Description& d, const Report& report,
                 const std::vector<Change>& changes = {});

}  // namespace mrc::probe_tool
