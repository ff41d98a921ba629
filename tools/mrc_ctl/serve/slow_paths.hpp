// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "mrc_ctl/serve/fabric_map.hpp"
#include "mrc_ctl/serve/snapshot.hpp"
#include "probe/slow.hpp"

namespace mrc::ctl_tool {

/// Finds paths that are slow and lose nothing, from what devices tell of their traffic once a
/// second or so, and the part of the fabric that they have in common. One thread.
class SlowPaths {
 public:
  /// `map` has filled in the routes of devices; nullptr: there are none. It must outlive this.
  /// `interval`: in seconds, at least 0.9 of which pass from one state to the next.
  explicit SlowPaths(FabricMap* map, double interval = 1) : map_(map), interval_(interval) {}

  /// Takes the state of devices at `time`, in seconds; or not, if it comes too early.
  void take(double time, std::span<const DeviceSnapshot> devices);
  /// What is slow, as of the last probe::StandingRecord::kIntervals.
  [[nodiscard]] const std::vector<SlowPart>& found() const { return found_; }

 private:
  using Counts = std::array<std::uint64_t, 2>;  ///< delivered packets, marks

  /// Paths of a route, or a path by itself where routes are unknown.
  struct Group {
    const PeerSnapshot* peer = nullptr;
    std::uint32_t plane = 0;
    std::vector<std::uint32_t> evs;
    std::string key;
    probe::PathPace pace;
    probe::ProbePath path;
  };

  [[nodiscard]] std::vector<Group> groups_of(const DeviceSnapshot& device, const PeerSnapshot& peer,
                                             unsigned number);
  void judge(const std::vector<Group>& groups);
  [[nodiscard]] std::string name_of(const probe::Part& part) const;

  FabricMap* map_;
  double interval_;
  double last_ = -1;
  std::map<std::string, Counts> counts_, counts_before_;
  std::map<std::string, probe::StandingRecord> records_;
  std::vector<SlowPart> found_;
};

}  // namespace mrc::ctl_tool
