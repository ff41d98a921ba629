// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <string>
#include <utility>

#include "mrc/core/error.hpp"
#include "mrc/core/random.hpp"
#include "mrc/sim/baseline/roce_cluster.hpp"

namespace mrc::inline v0_1::sim::baseline {

RoceCluster::RoceCluster(Network& network, unsigned hosts, const Settings& settings,
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

FlowId RoceCluster::open(unsigned from, unsigned to, unsigned queue_pairs) {
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

std::vector<std::uint32_t> RoceCluster::queue_pairs(FlowId id) const {
  const Flow& flow = flows_[value(id)];
  std::vector<std::uint32_t> out;
  for (std::uint32_t i = 0; i < flow.lanes; ++i) out.push_back(lanes_[flow.first_lane + i].sender);
  return out;
}

// --- messages -----------------------------------------------------------------------------------

void RoceCluster::send(FlowId id, std::uint64_t bytes, std::uint64_t message) {
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

void RoceCluster::on_delivered(std::uint32_t lane, const RcDelivery& delivery) {
  if (delivery.notify) part_done(lanes_[lane].flow, delivery.message, true);
}

void RoceCluster::on_completion(std::uint32_t lane, const RcCompletion& completion) {
  const FlowId flow = lanes_[lane].flow;
  if (!completion.ok)
    fail(flow);
  else if (completion.notify)
    part_done(flow, completion.message, false);
}

void RoceCluster::part_done(FlowId id, std::uint64_t message, bool delivered) {
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

void RoceCluster::fail(FlowId id) {
  Flow& flow = flows_[value(id)];
  if (std::exchange(flow.failed, true)) return;
  ++failed_flows_;
  flow.open.clear();
  if (listener_ != nullptr) listener_->on_failed(id, "retry count exceeded", network_.now());
}

// --- statistics ---------------------------------------------------------------------------------

ClusterStats RoceCluster::stats() const {
  ClusterStats out;
  for (const auto& host : hosts_) {
    const RoceHostStats& s = host->stats();
    out.data_packets += s.data_packets;
    out.retransmitted += s.retransmitted;
    out.accepted += s.accepted;
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
