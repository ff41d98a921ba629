// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <string>
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

/// Lets several workloads, each of which must be its cluster's only listener, share one cluster:
/// each gets a view, which forwards its calls and reports the events of the flows that it opened.
/// The cluster must outlive it. One thread at a time, that of the network.
class SharedCluster : private FlowListener {
 public:
  /// Becomes the listener of `cluster`.
  explicit SharedCluster(Cluster& cluster) : cluster_(cluster) { cluster.set_listener(this); }
  SharedCluster(const SharedCluster&) = delete;
  SharedCluster& operator=(const SharedCluster&) = delete;

  /// A view for another workload; lives as long as this.
  Cluster& add_view() {
    views_.push_back(std::make_unique<View>(*this));
    return *views_.back();
  }

 private:
  class View final : public Cluster {
   public:
    explicit View(SharedCluster& shared) : shared_(shared) {}

    FlowId open(unsigned from, unsigned to, unsigned queue_pairs) override {
      const FlowId flow = shared_.cluster_.open(from, to, queue_pairs);
      if (shared_.owners_.size() <= value(flow)) shared_.owners_.resize(value(flow) + 1);
      shared_.owners_[value(flow)] = this;
      return flow;
    }
    void send(FlowId flow, std::uint64_t bytes, std::uint64_t message) override {
      shared_.cluster_.send(flow, bytes, message);
    }
    [[nodiscard]] unsigned hosts() const noexcept override { return shared_.cluster_.hosts(); }
    [[nodiscard]] std::uint64_t received_bytes(unsigned host) const override {
      return shared_.cluster_.received_bytes(host);
    }
    [[nodiscard]] ClusterStats stats() const override { return shared_.cluster_.stats(); }
    [[nodiscard]] FlowListener* listener() const noexcept { return listener_; }

   private:
    SharedCluster& shared_;
  };

  [[nodiscard]] FlowListener* listener_of(FlowId flow) const noexcept {
    const View* view = value(flow) < owners_.size() ? owners_[value(flow)] : nullptr;
    return view == nullptr ? nullptr : view->listener();
  }
  void on_sent(FlowId flow, std::uint64_t message, Time now) override {
    if (FlowListener* l = listener_of(flow)) l->on_sent(flow, message, now);
  }
  void on_delivered(FlowId flow, std::uint64_t message, Time now) override {
    if (FlowListener* l = listener_of(flow)) l->on_delivered(flow, message, now);
  }
  void on_failed(FlowId flow, const std::string& reason, Time now) override {
    if (FlowListener* l = listener_of(flow)) l->on_failed(flow, reason, now);
  }

  Cluster& cluster_;
  std::vector<std::unique_ptr<View>> views_;
  std::vector<View*> owners_;  // by FlowId
};

}  // namespace mrc::inline v0_1::sim
