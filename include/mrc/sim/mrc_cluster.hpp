// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "mrc/sim/cluster.hpp"
#include "mrc/sim/mrc_host.hpp"

namespace mrc::inline v0_1::sim {

/// Hosts that run MRC. A message is sent as writes of at most a chunk per queue pair, the last of
/// which carries immediate data to notify the receiver.
class MrcCluster : public Cluster, private MrcHost::Application {
 public:
  /// Parameters of all hosts.
  struct Settings {
    HostSettings host;                  ///< of each host
    QpAttributes attributes;            ///< of each queue pair
    std::uint32_t chunk = 1024 * 1024;  ///< largest write, in bytes; at most the arena's size
  };

  /// Creates the hosts as nodes of the network, not yet attached to a fabric.
  MrcCluster(Network& network, unsigned hosts, const Settings& settings, std::uint64_t seed);
  /// The hosts' nodes, to build the fabric with before attach().
  [[nodiscard]] const std::vector<NodeId>& nodes() const noexcept { return nodes_; }
  /// Connects the hosts to the fabric. Throws mrc::Error.
  void attach(const Fabric& fabric);

  FlowId open(unsigned from, unsigned to, unsigned queue_pairs = 1) override;
  void send(FlowId flow, std::uint64_t bytes, std::uint64_t message) override;
  /// Number of hosts.
  [[nodiscard]] unsigned hosts() const noexcept override {
    return static_cast<unsigned>(hosts_.size());
  }
  [[nodiscard]] std::uint64_t received_bytes(unsigned host) const override;
  /// Sums over all hosts.
  [[nodiscard]] ClusterStats stats() const override;

  /// Host by index.
  [[nodiscard]] MrcHost& host(unsigned number) { return *hosts_[number]; }

 private:
  struct Chunk {
    std::uint64_t message;
    std::uint32_t bytes;
    bool last;  // of the message's part on this queue pair
  };
  /// One queue pair of a flow, with the work queued at both ends.
  struct Lane {
    FlowId flow{};
    Qpn sender{}, receiver{};
    // Lists, which take no memory while they are empty: there may be millions.
    std::list<Chunk> waiting;
    std::list<Chunk> posted;                  // not yet completed
    std::list<std::uint64_t> to_be_received;  // messages
  };
  /// A message that is spread over several queue pairs.
  struct Parts {
    std::uint64_t message;
    std::uint32_t sent, delivered;  // parts not yet sent, delivered
  };
  struct Flow {
    unsigned from = 0, to = 0;
    std::vector<std::uint32_t> lanes;
    std::list<Parts> open;
    bool failed = false;
  };

  void on_completion(MrcHost& host, const Completion& completion) override;
  void on_qp_error(MrcHost& host, Qpn qpn) override;
  void add_lane(FlowId flow);
  void post(Lane& lane);
  void part_done(Lane& lane, std::uint64_t message, bool delivered);
  [[nodiscard]] Lane* lane_of(const MrcHost& host, Qpn qpn) noexcept;
  [[nodiscard]] Qpn make_qp(MrcHost& host, bool sends);

  Network& network_;
  Settings settings_;
  FrameBuffer frame_;
  std::vector<std::uint8_t> arena_;  // memory that all hosts send from and write to
  std::vector<NodeId> nodes_;
  std::vector<std::unique_ptr<MrcHost>> hosts_;
  std::vector<std::uint32_t> keys_;                                           // by host
  std::vector<std::unordered_map<std::uint32_t, std::uint32_t>> lane_of_qp_;  // by host and QPN
  std::vector<Flow> flows_;
  std::vector<Lane> lanes_;
  std::uint64_t failed_flows_ = 0;
  bool attached_ = false;
};

}  // namespace mrc::inline v0_1::sim
