// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "mrc/core/error.hpp"
#include "mrc/sim/baseline/roce_cluster.hpp"
#include "mrc/sim/fabric.hpp"
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

/// A runnable scenario: network, hosts with their transport, fabric, faults, traffic, and
/// measurements.
///
///     Scenario scenario;
///     scenario.traffic.push_back({"permutation", Time{}, [](const Fabric&) {
///       return std::make_unique<Permutation>(PermutationSettings{});
///     }});
///     Simulation simulation(scenario);
///     simulation.run();
///     const Summary result = summarize(simulation);
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

/// Completion times of delivered messages.
struct TimesSummary {
  std::uint64_t count = 0;  ///< number of messages
  Duration min{};           ///< smallest
  Duration p50{};           ///< median
  Duration p90{};           ///< 90th percentile
  Duration p99{};           ///< 99th percentile
  Duration p999{};          ///< 99.9th percentile
  Duration max{};           ///< largest
  Duration mean{};          ///< arithmetic mean

  /// `sorted` in ascending order.
  [[nodiscard]] static TimesSummary of(std::span<const Duration> sorted) {
    TimesSummary s;
    if (sorted.empty()) return s;
    s.count = sorted.size();
    s.min = sorted.front();
    s.p50 = percentile(sorted, 50);
    s.p90 = percentile(sorted, 90);
    s.p99 = percentile(sorted, 99);
    s.p999 = percentile(sorted, 99.9);
    s.max = sorted.back();
    s.mean = sim::mean(sorted);
    return s;
  }
};

/// Result of one traffic pattern.
struct TrafficSummary {
  std::string name;                         ///< as in Traffic
  bool done = false;                        ///< all messages delivered or failed
  Time started{};                           ///< virtual time
  Time finished{};                          ///< time of the last delivery so far
  std::vector<Workload::Failure> failures;  ///< of its flows
  /// Collectives: completed iterations, their mean time, and bandwidths in GB/s (Collective).
  bool collective = false;
  std::uint64_t iterations = 0;    ///< completed
  Duration iteration_time{};       ///< mean
  double algorithm_bandwidth = 0;  ///< GB/s
  double bus_bandwidth = 0;        ///< GB/s
};

/// A flow, and its goodput from warm-up on (MessageLog::goodput()).
struct FlowSummary {
  FlowId flow{};               ///< the flow
  unsigned from = 0;           ///< host
  unsigned to = 0;             ///< host
  std::uint64_t messages = 0;  ///< delivered
  double goodput = 0;          ///< Gb/s
  std::string failure;         ///< reason; empty if it has not failed
};

/// The results of a run up to the network's current time.
struct Summary {
  Time end{};                           ///< virtual time
  Duration measured{};                  ///< time since warm-up, which goodput refers to
  double goodput = 0;                   ///< total, Gb/s
  std::vector<double> host_goodput;     ///< by receiving host, Gb/s
  double host_min = 0;                  ///< of hosts that received something, Gb/s
  double host_median = 0;               ///< of the same hosts, Gb/s
  double host_max = 0;                  ///< of the same hosts, Gb/s
  double fairness = 1;                  ///< Jain's index of the same hosts' goodput
  TimesSummary times;                   ///< messages posted from warm-up on
  std::uint64_t messages = 0;           ///< posted
  std::uint64_t delivered = 0;          ///< of these
  std::uint64_t delivered_bytes = 0;    ///< payload
  ClusterStats hosts;                   ///< counters of the hosts
  Ledger ledger;                        ///< what became of the data packets
  LinkStats links;                      ///< sums over all links; max_queue: the largest
  std::uint64_t unroutable = 0;         ///< dropped by switches for lack of a route
  std::uint64_t events = 0;             ///< see Network
  std::uint64_t digest = 0;             ///< see Network
  std::vector<TrafficSummary> traffic;  ///< by pattern
  std::vector<FlowSummary> flows;       ///< by flow

  /// Data packets that arrived whole and were refused: MRC answers with a NACK, RoCE drops all
  /// behind a gap. Negative if hosts count more than has arrived, which would be a bug.
  [[nodiscard]] std::int64_t refused() const noexcept {
    return static_cast<std::int64_t>(ledger[PacketFate::arrived] - hosts.accepted -
                                     hosts.duplicates);
  }
  /// Data packets that no copy of has been accepted yet: all are under way, or lost.
  [[nodiscard]] std::int64_t missing() const noexcept {
    return static_cast<std::int64_t>(hosts.data_packets - hosts.accepted);
  }
  /// Whether every data packet sent again is explained: what hosts say that they have sent is what
  /// the network has carried, and they received no more than has arrived. Then
  /// retransmitted = lost + refused + under way + duplicates - missing.
  [[nodiscard]] bool accounted() const noexcept {
    return hosts.data_packets + hosts.retransmitted == ledger.sent() && refused() >= 0 &&
           missing() >= 0;
  }
  /// Packets lost in switches and on links, for any reason.
  [[nodiscard]] std::uint64_t lost() const noexcept {
    return links.dropped + links.lost + links.refused + unroutable;
  }
  /// Events per data packet sent, retransmissions included; 0 without packets.
  [[nodiscard]] double events_per_packet() const noexcept {
    const auto packets = static_cast<double>(hosts.data_packets + hosts.retransmitted);
    return packets > 0 ? static_cast<double>(events) / packets : 0;
  }
};

/// The results of a run so far. Linear in hosts, links and messages.
[[nodiscard]] Summary summarize(const Simulation& simulation);

}  // namespace mrc::inline v0_1::sim
