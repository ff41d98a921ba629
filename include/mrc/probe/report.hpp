// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "mrc/probe/paths.hpp"
#include "mrc/probe/sweep.hpp"
#include "mrc/probe/verdict.hpp"

namespace mrc::inline v0_1::probe {

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

/// Switches choose a part of its way.
inline bool is_chosen(const ProbePath& path) {
  return std::any_of(path.stops.begin(), path.stops.end(),
                     [](const Stop& stop) { return stop.kind == Stop::Kind::unknown; });
}

inline bool all_chosen(const Report& r, const Part& part) {
  return std::all_of(r.paths.begin(), r.paths.end(), [&](const ProbePath& path) {
    return is_chosen(path) || !std::binary_search(path.parts.begin(), path.parts.end(), part);
  });
}

inline std::string dead_detail(const Description& d, const Report& r, const Finding& f) {
  std::string text = fmt::format("{0} of {0} paths over it", f.paths);
  if (f.part.kind == PartKind::host_link && f.part.number == r.self && !r.link_up[f.part.plane])
    text += fmt::format("; {} has no carrier", d.hosts[r.self].interfaces[f.part.plane]);
  for (std::size_t i = 0; i < f.alike.size(); ++i)
    text += (i == 0 ? "; it may be " : " or ") + part_name(d, f.alike[i]);
  if (!f.alike.empty()) text += " as well, seen from " + d.hosts[r.self].name;
  if (d.forwarding == fabric::Forwarding::ecmp && all_chosen(r, f.part))
    text += "; or the T1s on the way";
  if (f.denied) text += "; denied";
  return text;
}

/// A way to a host along which switches choose, and what no part explains about its EVs.
struct TroubledWay {
  std::size_t path = 0;  ///< one of its EVs
  unsigned evs = 0, dead = 0, lossy = 0;
  unsigned lost = 0, tries = 0;  ///< probes of the lossy ones
};

inline std::map<std::pair<unsigned, Plane>, TroubledWay> troubled_ways(const Report& r) {
  std::map<std::pair<unsigned, Plane>, TroubledWay> ways;
  const auto way_of = [&](std::size_t i) -> TroubledWay& {
    TroubledWay& way = ways[{r.paths[i].to, r.paths[i].plane}];
    way.path = i;
    return way;
  };
  for (const std::size_t i : r.verdict.dead_paths) ++way_of(i).dead;
  for (const std::size_t i : r.verdict.lossy_paths) {
    TroubledWay& way = way_of(i);
    ++way.lossy;
    way.lost += r.results[i].lost();
    way.tries += r.results[i].tries;
  }
  for (const ProbePath& path : r.paths)
    if (const auto way = ways.find({path.to, path.plane}); way != ways.end()) ++way->second.evs;
  return ways;
}

/// "5 of 16 EVs, 2 more with 4.2 % of probes lost: a T1 or its link, there or on the way back".
inline std::string way_detail(const Report& r, const TroubledWay& way) {
  std::string text;
  if (way.dead > 0) text = fmt::format("{} of {} EVs", way.dead, way.evs);
  if (way.lossy > 0)
    text += fmt::format("{} with {:.1f} % of probes lost",
                        way.dead > 0 ? fmt::format(", {} more", way.lossy)
                                     : fmt::format("{} of {} EVs", way.lossy, way.evs),
                        100.0 * way.lost / way.tries);
  if (is_chosen(r.paths[way.path])) text += ": a T1 or its link, there or on the way back";
  return text;
}

inline std::string lossy_detail(unsigned lost, unsigned tries) {
  return fmt::format("{:.1f} % of {} probes over it lost", 100.0 * lost / tries, tries);
}

/// What no part explains: of source routes each by itself, else by ways.
inline std::vector<Trouble> path_troubles(const Description& d, const Report& r) {
  using Kind = Trouble::Kind;
  std::vector<Trouble> out;
  if (d.forwarding == fabric::Forwarding::ecmp) {
    for (const auto& [where, way] : troubled_ways(r))
      out.push_back({way.dead > 0 ? Kind::dead : Kind::lossy,
                     "path " + way_name(d, r.paths[way.path]), way_detail(r, way)});
    return out;
  }
  for (const std::size_t i : r.verdict.dead_paths)
    out.push_back(
        {Kind::dead, "path " + path_name(d, r.paths[i]), "all of its parts work on other paths"});
  for (const std::size_t i : r.verdict.lossy_paths)
    out.push_back({Kind::lossy, "path " + path_name(d, r.paths[i]),
                   lossy_detail(r.results[i].lost(), r.results[i].tries)});
  return out;
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
  std::vector<Trouble> out;
  const std::vector<Trouble> paths = detail::path_troubles(d, r);
  const auto add_paths = [&](Kind kind) {
    std::copy_if(paths.begin(), paths.end(), std::back_inserter(out),
                 [kind](const Trouble& trouble) { return trouble.kind == kind; });
  };
  for (const Finding& f : r.verdict.dead)
    out.push_back({Kind::dead, part_name(d, f.part), detail::dead_detail(d, r, f)});
  add_paths(Kind::dead);
  for (const unsigned host : r.verdict.silent)
    out.push_back({Kind::silent, "host " + d.hosts[host].name,
                   fmt::format("no one answers on any of {} paths: is a device open there, or "
                               "`mrc_probe --answer` running?",
                               detail::paths_to(r, host))});
  for (const Finding& f : r.verdict.lossy)
    out.push_back({Kind::lossy, part_name(d, f.part), detail::lossy_detail(f.lost, f.tries)});
  add_paths(Kind::lossy);
  return out;
}

}  // namespace mrc::inline v0_1::probe
