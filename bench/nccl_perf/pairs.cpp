// SPDX-License-Identifier: Apache-2.0
#include "nccl_perf/algorithms.hpp"

namespace mrc::nccl_perf::pairs {
namespace {

/// Cuts a part into messages and lets `write` fill in each step.
template <class Write>
Program pieces(Part part, std::size_t most, Write write) {
  Program program;
  for (std::size_t done = 0; done < part.bytes; done += most) {
    Step step;
    step.bytes = std::min(most, part.bytes - done);
    write(step, static_cast<std::int64_t>(part.offset + done));
    program.push_back(step);
  }
  return program;
}

/// Offset of the block that goes to or comes from a peer.
std::size_t block(Collective c, const Shape& shape, int peer, std::size_t size) noexcept {
  if (c == Collective::send_receive) return 0;
  return size / static_cast<std::size_t>(shape.ranks) * static_cast<std::size_t>(peer);
}

}  // namespace

Peers peers(Collective c, const Shape& shape, int rank) {
  Peers peers;
  const int n = shape.ranks;
  const int last = c == Collective::all_to_all ? n - 1 : 1;
  for (int distance = 1; distance <= last; ++distance)
    for (int channel = 0; channel < shape.channels; ++channel) {
      peers.sends.push_back({(rank + distance) % n, channel});
      peers.receives.push_back({(rank + n - distance) % n, channel});
    }
  return peers;
}

std::vector<Program> programs(Collective c, const Shape& shape, int rank, std::size_t size) {
  const Peers all = peers(c, shape, rank);
  const std::size_t each =
      c == Collective::all_to_all ? size / static_cast<std::size_t>(shape.ranks) : size;
  const auto part = [&](const Peer& peer) {
    const Part within = part_of(each, shape.channels, peer.channel);
    return Part{block(c, shape, peer.rank, size) + within.offset, within.bytes};
  };
  std::vector<Program> programs;
  for (std::size_t i = 0; i < all.sends.size(); ++i) {
    programs.push_back(pieces(part(all.sends[i]), shape.p2p_chunk, [&](Step& step, auto at) {
      step.sends[0] = static_cast<std::int16_t>(i);
      step.input = at;
    }));
    programs.push_back(pieces(part(all.receives[i]), shape.p2p_chunk, [&](Step& step, auto at) {
      step.receives[0] = static_cast<std::int16_t>(i);
      step.output = at;
    }));
  }
  if (c == Collective::all_to_all)  // a rank's block for itself
    programs.push_back(pieces({block(c, shape, rank, size), each}, shape.p2p_chunk,
                              [](Step& step, auto at) { step.input = step.output = at; }));
  return programs;
}

}  // namespace mrc::nccl_perf::pairs
