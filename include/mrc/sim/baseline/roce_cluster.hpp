// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "mrc/sim/baseline/roce_host.hpp"
#include "mrc/sim/cluster.hpp"

namespace mrc::inline v0_1::sim::baseline {

/// Hosts that run RoCE RC (rc_sender.hpp), under the same traffic as MrcCluster: a message is split
/// in equal parts over the queue pairs of its flow, each part sent as Writes of at most a chunk,
/// the last of which carries immediate data to notify the receiver.
///
/// Requirements on the fabric: Forwarding::udp, so that ECMP picks the path of each queue pair;
/// FabricSettings::queue from roce_queue(), which drops, since RC can't use trimmed packets;
/// ecn_last_hop for DCQCN, which would not detect incasts otherwise. With PFC a queue must hold
/// PfcSettings::xoff plus what arrives until a pause takes effect, from each link into its switch.
/// With one plane a host has a NIC with a single port, which is best for RC; with several, each
/// queue pair is bound to one of them.
class RoceCluster : public Cluster, private RoceHost::Application {
 public:
  /// Parameters of all hosts.
  struct Settings {
    RoceHostSettings host{};            ///< of each host
    std::uint32_t chunk = 1024 * 1024;  ///< largest Write, in bytes; 1 .. RcSender::kMaxMessage
  };

  /// Creates the hosts as nodes of the network, not yet attached to a fabric. Throws mrc::Error for
  /// invalid settings.
  RoceCluster(Network& network, unsigned hosts, const Settings& settings, std::uint64_t seed);
  /// The hosts' nodes, to build the fabric with before attach().
  [[nodiscard]] const std::vector<NodeId>& nodes() const noexcept { return nodes_; }
  /// Connects the hosts to the fabric. Throws mrc::Error.
  void attach(const Fabric& fabric) {
    for (auto& host : hosts_) host->attach(fabric);
  }

  FlowId open(unsigned from, unsigned to, unsigned queue_pairs = 1) override;
  void send(FlowId flow, std::uint64_t bytes, std::uint64_t message) override;
  /// Number of hosts.
  [[nodiscard]] unsigned hosts() const noexcept override {
    return static_cast<unsigned>(hosts_.size());
  }
  [[nodiscard]] std::uint64_t received_bytes(unsigned host) const override {
    return hosts_[host]->stats().received_bytes;
  }
  /// Sums over all hosts.
  [[nodiscard]] ClusterStats stats() const override;

  /// Host by index.
  [[nodiscard]] RoceHost& host(unsigned number) { return *hosts_[number]; }
  /// Queue pairs of a flow, as indices among the senders of its host.
  [[nodiscard]] std::vector<std::uint32_t> queue_pairs(FlowId flow) const;

 private:
  /// One queue pair of a flow. Its index is the context of the queue pair at the hosts.
  struct Lane {
    FlowId flow{};
    std::uint32_t sender = 0;
  };
  /// A message that is spread over several queue pairs.
  struct Parts {
    std::uint64_t message;
    std::uint32_t sent, delivered;  // parts not yet sent, delivered
  };
  struct Flow {
    unsigned from = 0, to = 0;
    std::uint32_t first_lane = 0, lanes = 0;
    std::deque<Parts> open;
    bool failed = false;
  };

  void on_delivered(std::uint32_t lane, const RcDelivery& delivery) override;
  void on_completion(std::uint32_t lane, const RcCompletion& completion) override;
  void part_done(FlowId flow, std::uint64_t message, bool delivered);
  void fail(FlowId flow);

  Network& network_;
  Settings settings_;
  std::vector<NodeId> nodes_;
  std::vector<std::unique_ptr<RoceHost>> hosts_;
  std::vector<Flow> flows_;
  std::vector<Lane> lanes_;
  std::uint64_t failed_flows_ = 0;
};

}  // namespace mrc::inline v0_1::sim::baseline
