// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "probe/cover.hpp"
#include "probe/verdict.hpp"

namespace mrc::probe {

namespace detail {

enum class PathState : std::uint8_t { unknown, dead, lossy, clean };

/// A part that may be the reason, and the troubled paths over it.
struct Suspect {
  Part part;
  std::vector<std::size_t> targets;  ///< places in the list of troubled paths
  double ratio = 1;                  ///< of the probes over it that were lost
};

class Judge {
 public:
  Judge(std::span<const ProbePath> paths, std::span<const PathResult> results, Extent extent)
      : paths_(paths),
        results_(results),
        extent_(extent),
        states_(paths.size(), PathState::unknown) {
    for (std::size_t i = 0; i < paths.size() && i < results.size(); ++i) {
      const PathResult& r = results[i];
      if (r.tries == 0) continue;
      states_[i] = r.answered == 0 ? PathState::dead
                   : r.lost() > 0  ? PathState::lossy
                                   : PathState::clean;
      for (const Part& part : parts_of(i)) over_[part].push_back(i);
    }
  }

  [[nodiscard]] Verdict run() {
    const std::map<unsigned, std::vector<std::size_t>> silent = set_silent_hosts_aside();
    Verdict v;
    v.dead = explain(PathState::dead, v.dead_paths);
    v.lossy = explain(PathState::lossy, v.lossy_paths);
    for (const auto& [host, paths] : silent)
      if (!cut_off(paths, v.dead)) v.silent.push_back(host);
    return v;
  }

 private:
  [[nodiscard]] const std::vector<Part>& parts_of(std::size_t path) const {
    return extent_ == Extent::there ? paths_[path].there : paths_[path].parts;
  }

  /// A host that answers on no path says nothing about the paths to it.
  std::map<unsigned, std::vector<std::size_t>> set_silent_hosts_aside() {
    std::map<unsigned, std::vector<std::size_t>> hosts;
    for (std::size_t i = 0; i < paths_.size(); ++i)
      if (paths_[i].kind == PathKind::peer && states_[i] != PathState::unknown)
        hosts[paths_[i].to].push_back(i);
    std::erase_if(hosts, [this](const auto& host) {
      return !std::all_of(host.second.begin(), host.second.end(),
                          [this](std::size_t i) { return states_[i] == PathState::dead; });
    });
    for (const auto& host : hosts)
      for (const std::size_t i : host.second) states_[i] = PathState::unknown;
    return hosts;
  }

  [[nodiscard]] bool cut_off(const std::vector<std::size_t>& paths,
                             const std::vector<Finding>& dead) const {
    return std::all_of(paths.begin(), paths.end(), [&](std::size_t i) {
      return std::any_of(dead.begin(), dead.end(), [&](const Finding& f) {
        return std::binary_search(parts_of(i).begin(), parts_of(i).end(), f.part);
      });
    });
  }

  /// The parts that explain the paths in that state; unexplained paths are added to `rest`.
  [[nodiscard]] std::vector<Finding> explain(PathState state,
                                             std::vector<std::size_t>& rest) const {
    std::vector<std::size_t> targets;
    for (std::size_t i = 0; i < paths_.size(); ++i)
      if (states_[i] == state) targets.push_back(i);
    const std::vector<Suspect> suspects = find_suspects(state, targets);
    std::vector<std::vector<std::size_t>> sets;
    for (const Suspect& s : suspects) sets.push_back(s.targets);
    std::vector<Finding> findings;
    std::set<std::size_t> explained;
    for (const std::size_t chosen : smallest_cover(sets, targets.size())) {
      const Suspect& suspect = suspects[chosen];
      explained.insert(suspect.targets.begin(), suspect.targets.end());
      findings.push_back(describe(suspect));
      for (const Suspect& other : suspects)
        if (other.part != suspect.part && other.targets == suspect.targets &&
            other.ratio == suspect.ratio)
          findings.back().alike.push_back(other.part);
    }
    for (std::size_t t = 0; t < targets.size(); ++t)
      if (!explained.contains(t)) rest.push_back(targets[t]);
    std::sort(findings.begin(), findings.end(),
              [](const Finding& a, const Finding& b) { return a.part < b.part; });
    return findings;
  }

  /// Sorted by preference. For dead paths: parts that explain more of them. For lossy paths: parts
  /// with the highest share of lost probes. Then the smaller part.
  [[nodiscard]] std::vector<Suspect> find_suspects(PathState state,
                                                   const std::vector<std::size_t>& targets) const {
    std::map<Part, Suspect> by_part;
    for (std::size_t t = 0; t < targets.size(); ++t)
      for (const Part& part : parts_of(targets[t])) by_part[part].targets.push_back(t);
    std::vector<Suspect> suspects;
    for (auto& [part, suspect] : by_part) {
      suspect.part = part;
      if (state == PathState::dead ? is_dead(part) : is_lossy(part, suspect.ratio))
        suspects.push_back(std::move(suspect));
    }
    std::erase_if(suspects, [&](const Suspect& suspect) {
      return suspect.part.direction != Direction::both && !is_one_way(state, suspect);
    });
    std::stable_sort(suspects.begin(), suspects.end(), [](const Suspect& a, const Suspect& b) {
      return a.ratio != b.ratio ? a.ratio > b.ratio : a.targets.size() > b.targets.size();
    });
    return suspects;
  }

  [[nodiscard]] bool is_dead(const Part& part) const {
    for (const std::size_t i : over_.at(part))
      if (states_[i] == PathState::lossy || states_[i] == PathState::clean) return false;
    return true;
  }

  /// Whether all paths over the part may lose the same share: false if, at one common loss rate, so
  /// many paths without a loss would have a probability below kChance.
  [[nodiscard]] bool is_lossy(const Part& part, double& ratio) const {
    constexpr double kChance = 1e-6;
    double tries = 0, lost = 0, clean = 0;
    for (const std::size_t i : over_.at(part)) {
      if (states_[i] != PathState::lossy && states_[i] != PathState::clean) continue;
      tries += results_[i].tries;
      lost += results_[i].lost();
      if (states_[i] == PathState::clean) clean += results_[i].tries;
    }
    ratio = lost / tries;
    return clean * std::log1p(-ratio) >= std::log(kChance);
  }

  /// Whether the other direction of the link fares better: false if, at the loss rate of this one,
  /// so few losses would have a probability above kChance.
  [[nodiscard]] bool is_one_way(PathState state, const Suspect& suspect) const {
    constexpr double kChance = 1e-3;
    /// Other losses, such as probes that were late.
    constexpr double kOthers = 0.1;
    const std::vector<std::size_t>& same = over_.at(suspect.part);
    double tries = 0, lost = 0;
    for (const std::size_t i : over_.at(both_ways(suspect.part))) {
      if (states_[i] == PathState::unknown || std::binary_search(same.begin(), same.end(), i))
        continue;
      if (state == PathState::dead) return true;  // is_dead(): no path over both is alive
      tries += results_[i].tries;
      lost += results_[i].lost();
    }
    return lost <= kOthers * suspect.ratio * tries &&
           tries * std::log1p(-std::min(suspect.ratio, 0.999)) < std::log(kChance);
  }

  [[nodiscard]] Finding describe(const Suspect& suspect) const {
    Finding f;
    f.part = suspect.part;
    f.denied = true;
    for (const std::size_t i : over_.at(f.part)) {
      ++f.paths;
      f.denied = f.denied && paths_[i].denied;
      if (states_[i] == PathState::dead || states_[i] == PathState::unknown) continue;
      f.tries += results_[i].tries;
      f.lost += results_[i].lost();
    }
    return f;
  }

  std::span<const ProbePath> paths_;
  std::span<const PathResult> results_;
  Extent extent_;
  std::vector<PathState> states_;
  std::map<Part, std::vector<std::size_t>> over_;  ///< probed paths over each part
};

}  // namespace detail

Verdict judge(std::span<const ProbePath> paths, std::span<const PathResult> results,
              Extent extent) {
  return detail::Judge(paths, results, extent).run();
}

}  // namespace mrc::probe
