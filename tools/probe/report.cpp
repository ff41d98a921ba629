// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <iterator>
#include <map>
#include <utility>

#include "probe/report.hpp"

namespace mrc::probe {

const char* to_string(Trouble::Kind kind) noexcept {
  switch (kind) {
    case Trouble::Kind::dead:
      return "dead";
    case Trouble::Kind::silent:
      return "silent";
    case Trouble::Kind::narrow:
      return "narrow";
    case Trouble::Kind::slow:
      return "slow";
    case Trouble::Kind::lossy:
      return "lossy";
  }
  return "?";
}

namespace detail {

/// "3 of 16 EVs".
inline std::string of_text(unsigned some, unsigned all, const char* what) {
  return std::to_string(some) + " of " + std::to_string(all) + what;
}

/// "4.2 %". `all` is not 0.
inline std::string percent_text(unsigned some, unsigned all) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f %%", 100.0 * some / all);
  return text;
}

inline bool all_chosen(const Report& r, const Part& part) {
  return std::all_of(r.paths.begin(), r.paths.end(), [&](const ProbePath& path) {
    return is_chosen(path) || !std::binary_search(path.parts.begin(), path.parts.end(), part);
  });
}

inline std::string dead_detail(const Description& d, const Report& r, const Finding& f) {
  std::string text = direction_text(d, f.part) + of_text(f.paths, f.paths, " paths over it");
  if (f.part.kind == PartKind::host_link && f.part.number == r.self && !r.link_up[f.part.plane])
    text += "; " + d.hosts[r.self].interfaces[f.part.plane] + " has no carrier";
  for (std::size_t i = 0; i < f.alike.size(); ++i)
    text += (i == 0 ? "; it may be " : " or ") + part_name(d, f.alike[i]);
  if (!f.alike.empty()) text += " as well, seen from " + d.hosts[r.self].name;
  if (d.forwarding == fabric::Forwarding::ecmp && all_chosen(r, f.part))
    text += "; or the T1s on the way";
  if (f.denied) text += "; denied";
  return text;
}

/// The unexplained losses of the EVs of one way to a host, with ECMP.
struct TroubledWay {
  std::size_t path = 0;  ///< one of its EVs
  unsigned evs = 0, dead = 0, lossy = 0;
  unsigned lost = 0, tries = 0;  ///< probes of the lossy ones
};

inline std::map<std::pair<unsigned, Plane>, TroubledWay> troubled_ways(const Report& r,
                                                                       const Verdict& verdict) {
  std::map<std::pair<unsigned, Plane>, TroubledWay> ways;
  const auto way_of = [&](std::size_t i) -> TroubledWay& {
    TroubledWay& way = ways[{r.paths[i].to, r.paths[i].plane}];
    way.path = i;
    return way;
  };
  for (const std::size_t i : verdict.dead_paths) ++way_of(i).dead;
  for (const std::size_t i : verdict.lossy_paths) {
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
  if (way.dead > 0) text = of_text(way.dead, way.evs, " EVs");
  if (way.lossy > 0)
    text += (way.dead > 0 ? ", " + std::to_string(way.lossy) + " more"
                          : of_text(way.lossy, way.evs, " EVs")) +
            " with " + percent_text(way.lost, way.tries) + " of probes lost";
  if (is_chosen(r.paths[way.path])) text += ": a T1 or its link, there or on the way back";
  return text;
}

inline std::string lossy_detail(unsigned lost, unsigned tries) {
  return percent_text(lost, tries) + " of " + std::to_string(tries) + " probes over it lost";
}

/// Losses that no part explains: for each source route, or with ECMP for each way.
inline std::vector<Trouble> path_troubles(const Description& d, const Report& r,
                                          const Verdict& verdict) {
  using Kind = Trouble::Kind;
  std::vector<Trouble> out;
  if (d.forwarding == fabric::Forwarding::ecmp) {
    for (const auto& [where, way] : troubled_ways(r, verdict))
      out.push_back({way.dead > 0 ? Kind::dead : Kind::lossy,
                     "path " + way_name(d, r.paths[way.path]), way_detail(r, way)});
    return out;
  }
  for (const std::size_t i : verdict.dead_paths)
    out.push_back(
        {Kind::dead, "path " + path_name(d, r.paths[i]), "all of its parts work on other paths"});
  for (const std::size_t i : verdict.lossy_paths)
    out.push_back({Kind::lossy, "path " + path_name(d, r.paths[i]),
                   lossy_detail(r.results[i].lost(), r.results[i].tries)});
  return out;
}

inline unsigned paths_to(const Report& r, unsigned host) {
  return static_cast<unsigned>(std::count_if(
      r.paths.begin(), r.paths.end(),
      [host](const ProbePath& path) { return path.kind == PathKind::peer && path.to == host; }));
}

/// What lets small packets through only.
inline std::vector<Trouble> narrow_troubles(const Description& d, const Report& r) {
  using Kind = Trouble::Kind;
  const std::string size = "packets of " + std::to_string(r.full_size) + " bytes ";
  const std::string passes = size + "do not pass, small ones do; ";
  std::vector<Trouble> out;
  for (const Finding& f : r.narrow.dead)
    out.push_back({Kind::narrow, part_name(d, both_ways(f.part)), passes + dead_detail(d, r, f)});
  for (Trouble& trouble : path_troubles(d, r, r.narrow))
    out.push_back({Kind::narrow, std::move(trouble.what), passes + trouble.detail});
  for (const unsigned host : r.narrow.silent)
    out.push_back({Kind::narrow, "host " + d.hosts[host].name,
                   size + "are answered on none of " + std::to_string(paths_to(r, host)) +
                       " paths, small ones are: have its interfaces a smaller MTU, or is its "
                       "program not OpenMRC?"});
  return out;
}

/// "9.6 Mb/s", of packets of full size.
inline std::string rate_text(const Report& r, double packets_per_second) {
  const double mbit = r.megabits(packets_per_second);
  char text[32];
  std::snprintf(text, sizeof text, mbit < 1000 ? "%.1f Mb/s" : "%.1f Gb/s",
                mbit < 1000 ? mbit : mbit / 1000);
  return text;
}

/// What is slow and loses nothing.
inline std::vector<Trouble> slow_troubles(const Description& d, const Report& r) {
  using Kind = Trouble::Kind;
  std::vector<Trouble> out;
  for (const Finding& f : r.slow.dead) {
    const CarriedRates rates = carried_rates(r.paths, r.loads, f.part);
    out.push_back({Kind::slow, part_name(d, both_ways(f.part)),
                   "carries " + rate_text(r, rates.here) + ", neighbours carry " +
                       rate_text(r, rates.usual) + "; " + dead_detail(d, r, f)});
  }
  for (Trouble& trouble : path_troubles(d, r, r.slow))
    out.push_back({Kind::slow, std::move(trouble.what), std::move(trouble.detail)});
  return out;
}

}  // namespace detail

std::vector<Trouble> troubles(const Description& d, const Report& r) {
  using Kind = Trouble::Kind;
  std::vector<Trouble> out;
  const std::vector<Trouble> paths = detail::path_troubles(d, r, r.verdict);
  const auto add_paths = [&](Kind kind) {
    std::copy_if(paths.begin(), paths.end(), std::back_inserter(out),
                 [kind](const Trouble& trouble) { return trouble.kind == kind; });
  };
  for (const Finding& f : r.verdict.dead)
    out.push_back({Kind::dead, part_name(d, both_ways(f.part)), detail::dead_detail(d, r, f)});
  add_paths(Kind::dead);
  for (const unsigned host : r.verdict.silent)
    out.push_back({Kind::silent, "host " + d.hosts[host].name,
                   "no one answers on any of " + std::to_string(detail::paths_to(r, host)) +
                       " paths: is a device open there, or `mrc_probe --answer` running?"});
  for (Trouble& trouble : detail::narrow_troubles(d, r)) out.push_back(std::move(trouble));
  for (Trouble& trouble : detail::slow_troubles(d, r)) out.push_back(std::move(trouble));
  for (const Finding& f : r.verdict.lossy) {
    std::string what = part_name(d, both_ways(f.part));
    if (std::none_of(out.begin(), out.end(), [&](const Trouble& t) { return t.what == what; }))
      out.push_back({Kind::lossy, std::move(what),
                     direction_text(d, f.part) + detail::lossy_detail(f.lost, f.tries)});
  }
  add_paths(Kind::lossy);
  return out;
}

}  // namespace mrc::probe
