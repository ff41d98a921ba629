// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "mrc/core/random.hpp"
#include "mrc/fabric/description.hpp"
#include "mrc/fabric/fabric_reader.hpp"
#include "probe/second_look.hpp"
#include "probe/verdict.hpp"

/// Shared by the tests of mrc_probe: small fabrics, and what a host finds out about one in which
/// some parts are broken.
namespace mrc::probe::testing {

inline Description make_fabric(unsigned planes, unsigned t0, unsigned t1, unsigned hosts,
                               const std::string& more = "") {
  return fabric::parse(
      "f.json", fmt::format(R"({{ {} "planes": {}, "t0": {}, "t1": {}, "hosts": {} }})", more,
                            planes, t0, t1, hosts));
}

inline std::vector<ProbePath> all_paths(const PathMaker& maker) {
  std::vector<ProbePath> paths = maker.loops();
  for (unsigned k = 0; k < maker.description().hosts.size(); ++k)
    if (k != maker.self())
      for (ProbePath& path : maker.paths_to(k)) paths.push_back(std::move(path));
  return paths;
}

inline bool goes_over(const ProbePath& path, const std::set<Part>& parts) {
  return std::any_of(path.parts.begin(), path.parts.end(),
                     [&](const Part& part) { return parts.contains(part); });
}

/// A fabric in which dead parts let nothing through, lossy ones a part of the probes.
struct Broken {
  std::set<Part> dead;
  std::set<Part> lossy;
  double loss = 0.3;  ///< each way, or the one way that is lossy
  Random random{1};

  PathResult probe(const ProbePath& path, unsigned tries) {
    PathResult result;
    for (result.tries = 0; result.tries < tries; ++result.tries) {
      bool lost = goes_over(path, dead);
      for (const Part& part : lossy) {
        if (!goes_over(path, {part})) continue;
        lost = lost || random.chance(loss);
        if (part.direction == Direction::both) lost = lost || random.chance(loss);
      }
      if (!lost) ++result.answered;
    }
    return result;
  }
};

/// What a host finds out, with the program's numbers of tries.
struct Look {
  std::vector<ProbePath> paths;
  std::vector<PathResult> results;
  Verdict verdict;

  Look(const Description& d, unsigned self, Broken& broken) {
    const PathMaker maker(d, self);
    paths = all_paths(maker);
    for (const ProbePath& path : paths) results.push_back(broken.probe(path, 3));
    SecondLook second = second_look(maker, paths, results);
    for (const std::size_t i : second.again) results[i] = broken.probe(paths[i], 24);
    for (ProbePath& path : second.detours) {
      results.push_back(broken.probe(path, 24));
      paths.push_back(std::move(path));
    }
    for (ProbePath& path : second.turns) {
      results.push_back(broken.probe(path, 192));
      paths.push_back(std::move(path));
    }
    verdict = judge(paths, results);
  }
};

/// "link p0t0-0 - p0t1-1, host h1".
inline std::string names_of(const Description& d, const std::vector<Finding>& findings) {
  std::string names;
  for (const Finding& f : findings) names += (names.empty() ? "" : ", ") + part_name(d, f.part);
  return names;
}

inline std::string dead_parts(const Description& d, const std::set<Part>& dead, unsigned self = 0) {
  Broken broken{dead, {}};
  return names_of(d, Look(d, self, broken).verdict.dead);
}

}  // namespace mrc::probe::testing
