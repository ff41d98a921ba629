// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "probe/part.hpp"
#include "probe/paths.hpp"
#include "probe/sweep.hpp"

namespace mrc::probe {

/// A part that explains the losses of paths.
struct Finding {
  Part part;                ///< explains the losses best
  std::vector<Part> alike;  ///< parts that would explain the very same losses
  unsigned paths = 0;       ///< paths over it that were probed
  unsigned tries = 0;       ///< lossy parts: probes over it, ...
  unsigned lost = 0;        ///< ... and those without an answer
  bool denied = false;      ///< the description has all of these paths denied
};

/// What the results of all paths say about the fabric.
struct Verdict {
  std::vector<Finding> dead,     ///< smallest set of parts that explains the dead paths
      lossy;                     ///< the same for the lossy paths
  std::vector<unsigned> silent;  ///< hosts that answer on no path, where no dead part explains it
  std::vector<std::size_t> dead_paths,  ///< indices of dead paths that no part explains: all of
                                        ///< their parts work on other paths
      lossy_paths;                      ///< indices of lossy paths that no part explains

  /// True if nothing is dead or silent; parts and paths may be lossy.
  [[nodiscard]] bool all_alive() const noexcept {
    return dead.empty() && silent.empty() && dead_paths.empty();
  }
};

/// Which packets of a path the results are about.
enum class Extent : std::uint8_t {
  round_trip,  ///< probes and their answers: ProbePath::parts
  there,       ///< probes alone, since answers are small: ProbePath::there
};

/// Finds the smallest set of parts such that every dead path contains one and no live path contains
/// any, and the same for paths that lose some probes. results[i] is that of paths[i]; paths that
/// were not tried count as unknown. One direction of a link is named only if packets in the other
/// direction have shown that they fare better. No state: any thread.
[[nodiscard]] Verdict judge(std::span<const ProbePath> paths, std::span<const PathResult> results,
                            Extent extent = Extent::round_trip);

}  // namespace mrc::probe
