// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "verbs_shim/abi.hpp"

namespace mrc_verbs {

/// Fills in the operations that programs call through the context. What is left out is null, which
/// makes the header's functions answer EOPNOTSUPP; but those that it calls without looking are all
/// there.
void set_operations(verbs_context& context) noexcept;

// As ibv_create_cq_ex() and ibv_create_qp_ex(); the exported functions use them, too.
ibv_cq_ex* create_cq(ibv_context* context, ibv_cq_init_attr_ex* wanted) noexcept;
ibv_qp* create_qp(ibv_context* context, ibv_qp_init_attr_ex* wanted) noexcept;
/// As ibv_reg_mr_iova2(); `call` is what the program has called.
ibv_mr* register_memory(const char* call, ibv_pd* pd, void* address, std::size_t length,
                        std::uint64_t iova, unsigned access) noexcept;
/// As ibv_query_port(), for callers whose ibv_port_attr has `size` bytes.
int query_port(ibv_context* context, std::uint8_t port, ibv_port_attr* out,
               std::size_t size) noexcept;

}  // namespace mrc_verbs
