// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "mrc/engine/control_sender.hpp"

namespace mrc::inline v0_1::engine {

MRC_DECL void ControlSender::send(Time now, PlaneMask free_planes, wire::TxBurst& burst) noexcept {
  SharedPath shared;
  for (; !ctx_.control.empty() && burst.room() > 0; ctx_.control.pop()) {
    const ControlItem& item = ctx_.control.front();
    if (waits_for_port(item, free_planes)) return;
    wire::TxPacket& packet = burst.append();
    packet.dscp = ctx_.options.dscp.control;
    packet.ecn = Ecn::not_ect;  // [O-22]
    Peer* peer = write(now, item, packet);
    path::PathIndex path = path::kNoPath;
    if (peer != nullptr)
      path = choose_path(item, *peer, free_planes & ctx_.usable_planes(*peer), shared);
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
    ++ctx_.stats.tx_control;
  }
}

/// Could this item be sent if all ports were free?
MRC_DECL bool ControlSender::waits_for_port(const ControlItem& item,
                                            PlaneMask free_planes) noexcept {
  if (free_planes == ~PlaneMask{0}) return false;
  const QueuePairState* qp = ctx_.objects.qp(item.qpn);
  const Peer* peer = qp != nullptr ? qp->peer : ctx_.objects.peer(item.peer);
  if (peer == nullptr) return false;
  const PlaneMask planes = item.kind == ControlItem::Kind::ev_probe
                               ? plane_bit(peer->paths[item.path].plane) & ctx_.local_up
                               : peer->paths.usable_planes() & ctx_.usable_planes(*peer);
  return planes != 0 && (planes & free_planes) == 0;
}

/// Has the header of an item written. Returns its peer; null if peer or queue pair is gone.
MRC_DECL Peer* ControlSender::write(Time now, const ControlItem& item,
                                    wire::TxPacket& packet) noexcept {
  using Kind = ControlItem::Kind;
  if (item.kind == Kind::ev_probe || item.kind == Kind::port_status ||
      item.kind == Kind::endpoint_answer) {
    Peer* peer = ctx_.objects.peer(item.peer);
    if (peer != nullptr) endpoint_.write(now, item, *peer, packet);
    return peer;
  }
  QueuePairState* qp = ctx_.objects.qp(item.qpn);
  if (qp == nullptr || qp->peer == nullptr) return nullptr;
  if (item.kind == Kind::probe) {
    loss_.write_probe(now, item, *qp, packet);
    const bool trimmable = ctx_.options.trimming && qp->remote.trim_nack;
    packet.dscp = trimmable ? ctx_.options.dscp.trimmable : ctx_.options.dscp.no_trim;
  } else {
    responder_.write_answer(item, *qp, packet);
  }
  return qp->peer;
}

[[gnu::always_inline]] inline path::PathIndex ControlSender::choose_path(
    const ControlItem& item, Peer& peer, PlaneMask planes, SharedPath& shared) noexcept {
  if (item.kind == ControlItem::Kind::probe)
    return peer.paths.select(ctx_.objects.qp(item.qpn)->tx.cursor, planes);
  if (item.path != path::kNoPath)  // an EV probe
    return (planes & plane_bit(peer.paths[item.path].plane)) != 0 ? item.path : path::kNoPath;
  if (shared.left > 0 && shared.peer == &peer && shared.plane == item.plane) {
    --shared.left;
    return shared.path;
  }
  const path::PathIndex path = peer.reverse.pick(item.plane, planes, peer.paths, ctx_.random);
  shared = {&peer, item.plane, path, ctx_.options.burst - 1};
  return path;
}

}  // namespace mrc::inline v0_1::engine
