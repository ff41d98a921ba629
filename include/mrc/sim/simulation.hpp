// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "mrc/core/error.hpp"
#include "mrc/core/linkage.hpp"
#include "mrc/sim/message_log.hpp"
#include "mrc/sim/scenario.hpp"
#include "mrc/sim/shared_cluster.hpp"

namespace mrc::inline v0_1::sim {

/// A scenario put together and run: the network, hosts with their transport, the fabric between
/// them, faults, traffic, and what is measured.
///
///     Scenario scenario;
///     scenario.traffic.push_back({"permutation", Time{}, [](const Fabric&) {
///       return std::make_unique<Permutation>(PermutationSettings{});
///     }});
///     Simulation simulation(scenario);
///     simulation.run();
///     const Summary result = summarize(simulation);  // summary.hpp
///
/// One thread at a time; several simulations are independent of one another.
class Simulation {
 public:
  /// Throws mrc::Error: what the scenario says can't be.
  explicit Simulation(Scenario scenario);
  Simulation(const Simulation&) = delete;
  Simulation& operator=(const Simulation&) = delete;

  /// Runs to the end: all traffic is done, or Scenario::end. Throws mrc::Error when traffic that
  /// starts late can't.
  void run() {
    while (advance(scenario_.end - network_.now())) {
    }
  }
  /// Runs for so much virtual time; false when the end has come. However a run is cut in pieces,
  /// it is the same run.
  bool advance(Duration time) {
    if (ended()) return false;
    network_.run_until(std::min(scenario_.end, network_.now() + std::max(time, Duration{1})));
    return !ended();
  }
  [[nodiscard]] bool ended() const noexcept {
    return network_.now() >= scenario_.end || traffic_done();
  }
  /// All of the traffic has come to its end, by success or failure.
  [[nodiscard]] bool traffic_done() const noexcept { return open_ == 0; }

  [[nodiscard]] const Scenario& scenario() const noexcept { return scenario_; }
  [[nodiscard]] Network& network() noexcept { return network_; }
  [[nodiscard]] const Network& network() const noexcept { return network_; }
  [[nodiscard]] const Fabric& fabric() const noexcept { return *fabric_; }
  [[nodiscard]] const Cluster& cluster() const noexcept { return *cluster_; }
  /// The hosts if they run MRC, else nullptr; likewise for RoCE.
  [[nodiscard]] MrcCluster* mrc() const noexcept { return mrc_; }
  [[nodiscard]] baseline::RoceCluster* roce() const noexcept { return roce_; }
  /// Patterns in the order of Scenario::traffic.
  [[nodiscard]] const std::vector<std::unique_ptr<Workload>>& traffic() const noexcept {
    return traffic_;
  }
  [[nodiscard]] const MessageLog& messages() const noexcept { return log_; }
  /// nullptr if the scenario asks for none.
  [[nodiscard]] const Recorder* recorder() const noexcept { return recorder_.get(); }
  /// Every fault that was planned: those of the scenario and those that were drawn.
  [[nodiscard]] const FaultSchedule& faults() const noexcept { return faults_; }

  /// Payload bytes that a host had received when goodput began to count, and when that was.
  [[nodiscard]] std::uint64_t received_before(unsigned host) const noexcept {
    return host < before_.size() ? before_[host] : 0;
  }
  [[nodiscard]] Time measured_from() const noexcept { return measured_from_; }

 private:
  template <class Made>
  Made* make_cluster(const auto& settings) {
    auto made = std::make_unique<Made>(network_, scenario_.fabric.hosts, settings, seeds_[1]);
    Made* const cluster = made.get();
    cluster_ = std::move(made);
    fabric_ = std::make_unique<Fabric>(network_, scenario_.fabric, cluster->nodes(), seeds_[2]);
    cluster->attach(*fabric_);
    return cluster;
  }
  void plan_faults();
  [[nodiscard]] FaultSchedule draw_bad_cables() const;
  void plan_traffic();
  void start(std::size_t pattern);

  Scenario scenario_;
  std::array<std::uint64_t, 5> seeds_;  // of network, hosts, fabric, random faults, bad cables
  Network network_;
  std::unique_ptr<Cluster> cluster_;
  MrcCluster* mrc_ = nullptr;
  baseline::RoceCluster* roce_ = nullptr;
  std::unique_ptr<Fabric> fabric_;
  FaultSchedule faults_;
  MessageLog log_;
  std::unique_ptr<SharedCluster> shared_;
  std::vector<std::unique_ptr<Workload>> traffic_;
  std::vector<Cluster*> views_;  // by pattern
  std::size_t open_ = 0;         // patterns that are not done
  std::unique_ptr<Recorder> recorder_;
  std::vector<std::uint64_t> before_;  // by host
  Time measured_from_{};
};

}  // namespace mrc::inline v0_1::sim

#ifndef MRC_SEPARATE_COMPILATION
#include "mrc/sim/impl/simulation.ipp"
#endif
