// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The verbs API, as declared by rdma-core. Everything that it declares is visible: the version
/// script decides what is exported.
#pragma GCC visibility push(default)
#include <infiniband/verbs.h>
#pragma GCC visibility pop

// Inline functions of the header hide these; here they are defined.
#undef ibv_query_port
#undef ibv_reg_mr
#undef ibv_reg_mr_iova
#undef ibv_get_device_list

#include <atomic>
#include <cstddef>
#include <cstdint>
