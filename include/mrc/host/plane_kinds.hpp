// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <memory>

#include "mrc/api/device_config.hpp"
#include "mrc/plane/plane_kind.hpp"

namespace mrc::inline v0_1::detail {

/// The kind of planes that a configuration asks for: of a fabric if option fabric is set, on RDMA
/// devices if only option verbs is, else on UDP sockets. Throws mrc::Error; `unsupported` if the
/// program lacks that kind.
[[nodiscard]] std::unique_ptr<PlaneKind> make_plane_kind(const Config& config);

/// Makes a kind for a configuration.
using MakePlaneKind = std::unique_ptr<PlaneKind> (*)(const Config&);
/// The kinds that modules bring (host/plane_kinds.inl); null without the module.
extern std::atomic<MakePlaneKind> packet_kind, verbs_kind;

}  // namespace mrc::inline v0_1::detail
