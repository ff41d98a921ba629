// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

namespace mrc::probe {

/// The fewest sets that together contain every element that is in any of them (a minimum set
/// cover). Elements are numbers below `elements`. Among covers of equal size, those with sets of
/// lower index are preferred. Returns indices in ascending order. Exact up to 200'000 steps of the
/// search; then the best cover found so far, which is at least as good as the greedy one. No state:
/// any thread.
[[nodiscard]] std::vector<std::size_t> smallest_cover(
    const std::vector<std::vector<std::size_t>>& sets, std::size_t elements);

}  // namespace mrc::probe
