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

/// Cables between switches that lose packets from the start, drawn at random, without anybody being
/// told: black holes by default.
struct BadCables {
  double share = 0;       ///< of all cables between switches, 0 .. 1; clos only
  double loss = 1;        ///< probability per packet
  bool both_ways = true;  ///< false: only on the way up, so that each packet passes one
};

/// One pattern of a scenario's traffic.
struct Traffic {
  std::string name;  ///< in reports
  Time start{};      ///< when it begins
  /// Makes the pattern; may look at the fabric. Called once, before the run.
  std::function<std::unique_ptr<Workload>(const Fabric&)> make;
};

/// Everything that a run follows from: the same scenario gives the same run, event by event.
struct Scenario {
  using Roce = baseline::RoceCluster::Settings;

  std::uint64_t seed = 1;
  std::variant<MrcCluster::Settings, Roce> transport;  ///< what all hosts run
  FabricSettings fabric;
  FaultSchedule faults;
  std::optional<SwarmOptions> random_faults;  ///< drawn from the seed, besides
  BadCables bad_cables;
  std::vector<Traffic> traffic;
  Time end{std::chrono::milliseconds(1)};  ///< the run's end, if the traffic isn't done before
  Time warm_up{};                          ///< goodput is measured from here on
  std::optional<RecorderSettings> samples = RecorderSettings{};
};

}  // namespace mrc::inline v0_1::sim
