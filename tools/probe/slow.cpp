// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <bit>
#include <cstddef>
#include <map>
#include <utility>

#include "probe/slow.hpp"

namespace mrc::probe {

namespace detail {

/// The value at a share of the way from the least to the largest; 0 if there is none. Of two, the
/// lower one at 0.49 and the upper one at 0.5.
inline double quantile(std::vector<double> values, double share) {
  if (values.empty()) return 0;
  const auto place = std::min(values.size() - 1,
                              static_cast<std::size_t>(share * static_cast<double>(values.size())));
  const auto at = values.begin() + static_cast<std::ptrdiff_t>(place);
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

/// As upper_median(), where half of the values may be those of slow paths.
inline double lower_median(std::vector<double> values) {
  return quantile(std::move(values), 0.49);
}

/// Which paths are compared with each other: the hops of others differ too much.
inline std::pair<bool, bool> company_of(const ProbePath& path) {
  constexpr std::size_t kStopsBelowT1 = 3;
  return {path.kind == PathKind::peer, path.stops.size() > kStopsBelowT1};
}

/// Of each company what its paths carry at best, in packets per second.
inline std::map<std::pair<bool, bool>, double> usual_rates(std::span<const ProbePath> paths,
                                                           std::span<const PathLoad> loads) {
  std::map<std::pair<bool, bool>, std::vector<double>> rates;
  for (std::size_t i = 0; i < paths.size() && i < loads.size(); ++i)
    if (const double best = loads[i].best(); best > 0) rates[company_of(paths[i])].push_back(best);
  std::map<std::pair<bool, bool>, double> usual;
  for (auto& [company, values] : rates) usual[company] = upper_median(std::move(values));
  return usual;
}

}  // namespace detail

double upper_median(std::vector<double> values) {
  return detail::quantile(std::move(values), 0.5);
}

std::vector<PathResult> results_of(std::span<const Standing> paths) {
  std::vector<PathResult> results;
  for (const Standing standing : paths)
    results.push_back({standing != Standing::unknown ? 1u : 0u,  // tries
                       standing == Standing::fine ? 1u : 0u,     // answered
                       {}});
  return results;
}

std::vector<Standing> compare_loads(std::span<const ProbePath> paths,
                                    std::span<const PathLoad> loads) {
  constexpr double kSlow = 1.0 / 3;
  const auto usual = detail::usual_rates(paths, loads);
  std::vector<Standing> standings(paths.size(), Standing::unknown);
  for (std::size_t i = 0; i < paths.size() && i < loads.size(); ++i)
    if (const double best = loads[i].best(); best > 0)
      standings[i] =
          best < kSlow * usual.at(detail::company_of(paths[i])) ? Standing::slow : Standing::fine;
  return standings;
}

Verdict judge_standings(std::span<const ProbePath> paths, std::span<const Standing> standings) {
  Verdict v = judge(paths, results_of(standings), Extent::there);
  v.silent.clear();
  std::erase_if(v.dead, [](const Finding& f) { return f.part.kind == PartKind::host; });
  std::erase_if(v.dead_paths, [&](std::size_t i) { return !is_chosen(paths[i]); });
  return v;
}

CarriedRates carried_rates(std::span<const ProbePath> paths, std::span<const PathLoad> loads,
                           const Part& part) {
  const auto usual = detail::usual_rates(paths, loads);
  std::vector<double> here, others;
  for (std::size_t i = 0; i < paths.size() && i < loads.size(); ++i) {
    if (!std::binary_search(paths[i].there.begin(), paths[i].there.end(), part)) continue;
    if (loads[i].best() == 0) continue;
    here.push_back(loads[i].best());
    others.push_back(usual.at(detail::company_of(paths[i])));
  }
  return {upper_median(std::move(here)), upper_median(std::move(others))};
}

std::vector<Standing> compare_paces(std::span<const PathPace> paths) {
  constexpr std::uint64_t kLeast = 20;
  constexpr double kFewer = 0.5, kSlower = 2.5, kMoreMarks = 4, kLeastMarks = 0.1;
  const auto share = [](const PathPace& path) {
    return static_cast<double>(path.marks) / static_cast<double>(path.delivered);
  };
  std::vector<double> delivered, rtts, marks;
  for (const PathPace& path : paths) {
    if (path.delivered < kLeast) continue;
    delivered.push_back(static_cast<double>(path.delivered));
    marks.push_back(share(path));
    if (path.rtt_ns > 0) rtts.push_back(static_cast<double>(path.rtt_ns));
  }
  const double usual = upper_median(std::move(delivered)),
               usual_rtt = detail::lower_median(std::move(rtts)),
               usual_share = detail::lower_median(std::move(marks));
  std::vector<Standing> standings;
  for (const PathPace& path : paths) {
    Standing& standing = standings.emplace_back(Standing::unknown);
    if (path.delivered < kLeast) continue;
    const bool waits = usual_rtt > 0 && static_cast<double>(path.rtt_ns) > kSlower * usual_rtt;
    const bool marked = share(path) > std::max(kLeastMarks, kMoreMarks * usual_share);
    const bool fewer = static_cast<double>(path.delivered) < kFewer * usual;
    standing = fewer && (waits || marked) ? Standing::slow : Standing::fine;
  }
  return standings;
}

void StandingRecord::add(Standing standing) noexcept {
  constexpr unsigned kMask = (1u << kIntervals) - 1;
  const auto push = [](std::uint8_t bits, bool bit) {
    return static_cast<std::uint8_t>((bits << 1 | (bit ? 1 : 0)) & kMask);
  };
  slow_ = push(slow_, standing == Standing::slow);
  known_ = push(known_, standing != Standing::unknown);
  const auto slow = static_cast<unsigned>(std::popcount(slow_)),
             known = static_cast<unsigned>(std::popcount(known_));
  if (slow + 1 >= kIntervals) is_slow_ = true;
  if (known - slow + 1 >= kIntervals || known <= 1) is_slow_ = false;
}

Standing StandingRecord::standing() const noexcept {
  if (is_slow_) return Standing::slow;
  return std::popcount(known_) * 2 > static_cast<int>(kIntervals) ? Standing::fine
                                                                  : Standing::unknown;
}

}  // namespace mrc::probe
