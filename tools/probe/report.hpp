// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "mrc/core/types.hpp"
#include "probe/paths.hpp"
#include "probe/slow.hpp"
#include "probe/sweep.hpp"
#include "probe/trains.hpp"
#include "probe/verdict.hpp"

/// Results of a sweep, and what is wrong in words. Values and functions without state: any thread.
namespace mrc::probe {

/// Time of day, for people.
using WallTime = std::chrono::system_clock::time_point;

/// The results of one sweep.
struct Report {
  unsigned self = 0;                ///< index of the host that probed
  WallTime started;                 ///< start of the sweep
  Duration took{};                  ///< duration, verdict included
  std::uint64_t probes = 0;         ///< sent
  std::vector<ProbePath> paths;     ///< probed, detours of the second look included
  std::vector<PathResult> results;  ///< [path]
  Verdict verdict;                  ///< what the results say about the fabric
  std::uint32_t full_size = 0;      ///< bytes of IP packets of full size; 0: none were sent
  /// [path]: probes of full size, on paths that small ones pass; none if full_size is 0.
  std::vector<PathResult> full;
  Verdict narrow;  ///< what these say: what is `dead` there lets small packets through
  /// [path]: what trains of full size say; none without --load.
  std::vector<PathLoad> loads;
  Verdict slow;               ///< what these say: what is `dead` there carries less than others do
  std::vector<bool> link_up;  ///< [plane]: whether the host's own port has a carrier

  /// Mb/s of so many packets of full size.
  [[nodiscard]] double megabits(double packets_per_second) const noexcept {
    return packets_per_second * full_size * 8 / 1e6;
  }
  /// True if nothing is dead, silent, narrow or slow; parts and paths may be lossy.
  [[nodiscard]] bool all_alive() const noexcept {
    return verdict.all_alive() && narrow.all_alive() && slow.all_alive();
  }
};

/// Something that is wrong, in words.
struct Trouble {
  /// dead: no probe was answered; silent: a host answers on no path; narrow: no probe of full size
  /// was answered, and small ones were; slow: trains take longer than on other paths; lossy: some
  /// probes were lost.
  enum class Kind : std::uint8_t { dead, silent, narrow, slow, lossy };
  Kind kind = Kind::dead;  ///< severity
  std::string what;        ///< "link p1t0-0 - p1t1-1"
  std::string detail;      ///< "12 of 12 paths over it"
};

/// "dead", "silent", "narrow", "slow" or "lossy".
[[nodiscard]] const char* to_string(Trouble::Kind kind) noexcept;

/// All that is wrong, the worst first: dead parts and paths, silent hosts, narrow parts, paths and
/// hosts, slow parts and paths, lossy parts and paths; each part once.
/// The report must be of a sweep over `d`.
[[nodiscard]] std::vector<Trouble> troubles(const Description& d, const Report& r);

}  // namespace mrc::probe
