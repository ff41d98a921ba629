// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "mrc/sim/mrc_cluster.hpp"

namespace mrc::inline v0_1::sim {

MrcCluster::MrcCluster(Network& network, unsigned hosts, const Settings& settings,
                       std::uint64_t seed)
    : network_(network), settings_(settings), arena_(settings.chunk) {
  if (settings.chunk == 0 || settings.host.paths_per_plane > 256)
    throw Error(Errc::invalid_argument,
                "MRC cluster: chunk must be over 0, paths_per_plane up to 256");
  Random random(seed);
  for (unsigned h = 0; h < hosts; ++h) {
    hosts_.push_back(std::make_unique<MrcHost>(network, h, settings.host, random.next()));
    hosts_.back()->set_application(this);
    nodes_.push_back(hosts_.back()->node());
    const auto key = hosts_.back()->engine().register_memory(
        arena_.data(), arena_.size(), Access::remote_write | Access::relaxed_ordering,
        hosts_.back()->pd());
    if (!key) throw Error(key.error(), "simulated host: memory");
    keys_.push_back(key.value());
  }
  lane_of_qp_.resize(hosts);
}

void MrcCluster::attach(const Fabric& fabric) {
  for (auto& host : hosts_) host->attach(fabric, frame_);
  attached_ = true;
}

// --- flows
// ----------------------------------------------------------------------------------------

/// Data flows one way only: each side has room for what it does.
Qpn MrcCluster::make_qp(MrcHost& host, bool sends) {
  engine::QpInit init;
  init.pd = host.pd();
  init.send_cq = init.receive_cq = host.cq();
  init.attributes = settings_.attributes;
  init.attributes.mtu = settings_.host.mtu;
  if (sends) {
    init.capacity.receive = 0;
    init.attributes.mpr_dest = 1;
    init.attributes.max_wimm_dest = 1;
  } else {
    init.capacity.send = 1;
  }
  const auto qpn = host.engine().create_qp(init);
  if (!qpn)
    throw Error(qpn.error(), "simulated host " + std::to_string(host.number()) + ": queue pair");
  return qpn.value();
}

FlowId MrcCluster::open(unsigned from, unsigned to, unsigned queue_pairs) {
  if (!attached_) throw Error(Errc::invalid_state, "MRC cluster: not attached to a fabric yet");
  if (from >= hosts() || to >= hosts() || from == to || queue_pairs == 0)
    throw Error(Errc::invalid_argument, "flow from host " + std::to_string(from) + " to host " +
                                            std::to_string(to) + " of " + std::to_string(hosts()));
  const FlowId id{static_cast<std::uint32_t>(flows_.size())};
  flows_.emplace_back();
  flows_.back().from = from;
  flows_.back().to = to;
  for (unsigned i = 0; i < queue_pairs; ++i) add_lane(id);
  return id;
}

void MrcCluster::add_lane(FlowId flow) {
  Flow& f = flows_[value(flow)];
  MrcHost* host[2] = {hosts_[f.from].get(), hosts_[f.to].get()};
  Lane lane;
  lane.flow = flow;
  const Qpn qpn[2] = {lane.sender = make_qp(*host[0], true),
                      lane.receiver = make_qp(*host[1], false)};
  const auto number = static_cast<std::uint32_t>(lanes_.size());
  for (unsigned side = 0; side < 2; ++side) {
    engine::Engine& e = host[side]->engine();
    RemoteQp remote;
    remote.peer = host[side]->peer(host[1 - side]->number());
    remote.qpn = qpn[1 - side];
    remote.start_psn = *host[1 - side]->engine().start_psn(qpn[1 - side]);
    const QpAttributes& theirs = host[1 - side]->engine().find_qp(qpn[1 - side])->attributes;
    remote.mpr_dest = theirs.mpr_dest;
    remote.max_wimm_dest = theirs.max_wimm_dest;
    remote.dynamic_mpr = settings_.attributes.dynamic_mpr;
    remote.trim_nack = settings_.attributes.trim_nack;
    remote.tag = *host[1 - side]->engine().tag(qpn[1 - side]);
    Errc error = e.to_init(qpn[side]);
    if (error == Errc::ok) error = e.to_rtr(qpn[side], remote);
    if (error == Errc::ok) error = e.to_rts(qpn[side], network_.now());
    if (error != Errc::ok) throw Error(error, "simulated host: connection");
    lane_of_qp_[side == 0 ? f.from : f.to][mrc::value(qpn[side])] = number;
  }
  engine::Engine& receiver = host[1]->engine();
  for (std::uint32_t i = 0; i < QpCapacity{}.receive; ++i)
    (void)receiver.post_receive(lane.receiver, i);
  lanes_.push_back(std::move(lane));
  f.lanes.push_back(number);
}

MrcCluster::Lane* MrcCluster::lane_of(const MrcHost& host, Qpn qpn) noexcept {
  const auto& table = lane_of_qp_[host.number()];
  const auto at = table.find(mrc::value(qpn));
  return at == table.end() ? nullptr : &lanes_[at->second];
}

// --- messages
// -------------------------------------------------------------------------------------

void MrcCluster::send(FlowId id, std::uint64_t bytes, std::uint64_t message) {
  Flow& flow = flows_[value(id)];
  if (flow.failed || bytes == 0) return;
  // A message with fewer packets than lanes uses only as many lanes.
  const auto lanes = static_cast<std::uint32_t>(flow.lanes.size());
  const std::uint64_t packets = (bytes + settings_.host.mtu - 1) / settings_.host.mtu;
  const auto parts = static_cast<std::uint32_t>(std::min<std::uint64_t>(lanes, packets));
  flow.open.push_back({message, parts, parts});
  const auto first = static_cast<std::uint32_t>(message % lanes);
  std::uint64_t begin = 0;
  for (std::uint32_t i = 0; i < parts; ++i) {
    std::uint64_t end = bytes * (i + 1) / parts;
    Lane& lane = lanes_[flow.lanes[(first + i) % lanes]];
    lane.to_be_received.push_back(message);
    while (begin < end) {
      const auto n =
          static_cast<std::uint32_t>(std::min<std::uint64_t>(end - begin, settings_.chunk));
      begin += n;
      lane.waiting.push_back({message, n, begin == end});
    }
    post(lane);
  }
  hosts_[flow.from]->work();
}

/// Fills the send queue from the queued chunks.
void MrcCluster::post(Lane& lane) {
  const Flow& flow = flows_[value(lane.flow)];
  MrcHost& host = *hosts_[flow.from];
  while (!lane.waiting.empty()) {
    const Chunk& chunk = lane.waiting.front();
    const Sge sge{arena_.data(), chunk.bytes, keys_[flow.from]};
    SendRequest request;
    request.sges = {&sge, 1};
    request.remote = {reinterpret_cast<std::uint64_t>(arena_.data()), keys_[flow.to]};
    if (chunk.last) request.opcode = SendOpcode::write_imm;
    request.immediate = static_cast<std::uint32_t>(chunk.message);
    if (host.engine().post_send(lane.sender, request, network_.now()) != Errc::ok) return;
    lane.posted.push_back(chunk);
    lane.waiting.pop_front();
  }
}

void MrcCluster::on_completion(MrcHost& host, const Completion& c) {
  Lane* lane = lane_of(host, c.qpn);
  if (lane == nullptr || c.status != WcStatus::success) return;
  if (c.opcode == WcOpcode::recv_write_imm) {
    (void)host.engine().post_receive(c.qpn, c.wr_id);
    // An unexpected completion would be a bug of the engine and must not be ignored.
    if (lane->to_be_received.empty() ||
        c.immediate != static_cast<std::uint32_t>(lane->to_be_received.front()))
      throw Error(Errc::invalid_state, "simulated host: a message out of turn was received");
    const std::uint64_t message = lane->to_be_received.front();
    lane->to_be_received.pop_front();
    return part_done(*lane, message, true);
  }
  if (lane->posted.empty())
    throw Error(Errc::invalid_state, "simulated host: a completion of what was never posted");
  const Chunk chunk = lane->posted.front();
  lane->posted.pop_front();
  post(*lane);
  if (chunk.last) part_done(*lane, chunk.message, false);
}

void MrcCluster::part_done(Lane& lane, std::uint64_t message, bool delivered) {
  const FlowId id = lane.flow;
  Flow& flow = flows_[value(id)];
  if (flow.failed) return;  // its other queue pairs may still work
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

void MrcCluster::on_qp_error(MrcHost& host, Qpn qpn) {
  const Lane* lane = lane_of(host, qpn);
  if (lane == nullptr) return;
  const FlowId id = lane->flow;
  Flow& flow = flows_[value(id)];
  if (std::exchange(flow.failed, true)) return;
  ++failed_flows_;
  const auto* qp = host.engine().find_qp(qpn);
  if (listener_ != nullptr)
    listener_->on_failed(id, qp != nullptr ? to_string(qp->cause) : "gone", network_.now());
}

// --- statistics
// -----------------------------------------------------------------------------------

std::uint64_t MrcCluster::received_bytes(unsigned host) const {
  std::uint64_t bytes = 0;
  const engine::Engine& e = hosts_[host]->engine();
  for (const auto& [qpn, number] : lane_of_qp_[host]) {
    if (flows_[value(lanes_[number].flow)].to != host) continue;
    if (const auto* qp = e.find_qp(lanes_[number].receiver)) bytes += e.qp_stats(*qp).rx_bytes;
  }
  return bytes;
}

ClusterStats MrcCluster::stats() const {
  ClusterStats out;
  for (const auto& host : hosts_) {
    const EngineStats& s = host->engine().stats();
    out.data_packets += s.tx_data;
    out.retransmitted += s.tx_retransmits;
    out.accepted += s.rx_data;
    out.duplicates += s.rx_duplicates;
    out.control_packets += s.tx_control;
    out.control.sacks += s.sacks_sent - s.probe_sacks_sent;
    out.control.probe_sacks += s.probe_sacks_sent;
    out.control.nacks += s.nacks_sent;
    out.control.acks += s.acks_sent;
    out.control.probes += s.probes_sent;
    out.control.ev_probes += s.ev_probes_sent;
    out.control.port_updates += s.port_updates_sent;
    out.control.endpoint_answers += s.endpoint_answers_sent;
    out.trimmed += s.rx_trimmed;
    out.marked += s.rx_ecn;
    out.timeouts += s.timeouts;
  }
  out.failed_flows = failed_flows_;
  return out;
}

}  // namespace mrc::inline v0_1::sim
