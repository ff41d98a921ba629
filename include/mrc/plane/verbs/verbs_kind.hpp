// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "mrc/api/device_config.hpp"
#include "mrc/plane/plane_kind.hpp"

namespace mrc::inline v0_1::detail {

/// Planes on RDMA devices: one per element of option verbs. Peers are reached by what their ports
/// say in ConnectionInfo::port_data. Throws mrc::Error if the option can't be read.
[[nodiscard]] std::unique_ptr<PlaneKind> make_verbs_kind(const Config& config);

}  // namespace mrc::inline v0_1::detail
