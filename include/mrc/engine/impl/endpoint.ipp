// SPDX-License-Identifier: Apache-2.0
// Engine: endpoint requests and responses, that is EV probes and port status (mrc-1.0 §5).
#pragma once

#include <bit>

#include "mrc/engine/engine.hpp"
#include "mrc/engine/impl/objects.ipp"

namespace mrc::engine {

/// Remembers a request until its response comes; the oldest one is forgotten for it.
inline std::uint16_t Engine::open_request(PeerId peer, wire::EndpointOp op,
                                          path::PathIndex path) noexcept {
  const std::uint16_t id = next_request_++;
  requests_[id % kOpenRequests] = {peer, id, path, op, true};
  return id;
}

inline void Engine::on_endpoint_request(Time now, const wire::RxPacket& packet) noexcept {
  const auto& p = wire::view_as<wire::EndpointRequestPacket>(packet.bytes);
  const auto it = peer_by_source_.find(detail::source_key(packet.source, p.erth.vendor_info()));
  Peer* peer = it == peer_by_source_.end() ? nullptr : find_peer(it->second);
  if (peer == nullptr || !wire::is_known(p.erth.op())) {
    ++(peer == nullptr ? stats_.drops.foreign : stats_.drops.malformed);
    return;
  }
  if (p.erth.op() == wire::EndpointOp::port_status) {
    ++stats_.port_updates_received;
    peer->remote_up = p.erth.port_status_mask();
    adjust_planes(*peer);
    wake(*peer);
    arm(*peer);
  }
  (void)now;
  ControlItem item;
  item.kind = ControlItem::Kind::endpoint_answer;
  item.peer = peer->id;
  item.plane = packet.plane;
  item.op = p.erth.op();
  item.id = static_cast<std::uint16_t>(p.bth.psn().value());
  item.timestamp = p.erth.tx_timestamp();
  queue_control(item);
}

inline void Engine::on_endpoint_response(Time now, const wire::RxPacket& packet) noexcept {
  const auto& p = wire::view_as<wire::EndpointResponsePacket>(packet.bytes);
  EndpointRequest& r = requests_[p.bth.psn().value() % kOpenRequests];
  Peer* peer = r.open ? find_peer(r.peer) : nullptr;
  if (peer == nullptr || r.id != p.bth.psn().value() || r.op != p.eeth.op()) {
    ++stats_.drops.stale;
    return;
  }
  if (!peer->came_from_here(packet.plane, packet.source)) {
    ++stats_.drops.foreign;
    return;
  }
  r.open = false;
  if (r.op == wire::EndpointOp::ev_probe) {
    ++stats_.ev_probe_answers;
    peer->paths.on_probe_answer(r.path, path::Mark::none, now);
    if (path::usable(peer->paths.health(r.path)))
      peer->reverse.on_working(r.path, now, peer->paths);
  } else if (r.id == peer->status_id) {
    peer->status_due = kNever;
  }
  wake(*peer);
  arm(*peer);
}

inline void Engine::set_plane_up(Time now, Plane plane, bool up) noexcept {
  if (plane >= kMaxPlanes || ((local_up_ & plane_bit(plane)) != 0) == up) return;
  local_up_ ^= plane_bit(plane);
  for (auto& peer : peers_) {
    if (!peer) continue;
    adjust_planes(*peer);
    if (peer->queue_pairs > 0) {
      peer->status_due = now;
      peer->status_tries = 0;
    }
    wake(*peer);
    arm(*peer);
  }
}

}  // namespace mrc::engine
