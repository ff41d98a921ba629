// SPDX-License-Identifier: Apache-2.0
#include "nccl_perf/algorithms.hpp"

namespace mrc::nccl_perf::ring {
namespace {

/// A chunk travels as two messages, so that the next rank works on the first one while the second
/// one arrives; as in NCCL's SIMPLE protocol.
constexpr int kSlices = 2;

/// What a rank does with a chunk. Bits.
enum Pass : unsigned { kReceive = 1, kSend = 2, kInput = 4, kOutput = 8 };

/// One channel's program.
struct Writer {
  const Shape& shape;
  int rank;
  std::int16_t channel;
  Program program;

  /// The rank that is so many before this one in the ring.
  [[nodiscard]] int before(int distance) const noexcept {
    return (rank - distance + shape.ranks) % shape.ranks;
  }

  /// A chunk, with its offsets in input and output.
  void add(unsigned pass, std::size_t input, std::size_t output, std::size_t bytes) {
    for (int i = 0; i < kSlices; ++i) {
      const Part slice = part_of(bytes, kSlices, i);
      if (slice.bytes == 0) break;
      Step step;
      if ((pass & kReceive) != 0) step.receives[0] = channel;
      if ((pass & kSend) != 0) step.sends[0] = channel;
      if ((pass & kInput) != 0) step.input = static_cast<std::int64_t>(input + slice.offset);
      if ((pass & kOutput) != 0) step.output = static_cast<std::int64_t>(output + slice.offset);
      step.bytes = slice.bytes;
      program.push_back(step);
    }
  }
};

/// A group of chunks, one per rank, at the same place in input and output. Each chunk starts at the
/// rank after its owner, is complete when it is at its owner, and goes round once more.
void all_reduce(Writer& w, Part group) {
  const int n = w.shape.ranks;
  const auto add = [&](int distance, unsigned pass) {
    const Part chunk = part_of(group.bytes, n, w.before(distance));
    const std::size_t at = group.offset + chunk.offset;
    w.add(pass, at, at, chunk.bytes);
  };
  add(1, kInput | kSend);
  for (int d = 2; d < n; ++d) add(d, kReceive | kInput | kSend);
  add(0, kReceive | kInput | kSend | kOutput);
  for (int d = 1; d < n - 1; ++d) add(d, kReceive | kSend | kOutput);
  add(n - 1, kReceive | kOutput);
}

/// A chunk at this place in each rank's share of `stride` bytes.
void all_gather(Writer& w, Part chunk, std::size_t stride) {
  const int n = w.shape.ranks;
  const auto add = [&](int distance, unsigned pass) {
    const std::size_t share = static_cast<std::size_t>(w.before(distance)) * stride;
    w.add(pass, chunk.offset, share + chunk.offset, chunk.bytes);
  };
  add(0, kInput | kSend | kOutput);
  for (int d = 1; d < n - 1; ++d) add(d, kReceive | kSend | kOutput);
  add(n - 1, kReceive | kOutput);
}

void reduce_scatter(Writer& w, Part chunk, std::size_t stride) {
  const int n = w.shape.ranks;
  const auto add = [&](int distance, unsigned pass) {
    const std::size_t share = static_cast<std::size_t>(w.before(distance)) * stride;
    w.add(pass, share + chunk.offset, chunk.offset, chunk.bytes);
  };
  add(1, kInput | kSend);
  for (int d = 2; d < n; ++d) add(d, kReceive | kInput | kSend);
  add(0, kReceive | kInput | kOutput);
}

}  // namespace

Peers peers(const Shape& shape, int rank) {
  Peers peers;
  for (int c = 0; c < shape.channels; ++c) {
    peers.sends.push_back({(rank + 1) % shape.ranks, c});
    peers.receives.push_back({(rank + shape.ranks - 1) % shape.ranks, c});
  }
  return peers;
}

std::vector<Program> programs(Collective c, const Shape& shape, int rank, std::size_t size) {
  const auto n = static_cast<std::size_t>(shape.ranks);
  const bool grouped = c == Collective::all_reduce;
  const std::size_t all = grouped ? size : size / n;                   // that channels divide
  const std::size_t most = kSlices * shape.chunk * (grouped ? n : 1);  // of one round
  std::vector<Program> programs;
  for (int channel = 0; channel < shape.channels; ++channel) {
    Writer writer{shape, rank, static_cast<std::int16_t>(channel), {}};
    const Part part = part_of(all, shape.channels, channel);
    for (std::size_t done = 0; done < part.bytes; done += most) {
      const Part round{part.offset + done, std::min(most, part.bytes - done)};
      if (grouped)
        all_reduce(writer, round);
      else if (c == Collective::all_gather)
        all_gather(writer, round, all);
      else
        reduce_scatter(writer, round, all);
    }
    programs.push_back(std::move(writer.program));
  }
  return programs;
}

}  // namespace mrc::nccl_perf::ring
