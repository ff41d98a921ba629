// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "mrc_probe/network.hpp"
#include "mrc_probe/part.hpp"

namespace mrc::probe {

/// Answers the EV probes of the other hosts, each over the path that it came by, until the program
/// is interrupted. Returns how many there were. Throws mrc::Error.
std::uint64_t answer_probes(const Description& d, unsigned self, Network& network);

}  // namespace mrc::probe
