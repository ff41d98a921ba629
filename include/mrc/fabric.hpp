// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Fabric descriptions, packet ports, and option `fabric`. To be included where a program defines
/// MRC_IMPLEMENTATION; it needs nlohmann/json. Programs that link the compiled library have them
/// anyway.
#include "mrc/mrc.hpp"

#ifdef MRC_IMPLEMENTATION
#include <nlohmann/json.hpp>

#pragma GCC visibility push(hidden)
#include "mrc/fabric/definitions.inl"

namespace mrc::inline v0_1::detail {
/// Its initialisation is what counts.
const bool packet_kind_registered = (packet_kind.store(&make_packet_kind), true);
}  // namespace mrc::inline v0_1::detail
#pragma GCC visibility pop
#endif
