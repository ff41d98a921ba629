// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>

#include "mrc/engine/endpoint_service.hpp"

namespace mrc::inline v0_1::engine {

namespace detail {

/// Longest time that an endpoint request is in the network. A port status with a lower number than
/// the last one is stale until then; afterwards the sender has restarted.
MRC_DECL constexpr Duration kStatusLifetime = std::chrono::milliseconds(500);
/// A port status is repeated until answered, at most so many times, with doubling intervals.
inline constexpr std::uint8_t kMaxStatusTries = 10;
MRC_DECL constexpr Duration kFirstStatusRetry = std::chrono::milliseconds(1);

}  // namespace detail

/// The first request number differs between the processes of a host: responses to one of them reach
/// all of them.
MRC_DECL EndpointService::EndpointService(Context& context, LossRecovery& loss)
    : ctx_(context),
      loss_(loss),
      requests_(kOpenRequests),
      next_request_(static_cast<std::uint16_t>((context.options.seed * 0x9E3779B97F4A7C15u >> 48) +
                                               context.options.slot * 257u)),
      unconnected_(context.options.unconnected_probes),
      resolutions_(context.options.resolution_inputs) {}

// ------------------------------------------------------------------------------------- packets

MRC_DECL void EndpointService::on_request(Time now, const wire::RxPacket& packet) noexcept {
  const auto& p = wire::view_as<wire::EndpointRequestPacket>(packet.bytes);
  Peer* peer = ctx_.objects.peer_at(packet.source, p.erth.vendor_info());
  const auto id = static_cast<std::uint16_t>(p.bth.psn().value());
  if (!wire::is_known(p.erth.op())) {
    ++ctx_.stats.drops.malformed;
    return;
  }
  if (peer == nullptr) {
    const bool kept = p.erth.op() == wire::EndpointOp::ev_probe &&
                      unconnected_.push_back(
                          {packet.source, packet.entropy, id, p.erth.tx_timestamp(), packet.plane});
    if (!kept) ++ctx_.stats.drops.foreign;
    return;
  }
  if (p.erth.op() == wire::EndpointOp::port_status) {
    const auto ahead = static_cast<std::int16_t>(id - peer->remote_status_id);
    if (ahead < 0 && now - peer->remote_status_at < detail::kStatusLifetime) {
      ++ctx_.stats.drops.stale;  // a newer one overtook it
      return;
    }
    ++ctx_.stats.port_updates_received;
    // The process may be several peers here, with profiles of their own.
    const PlaneMask mask = p.erth.port_status_mask();
    ctx_.objects.for_each_peer_at(packet.source, p.erth.vendor_info(), [&](Peer& same) {
      same.remote_status_id = id;
      same.remote_status_at = now;
      same.remote_up = mask;
      on_planes_changed(now, same);
    });
  } else {
    ++ctx_.stats.ev_probes_received;
  }
  ControlItem item;
  item.kind = ControlItem::Kind::endpoint_answer;
  item.peer = peer->id;
  item.plane = packet.plane;
  item.op = p.erth.op();
  item.id = id;
  item.timestamp = p.erth.tx_timestamp();
  ctx_.queue_control(item);
}

MRC_DECL void EndpointService::on_response(Time now, const wire::RxPacket& packet) noexcept {
  const auto& p = wire::view_as<wire::EndpointResponsePacket>(packet.bytes);
  Request& r = requests_[p.bth.psn().value() % kOpenRequests];
  Peer* peer = r.open ? ctx_.objects.peer(r.peer) : nullptr;
  // Responses to other processes of this host arrive here too, and may have the same number: the
  // time stamp must be that of the request as well.
  if (peer == nullptr || r.id != p.bth.psn().value() || r.op != p.eeth.op() ||
      r.timestamp != p.eeth.tx_timestamp()) {
    ++ctx_.stats.drops.stale;
    return;
  }
  if (!peer->came_from_here(packet.plane, packet.source)) {
    ++ctx_.stats.drops.foreign;
    return;
  }
  r.open = false;
  if (r.op == wire::EndpointOp::ev_probe) {
    ++ctx_.stats.ev_probe_answers;
    peer->paths.on_probe_answer(r.path, path::Mark::none, now);
    if (path::usable(peer->paths.health(r.path)))
      peer->reverse.on_working(r.path, now, peer->paths);
  } else if (r.id == peer->status_id && peer->announced == ctx_.local_up) {
    peer->status_due = kNever;  // the peer knows the present status
  }
  ctx_.ready.wake(*peer);
  ctx_.timers.arm(*peer);
}

MRC_DECL void EndpointService::on_resolution(const wire::RxPacket& packet) noexcept {
  ResolutionInput* input =
      packet.bytes.size() > wire::kLongResolution ? nullptr : resolutions_.push_slot();
  if (input == nullptr) {
    ++ctx_.stats.drops.foreign;
    return;
  }
  input->plane = packet.plane;
  input->source = packet.source;
  input->size = packet.bytes.size();
  std::copy(packet.bytes.begin(), packet.bytes.end(), input->bytes.begin());
}

MRC_DECL bool EndpointService::poll_resolution(ResolutionInput& input) noexcept {
  if (resolutions_.empty()) return false;
  input = resolutions_.front();
  resolutions_.pop_front();
  return true;
}

MRC_DECL bool EndpointService::poll_unconnected_probe(UnconnectedProbe& probe) noexcept {
  if (unconnected_.empty()) return false;
  probe = unconnected_.front();
  unconnected_.pop_front();
  return true;
}

// ------------------------------------------------------------------------------- port status

MRC_DECL void EndpointService::set_plane_up(Time now, Plane plane, bool up) noexcept {
  if (plane >= kMaxPlanes || ((ctx_.local_up & plane_bit(plane)) != 0) == up) return;
  ctx_.local_up ^= plane_bit(plane);
  ctx_.objects.for_each_peer([&](Peer& peer) {
    if (peer.queue_pairs > 0) {
      peer.status_due = now;
      peer.status_tries = 0;
    }
    on_planes_changed(now, peer);
  });
}

MRC_DECL void EndpointService::on_connected(Time now, Peer& peer) noexcept {
  if (peer.served) return;
  peer.served = true;
  const bool all_up = (peer.planes & ~ctx_.local_up) == 0;
  if (!all_up || peer.announced != ctx_.local_up) {
    peer.status_due = now;
    peer.status_tries = 0;
  }
  ctx_.timers.arm(peer);
}

MRC_DECL void EndpointService::update_planes(Peer& peer) noexcept {
  const PlaneMask usable = ctx_.usable_planes(peer);
  for (PlaneMask changed = usable ^ peer.paths.planes_up(); changed != 0; changed &= changed - 1) {
    const auto plane = static_cast<Plane>(std::countr_zero(changed));
    peer.paths.set_plane_up(plane, (usable & plane_bit(plane)) != 0);
  }
}

/// The usable planes towards a peer may have changed.
MRC_DECL void EndpointService::on_planes_changed(Time now, Peer& peer) noexcept {
  update_planes(peer);
  if (peer.paths.usable_planes() == 0) loss_.on_unreachable(now, peer);
  ctx_.ready.wake(peer);
  ctx_.timers.arm(peer);
}

// --------------------------------------------------------------------------------- requests

/// Enters a request in the table, in place of the oldest one.
MRC_DECL std::uint16_t EndpointService::open_request(PeerId peer, wire::EndpointOp op,
                                                     path::PathIndex path) noexcept {
  const std::uint16_t id = next_request_++;
  requests_[id % kOpenRequests] = {peer, id, 0, path, op, true};
  return id;
}

MRC_DECL void EndpointService::forget(PeerId peer) noexcept {
  for (Request& r : requests_)
    if (r.peer == peer) r.open = false;
}

MRC_DECL void EndpointService::on_timer(Time now, Peer& peer) noexcept {
  peer.paths.set_probe_spacing(peer.congestion.base_rtt());  // at most one per round trip
  peer.reverse.set_rtt(peer.congestion.base_rtt());
  queue_probe(peer, peer.paths.poll_probe(now));
  queue_probe(peer, peer.reverse.poll_probe(now, peer.paths, ctx_.random));
  if (now >= peer.status_due) queue_port_status(now, peer);
  ctx_.timers.arm(peer);
}

MRC_DECL void EndpointService::queue_probe(const Peer& peer, path::PathIndex path) noexcept {
  if (path == path::kNoPath) return;
  ControlItem item;
  item.kind = ControlItem::Kind::ev_probe;
  item.peer = peer.id;
  item.path = path;
  item.id = open_request(peer.id, wire::EndpointOp::ev_probe, path);
  ctx_.queue_control(item);
}

MRC_DECL void EndpointService::queue_port_status(Time now, Peer& peer) noexcept {
  ControlItem item;
  item.kind = ControlItem::Kind::port_status;
  item.peer = peer.id;
  item.plane = static_cast<Plane>(std::countr_zero(ctx_.usable_planes(peer) | (1u << 31)));
  item.id = peer.status_id = open_request(peer.id, wire::EndpointOp::port_status, path::kNoPath);
  ctx_.queue_control(item);
  const Duration wait = std::max(detail::kFirstStatusRetry, 2 * peer.congestion.base_rtt());
  peer.status_due = ++peer.status_tries < detail::kMaxStatusTries
                        ? now + wait * (1 << peer.status_tries)
                        : kNever;
}

// ---------------------------------------------------------------------------------- headers

MRC_DECL void EndpointService::write(Time now, const ControlItem& item, Peer& peer,
                                     wire::TxPacket& packet) noexcept {
  if (item.kind != ControlItem::Kind::endpoint_answer)
    return write_request(now, item, peer, packet);
  wire::EndpointResponsePacket p{
      wire::Bth::make(wire::Opcode::endpoint_response, kEndpointQpn, Psn{item.id}), {}};
  p.eeth.set_op(item.op);
  p.eeth.set_tx_timestamp(item.timestamp);
  put_header(packet, p);
}

MRC_DECL void EndpointService::write_request(Time now, const ControlItem& item, Peer& peer,
                                             wire::TxPacket& packet) noexcept {
  const bool probe = item.kind == ControlItem::Kind::ev_probe;
  wire::EndpointRequestPacket p{
      wire::Bth::make(wire::Opcode::endpoint_request, kEndpointQpn, Psn{item.id}), {}};
  p.erth.set_op(probe ? wire::EndpointOp::ev_probe : wire::EndpointOp::port_status);
  p.erth.set_vendor_info(ctx_.options.slot);  // of the process that the answer goes to
  if (!probe) p.erth.set_port_status_mask(peer.announced = ctx_.local_up);
  const std::uint16_t timestamp = wire::timestamp_of(now);
  Request& request = requests_[item.id % kOpenRequests];
  if (request.id == item.id) request.timestamp = timestamp;
  p.erth.set_tx_timestamp(timestamp);
  put_header(packet, p);
  ++(probe ? ctx_.stats.ev_probes_sent : ctx_.stats.port_updates_sent);
}

}  // namespace mrc::inline v0_1::engine
