// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <bit>
#include <utility>

#include "mrc/engine/endpoint_service.hpp"

namespace mrc::inline v0_1::engine {

namespace detail {

/// Longest time that an endpoint request is in the network. A port status with a lower number than
/// the last one is stale until then; afterwards the sender has restarted.
constexpr Duration kStatusLifetime = std::chrono::milliseconds(500);
/// A port status is repeated until answered, at most so many times, with doubling intervals.
inline constexpr std::uint8_t kMaxStatusTries = 10;
constexpr Duration kFirstStatusRetry = std::chrono::milliseconds(1);
/// Probes beyond EngineOptions::rtt_probes while none is answered, with doubling intervals: the
/// last one leaves 4,096 round trips after the first.
inline constexpr unsigned kMoreRttProbes = 11;

}  // namespace detail

/// The first request number is not to be guessed. It also differs between the processes of a host:
/// responses to one of them can reach all of them.
EndpointService::EndpointService(Context& context)
    : ctx_(context),
      requests_(kOpenRequests),
      next_request_(static_cast<std::uint16_t>(context.secrets.bits(16))),
      pacer_(context.options.idle_probes),
      unconnected_(context.options.unconnected_requests),
      resolutions_(context.options.resolution_inputs) {}

// ------------------------------------------------------------------------------------- packets

void EndpointService::on_request(Time now, const wire::RxPacket& packet,
                                 QueuePairState* via) noexcept {
  const auto& p = wire::view_as<wire::EndpointRequestPacket>(packet.bytes);
  DropStats& drops = ctx_.stats.drops;
  const auto id = static_cast<std::uint16_t>(p.bth.psn().value());
  if (!wire::is_known(p.erth.op())) {
    ++drops.malformed;
    return;
  }
  if (via != nullptr && p.erth.tag.value() != via->expected.endpoint()) {
    ++drops.bad_tag;
    return;
  }
  Peer* peer =
      via != nullptr ? via->peer : ctx_.objects.plain_peer_at(packet.source, p.erth.vendor_info);
  if (peer == nullptr) {
    keep_unconnected(packet, p);
    return;
  }
  if (via == nullptr && !peer->plain_answers.take(now)) {
    ++drops.limited;
    return;
  }
  if (via != nullptr) {  // a tag is no right to speak for others
    if (!peer->came_from_here(packet.plane, packet.source)) {
      ++drops.foreign;
      return;
    }
    heard_by(*via);
  }
  if (p.erth.op() == wire::EndpointOp::port_status) {
    const PlaneMask up = p.erth.port_status_mask.value();
    const auto ahead = static_cast<std::int16_t>(id - peer->remote_status_id);
    if (ahead < 0 && now - peer->remote_status_at < detail::kStatusLifetime) {
      ++drops.stale;  // a newer one overtook it
      return;
    }
    if ((up & peer->planes & ctx_.local_up) == 0) {  // how did it get here?
      ++drops.refused_hint;
      return;
    }
    ++ctx_.stats.port_updates_received;
    // The process may be several peers here, with profiles of their own.
    const bool vouched = via != nullptr;
    const std::uint8_t slot = peer->slot;
    ctx_.objects.for_each_peer_at(packet.source, slot, [&](Peer& same) {
      if (same.tagged.empty() == vouched) return;
      if ((up & same.planes & ctx_.local_up) == 0) return;
      if (vouched) {  // a forged number must not make the next one look old
        same.remote_status_id = id;
        same.remote_status_at = now;
      }
      on_port_status(now, same, up, vouched);
    });
  } else {
    ++ctx_.stats.ev_probes_received;
    peer->reverse.on_probed(packet.plane, now);
    ctx_.timers.arm(*peer);
  }
  ControlItem item;
  item.kind = ControlItem::Kind::endpoint_answer;
  item.again = true;
  item.peer = peer->id;
  item.qpn = via != nullptr ? via->qpn : Qpn{};
  item.plane = packet.plane;
  item.op = p.erth.op();
  item.id = id;
  item.timestamp = p.erth.tx_timestamp.value();
  ctx_.queue_control(item);
}

void EndpointService::keep_unconnected(const wire::RxPacket& packet,
                                       const wire::EndpointRequestPacket& p) noexcept {
  wire::UnconnectedRequest request;
  request.source = packet.source;
  if (packet.origin != nullptr) request.from = packet.origin->source;
  request.entropy = packet.entropy;
  request.id = static_cast<std::uint16_t>(p.bth.psn().value());
  request.timestamp = p.erth.tx_timestamp.value();
  request.slot = p.erth.vendor_info;
  request.plane = packet.plane;
  request.op = p.erth.op();
  if (!unconnected_.push_back(request)) ++ctx_.stats.drops.foreign;
}

/// Number and time stamp make the request known. They must both fit: responses to other processes
/// of this host may arrive here, too. The operation need not, since implementations disagree where
/// it stands ([C-3]).
void EndpointService::on_response(Time now, const wire::RxPacket& packet,
                                  QueuePairState* via) noexcept {
  const auto& p = wire::view_as<wire::EndpointResponsePacket>(packet.bytes);
  Request& r = requests_[p.bth.psn().value() % kOpenRequests];
  Peer* peer = r.open ? ctx_.objects.peer(r.peer) : nullptr;
  if (peer == nullptr || r.id != p.bth.psn().value() ||
      r.timestamp != p.eeth.tx_timestamp.value()) {
    const auto id = static_cast<std::uint16_t>(p.bth.psn().value());
    const bool kept =
        via == nullptr &&
        responses_.push_back({now, packet.source, id, p.eeth.tx_timestamp.value(), packet.plane});
    if (!kept) ++ctx_.stats.drops.stale;
    return;
  }
  if (via == nullptr ? !peer->tagged.empty() : p.eeth.tag.value() != via->expected.endpoint()) {
    ++ctx_.stats.drops.bad_tag;
    return;
  }
  if ((via != nullptr && via->peer != peer) || !peer->came_from_here(packet.plane, packet.source)) {
    ++ctx_.stats.drops.foreign;
    return;
  }
  if (via != nullptr) heard_by(*via);
  r.open = r.piece != path::Piece::single;  // the others of the piece are answered, too
  r.rtt = std::max(now - r.sent, Duration(1));
  if (r.op == wire::EndpointOp::ev_probe) {
    on_probe_answered(now, *peer, r);
  } else if (r.id == peer->status_id && peer->announced == ctx_.offered_planes()) {
    peer->status_due = kNever;  // the peer knows the present status
  }
  ctx_.ready.wake(*peer);
  ctx_.timers.arm(*peer);
}

/// A small probe proves nothing where probes of full size are asked for.
void EndpointService::on_probe_answered(Time now, Peer& peer, const Request& r) noexcept {
  ++ctx_.stats.ev_probe_answers;
  const Plane plane = peer.paths[r.path].plane;
  const PlaneMask singly = peer.pieces.singly();
  peer.pieces.on_answer(plane, r.piece, r.sent, now);
  if (peer.pieces.singly() != singly) ++ctx_.path_events;  // the driver learns of it with these
  if (r.piece != path::Piece::single) return;              // it says nothing of single packets
  const bool proves = r.full_size || !peer.probes_full_size(plane);
  if (!r.full_size) {
    peer.congestion.on_rtt(now - r.sent);
    peer.rtt_measured = true;
    if (peer.rtt_probes >= ctx_.options.rtt_probes) peer.next_rtt_probe = kNever;
  }
  peer.reverse.on_working(r.path, now, peer.paths);
  peer.sizes.on_answer(plane, r.full_size, r.sent, now);
  peer.narrow_path.on_answer(r.path, r.full_size, r.sent);
  update_narrow(now, peer);
  if (!proves) return;
  peer.paths.on_probe_answer(r.path, path::Mark::none, now);
  if (peer.trials.on_answer(plane, now)) on_planes_changed(now, peer);
}

/// `vouched`: nobody but the peer can have said so.
void EndpointService::on_port_status(Time now, Peer& peer, PlaneMask up, bool vouched) noexcept {
  const PlaneMask withdrawn = peer.planes & peer.remote_up & ~up;
  if (vouched) {
    peer.remote_up &= ~withdrawn;
    for (PlaneMask m = withdrawn; m != 0; m &= m - 1)
      peer.trials.stop(static_cast<Plane>(std::countr_zero(m)));
    restore(now, peer, up & ~peer.remote_up);
  } else {
    for (PlaneMask m = withdrawn & ctx_.local_up; m != 0; m &= m - 1)
      peer.trials.suspect(static_cast<Plane>(std::countr_zero(m)), now);
  }
  on_planes_changed(now, peer);
}

/// The peer's ports in these planes are up again: they are used when they have proved it.
void EndpointService::restore(Time now, Peer& peer, PlaneMask planes) noexcept {
  peer.remote_up |= planes;
  const PlaneMask back = planes & peer.planes & ctx_.local_up;
  for (PlaneMask m = back; m != 0; m &= m - 1)
    peer.trials.withhold(static_cast<Plane>(std::countr_zero(m)), now);
  peer.sizes.on_silence(back, now);  // it may be back, but narrower
}

/// A port from which something arrives is up, unless it was on its way when the peer withdrew it.
void EndpointService::on_traffic(Time now, Peer& peer, Plane plane) noexcept {
  const PlaneMask bit = plane_bit(plane) & peer.planes;
  if ((bit & ~peer.remote_up) == 0) {
    peer.trials.hurry(plane, now);
  } else if (now - peer.remote_status_at >= detail::kStatusLifetime) {
    restore(now, peer, bit);
    on_planes_changed(now, peer);
  }
  ctx_.timers.arm(peer);
}

void EndpointService::on_resolution(const wire::RxPacket& packet) noexcept {
  ResolutionInput input{packet.plane, packet.source, packet.bytes.size(), {}};
  const bool fits = input.size <= input.bytes.size();
  if (fits) std::copy(packet.bytes.begin(), packet.bytes.end(), input.bytes.begin());
  if (!fits || !resolutions_.push_back(input)) ++ctx_.stats.drops.foreign;
}

// ------------------------------------------------------------------------------- port status

void EndpointService::set_plane_up(Time now, Plane plane, bool up) noexcept {
  if (plane >= kMaxPlanes || ((ctx_.local_up & plane_bit(plane)) != 0) == up) return;
  ctx_.local_up ^= plane_bit(plane);
  ctx_.objects.for_each_peer([&](Peer& peer) {
    announce(now, peer);
    peer.sizes.stop(plane);
    update_narrow(now, peer);
    if (up)
      restore(now, peer, plane_bit(plane) & peer.remote_up);
    else
      peer.trials.stop(plane);
    on_planes_changed(now, peer);
  });
}

void EndpointService::set_plane_narrow(Time now, Plane plane, bool narrow) noexcept {
  if (plane >= kMaxPlanes || ((ctx_.local_narrow & plane_bit(plane)) != 0) == narrow) return;
  ctx_.local_narrow ^= plane_bit(plane);
  ctx_.objects.for_each_peer([&](Peer& peer) {
    announce(now, peer);
    update_narrow(now, peer);
    if (!narrow) restore(now, peer, plane_bit(plane) & peer.remote_up);
    on_planes_changed(now, peer);
  });
}

/// The own planes that a peer is to use have changed.
void EndpointService::announce(Time now, Peer& peer) noexcept {
  if (peer.queue_pairs == 0) return;
  peer.status_due = now;
  peer.status_tries = 0;
}

/// The planes that are too narrow for data may have changed. The driver learns of it with the path
/// events.
void EndpointService::update_narrow(Time now, Peer& peer) noexcept {
  const PlaneMask narrow = (peer.sizes.narrow() | ctx_.local_narrow) & peer.planes;
  if (narrow == peer.narrow) return;
  peer.narrow = narrow;
  ++ctx_.path_events;
  on_planes_changed(now, peer);
}

void EndpointService::on_connected(Time now, Peer& peer) noexcept {
  if (peer.served) return;
  peer.served = true;
  update_narrow(now, peer);
  const bool all_up = (peer.planes & ~ctx_.offered_planes()) == 0;
  if (!all_up || peer.announced != ctx_.offered_planes()) announce(now, peer);
  peer.rtt_probes = 0;
  peer.rtt_measured = false;
  peer.next_rtt_probe = ctx_.options.rtt_probes > 0 ? now : kNever;
  peer.pieces.start(peer.planes & ctx_.local_up, now);
  peer.rtt_probe_turn = false;
  ctx_.timers.arm(peer);
}

void EndpointService::update_planes(Peer& peer) noexcept {
  const PlaneMask usable = ctx_.usable_planes(peer);
  for (PlaneMask changed = usable ^ peer.paths.planes_up(); changed != 0; changed &= changed - 1) {
    const auto plane = static_cast<Plane>(std::countr_zero(changed));
    peer.paths.set_plane_up(plane, (usable & plane_bit(plane)) != 0);
  }
  peer.trusted = peer.remote_up & ~peer.trials.withheld();
}

void EndpointService::on_planes_changed(Time now, Peer& peer) noexcept {
  update_planes(peer);
  if (peer.paths.usable_planes() == 0)  // the retransmission timers of those that wait start
    for (QueuePairState& qp : peer.ready)
      if (!qp.scheduled()) {
        qp.tx.timer_start = now;
        ctx_.rearm(qp, now);
      }
  ctx_.ready.wake(peer);
  ctx_.timers.arm(peer);
}

// --------------------------------------------------------------------------------- requests

/// Enters a request in the table, in place of the oldest one.
std::uint16_t EndpointService::open_request(PeerId peer, wire::EndpointOp op,
                                            path::PathIndex path) noexcept {
  const std::uint16_t id = next_request_++;
  requests_[id % kOpenRequests] = {peer, id, 0, {}, path, op, false, path::Piece::single, true, {}};
  return id;
}

void EndpointService::forget(PeerId peer) noexcept {
  for (Request& r : requests_)
    if (r.peer == peer) r.open = false;
}

void EndpointService::on_timer(Time now, Peer& peer) noexcept {
  peer.paths.set_probe_spacing(peer.congestion.base_rtt());  // at most one per round trip
  peer.reverse.set_rtt(peer.congestion.base_rtt());
  if (may_probe(now, peer, peer.paths.next_probe())) {
    const path::PathIndex bad = peer.paths.poll_probe(now);
    if (bad != path::kNoPath) {  // a plane of which no path is left may be too narrow only
      probe_path(peer, bad);
      const PlaneMask plane = plane_bit(peer.paths[bad].plane);
      if ((peer.paths.usable_planes() & plane) == 0)
        peer.sizes.on_silence(plane, now);
      else if (peer.probes_full_size(peer.paths[bad].plane))
        queue_narrow_path_trial(now, peer, bad);
    }
  }
  if (may_probe(now, peer, peer.reverse.next_probe()))
    queue_probe(peer, peer.reverse.poll_probe(now, peer.paths, ctx_.random));
  if (may_probe(now, peer, peer.trials.next_probe())) queue_trial(now, peer);
  if (may_probe(now, peer, peer.sizes.next_probe())) queue_size_trial(now, peer);
  queue_piece_trial(now, peer);
  if (now >= peer.next_rtt_probe) queue_rtt_probe(now, peer);
  if (now >= peer.status_due) queue_port_status(now, peer);
  ctx_.timers.arm(peer);
}

/// May a probe that was due at `due` be sent? With an idle peer it waits for its turn.
bool EndpointService::may_probe(Time now, Peer& peer, Time due) noexcept {
  if (now < due) return false;
  if (!peer.idle(now)) {
    peer.held_probe = kNever;
    return true;
  }
  if (peer.held_probe == kNever) peer.held_probe = pacer_.take(now);
  if (now < peer.held_probe) return false;
  peer.held_probe = kNever;
  return true;
}

/// An endpoint packet has come by this queue pair, so the peer has not closed its side of it: the
/// next request goes by it, too.
void EndpointService::heard_by(QueuePairState& qp) noexcept {
  auto& tagged = qp.peer->tagged;
  tagged.erase(tagged.iterator_to(qp));
  tagged.push_front(qp);
  qp.peer->tagged_heard = true;
}

/// The queue pair whose tag the next endpoint request carries: the one by which the peer was heard
/// since the last request, else the next one, in turns. 0 if the peer has no tags.
Qpn EndpointService::next_tagged(Peer& peer) noexcept {
  if (peer.tagged.empty()) return Qpn{};
  if (!std::exchange(peer.tagged_heard, false)) {
    QueuePairState& unheard = peer.tagged.front();
    peer.tagged.pop_front();
    peer.tagged.push_back(unheard);
  }
  return peer.tagged.front().qpn;
}

std::uint16_t EndpointService::queue_probe(Peer& peer, path::PathIndex path, bool full_size,
                                           path::Piece piece) noexcept {
  if (path == path::kNoPath) return 0;
  ControlItem item;
  item.kind = ControlItem::Kind::ev_probe;
  item.peer = peer.id;
  item.qpn = next_tagged(peer);
  item.path = path;
  item.id = open_request(peer.id, wire::EndpointOp::ev_probe, path);
  item.full_size = requests_[item.id % kOpenRequests].full_size = full_size;
  item.piece = requests_[item.id % kOpenRequests].piece = piece;
  ctx_.queue_control(item);
  return item.id;
}

/// Probes planes that may be too narrow, by any of their paths. What was in flight when a plane was
/// taken out of use is lost in it, and says nothing.
void EndpointService::queue_size_trial(Time now, Peer& peer) noexcept {
  while (const auto probes = peer.sizes.poll(now, peer.congestion.base_rtt())) {
    const path::PathIndex path = peer.paths.random_of_plane(probes->plane, ctx_.random);
    const bool out_of_use = (peer.remote_up & ctx_.local_up & plane_bit(probes->plane)) == 0;
    if (out_of_use || path == path::kNoPath) {
      peer.sizes.stop(probes->plane);
      continue;
    }
    if (probes->full) queue_probe(peer, path, true);
    if (probes->small) queue_probe(peer, path);
  }
  update_narrow(now, peer);
}

/// A bad path is probed in full size now, and others of its plane carry data.
void EndpointService::queue_narrow_path_trial(Time now, Peer& peer, path::PathIndex path) noexcept {
  if (peer.narrow_path.on_full_probe(path, peer.congestion.base_rtt(), now))
    queue_probe(peer, path);
  else if (peer.narrow_path.found())
    ++ctx_.path_events;  // the driver learns of it with these
}

/// Probes planes in which what leaves in one piece may vanish, by any of their paths.
void EndpointService::queue_piece_trial(Time now, Peer& peer) noexcept {
  const PlaneMask singly = peer.pieces.singly();
  const PlaneMask full_size = peer.sizes.probed() ? ~peer.narrow : 0;
  while (const auto probes = peer.pieces.poll(now, peer.congestion.base_rtt(), full_size)) {
    const path::PathIndex path = peer.paths.random_of_plane(probes->plane, ctx_.random);
    const bool out_of_use = (peer.remote_up & ctx_.local_up & plane_bit(probes->plane)) == 0;
    if (out_of_use || path == path::kNoPath) {
      peer.pieces.stop(probes->plane, now);
      continue;
    }
    using path::Piece;
    if (probes->equal) queue_probe(peer, path, probes->full, Piece::equal);
    if (probes->shorter_end) queue_probe(peer, path, true, Piece::shorter_end);
    queue_probe(peer, path, probes->full);
  }
  if (peer.pieces.singly() != singly) ++ctx_.path_events;  // the driver learns of it with these
}

/// Probes a plane that has to prove itself, by any of its paths.
void EndpointService::queue_trial(Time now, Peer& peer) noexcept {
  const PlaneMask withheld = peer.trials.withheld();
  const auto plane = peer.trials.poll_probe(now, peer.congestion.base_rtt());
  if (plane) {
    const path::PathIndex path = peer.paths.random_of_plane(*plane, ctx_.random);
    if (path == path::kNoPath)
      peer.trials.stop(*plane);  // there is nothing that could be used
    else
      probe_path(peer, path);
  }
  if (peer.trials.withheld() != withheld) on_planes_changed(now, peer);
}

/// Measures the round-trip time before there is data to measure it with (mrc-1.0 §6.8): the
/// smallest of some probes, by several paths. If none of them is answered, the peer may not be
/// connected yet, and some more follow, at growing intervals.
void EndpointService::queue_rtt_probe(Time now, Peer& peer) noexcept {
  if (!std::exchange(peer.rtt_probe_turn, true)) peer.next_rtt_probe = pacer_.take(now);
  if (now < peer.next_rtt_probe) return;
  peer.rtt_probe_turn = false;
  const unsigned usual = ctx_.options.rtt_probes;
  const unsigned sent = peer.rtt_probes++;
  if (const PlaneMask planes = peer.paths.usable_planes(); planes != 0) {
    const auto plane = static_cast<Plane>(std::countr_zero(nth_plane(planes, usual - sent)));
    queue_probe(peer, peer.paths.random_usable(plane, ctx_.random));
  }
  const unsigned doublings = sent + 1 < usual ? 0 : sent + 2 - usual;
  const bool done = doublings > 0 && (peer.rtt_measured || doublings > detail::kMoreRttProbes);
  peer.next_rtt_probe = done ? kNever : now + peer.congestion.base_rtt() * (1 << doublings);
}

/// By another plane each time: one that is dead without a sign would keep it from the peer.
void EndpointService::queue_port_status(Time now, Peer& peer) noexcept {
  ControlItem item;
  item.kind = ControlItem::Kind::port_status;
  item.peer = peer.id;
  item.qpn = next_tagged(peer);
  item.plane = static_cast<Plane>(
      std::countr_zero(nth_plane(ctx_.planes_to_tell(peer), peer.status_tries) | 1u << 31));
  item.id = peer.status_id = open_request(peer.id, wire::EndpointOp::port_status, path::kNoPath);
  ctx_.queue_control(item);
  const Duration wait = std::max(detail::kFirstStatusRetry, 2 * peer.congestion.base_rtt());
  peer.status_due = ++peer.status_tries < detail::kMaxStatusTries
                        ? now + wait * (1 << peer.status_tries)
                        : kNever;
}

// ---------------------------------------------------------------------------------- headers

void EndpointService::write(Time now, const ControlItem& item, Peer& peer,
                            const QueuePairState* via, wire::TxPacket& packet) noexcept {
  if (item.kind != ControlItem::Kind::endpoint_answer)
    return write_request(now, item, peer, via, packet);
  const Qpn to = via != nullptr ? via->remote.qpn : kEndpointQpn;
  auto& p = make_header<wire::EndpointResponsePacket>(
      packet, wire::Bth::make(wire::Opcode::endpoint_response, to, Psn{item.id}));
  p.eeth.set_op(item.op);
  p.eeth.tx_timestamp = item.timestamp;
  if (via != nullptr) p.eeth.tag = via->remote_tag.endpoint();
}

void EndpointService::write_request(Time now, const ControlItem& item, Peer& peer,
                                    const QueuePairState* via, wire::TxPacket& packet) noexcept {
  const bool probe = item.kind == ControlItem::Kind::ev_probe;
  const Qpn to = via != nullptr ? via->remote.qpn : kEndpointQpn;
  auto& p = make_header<wire::EndpointRequestPacket>(
      packet, wire::Bth::make(wire::Opcode::endpoint_request, to, Psn{item.id}));
  p.erth.set_op(probe ? wire::EndpointOp::ev_probe : wire::EndpointOp::port_status);
  p.erth.vendor_info = ctx_.options.slot;  // of the process that the answer goes to
  if (via != nullptr) p.erth.tag = via->remote_tag.endpoint();
  if (!probe) p.erth.port_status_mask = peer.announced = ctx_.offered_planes();
  const std::uint16_t timestamp = wire::timestamp_of(now);
  Request& request = requests_[item.id % kOpenRequests];
  if (request.id == item.id) {
    request.timestamp = timestamp;
    request.sent = now;
  }
  p.erth.set_tx_timestamp(timestamp);
}

}  // namespace mrc::inline v0_1::engine
