// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Definitions: planes on RDMA devices. Without the headers of libibverbs, only what needs none.
#include "mrc/plane/verbs/uc.inl"
#include "mrc/plane/verbs/verbs_device.inl"
#if __has_include(<infiniband/verbs.h>)
#include "mrc/plane/verbs/verbs_frames.inl"
#include "mrc/plane/verbs/verbs_kind.inl"
#include "mrc/plane/verbs/verbs_port.inl"
#include "mrc/plane/verbs/verbs_queues.inl"
#endif
