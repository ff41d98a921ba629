// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "mrc/plane/plane_kind.hpp"

namespace mrc::inline v0_1::detail {

/// Planes on UDP sockets: one per local address of option planes. Every peer is reached over all
/// paths of the port, by its address alone.
[[nodiscard]] std::unique_ptr<PlaneKind> make_udp_kind();

}  // namespace mrc::inline v0_1::detail
