// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Planes on RDMA devices, and option `verbs`. To be included where a program defines
/// MRC_IMPLEMENTATION; it needs the headers of libibverbs (Debian: libibverbs-dev), which is opened
/// at run time. Programs that link the compiled library have them if the headers were there when
/// it was compiled.
#include "mrc/mrc.hpp"

#ifdef MRC_IMPLEMENTATION
#include <infiniband/verbs.h>

#pragma GCC visibility push(hidden)
#include "mrc/verbs/definitions.inl"

namespace mrc::inline v0_1::detail {
/// Its initialisation is what counts.
const bool verbs_kind_registered =
    (verbs_kind.store(&make_verbs_kind), port::verbs_frames.store(&port::open_verbs_frames), true);
}  // namespace mrc::inline v0_1::detail
#pragma GCC visibility pop
#endif
