// SPDX-License-Identifier: Apache-2.0
// Engine: endpoint requests and responses, that is EV probes and port status (mrc-1.0 §5).
#pragma once

#include <bit>

#include "mrc/engine/engine.hpp"
#include "mrc/engine/impl/objects.ipp"

namespace mrc::inline v0_1::engine {

namespace detail {

/// How long an endpoint request can be under way. An older number after that is a new start.
MRC_DECL constexpr Duration kStatusLifetime = std::chrono::milliseconds(500);

}  // namespace detail

/// Remembers a request until its response comes; the oldest one is forgotten for it. (Responses to
/// other processes of this host come by here, too. Their numbers may be the same, so the time stamp
/// has to be that of the request as well.)
MRC_DECL std::uint16_t Engine::open_request(PeerId peer, wire::EndpointOp op,
                                            path::PathIndex path) noexcept {
  const std::uint16_t id = next_request_++;
  requests_[id % kOpenRequests] = {peer, id, 0, path, op, true};
  return id;
}

MRC_DECL void Engine::on_endpoint_request(Time now, const wire::RxPacket& packet) noexcept {
  const auto& p = wire::view_as<wire::EndpointRequestPacket>(packet.bytes);
  const auto it = peer_by_source_.find(detail::source_key(packet.source, p.erth.vendor_info()));
  Peer* peer = it == peer_by_source_.end() ? nullptr : find_peer(it->second);
  const auto id = static_cast<std::uint16_t>(p.bth.psn().value());
  if (!wire::is_known(p.erth.op())) {
    ++stats_.drops.malformed;
    return;
  }
  if (peer == nullptr) {
    const bool kept = p.erth.op() == wire::EndpointOp::ev_probe &&
                      guest_probes_.push_back(
                          {packet.source, packet.entropy, id, p.erth.tx_timestamp(), packet.plane});
    if (!kept) ++stats_.drops.foreign;
    return;
  }
  if (p.erth.op() == wire::EndpointOp::port_status) {
    const auto ahead = static_cast<std::int16_t>(id - peer->heard_id);
    if (ahead < 0 && now - peer->heard_at < detail::kStatusLifetime) {  // a newer one overtook it
      ++stats_.drops.stale;
      return;
    }
    peer->heard_id = id;
    peer->heard_at = now;
    ++stats_.port_updates_received;
    peer->remote_up = p.erth.port_status_mask();
    on_planes_changed(now, *peer);
  } else {
    ++stats_.ev_probes_received;
  }
  ControlItem item;
  item.kind = ControlItem::Kind::endpoint_answer;
  item.peer = peer->id;
  item.plane = packet.plane;
  item.op = p.erth.op();
  item.id = id;
  item.timestamp = p.erth.tx_timestamp();
  queue_control(item);
}

MRC_DECL void Engine::on_endpoint_response(Time now, const wire::RxPacket& packet) noexcept {
  const auto& p = wire::view_as<wire::EndpointResponsePacket>(packet.bytes);
  EndpointRequest& r = requests_[p.bth.psn().value() % kOpenRequests];
  Peer* peer = r.open ? find_peer(r.peer) : nullptr;
  if (peer == nullptr || r.id != p.bth.psn().value() || r.op != p.eeth.op() ||
      r.timestamp != p.eeth.tx_timestamp()) {
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
  } else if (r.id == peer->status_id && peer->told == local_up_) {
    peer->status_due = kNever;  // otherwise a newer one waits to be sent
  }
  wake(*peer);
  arm(*peer);
}

MRC_DECL bool Engine::poll_guest_probe(GuestProbe& probe) noexcept {
  if (guest_probes_.empty()) return false;
  probe = guest_probes_.front();
  guest_probes_.pop_front();
  return true;
}

MRC_DECL void Engine::set_plane_up(Time now, Plane plane, bool up) noexcept {
  now = forward(now);
  if (plane >= kMaxPlanes || ((local_up_ & plane_bit(plane)) != 0) == up) return;
  local_up_ ^= plane_bit(plane);
  for (auto& peer : peers_) {
    if (!peer) continue;
    if (peer->queue_pairs > 0) {
      peer->status_due = now;
      peer->status_tries = 0;
    }
    on_planes_changed(now, *peer);
  }
}

/// A queue pair was connected. Port changes are told to peers with queue pairs only, so the first
/// one may have to make up for that.
MRC_DECL void Engine::tell_ports(Time now, Peer& peer) noexcept {
  if (peer.queue_pairs > 1) return;
  const bool all_up = (peer.planes & ~local_up_) == 0;
  if (!all_up || peer.told != local_up_) {
    peer.status_due = now;
    peer.status_tries = 0;
  }
  arm(peer);  // probes of its paths rested meanwhile
}

/// Planes towards a peer came or went. With the last one gone, queue pairs that wait for their turn
/// start to wait for the peer: their timers run from now.
MRC_DECL void Engine::on_planes_changed(Time now, Peer& peer) noexcept {
  adjust_planes(peer);
  if (peer.paths.usable_planes() == 0) {
    for (QueuePairState& qp : peer.ready) {
      if (qp.scheduled()) continue;
      qp.tx.timer_start = now;
      arm(qp, now);
    }
  }
  wake(peer);
  arm(peer);
}

}  // namespace mrc::inline v0_1::engine
