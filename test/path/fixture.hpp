// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

#include "mrc/path/path_set.hpp"

/// Shared by the tests of the path layer.
namespace mrc::path::testing {

using namespace std::chrono_literals;

inline constexpr PlaneMask kAllPlanes = ~PlaneMask{0};

/// `per_plane` paths in each of `planes` planes, planes in turn; EVs are 0x10000 + index.
inline std::vector<PathSpec> universe(unsigned planes, unsigned per_plane) {
  std::vector<PathSpec> specs;
  for (unsigned i = 0; i < planes * per_plane; ++i)
    specs.push_back(
        {Ev{0x10000 + i}, static_cast<Plane>(i % planes), static_cast<std::uint16_t>(i / planes)});
  return specs;
}

inline Time at(Duration since_start) {
  return Time{since_start};
}

/// How often each path is chosen in `packets` selections.
inline std::vector<unsigned> counts(PathSet& set, std::size_t packets,
                                    PlaneMask free = kAllPlanes) {
  std::vector<unsigned> n(set.size());
  for (std::size_t i = 0; i < packets; ++i) {
    const PathIndex path = set.select(free);
    if (path != kNoPath) ++n[path];
  }
  return n;
}

}  // namespace mrc::path::testing
