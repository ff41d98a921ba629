// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

/// What each rank sends, receives and adds up in a collective operation, by the algorithms of NCCL.
namespace mrc::nccl_perf {

/// An operation and its algorithm.
enum class Collective {
  all_reduce,
  all_reduce_tree,
  all_gather,
  reduce_scatter,
  all_to_all,
  send_receive
};

inline constexpr std::array kCollectives = {Collective::all_reduce, Collective::all_reduce_tree,
                                            Collective::all_gather, Collective::reduce_scatter,
                                            Collective::all_to_all, Collective::send_receive};

/// Its name on the command line.
[[nodiscard]] std::string_view to_string(Collective c) noexcept;
/// The operation with this name.
[[nodiscard]] std::optional<Collective> parse_collective(std::string_view name) noexcept;
/// Adds up floats; the others only move bytes.
[[nodiscard]] bool reduces(Collective c) noexcept;
/// Between any two ranks, in NCCL's smaller chunks for such operations.
[[nodiscard]] bool is_p2p(Collective c) noexcept;
/// Bus bandwidth by algorithm bandwidth, as NCCL's tests define it: the share of `size` that the
/// busiest link has to carry.
[[nodiscard]] double bus_factor(Collective c, int ranks) noexcept;

/// What shapes the messages.
struct Shape {
  int ranks = 2;
  int channels = 2;               ///< independent rings, trees or connections per pair
  std::size_t chunk = 512 << 10;  ///< largest message of rings and trees, in bytes
  std::size_t p2p_chunk = 128 << 10;

  /// Largest message of the operation.
  [[nodiscard]] std::size_t largest(Collective c) const noexcept {
    return is_p2p(c) ? p2p_chunk : chunk;
  }
};

/// The other end of a connection. Each pair of ranks has at most one per channel and direction.
struct Peer {
  int rank;
  int channel;
};

/// Connections of one rank.
struct Peers {
  std::vector<Peer> sends, receives;
};
[[nodiscard]] Peers peers_of(Collective c, const Shape& shape, int rank);

inline constexpr std::int64_t kNone = -1;

/// Adds up what is named here (input and messages) and stores it in all places named (output and
/// messages). At least one of each kind is named; only operations that reduce name several inputs.
struct Step {
  std::array<std::int16_t, 2> receives{kNone, kNone};  ///< indices into Peers::receives
  std::array<std::int16_t, 2> sends{kNone, kNone};     ///< indices into Peers::sends
  std::int64_t input = kNone;                          ///< offset in the rank's input, bytes
  std::int64_t output = kNone;                         ///< offset in its output, bytes
  std::size_t bytes = 0;                               ///< a multiple of 4, not 0
};

/// Steps in order. Programs of a rank run side by side; no two use the same connection.
using Program = std::vector<Step>;

/// Size of the buffers that an operation has at each rank; `size` as NCCL's tests count it.
struct Volume {
  std::size_t input, output;
};
/// The size rounded to what the operation can divide evenly between the ranks.
[[nodiscard]] std::size_t whole_size(Collective c, int ranks, std::size_t size) noexcept;
[[nodiscard]] Volume volume(Collective c, int ranks, std::size_t size) noexcept;

[[nodiscard]] std::vector<Program> programs_of(Collective c, const Shape& shape, int rank,
                                               std::size_t size);

}  // namespace mrc::nccl_perf
