// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "mrc/api/device_config.hpp"
#include "mrc/core/linkage.hpp"
#include "mrc/plane/plane_kind.hpp"

namespace mrc::inline v0_1::detail {

/// The opener of the planes of a fabric description (docs/fabric.md), which option fabric names:
/// packet ports, and peers that are reached by source routes. Devices also answer EV probes of all
/// hosts of the fabric. Throws mrc::Error that names file, line and remedy.
[[nodiscard]] std::unique_ptr<PlaneOpener> make_fabric_opener(const Config& config);

}  // namespace mrc::inline v0_1::detail

#ifndef MRC_SEPARATE_COMPILATION
#include "mrc/plane/packet/impl/packet_kind.ipp"
#endif
