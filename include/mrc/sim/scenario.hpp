// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "mrc/sim/baseline/roce_cluster.hpp"
#include "mrc/sim/fabric.hpp"
#include "mrc/sim/fault_swarm.hpp"
#include "mrc/sim/faults.hpp"
#include "mrc/sim/mrc_cluster.hpp"
#include "mrc/sim/recorder.hpp"
#include "mrc/sim/traffic/workload.hpp"

namespace mrc::inline v0_1::sim {

/// Cables between switches that lose packets from the start, drawn at random, without the link
/// going down: black holes by default.
struct BadCables {
  double share = 0;       ///< fraction of all cables between switches, 0 .. 1; clos only
  double loss = 1;        ///< probability per packet
  bool both_ways = true;  ///< false: only upwards, so that each packet passes at most one
};

/// One traffic pattern of a scenario.
struct Traffic {
  std::string name;  ///< name in reports
  Time start{};      ///< when it begins
  /// Creates the pattern; may read the fabric. Called once, before the run.
  std::function<std::unique_ptr<Workload>(const Fabric&)> make;
};

/// All inputs of a run: the same scenario gives the same run, event by event.
struct Scenario {
  /// Parameters of hosts that run RoCE.
  using Roce = baseline::RoceCluster::Settings;

  std::uint64_t seed = 1;                              ///< determines everything random
  std::variant<MrcCluster::Settings, Roce> transport;  ///< parameters of the hosts' transport
  FabricSettings fabric;                               ///< topology
  FaultSchedule faults;                                ///< planned faults
  std::optional<SwarmOptions> random_faults;           ///< additional faults, drawn from the seed
  BadCables bad_cables;                                ///< lossy from the start
  std::vector<Traffic> traffic;                        ///< patterns
  Time end{std::chrono::milliseconds(1)};  ///< the run's end, unless the traffic ends before
  Time warm_up{};                          ///< goodput is measured from then on
  std::optional<RecorderSettings> samples = RecorderSettings{};  ///< empty: no recorder
};

}  // namespace mrc::inline v0_1::sim
