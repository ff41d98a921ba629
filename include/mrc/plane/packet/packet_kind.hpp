// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "mrc/api/device_config.hpp"
#include "mrc/plane/plane_kind.hpp"

namespace mrc::inline v0_1::detail {

/// Packet ports of a host of a fabric whose description (docs/fabric.md) option fabric names, and
/// peers that are reached by source routes. Devices also answer EV probes of all hosts of the
/// fabric. Reads the description. Throws mrc::Error that names file, line and remedy.
[[nodiscard]] std::unique_ptr<PlaneKind> make_packet_kind(const Config& config);

}  // namespace mrc::inline v0_1::detail
