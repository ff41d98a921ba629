// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "mrc/core/types.hpp"
#include "mrc/engine/verbs_types.hpp"

namespace mrc::inline v0_1 {

/// Something that happened to a device or its objects without being asked for.
struct DeviceEvent {
  /// What happened.
  enum class Kind : std::uint8_t {
    qp_error,    ///< a queue pair moved to ERR
    cq_overrun,  ///< a completion queue had no room for a completion
    plane_down,  ///< a plane can't be used any more: its link, too small an MTU, or disabled
    plane_up,    ///< it can again
    srq_limit,   ///< fewer receives are left in a shared receive queue than its limit
    last_wqe,    ///< a queue pair in ERR takes no more receives from its shared receive queue
  };
  Kind kind{};                              ///< what happened
  Qpn qpn{};                                ///< qp_error, last_wqe: the queue pair
  QpErrorCause cause = QpErrorCause::none;  ///< qp_error: why
  CqId cq{};                                ///< cq_overrun: the queue
  SrqId srq{};                              ///< srq_limit: the queue
  Plane plane = 0;                          ///< plane_down, plane_up: the plane

  /// Equal in every field.
  friend bool operator==(const DeviceEvent&, const DeviceEvent&) = default;
};

}  // namespace mrc::inline v0_1
