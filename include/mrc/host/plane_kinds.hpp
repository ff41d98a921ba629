// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "mrc/api/device_config.hpp"
#include "mrc/core/linkage.hpp"
#include "mrc/plane/plane_kind.hpp"

#ifndef MRC_SEPARATE_COMPILATION
#include <atomic>
#endif

namespace mrc::inline v0_1::detail {

/// The kind of planes that a configuration asks for: of a fabric if option fabric is set, on RDMA
/// devices if only option verbs is, else on UDP sockets. Throws mrc::Error; `unsupported` if the
/// program lacks that kind.
[[nodiscard]] std::unique_ptr<PlaneKind> make_plane_kind(const Config& config);

#ifndef MRC_SEPARATE_COMPILATION
/// Makes a kind for a configuration.
using MakePlaneKind = std::unique_ptr<PlaneKind> (*)(const Config&);
/// The kinds that a header-only program has only if one of its units includes mrc/fabric.hpp or
/// mrc/verbs.hpp, which set these before main(): most programs are spared their dependencies. (The
/// compiled library has all kinds.)
inline constinit std::atomic<MakePlaneKind> packet_kind{nullptr}, verbs_kind{nullptr};
#endif

}  // namespace mrc::inline v0_1::detail

#ifndef MRC_SEPARATE_COMPILATION
#include "mrc/host/plane_kinds.inl"
#endif
