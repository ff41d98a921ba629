// SPDX-License-Identifier: Apache-2.0
#include "nccl_perf/algorithms.hpp"

namespace mrc::nccl_perf::tree {
namespace {

/// A part is cut into so many messages at least, unless they would be smaller than this: levels of
/// a tree work at the same time only on different messages.
constexpr std::size_t kPipeline = 8, kLeast = 16 << 10;

/// Parent in the first tree, in which rank 0 is the root and odd ranks are leaves; -1: none.
int first_parent(int ranks, int rank) noexcept {
  if (rank == 0) return -1;
  const int low = rank & -rank;
  const int up = (rank ^ low) | (low << 1);
  return up < ranks ? up : rank ^ low;
}

/// The second tree is the first with other ranks at the places: mirrored, or if their number is odd
/// (then the middle one would keep its place) shifted.
int parent(int channel, int ranks, int rank) noexcept {
  if (channel % 2 == 0) return first_parent(ranks, rank);
  if (ranks % 2 == 0) {
    const int up = first_parent(ranks, ranks - 1 - rank);
    return up < 0 ? -1 : ranks - 1 - up;
  }
  const int up = first_parent(ranks, (rank + ranks - 1) % ranks);
  return up < 0 ? -1 : (up + 1) % ranks;
}

std::vector<int> children(int channel, int ranks, int rank) {
  std::vector<int> found;
  for (int r = 0; r < ranks; ++r)
    if (parent(channel, ranks, r) == rank) found.push_back(r);
  return found;
}

/// Puts the indices of a rank's connections of this channel with these peers into `indices`.
void find(const std::vector<Peer>& connections, int channel, const std::vector<int>& with,
          std::array<std::int16_t, 2>& indices) {
  for (std::size_t i = 0; i < with.size(); ++i)
    for (std::size_t k = 0; k < connections.size(); ++k)
      if (connections[k].channel == channel && connections[k].rank == with[i])
        indices.at(i) = static_cast<std::int16_t>(k);
}

}  // namespace

Peers peers(const Shape& shape, int rank) {
  Peers peers;
  for (int c = 0; c < shape.channels; ++c) {
    std::vector<int> with = children(c, shape.ranks, rank);
    if (const int up = parent(c, shape.ranks, rank); up >= 0) with.push_back(up);
    for (const int peer : with) {
      peers.sends.push_back({peer, c});
      peers.receives.push_back({peer, c});
    }
  }
  return peers;
}

std::vector<Program> programs(const Shape& shape, int rank, std::size_t size) {
  const Peers all = peers(shape, rank);
  std::vector<Program> programs;
  for (int c = 0; c < shape.channels; ++c) {
    const int up = parent(c, shape.ranks, rank);
    Step rise, fall;  // towards the root, adding up; away from it
    find(all.receives, c, children(c, shape.ranks, rank), rise.receives);
    find(all.sends, c, children(c, shape.ranks, rank), fall.sends);
    if (up >= 0) {
      find(all.sends, c, {up}, rise.sends);
      find(all.receives, c, {up}, fall.receives);
    } else {
      rise.sends = fall.sends;
    }
    const Part part = part_of(size, shape.channels, c);
    const std::size_t piece =
        std::min(shape.chunk, std::max(kLeast, part_of(part.bytes, kPipeline, 0).bytes));
    Program rising, falling;
    for (std::size_t done = 0; done < part.bytes; done += piece) {
      const auto at = static_cast<std::int64_t>(part.offset + done);
      rise.bytes = fall.bytes = std::min(piece, part.bytes - done);
      rise.input = at;
      (up >= 0 ? fall : rise).output = at;
      rising.push_back(rise);
      if (up >= 0) falling.push_back(fall);
    }
    programs.push_back(std::move(rising));
    programs.push_back(std::move(falling));
  }
  return programs;
}

}  // namespace mrc::nccl_perf::tree
