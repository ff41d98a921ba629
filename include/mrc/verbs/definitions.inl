// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Definitions: planes on RDMA devices. Without the headers of libibverbs, only what needs none.
#include "mrc/verbs/uc.inl"
#include "mrc/verbs/verbs_device.inl"
#if __has_include(<infiniband/verbs.h>)
#include "mrc/verbs/verbs_frames.inl"
#include "mrc/verbs/verbs_kind.inl"
#include "mrc/verbs/verbs_port.inl"
#include "mrc/verbs/verbs_queues.inl"
#endif
