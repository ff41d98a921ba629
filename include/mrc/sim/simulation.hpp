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
#include "mrc/sim/message_log.hpp"
#include "mrc/sim/scenario.hpp"
#include "mrc/sim/shared_cluster.hpp"

namespace mrc::inline v0_1::sim {

/// A runnable scenario: network, hosts with their transport, fabric, faults, traffic, and
/// measurements.
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
  /// Throws mrc::Error for an invalid scenario.
  explicit Simulation(Scenario scenario);
  Simulation(const Simulation&) = delete;
  Simulation& operator=(const Simulation&) = delete;

  /// Runs until all traffic is done or Scenario::end. Throws mrc::Error when a pattern that starts
  /// late is invalid.
  void run() {
    while (advance(scenario_.end - network_.now())) {
    }
  }
  /// Runs for this much virtual time; false when the end is reached. Dividing a run into pieces
  /// does not change it.
  bool advance(Duration time) {
    if (ended()) return false;
    network_.run_until(std::min(scenario_.end, network_.now() + std::max(time, Duration{1})));
    return !ended();
  }
  /// Whether the end is reached.
  [[nodiscard]] bool ended() const noexcept {
    return network_.now() >= scenario_.end || traffic_done();
  }
  /// Whether all traffic has ended, in success or failure.
  [[nodiscard]] bool traffic_done() const noexcept { return open_ == 0; }

  /// The scenario.
  [[nodiscard]] const Scenario& scenario() const noexcept { return scenario_; }
  /// The network.
  [[nodiscard]] Network& network() noexcept { return network_; }
  /// The network.
  [[nodiscard]] const Network& network() const noexcept { return network_; }
  /// The fabric.
  [[nodiscard]] const Fabric& fabric() const noexcept { return *fabric_; }
  /// The hosts.
  [[nodiscard]] const Cluster& cluster() const noexcept { return *cluster_; }
  /// The hosts if they run MRC, else nullptr.
  [[nodiscard]] MrcCluster* mrc() const noexcept { return mrc_; }
  /// The hosts if they run RoCE, else nullptr.
  [[nodiscard]] baseline::RoceCluster* roce() const noexcept { return roce_; }
  /// Patterns in the order of Scenario::traffic.
  [[nodiscard]] const std::vector<std::unique_ptr<Workload>>& traffic() const noexcept {
    return traffic_;
  }
  /// All messages so far.
  [[nodiscard]] const MessageLog& messages() const noexcept { return log_; }
  /// nullptr if the scenario has none.
  [[nodiscard]] const Recorder* recorder() const noexcept { return recorder_.get(); }
  /// All scheduled faults, both planned and drawn.
  [[nodiscard]] const FaultSchedule& faults() const noexcept { return faults_; }

  /// Payload bytes that a host had received at measured_from().
  [[nodiscard]] std::uint64_t received_before(unsigned host) const noexcept {
    return host < before_.size() ? before_[host] : 0;
  }
  /// Time at which goodput measurement started.
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
