// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "mrc_probe/paths.hpp"
#include "mrc_probe/sweep.hpp"
#include "mrc_probe/verdict.hpp"

namespace mrc::probe {

/// Time of day, for people.
using WallTime = std::chrono::system_clock::time_point;

/// What one sweep has found out.
struct Report {
  unsigned self = 0;
  WallTime started;
  Duration took{};
  std::uint64_t probes = 0;
  std::vector<ProbePath> paths;
  std::vector<PathResult> results;  ///< [path]
  Verdict verdict;
  std::vector<bool> link_up;  ///< [plane]: does the own port have a carrier?
};

/// Something that is wrong, in words.
struct Trouble {
  enum class Kind : std::uint8_t { dead, silent, lossy };
  Kind kind = Kind::dead;
  std::string what;    ///< "link p1t0-0 - p1t1-1"
  std::string detail;  ///< "12 of 12 paths over it"
};

[[nodiscard]] inline const char* to_string(Trouble::Kind kind) noexcept {
  switch (kind) {
    case Trouble::Kind::dead:
      return "dead";
    case Trouble::Kind::silent:
      return "silent";
    case Trouble::Kind::lossy:
      return "lossy";
  }
  return "?";
}

namespace detail {

inline std::string dead_detail(const Description& d, const Report& r, const Finding& f) {
  std::string text = fmt::format("{0} of {0} paths over it", f.paths);
  if (f.part.kind == PartKind::host_link && f.part.number == r.self && !r.link_up[f.part.plane])
    text += fmt::format("; {} has no carrier", d.hosts[r.self].interfaces[f.part.plane]);
  for (std::size_t i = 0; i < f.alike.size(); ++i)
    text += (i == 0 ? "; it may be " : " or ") + part_name(d, f.alike[i]);
  if (!f.alike.empty()) text += " as well, seen from " + d.hosts[r.self].name;
  if (f.denied) text += "; denied";
  return text;
}

/// Paths by their ways: where switches choose, EVs share one as far as it is known.
inline std::map<std::string, std::vector<std::size_t>> by_way(
    const Description& d, const Report& r, const std::vector<std::size_t>& paths) {
  std::map<std::string, std::vector<std::size_t>> ways;
  for (const std::size_t i : paths) ways[way_name(d, r.paths[i])].push_back(i);
  return ways;
}

/// Why some paths of a way are dead of which all parts work on other paths.
inline std::string unexplained_detail(const Description& d, const Report& r, const std::string& way,
                                      std::size_t dead) {
  if (d.forwarding == fabric::Forwarding::srv6) return "all of its parts work on other paths";
  const auto all = std::count_if(r.paths.begin(), r.paths.end(),
                                 [&](const ProbePath& path) { return way_name(d, path) == way; });
  return fmt::format("{} of {} EVs, by which switches choose a T1, there or on the way back", dead,
                     all);
}

inline unsigned paths_to(const Report& r, unsigned host) {
  return static_cast<unsigned>(std::count_if(
      r.paths.begin(), r.paths.end(),
      [host](const ProbePath& path) { return path.kind == PathKind::peer && path.to == host; }));
}

}  // namespace detail

/// All that is wrong, the worst first.
[[nodiscard]] inline std::vector<Trouble> troubles(const Description& d, const Report& r) {
  using Kind = Trouble::Kind;
  const auto loss = [](unsigned lost, unsigned tries) {
    return fmt::format("{:.1f} % of {} probes over it lost", 100.0 * lost / tries, tries);
  };
  std::vector<Trouble> out;
  for (const Finding& f : r.verdict.dead)
    out.push_back({Kind::dead, part_name(d, f.part), detail::dead_detail(d, r, f)});
  for (const auto& [way, paths] : detail::by_way(d, r, r.verdict.dead_paths))
    out.push_back({Kind::dead, "path " + way, detail::unexplained_detail(d, r, way, paths.size())});
  for (const unsigned host : r.verdict.silent)
    out.push_back({Kind::silent, "host " + d.hosts[host].name,
                   fmt::format("no one answers on any of {} paths: is a device open there, or "
                               "`mrc_probe --answer` running?",
                               detail::paths_to(r, host))});
  for (const Finding& f : r.verdict.lossy)
    out.push_back({Kind::lossy, part_name(d, f.part), loss(f.lost, f.tries)});
  for (const auto& [way, paths] : detail::by_way(d, r, r.verdict.lossy_paths)) {
    unsigned lost = 0, tries = 0;
    for (const std::size_t i : paths) {
      lost += r.results[i].lost();
      tries += r.results[i].tries;
    }
    out.push_back({Kind::lossy, "path " + way, loss(lost, tries)});
  }
  return out;
}

}  // namespace mrc::probe
