// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "nccl_perf/collective.hpp"

/// The algorithms, each with its connections and its programs. Sizes and offsets are bytes.
namespace mrc::nccl_perf {

/// Parts of a volume begin at multiples of this, so that copies are aligned.
inline constexpr std::size_t kGrain = 128;

struct Part {
  std::size_t offset, bytes;
};

/// Piece number `index` of `count` nearly equal ones; the last ones may be empty.
[[nodiscard]] inline Part part_of(std::size_t bytes, int count, int index) noexcept {
  const auto n = static_cast<std::size_t>(count);
  const std::size_t each = ((bytes + n - 1) / n + kGrain - 1) / kGrain * kGrain;
  const std::size_t begin = std::min(each * static_cast<std::size_t>(index), bytes);
  return {begin, std::min(each, bytes - begin)};
}

/// Around a ring in which rank r sends to rank r + 1.
namespace ring {
[[nodiscard]] Peers peers(const Shape& shape, int rank);
[[nodiscard]] std::vector<Program> programs(Collective c, const Shape& shape, int rank,
                                            std::size_t size);
}  // namespace ring

/// All-reduce up and down binary trees. Channels alternate between two trees in which no rank but
/// one is inner node of both, so that all links carry the same.
namespace tree {
[[nodiscard]] Peers peers(const Shape& shape, int rank);
[[nodiscard]] std::vector<Program> programs(const Shape& shape, int rank, std::size_t size);
}  // namespace tree

/// Directly between pairs of ranks.
namespace pairs {
[[nodiscard]] Peers peers(Collective c, const Shape& shape, int rank);
[[nodiscard]] std::vector<Program> programs(Collective c, const Shape& shape, int rank,
                                            std::size_t size);
}  // namespace pairs

}  // namespace mrc::nccl_perf
