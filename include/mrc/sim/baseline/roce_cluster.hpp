// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "mrc/core/error.hpp"
#include "mrc/sim/baseline/roce_host.hpp"
#include "mrc/sim/cluster.hpp"

namespace mrc::inline v0_1::sim::baseline {

/// Hosts that run RoCE RC (go_back_n.hpp), under the same traffic as MrcCluster: a message is split
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

inline RoceCluster::RoceCluster(Network& network, unsigned hosts, const Settings& settings,
                                std::uint64_t seed)
    : network_(network), settings_(settings) {
  if (settings.chunk == 0 || settings.chunk > RcSender::kMaxMessage)
    throw Error(Errc::invalid_argument, "roce cluster: chunk");
  Random random(seed);
  for (unsigned h = 0; h < hosts; ++h) {
    hosts_.push_back(std::make_unique<RoceHost>(network, h, settings.host, random.next()));
    hosts_.back()->set_application(this);
    nodes_.push_back(hosts_.back()->node());
  }
}

// --- flows --------------------------------------------------------------------------------------

inline FlowId RoceCluster::open(unsigned from, unsigned to, unsigned queue_pairs) {
  if (from >= hosts() || to >= hosts() || from == to || queue_pairs == 0)
    throw Error(Errc::invalid_argument, "flow from host " + std::to_string(from) + " to host " +
                                            std::to_string(to) + " of " + std::to_string(hosts()));
  const FlowId id{static_cast<std::uint32_t>(flows_.size())};
  Flow flow;
  flow.from = from;
  flow.to = to;
  flow.first_lane = static_cast<std::uint32_t>(lanes_.size());
  flow.lanes = queue_pairs;
  for (unsigned i = 0; i < queue_pairs; ++i) {
    const auto lane = static_cast<std::uint32_t>(lanes_.size());
    lanes_.push_back({id, RoceHost::connect(*hosts_[from], *hosts_[to], lane)});
  }
  flows_.push_back(std::move(flow));
  return id;
}

inline std::vector<std::uint32_t> RoceCluster::queue_pairs(FlowId id) const {
  const Flow& flow = flows_[value(id)];
  std::vector<std::uint32_t> out;
  for (std::uint32_t i = 0; i < flow.lanes; ++i) out.push_back(lanes_[flow.first_lane + i].sender);
  return out;
}

// --- messages -----------------------------------------------------------------------------------

inline void RoceCluster::send(FlowId id, std::uint64_t bytes, std::uint64_t message) {
  Flow& flow = flows_[value(id)];
  if (flow.failed || bytes == 0) return;
  RoceHost& host = *hosts_[flow.from];
  // A message with fewer packets than lanes uses only as many lanes.
  const std::uint64_t packets = (bytes + settings_.host.sender.mtu - 1) / settings_.host.sender.mtu;
  const auto parts = static_cast<std::uint32_t>(std::min<std::uint64_t>(flow.lanes, packets));
  flow.open.push_back({message, parts, parts});
  const auto first = static_cast<std::uint32_t>(message % flow.lanes);
  std::uint64_t begin = 0;
  for (std::uint32_t i = 0; i < parts; ++i) {
    const std::uint64_t end = bytes * (i + 1) / parts;
    const Lane& lane = lanes_[flow.first_lane + (first + i) % flow.lanes];
    while (begin < end) {
      const auto n =
          static_cast<std::uint32_t>(std::min<std::uint64_t>(end - begin, settings_.chunk));
      begin += n;
      (void)host.post(lane.sender, message, n,
                      begin == end);  // a failure is reported by a completion
    }
  }
  host.work();
}

inline void RoceCluster::on_delivered(std::uint32_t lane, const RcDelivery& delivery) {
  if (delivery.notify) part_done(lanes_[lane].flow, delivery.message, true);
}

inline void RoceCluster::on_completion(std::uint32_t lane, const RcCompletion& completion) {
  const FlowId flow = lanes_[lane].flow;
  if (!completion.ok)
    fail(flow);
  else if (completion.notify)
    part_done(flow, completion.message, false);
}

inline void RoceCluster::part_done(FlowId id, std::uint64_t message, bool delivered) {
  Flow& flow = flows_[value(id)];
  // Parts on working queue pairs continue, but the message can't be completed.
  if (flow.failed) return;
  const auto parts = std::find_if(flow.open.begin(), flow.open.end(),
                                  [&](const Parts& p) { return p.message == message; });
  std::uint32_t& missing = delivered ? parts->delivered : parts->sent;
  const bool done = --missing == 0;
  while (!flow.open.empty() && flow.open.front().sent == 0 && flow.open.front().delivered == 0)
    flow.open.pop_front();
  if (!done || listener_ == nullptr) return;
  // The listener may open flows and send, which invalidates references.
  if (delivered)
    listener_->on_delivered(id, message, network_.now());
  else
    listener_->on_sent(id, message, network_.now());
}

inline void RoceCluster::fail(FlowId id) {
  Flow& flow = flows_[value(id)];
  if (std::exchange(flow.failed, true)) return;
  ++failed_flows_;
  flow.open.clear();
  if (listener_ != nullptr) listener_->on_failed(id, "retry count exceeded", network_.now());
}

// --- statistics ---------------------------------------------------------------------------------

inline ClusterStats RoceCluster::stats() const {
  ClusterStats out;
  for (const auto& host : hosts_) {
    const RoceHostStats& s = host->stats();
    out.data_packets += s.data_packets;
    out.retransmitted += s.retransmitted;
    out.duplicates += s.duplicates;
    out.control_packets += s.control_packets;
    out.trimmed += s.trimmed;
    out.marked += s.marked;
    out.timeouts += s.timeouts;
  }
  out.failed_flows = failed_flows_;
  return out;
}

}  // namespace mrc::inline v0_1::sim::baseline
