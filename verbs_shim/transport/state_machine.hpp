// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "verbs_shim/abi.hpp"

/// Which changes of a queue pair's state ibv_modify_qp() makes, and with which attributes (IBTA
/// 1.4, table of the transitions of queue pairs; the same that Linux checks).
namespace mrc_verbs {

/// Why a queue pair of `type` can't go from `from` to `to` with these attributes (a mask of
/// ibv_qp_attr_mask); empty if it can.
[[nodiscard]] std::string refused_transition(ibv_qp_type type, ibv_qp_state from, ibv_qp_state to,
                                             int mask);

/// "RESET", "INIT", ..., "SQD", "SQE", "ERR".
[[nodiscard]] const char* name_of(ibv_qp_state state) noexcept;

}  // namespace mrc_verbs
