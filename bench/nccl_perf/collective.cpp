// SPDX-License-Identifier: Apache-2.0
#include "nccl_perf/collective.hpp"

#include "nccl_perf/algorithms.hpp"

namespace mrc::nccl_perf {
namespace {

constexpr std::array<std::string_view, kCollectives.size()> kNames = {
    "all_reduce", "all_reduce_tree", "all_gather", "reduce_scatter", "all_to_all", "send_receive"};

constexpr std::size_t kElement = sizeof(float);

}  // namespace

std::string_view to_string(Collective c) noexcept {
  return kNames[static_cast<std::size_t>(c)];
}

std::optional<Collective> parse_collective(std::string_view name) noexcept {
  for (const Collective c : kCollectives)
    if (to_string(c) == name) return c;
  return std::nullopt;
}

bool reduces(Collective c) noexcept {
  return c == Collective::all_reduce || c == Collective::all_reduce_tree ||
         c == Collective::reduce_scatter;
}

bool is_p2p(Collective c) noexcept {
  return c == Collective::all_to_all || c == Collective::send_receive;
}

double bus_factor(Collective c, int ranks) noexcept {
  const double n = ranks;
  switch (c) {
    case Collective::all_reduce:
    case Collective::all_reduce_tree:
      return 2 * (n - 1) / n;
    case Collective::all_gather:
    case Collective::reduce_scatter:
    case Collective::all_to_all:
      return (n - 1) / n;
    case Collective::send_receive:
      break;
  }
  return 1;
}

std::size_t whole_size(Collective c, int ranks, std::size_t size) noexcept {
  const bool divided =
      c == Collective::all_gather || c == Collective::reduce_scatter || c == Collective::all_to_all;
  const std::size_t unit = divided ? kElement * static_cast<std::size_t>(ranks) : kElement;
  return std::max<std::size_t>(size / unit, 1) * unit;
}

Volume volume(Collective c, int ranks, std::size_t size) noexcept {
  const std::size_t share = size / static_cast<std::size_t>(ranks);
  if (c == Collective::all_gather) return {share, size};
  if (c == Collective::reduce_scatter) return {size, share};
  return {size, size};
}

Peers peers_of(Collective c, const Shape& shape, int rank) {
  if (is_p2p(c)) return pairs::peers(c, shape, rank);
  return c == Collective::all_reduce_tree ? tree::peers(shape, rank) : ring::peers(shape, rank);
}

std::vector<Program> programs_of(Collective c, const Shape& shape, int rank, std::size_t size) {
  if (is_p2p(c)) return pairs::programs(c, shape, rank, size);
  return c == Collective::all_reduce_tree ? tree::programs(shape, rank, size)
                                          : ring::programs(c, shape, rank, size);
}

}  // namespace mrc::nccl_perf
