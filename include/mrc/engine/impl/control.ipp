// SPDX-License-Identifier: Apache-2.0
// Engine: control packets and probes, from the reason to send one to its bytes.
#pragma once

#include <cstring>

#include "mrc/engine/engine.hpp"

namespace mrc::inline v0_1::engine {

MRC_DECL void Engine::queue_control(const ControlItem& item) noexcept {
  if (!control_.push(item)) ++stats_.drops.control_overflow;
}

/// Queues a SACK for a data packet (mrc-1.0 §2.6). SACKs are written when they leave, so once there
/// are enough to tell everything, the newest that still waits is brought up to date instead.
MRC_DECL void Engine::queue_sack(QueuePairState& qp, const wire::RxPacket& packet, Psn psn,
                                 std::uint16_t timestamp) noexcept {
  const auto mark = packet.ecn == Ecn::ce ? wire::SackMark::skip_once : wire::SackMark::none;
  qp.rx.since_sack = 0;
  ControlItem* waiting = control_.find(qp.rx.newest_sack);
  if (waiting == nullptr) qp.rx.sacks_queued = 0;
  const bool merge = waiting != nullptr && waiting->qpn == qp.qpn &&
                     waiting->kind == ControlItem::Kind::sack &&
                     waiting->mark == wire::SackMark::none && mark == wire::SackMark::none &&
                     qp.rx.sacks_queued >= qp.rx.window.sacks_for_all();
  ControlItem fresh;
  ControlItem& item = merge ? *waiting : fresh;
  item.kind = ControlItem::Kind::sack;
  item.qpn = qp.qpn;
  item.plane = packet.plane;
  item.mark = mark;
  item.psn = psn;
  item.entropy = packet.entropy;
  item.timestamp = timestamp;
  if (merge) return;
  if (control_.push(fresh, &qp.rx.newest_sack))
    ++qp.rx.sacks_queued;
  else
    ++stats_.drops.control_overflow;
}

/// Queues a Transport ACK for the newest finished message (mrc-1.0 §2.8, [O-15]).
MRC_DECL void Engine::queue_ack(QueuePairState& qp, Plane plane) noexcept {
  if (qp.rx.ack_queued) return;
  ControlItem item;
  item.kind = ControlItem::Kind::ack;
  item.qpn = qp.qpn;
  item.plane = plane;
  qp.rx.ack_queued = control_.push(item);
  if (!qp.rx.ack_queued) ++stats_.drops.control_overflow;
}

/// The limit of what a requester that does not listen could ask for without end: one answer per
/// round trip.
MRC_DECL bool Engine::may_nack_again(Time now, QueuePairState& qp) noexcept {
  Time& last = qp.rx.last_limited;
  if (last != Time::min() && now - last < qp.peer->congestion.base_rtt()) return false;
  last = now;
  return true;
}

MRC_DECL void Engine::queue_nack(Time now, QueuePairState& qp, const wire::RxPacket& packet,
                                 Psn psn, std::uint16_t timestamp,
                                 wire::NackReason reason) noexcept {
  if (reason == wire::NackReason::psn_oor_window && !may_nack_again(now, qp)) return;  // [C-6]
  ControlItem item;
  item.kind = ControlItem::Kind::nack;
  item.qpn = qp.qpn;
  item.plane = packet.plane;
  item.reason = reason;
  item.psn = psn;
  item.entropy = packet.entropy;
  item.timestamp = timestamp;
  queue_control(item);
}

/// Sends what waits. Answers to one peer that are due in one plane go as bursts on one path, too:
/// a SACK and the Transport ACK behind it cost the port one message. An item for which there is no
/// path now is dropped: control packets may be lost, whoever needs them asks again. But it waits
/// when it is only for want of a free port.
MRC_DECL void Engine::send_control(Time now, PlaneMask free_planes, wire::TxBurst& burst) noexcept {
  struct {
    const Peer* peer = nullptr;
    Plane plane = 0;
    path::PathIndex path = path::kNoPath;
    std::uint32_t left = 0;  ///< packets that may follow on that path
  } same;
  for (; !control_.empty() && burst.room() > 0; control_.pop()) {
    const ControlItem& item = control_.front();
    if (waits_for_port(item, free_planes)) return;
    wire::TxPacket& packet = burst.append();
    packet.dscp = options_.dscp.control;
    packet.ecn = Ecn::not_ect;  // [O-22]
    Peer* peer = nullptr;
    path::PathIndex path = path::kNoPath;
    if (build_control(now, item, peer, packet)) {
      const PlaneMask planes = free_planes & usable_planes(*peer);
      path = item.path;
      if (item.kind == ControlItem::Kind::probe) {
        const QueuePairState* qp = find_qp(item.qpn);
        path = peer->paths.select(qp_of(item.qpn)->tx.cursor, planes);
        const bool trimmable = options_.trimming && qp->remote.trim_nack;
        packet.dscp = trimmable ? options_.dscp.trimmable : options_.dscp.no_trim;
      } else if (path != path::kNoPath) {  // an EV probe: there, or not at all
        if ((planes & plane_bit(peer->paths[path].plane)) == 0) path = path::kNoPath;
      } else if (same.left > 0 && same.peer == peer && same.plane == item.plane) {
        path = same.path;
        --same.left;
      } else {
        path = peer->reverse.pick(item.plane, planes, peer->paths, random_);
        same = {peer, item.plane, path, options_.burst - 1};
      }
    }
    if (path == path::kNoPath) {
      burst.take_back();
      continue;
    }
    const path::PathSpec spec = peer->paths[path];
    packet.peer = peer->id;
    packet.plane = spec.plane;
    packet.entropy = spec.ev;
    packet.port_path = spec.port_path;
    burst.commit();
    ++stats_.tx_control;
  }
}

/// Could this item go out, if only a port were free?
MRC_DECL bool Engine::waits_for_port(const ControlItem& item, PlaneMask free_planes) noexcept {
  if (free_planes == ~PlaneMask{0}) return false;
  const QueuePairState* qp = qp_of(item.qpn);
  const Peer* peer = qp != nullptr ? qp->peer : find_peer(item.peer);
  if (peer == nullptr) return false;
  const bool bound = item.kind == ControlItem::Kind::ev_probe;
  const PlaneMask planes = bound ? plane_bit(peer->paths[item.path].plane) & local_up_
                                 : peer->paths.usable_planes() & usable_planes(*peer);
  return planes != 0 && (planes & free_planes) == 0;
}

/// Writes the packet for an item. False when its queue pair or peer has gone.
MRC_DECL bool Engine::build_control(Time now, const ControlItem& item, Peer*& peer,
                                    wire::TxPacket& packet) noexcept {
  using Kind = ControlItem::Kind;
  const bool endpoint = item.kind == Kind::ev_probe || item.kind == Kind::port_status ||
                        item.kind == Kind::endpoint_answer;
  QueuePairState* qp = endpoint ? nullptr : qp_of(item.qpn);
  peer = endpoint ? find_peer(item.peer) : qp != nullptr ? qp->peer : nullptr;
  if (peer == nullptr) return false;
  const auto put = [&packet](const auto& p) {
    std::memcpy(packet.header.data(), &p, sizeof(p));
    packet.header_length = sizeof(p);
  };
  const auto dcid = [](Qpn qpn) { return static_cast<std::uint16_t>(value(qpn)); };
  switch (item.kind) {
    case Kind::sack:
    case Kind::probe_sack:
      build_sack(item, *qp, packet);
      ++stats_.sacks_sent;
      break;
    case Kind::nack: {
      wire::NackPacket p{wire::Bth::make(wire::Opcode::nack, qp->remote.qpn, item.psn), {}};
      p.neth.set_reason(item.reason);
      p.neth.set_entropy(item.entropy);
      p.neth.set_spdcid(dcid(qp->qpn));
      p.neth.set_dpdcid(dcid(qp->remote.qpn));
      p.neth.set_nack_psn(item.psn);
      p.neth.set_tx_timestamp(item.timestamp);
      put(p);
      ++stats_.nacks_sent;
      break;
    }
    case Kind::ack:
    case Kind::nak: {
      const bool ack = item.kind == Kind::ack;
      wire::AckPacket p{};
      p.bth = wire::Bth::make(wire::Opcode::acknowledge, qp->remote.qpn,
                              ack ? qp->rx.last_end : item.psn);
      p.aeth.set_code(ack ? wire::Syndrome::ack : item.syndrome);
      p.aeth.msn = static_cast<std::uint16_t>(qp->rx.messages - 1);
      qp->rx.ack_queued = qp->rx.ack_queued && !ack;
      put(p);
      ++stats_.acks_sent;
      break;
    }
    case Kind::probe: {
      wire::ProbePacket p{wire::Bth::make(wire::Opcode::probe, qp->remote.qpn, Psn{}), {}};
      p.peth.set_probe_id(item.id);
      p.peth.set_spdcid(dcid(qp->qpn));
      p.peth.set_dpdcid(dcid(qp->remote.qpn));
      p.peth.set_tx_timestamp(wire::timestamp_of(now));
      qp->tx.probe_sent = now;
      qp->tx.probe_order = qp->tx.window.send_order();
      put(p);
      ++stats_.probes_sent;
      break;
    }
    case Kind::ev_probe:
    case Kind::port_status: {
      const bool probe = item.kind == Kind::ev_probe;
      wire::EndpointRequestPacket p{
          wire::Bth::make(wire::Opcode::endpoint_request, kEndpointQpn, Psn{item.id}), {}};
      p.erth.set_op(probe ? wire::EndpointOp::ev_probe : wire::EndpointOp::port_status);
      p.erth.set_vendor_info(options_.slot);  // which process to answer; 0 where there is one
      if (!probe) p.erth.set_port_status_mask(peer->told = local_up_);
      const std::uint16_t timestamp = wire::timestamp_of(now);
      EndpointRequest& request = requests_[item.id % kOpenRequests];
      if (request.id == item.id) request.timestamp = timestamp;
      p.erth.set_tx_timestamp(timestamp);
      put(p);
      ++(probe ? stats_.ev_probes_sent : stats_.port_updates_sent);
      break;
    }
    case Kind::endpoint_answer: {
      wire::EndpointResponsePacket p{
          wire::Bth::make(wire::Opcode::endpoint_response, kEndpointQpn, Psn{item.id}), {}};
      p.eeth.set_op(item.op);
      p.eeth.set_tx_timestamp(item.timestamp);
      put(p);
      break;
    }
  }
  return true;
}

/// A SACK from the responder's present state (mrc-1.0 §1.7, §2.7).
MRC_DECL void Engine::build_sack(const ControlItem& item, QueuePairState& qp,
                                 wire::TxPacket& packet) noexcept {
  Responder& rx = qp.rx;
  const Psn cack = rx.window.cack();
  const reliability::SackRange range = rx.window.next_sack();
  wire::SackPacket p{wire::Bth::make(wire::Opcode::sack, qp.remote.qpn, cack), {}, {}};
  p.seth.set_m(item.mark);
  if (item.kind == ControlItem::Kind::sack && rx.sacks_queued > 0) --rx.sacks_queued;
  if (item.kind == ControlItem::Kind::probe_sack) {
    p.seth.set_probe(true);
    p.seth.set_probe_id(item.id);
  } else {
    p.seth.set_ack_psn_offset(
        static_cast<std::int16_t>(std::clamp(item.psn - cack, -0x8000, 0x7FFF)));
  }
  p.seth.set_entropy(item.entropy);
  p.seth.set_spdcid(static_cast<std::uint16_t>(value(qp.qpn)));
  p.seth.set_dpdcid(static_cast<std::uint16_t>(value(qp.remote.qpn)));
  p.seth.set_cack_psn(cack);
  p.seth.set_mpr(rx.mpr);
  p.seth.set_sack_offset(range.offset);
  p.seth.set_sack_bitmap(range.bitmap);
  p.cc.set_tx_timestamp(item.timestamp);
  p.cc.set_ooo_count(rx.window.out_of_order());
  p.cc.set_rcvd_bytes(static_cast<std::uint32_t>((rx.rcvd_bytes + 255) / 256));
  std::memcpy(packet.header.data(), &p, sizeof(p));
  packet.header_length = sizeof(p);
}

}  // namespace mrc::inline v0_1::engine
