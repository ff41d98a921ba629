// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "probe/paths.hpp"
#include "probe/trains.hpp"
#include "probe/verdict.hpp"

/// Paths that are slow and lose nothing: they stand out against their neighbours. Values and
/// functions without state: any thread.
namespace mrc::probe {

/// How a path compares with its neighbours.
enum class Standing : std::uint8_t { unknown, fine, slow };

/// Results as judge() takes them, for which slow paths are dead ones.
[[nodiscard]] std::vector<PathResult> results_of(std::span<const Standing> paths);

/// Compares paths by what trains say of them (loads[i] of paths[i]): slow are those that carry less
/// than a third of what their neighbours do. Neighbours are paths of all planes that lead over a
/// T1 as well, or do not either, and to other hosts as well, or back.
[[nodiscard]] std::vector<Standing> compare_loads(std::span<const ProbePath> paths,
                                                  std::span<const PathLoad> loads);

/// The parts that slow paths have in common: `dead` and `dead_paths` of the verdict are about slow
/// ones. What is slow about a host as a whole, or about a single source route of which every part
/// is fast elsewhere, is not told: programs are slow, too.
[[nodiscard]] Verdict judge_standings(std::span<const ProbePath> paths,
                                      std::span<const Standing> standings);

/// What the paths over a part carry, and what their neighbours do.
struct CarriedRates {
  double here = 0;   ///< over it; packets per second, median of PathLoad::best()
  double usual = 0;  ///< beside it, likewise
};

/// Of a part of which judge_standings() has found that paths over it are slow.
[[nodiscard]] CarriedRates carried_rates(std::span<const ProbePath> paths,
                                         std::span<const PathLoad> loads, const Part& part);

/// What the packets of a program met on a path in an interval.
struct PathPace {
  std::uint64_t delivered = 0;  ///< packets reported received
  std::uint64_t marks = 0;      ///< acknowledgements that asked to skip the path
  std::uint64_t rtt_ns = 0;     ///< smoothed round-trip time; 0: not measured
};

/// The middle value, of two the larger one; 0 if there is none.
[[nodiscard]] double upper_median(std::vector<double> values);

/// Compares the paths from one sender to one receiver, over which it sends evenly: slow are those
/// that delivered less than half of what the others did, at 2.5 times their round-trip time or with
/// 4 times their share of marks, and 10 % at least. Paths that delivered fewer than 20 packets are
/// unknown.
[[nodiscard]] std::vector<Standing> compare_paces(std::span<const PathPace> paths);

/// The standing of a path over several intervals: a queue that fills for a moment is none of a slow
/// link. One thread at a time.
class StandingRecord {
 public:
  /// Of so many intervals a path is slow in all but one until it is called so, and until it is no
  /// longer.
  static constexpr unsigned kIntervals = 6;

  /// The next interval.
  void add(Standing standing) noexcept;
  /// What the last kIntervals say together: slow, fine, or unknown if most of them are.
  [[nodiscard]] Standing standing() const noexcept;

 private:
  std::uint8_t slow_ = 0, known_ = 0;  ///< bit i: i intervals ago
  bool is_slow_ = false;
};

}  // namespace mrc::probe
