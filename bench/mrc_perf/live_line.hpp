// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace mrc::perf {

/// What a live line shows of one interval.
struct LiveLine {
  double seconds;  ///< since the start
  double gbps;
  double mpps;
  std::uint64_t retransmits;
  std::vector<double> plane_gbps;
};

/// The share of the bandwidth at which the bar of one of `planes` planes is full: twice a fair one.
[[nodiscard]] double full_share(std::size_t planes) noexcept;

/// The line, at most `width` columns wide (from 60 on). Each plane has a bar, to scale, and its
/// percentage; with too many planes for that a percentage each, then the least and the greatest of
/// them. A bar that would be longer than its place ends in an arrow.
[[nodiscard]] std::string live_line(const LiveLine& line, std::size_t width, bool unicode);

}  // namespace mrc::perf
