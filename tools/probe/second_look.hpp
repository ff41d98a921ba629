// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "probe/paths.hpp"
#include "probe/sweep.hpp"

namespace mrc::probe {

/// What to probe once more, with more tries, before a part is reported as dead.
struct SecondLook {
  std::vector<std::size_t>
      again;  ///< indices of paths: all of the planes in which a probe was lost
  std::vector<ProbePath> detours;  ///< new paths, around uplinks that lose (PathKind::detour)
  std::vector<ProbePath> turns;  ///< new paths, over links that lose one way only (PathKind::turn)
};

/// Plans the second look from the results of the first; results[i] is that of paths[i]. Hosts that
/// answered on no path are left out: their losses say nothing about the fabric. Throws mrc::Error
/// like PathMaker::detour() and turn(). No state: any thread.
[[nodiscard]] SecondLook second_look(const PathMaker& maker, std::span<const ProbePath> paths,
                                     std::span<const PathResult> results);

}  // namespace mrc::probe
