// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Planes on RDMA devices for header-only programs. Devices of option `verbs` need the headers of
/// libibverbs, which mrc/mrc.hpp leaves out: include this header in one file of a header-only
/// program that is to support that option. Programs that link the compiled library have it if the
/// headers (Debian: libibverbs-dev) were there when it was compiled. The library itself is opened
/// at run time.
#ifndef MRC_SEPARATE_COMPILATION
#include "mrc/host/plane_kinds.hpp"
#include "mrc/plane/verbs/verbs_frames.inl"
#include "mrc/plane/verbs/verbs_kind.hpp"

namespace mrc::inline v0_1::detail {
/// Its initialisation is what counts.
inline const bool verbs_kind_registered =
    (verbs_kind.store(&make_verbs_kind), port::verbs_frames.store(&port::open_verbs_frames), true);
}  // namespace mrc::inline v0_1::detail
#endif
