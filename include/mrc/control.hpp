// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Control sockets: what mrc_ctl asks and tells devices (docs/control.md), and option `control`. To
/// be included where a program defines MRC_IMPLEMENTATION; it needs nlohmann/json. Programs that
/// link the compiled library have control sockets anyway.
#include "mrc/mrc.hpp"

#ifdef MRC_IMPLEMENTATION
#include <nlohmann/json.hpp>

#pragma GCC visibility push(hidden)
#include "mrc/control/definitions.inl"

namespace mrc::inline v0_1::detail {
/// Its initialisation is what counts.
const bool control_registered = (administration_maker.store(&make_administration), true);
}  // namespace mrc::inline v0_1::detail
#pragma GCC visibility pop
#endif
