// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "mrc/core/types.hpp"
#include "mrc/engine/verbs_types.hpp"

namespace mrc::inline v0_1::detail {

/// The number by which a device names the shared receive queue `srq` of a lane's engine: the top 8
/// bits are the lane, since each engine counts its own.
[[nodiscard]] constexpr SrqId device_srq(unsigned lane, SrqId srq) noexcept {
  return SrqId{lane << 24 | static_cast<std::uint32_t>(srq)};
}
static_assert(kMaxLanes <= 1u << 8);

}  // namespace mrc::inline v0_1::detail
