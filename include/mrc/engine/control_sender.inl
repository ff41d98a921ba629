// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "mrc/engine/control_sender.hpp"

#include <algorithm>
#include <array>
#include <new>

#include "mrc/core/types.hpp"
#include "mrc/engine/responder.hpp"

namespace mrc::inline v0_1::engine {

namespace detail {

/// What EV probes of full size are filled up with.
inline constexpr std::array<std::uint8_t, kLargestMtu + wire::kMaxWriteHeader> kPadding{};
/// Packets of a piece of EV probes, most.
inline constexpr unsigned kPiecePackets = 4;
/// Bytes of a piece, most: one message of a UDP socket.
inline constexpr unsigned kPieceBytes = 65507;

}  // namespace detail

/// Bytes behind the header of an EV probe that is as long as the longest data packet to the peer.
[[nodiscard]] inline std::uint32_t padding_to(const Peer& peer) noexcept {
  return static_cast<std::uint32_t>(peer.largest_payload + wire::kMaxWriteHeader -
                                    sizeof(wire::EndpointRequestPacket));
}

void ControlSender::send(Time now, PlaneMask free_planes, wire::TxBurst& burst) noexcept {
  SharedPath shared;
  for (; !ctx_.control.empty() && burst.room() > 0 && burst.sge_room() > 0; ctx_.control.pop()) {
    const ControlItem& item = ctx_.control.front();
    if (waits_for_port(item, free_planes)) return;
    const unsigned room = item.piece == path::Piece::single ? 1 : detail::kPiecePackets;
    if (std::min(burst.room(), burst.sge_room()) < room && !burst.empty()) return;  // the next has
    wire::TxPacket& packet = burst.append();
    packet.dscp = ctx_.options.dscp.control;
    packet.ecn = Ecn::not_ect;  // [O-22]
    Peer* peer = write(now, item, packet);
    path::PathIndex path = path::kNoPath;
    if (peer != nullptr) path = choose_path(item, *peer, free_planes, shared);
    if (item.full_size && ctx_.objects.qp(item.qpn) == nullptr) path = path::kNoPath;
    if (path == path::kNoPath) {
      burst.take_back();
      continue;
    }
    const path::PathSpec spec = peer->paths[path];
    packet.peer = peer->id;
    packet.plane = spec.plane;
    packet.entropy = spec.ev;
    packet.port_path = spec.port_path;
    if (item.full_size) burst.add_sge(detail::kPadding.data(), padding_to(*peer), 0);
    // Probes are to show what becomes of single packets, or of pieces; and so are their answers.
    if (item.path != path::kNoPath || item.kind == ControlItem::Kind::endpoint_answer)
      burst.commit_alone();
    else
      burst.commit();
    count(item.kind);
    if (item.piece != path::Piece::single)
      complete_piece(item, item.full_size ? padding_to(*peer) : 0, burst);
  }
}

void ControlSender::count(ControlItem::Kind kind) noexcept {
  EngineStats& s = ctx_.stats;
  ++s.tx_control;
  switch (kind) {
    case ControlItem::Kind::probe_sack:
      ++s.probe_sacks_sent;
      [[fallthrough]];
    case ControlItem::Kind::sack:
      ++s.sacks_sent;
      break;
    case ControlItem::Kind::nack:
      ++s.nacks_sent;
      break;
    case ControlItem::Kind::ack:
    case ControlItem::Kind::nak:
      ++s.acks_sent;
      break;
    case ControlItem::Kind::probe:
      ++s.probes_sent;
      break;
    case ControlItem::Kind::ev_probe:
      ++s.ev_probes_sent;
      break;
    case ControlItem::Kind::port_status:
      ++s.port_updates_sent;
      break;
    case ControlItem::Kind::endpoint_answer:
      ++s.endpoint_answers_sent;
      break;
  }
}

/// Appends the probe that was appended last once more, so that both leave in one piece; those of
/// full size more often, if such a piece is not too long for ports.
void ControlSender::complete_piece(const ControlItem& item, std::uint32_t padding,
                                   wire::TxBurst& burst) noexcept {
  const wire::TxPacket& packet = burst.newest();
  const unsigned fit = detail::kPieceBytes / packet.transport_length();
  const unsigned packets =
      item.full_size ? std::clamp(fit, 2u, std::min(detail::kPiecePackets, ctx_.options.burst)) : 2;
  for (unsigned n = 2; n <= packets && burst.room() > 0 && burst.sge_room() > 0; ++n) {
    const bool shorter = item.piece == path::Piece::shorter_end && n == packets;
    repeat(packet, shorter ? 0 : padding, burst);
  }
}

void ControlSender::repeat(const wire::TxPacket& packet, std::uint32_t padding,
                           wire::TxBurst& burst) noexcept {
  wire::TxPacket& copy = burst.append();
  const std::uint32_t first_sge = copy.first_sge;
  copy = packet;
  copy.first_sge = first_sge;
  copy.sge_count = 0;
  copy.payload_length = 0;
  if (padding > 0) burst.add_sge(detail::kPadding.data(), padding, 0);
  burst.commit_behind();
  count(ControlItem::Kind::ev_probe);
}

/// Puts the peer's tag into a packet.
[[gnu::always_inline]] inline void ControlSender::stamp(wire::TxPacket& packet,
                                                        const wire::Tag& tag) noexcept {
  if (!tag) return;
  tag.stamp(*std::launder(reinterpret_cast<wire::Bth*>(packet.header.data())));
  packet.check_seed = tag.check();
}

/// Could this item be sent if all ports were free?
bool ControlSender::waits_for_port(const ControlItem& item, PlaneMask free_planes) noexcept {
  if (free_planes == ~PlaneMask{0}) return false;
  const QueuePairState* qp = ctx_.objects.qp(item.qpn);
  const Peer* peer = qp != nullptr ? qp->peer : ctx_.objects.peer(item.peer);
  if (peer == nullptr) return false;
  const PlaneMask planes =
      item.path != path::kNoPath
          ? plane_bit(peer->paths[item.path].plane) & peer->planes & ctx_.local_up
          : peer->paths.usable_planes() & ctx_.usable_planes(*peer);
  return planes != 0 && (planes & free_planes) == 0;
}

/// Has the header of an item written. Returns its peer; null if peer or queue pair is gone.
Peer* ControlSender::write(Time now, const ControlItem& item, wire::TxPacket& packet) noexcept {
  using Kind = ControlItem::Kind;
  if (item.kind == Kind::ev_probe || item.kind == Kind::port_status ||
      item.kind == Kind::endpoint_answer) {
    Peer* peer = ctx_.objects.peer(item.peer);
    if (peer == nullptr) return nullptr;
    const QueuePairState* via = ctx_.objects.qp(item.qpn);
    endpoint_.write(now, item, *peer, via, packet);
    if (via != nullptr) stamp(packet, via->remote_tag);
    return peer;
  }
  QueuePairState* qp = ctx_.objects.qp(item.qpn);
  if (qp == nullptr || qp->peer == nullptr) return nullptr;
  if (item.kind == Kind::probe) {
    loss_.write_probe(now, item, *qp, packet);
    const bool trimmable = ctx_.options.trimming && qp->remote.trim_nack;
    packet.dscp = trimmable ? ctx_.options.dscp.trimmable : ctx_.options.dscp.no_trim;
    // Like the data it travels with: a queue that marks data would drop what it can't mark.
    packet.ecn = Ecn::ect0;
  } else {
    responder_.write_answer(item, *qp, packet);
  }
  stamp(packet, qp->remote_tag);
  return qp->peer;
}

[[gnu::always_inline]] inline path::PathIndex ControlSender::choose_path(
    const ControlItem& item, Peer& peer, PlaneMask free_planes, SharedPath& shared) noexcept {
  if (item.path != path::kNoPath) {  // an EV probe, also in a plane that has to prove itself
    const PlaneMask planes = free_planes & peer.planes & ctx_.local_up;
    return (planes & plane_bit(peer.paths[item.path].plane)) != 0 ? item.path : path::kNoPath;
  }
  const PlaneMask planes = free_planes & ctx_.usable_planes(peer);
  if (item.kind == ControlItem::Kind::port_status && ctx_.usable_planes(peer) == 0) {
    const PlaneMask told = free_planes & ctx_.planes_to_tell(peer) & plane_bit(item.plane);
    return told != 0 ? peer.paths.random_of_plane(item.plane, ctx_.random, true) : path::kNoPath;
  }
  if (item.kind == ControlItem::Kind::probe) {
    RequesterState& tx = ctx_.objects.qp(item.qpn)->tx;
    const path::PathIndex path = peer.paths.select(planes);
    // Nothing comes back: what seems to work does not, so others are tried as well.
    if (path == path::kNoPath || !tx.in_vain() || ctx_.random.below(2) == 0) return path;
    const Plane plane = peer.paths[path].plane;
    const path::PathIndex answered = peer.reverse.answered_though_bad(plane, peer.paths);
    if (answered != path::kNoPath && ctx_.random.below(2) == 0) return answered;
    return peer.paths.random_of_plane(plane, ctx_.random, true);
  }
  if (shared.left > 0 && shared.peer == &peer && shared.plane == item.plane) {
    --shared.left;
    return shared.path;
  }
  if (item.again) return peer.reverse.pick_again(item.plane, planes, peer.paths, ctx_.random);
  const path::PathIndex path = peer.reverse.pick(item.plane, planes, peer.paths, ctx_.random);
  shared = {&peer, item.plane, path, ctx_.options.burst - 1};
  return path;
}

// Responder: SACKs, NACKs and Transport ACKs, queued and written.

/// Queues a SACK for a data packet (mrc-1.0 §2.6). A SACK is written when it is sent; once enough
/// are queued to cover the receive window, the newest one is updated instead.
void Responder::queue_sack(QueuePairState& qp, const wire::RxPacket& packet, Psn psn,
                           std::uint16_t timestamp) noexcept {
  ResponderState& rx = qp.rx;
  const auto mark = packet.ecn == Ecn::ce ? wire::SackMark::skip_once : wire::SackMark::none;
  rx.since_sack = 0;
  ControlItem* waiting = ctx_.control.find(rx.newest_sack);
  if (waiting == nullptr) rx.sacks_queued = 0;
  const bool merge = waiting != nullptr && waiting->qpn == qp.qpn &&
                     waiting->kind == ControlItem::Kind::sack &&
                     waiting->mark == wire::SackMark::none && mark == wire::SackMark::none &&
                     rx.sacks_queued >= rx.window.sacks_for_all();
  ControlItem fresh;
  ControlItem& item = merge ? *waiting : fresh;
  item.kind = ControlItem::Kind::sack;
  item.qpn = qp.qpn;
  item.plane = packet.plane;
  item.mark = mark;
  item.psn = psn;
  item.again = wire::view_as<wire::Bth>(packet.bytes).rtx();
  item.entropy = packet.entropy;
  item.timestamp = timestamp;
  if (merge) return;
  if (ctx_.control.push(fresh, &rx.newest_sack))
    ++rx.sacks_queued;
  else
    ++ctx_.stats.drops.control_overflow;
}

/// Limits the answers to packets that a requester could send without end to one per round trip.
bool Responder::may_answer_again(Time now, QueuePairState& qp) noexcept {
  Time& last = qp.rx.last_limited;
  if (last != Time::min() && now - last < qp.peer->congestion.base_rtt()) return false;
  last = now;
  return true;
}

void Responder::queue_nack(Time now, QueuePairState& qp, const wire::RxPacket& packet, Psn psn,
                           std::uint16_t timestamp, wire::NackReason reason) noexcept {
  if (reason == wire::NackReason::psn_oor_window && !may_answer_again(now, qp)) return;  // [C-6]
  ControlItem item;
  item.kind = ControlItem::Kind::nack;
  item.qpn = qp.qpn;
  item.plane = packet.plane;
  item.reason = reason;
  item.psn = psn;
  item.entropy = packet.entropy;
  item.timestamp = timestamp;
  ctx_.queue_control(item);
}

void Responder::write_answer(const ControlItem& item, QueuePairState& qp,
                             wire::TxPacket& packet) noexcept {
  switch (item.kind) {
    case ControlItem::Kind::sack:
    case ControlItem::Kind::probe_sack:
      return write_sack(item, qp, packet);
    case ControlItem::Kind::nack:
      return write_nack(item, qp, packet);
    default:
      return write_ack(item, qp, packet);
  }
}

/// Only a queue pair that holds back message ends is asked for less because room for them runs
/// short: fewer packets under way leave fewer messages with a gap in front.
std::uint8_t Responder::announced_mpr(const ResponderState& rx) const noexcept {
  const bool defers = rx.deferred.head != DeferredStores::kNone;
  const std::size_t all = ctx_.deferred.capacity();
  return ctx_.pressure.mpr(rx.mpr, defers ? ctx_.deferred.free() : all, all);
}

/// A SACK of the responder's present state (mrc-1.0 §1.7, §2.7).
void Responder::write_sack(const ControlItem& item, QueuePairState& qp,
                           wire::TxPacket& packet) noexcept {
  ResponderState& rx = qp.rx;
  const Psn cack = rx.window.cack();
  const reliability::SackRange range = rx.window.next_sack();
  auto& p = make_header<wire::SackPacket>(packet,
                                          wire::Bth::make(wire::Opcode::sack, qp.remote.qpn, cack));
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
  p.seth.set_spdcid(connection_id(qp.qpn));
  p.seth.set_dpdcid(connection_id(qp.remote.qpn));
  p.seth.set_cack_psn(cack);
  p.seth.set_mpr(announced_mpr(rx));
  p.seth.set_sack_offset(range.offset);
  p.seth.set_sack_bitmap(range.bitmap);
  p.cc.set_tx_timestamp(item.timestamp);
  p.cc.set_ooo_count(rx.window.out_of_order());
  p.cc.set_rcv_cwnd_pen(ctx_.pressure.penalty());
  p.cc.set_restore_cwnd(ctx_.pressure.restore());
  p.cc.set_rcvd_bytes(static_cast<std::uint32_t>((rx.rcvd_bytes + 255) / 256));
}

void Responder::write_nack(const ControlItem& item, QueuePairState& qp,
                           wire::TxPacket& packet) noexcept {
  auto& p = make_header<wire::NackPacket>(
      packet, wire::Bth::make(wire::Opcode::nack, qp.remote.qpn, item.psn));
  p.neth.set_reason(item.reason);
  if (item.reason == wire::NackReason::receiver_not_ready)
    p.neth.set_vendor_info(qp.attributes.min_rnr_timer);
  p.neth.set_entropy(item.entropy);
  p.neth.set_spdcid(connection_id(qp.qpn));
  p.neth.set_dpdcid(connection_id(qp.remote.qpn));
  p.neth.set_nack_psn(item.psn);
  p.neth.set_tx_timestamp(item.timestamp);
}

/// A Transport ACK of the newest finished message, or a NAK.
void Responder::write_ack(const ControlItem& item, QueuePairState& qp,
                          wire::TxPacket& packet) noexcept {
  const bool ack = item.kind == ControlItem::Kind::ack;
  const FinishedMessage& newest = qp.rx.finished;
  auto& p = make_header<wire::AckPacket>(
      packet,
      wire::Bth::make(wire::Opcode::acknowledge, qp.remote.qpn, ack ? newest.last : item.psn));
  p.aeth.set_code(ack ? wire::Syndrome::ack : item.syndrome);
  p.aeth.msn = newest.msn;
  qp.rx.ack_queued = qp.rx.ack_queued && !ack;
}

}  // namespace mrc::inline v0_1::engine
