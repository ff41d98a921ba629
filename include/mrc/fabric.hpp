// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Fabric descriptions for header-only programs. Devices of option `fabric` need the parser of
/// descriptions (and with it nlohmann/json) and packet ports, which mrc/mrc.hpp leaves out: include
/// this header in one file of a header-only program that is to support that option. Programs that
/// link the compiled library have it anyway.
#ifndef MRC_SEPARATE_COMPILATION
#include "mrc/host/plane_kinds.hpp"
#include "mrc/plane/packet/packet_kind.hpp"

namespace mrc::inline v0_1::detail {
/// Its initialisation is what counts.
inline const bool packet_kind_registered = (packet_kind.store(&make_packet_kind), true);
}  // namespace mrc::inline v0_1::detail
#endif
