// SPDX-License-Identifier: Apache-2.0
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "probe/second_look.hpp"

namespace mrc::probe {

namespace detail {

class LookPlanner {
 public:
  LookPlanner(const PathMaker& maker, std::span<const ProbePath> paths,
              std::span<const PathResult> results)
      : maker_(maker), d_(maker.description()), paths_(paths), results_(results) {
    for (std::size_t i = 0; i < paths.size(); ++i) {
      const ProbePath& p = paths[i];
      if (p.kind == PathKind::peer && results[i].answered > 0) answering_.insert(p.to);
      if (p.kind != PathKind::peer) loops_[{p.kind, p.plane, p.uplink, p.far}] = i;
    }
  }

  [[nodiscard]] SecondLook run() {
    std::set<Plane> planes;
    for (std::size_t i = 0; i < paths_.size(); ++i)
      if (is_known(i) && results_[i].lost() > 0) planes.insert(paths_[i].plane);
    SecondLook look;
    for (std::size_t i = 0; i < paths_.size(); ++i)
      if (is_known(i) && planes.contains(paths_[i].plane)) look.again.push_back(i);
    for (const Plane plane : planes) {
      add_detours(plane, look.detours);
      add_turns(plane, look.turns);
    }
    return look;
  }

 private:
  /// False for paths to a host that answers on no path: they are lost for that reason alone.
  [[nodiscard]] bool is_known(std::size_t i) const {
    return paths_[i].kind != PathKind::peer || answering_.contains(paths_[i].to);
  }

  [[nodiscard]] const PathResult* find_loop(PathKind kind, Plane plane, unsigned u,
                                            unsigned far) const {
    const auto loop = loops_.find({kind, plane, u, far});
    return loop == loops_.end() ? nullptr : &results_[loop->second];
  }

  void add_detours(Plane plane, std::vector<ProbePath>& detours) const {
    const unsigned home = d_.hosts[maker_.self()].t0;
    for (unsigned u = 0; u < d_.t1; ++u) {
      const PathResult* direct = find_loop(PathKind::t1_loop, plane, u, home);
      if (direct == nullptr || direct->lost() == 0) continue;
      for (unsigned far = 0; far < d_.t0; ++far)
        if (far != home)
          if (const auto by = find_way(plane, u, far))
            detours.push_back(maker_.detour(plane, u, far, *by));
    }
  }

  /// To each T0 to which an uplink loses: over that uplink, back over one that does not, and the
  /// other way round.
  void add_turns(Plane plane, std::vector<ProbePath>& turns) const {
    for (const auto& [u, far] : lossy_ways(plane)) {
      const auto by = find_way(plane, u, far);
      if (!by || find_loop(PathKind::far_loop, plane, *by, far)->lost() > 0) continue;
      turns.push_back(maker_.turn(plane, u, far, *by));
      turns.push_back(maker_.turn(plane, *by, far, u));
    }
  }

  /// Uplinks that lose, and to which T0.
  [[nodiscard]] std::set<std::pair<unsigned, unsigned>> lossy_ways(Plane plane) const {
    const unsigned home = d_.hosts[maker_.self()].t0;
    std::set<std::pair<unsigned, unsigned>> ways;
    for (std::size_t i = 0; i < paths_.size(); ++i) {
      const ProbePath& p = paths_[i];
      if (p.plane != plane || !is_known(i) || results_[i].lost() == 0) continue;
      if (p.kind == PathKind::far_loop) ways.emplace(p.uplink, p.far);
      if (p.kind == PathKind::peer) ways.emplace(p.uplink, d_.hosts[p.to].t0);
      if (p.kind != PathKind::t1_loop) continue;
      for (unsigned far = 0; far < d_.t0; ++far) ways.emplace(p.uplink, far);
    }
    std::erase_if(ways, [&](const auto& way) { return way.second == home; });
    return ways;
  }

  /// Another uplink that leads to T0 `far`, if possible without losses.
  [[nodiscard]] std::optional<unsigned> find_way(Plane plane, unsigned u, unsigned far) const {
    std::optional<unsigned> way;
    for (unsigned v = 0; v < d_.t1; ++v) {
      const PathResult* loop = find_loop(PathKind::far_loop, plane, v, far);
      if (v == u || loop == nullptr || loop->answered == 0) continue;
      if (loop->lost() == 0) return v;
      if (!way) way = v;
    }
    return way;
  }

  const PathMaker& maker_;
  const Description& d_;
  std::span<const ProbePath> paths_;
  std::span<const PathResult> results_;
  std::set<unsigned> answering_;
  std::map<std::tuple<PathKind, Plane, unsigned, unsigned>, std::size_t> loops_;
};

}  // namespace detail

SecondLook second_look(const PathMaker& maker, std::span<const ProbePath> paths,
                       std::span<const PathResult> results) {
  return detail::LookPlanner(maker, paths, results).run();
}

}  // namespace mrc::probe
