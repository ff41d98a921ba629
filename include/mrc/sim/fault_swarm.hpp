// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "mrc/core/types.hpp"
#include "mrc/sim/faults.hpp"

namespace mrc::inline v0_1::sim {

/// Limits of a random schedule.
struct SwarmOptions {
  Time begin{};                 ///< earliest fault
  Time end{};                   ///< all faults end by then, except killed hosts
  unsigned max_faults = 10;     ///< a flap counts once
  double max_loss = 0.5;        ///< largest probability per packet
  double max_corruption = 0.2;  ///< largest probability per packet
  double max_slow = 50;         ///< largest rate divisor
  bool kills = false;           ///< hosts may be killed; at least one survives
};

/// A random schedule for a fabric; equal arguments give equal schedules. Swarm testing: each seed
/// disables some kinds of fault and of place, since bugs that a mix of all kinds masks show with
/// few kinds.
[[nodiscard]] FaultSchedule random_faults(const Fabric& fabric, const SwarmOptions& options,
                                          std::uint64_t seed);

}  // namespace mrc::inline v0_1::sim
