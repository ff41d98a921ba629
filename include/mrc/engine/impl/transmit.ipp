// SPDX-License-Identifier: Apache-2.0
// Engine: what goes out. Peers with something to send take turns of a burst on one path, the queue
// pairs of a peer turns of as many bursts as reach a quantum of bytes.
#pragma once

#include "mrc/engine/engine.hpp"
#include "mrc/wire/overhead.hpp"
#include "mrc/wire/write_header.hpp"

namespace mrc::inline v0_1::engine {

namespace detail {

/// What a small packet costs a receive buffer at least; its bookkeeping is larger than itself.
inline constexpr std::uint32_t kLeastCharge = 1024;

[[nodiscard]] constexpr std::uint8_t pad_of(std::uint32_t length) noexcept {
  return static_cast<std::uint8_t>((4 - length % 4) % 4);
}
[[nodiscard]] constexpr wire::Opcode write_opcode(bool first, bool last, bool immediate) noexcept {
  if (first && last) return immediate ? wire::Opcode::write_only_imm : wire::Opcode::write_only;
  if (last) return immediate ? wire::Opcode::write_last_imm : wire::Opcode::write_last;
  return first ? wire::Opcode::write_first : wire::Opcode::write_middle;
}
/// What one packet carries of its message.
struct Slice {
  std::uint32_t offset, length;  ///< the payload, bytes of the message
  std::uint32_t size;            ///< nominal, as both sides count it (mrc-1.0 [C-15])
  std::uint8_t pad;
  bool first, last;
};

/// Packet `k` of a message.
[[nodiscard]] inline Slice slice_of(const SendWqe& w, std::uint32_t k, std::uint32_t mtu,
                                    bool timestamps) noexcept {
  Slice s;
  s.offset = std::min(k * mtu, w.length);
  s.length = std::min(mtu, w.length - s.offset);
  s.pad = pad_of(s.length);
  s.first = k == 0;
  s.last = k + 1 == w.packets;
  const bool immediate = w.with_immediate && s.last;
  const auto headers = static_cast<std::uint32_t>(wire::write_header_size(timestamps, immediate));
  s.size = wire::kNominalOverhead + headers + s.length + s.pad + wire::kIcrcSize;
  return s;
}

}  // namespace detail

MRC_DECL void Engine::poll_transmit(Time now, PlaneMask free_planes,
                                    wire::TxBurst& burst) noexcept {
  now = forward(now);
  if ((free_planes & ~last_free_) != 0) wake_all();  // a port has room again
  last_free_ = free_planes;
  review_losses(now);
  send_control(now, free_planes, burst);
  while (!ready_peers_.empty() && burst.room() > 0) {
    Peer& peer = ready_peers_.front();
    ready_peers_.pop_front();
    if (peer.ready.empty()) continue;
    QueuePairState& qp = peer.ready.front();
    // Queue pairs have a quantum each, peers a burst. With nobody else in line it is the same one's
    // turn again; one timer setting does for all.
    const bool alone = &qp == &peer.ready.back();
    Turn turn;
    do {
      turn = take_turn(now, peer, qp, free_planes, burst);
    } while (turn == Turn::over && ready_peers_.empty() && burst.room() > 0 &&
             (alone || qp.tx.turn < options_.quantum));
    arm(qp, now);
    const bool leaves = turn == Turn::idle || turn == Turn::starved;
    if (leaves || qp.tx.turn >= options_.quantum) {
      qp.tx.turn = 0;
      peer.ready.pop_front();
      if (!leaves) peer.ready.push_back(qp);
      if (turn == Turn::starved) peer.starved.push_back(qp);  // others may not need a record
    }
    if (turn == Turn::blocked || peer.ready.empty()) continue;  // wake() brings the peer back
    if (turn == Turn::burst_full) {
      ready_peers_.push_front(peer);
      return;
    }
    ready_peers_.push_back(peer);
  }
}

/// A burst of one queue pair: lost packets first, then new ones.
MRC_DECL Engine::Turn Engine::take_turn(Time now, Peer& peer, QueuePairState& qp,
                                        PlaneMask free_planes, wire::TxBurst& burst) noexcept {
  if (now < qp.tx.paused_until) return Turn::idle;  // its timer brings it back
  if (qp.tx.owed && qp.tx.window.empty() && peer.answered > peer.owed)
    qp.tx.owed = false;  // the peer is not silent any more
  const bool owed = qp.tx.owed;
  path::PathIndex path = path::kNoPath;
  for (std::uint32_t n = options_.burst; n > 0; --n) {
    if (burst.room() == 0 || burst.piece_room() < qp.init.capacity.send_sges + 1)
      return Turn::burst_full;
    const PlaneMask full = qp.tx.owed ? 0 : peer.full;
    const PlaneMask planes = free_planes & usable_planes(peer) & ~full;
    const Turn turn = qp.tx.window.lost() > 0 ? retransmit(now, peer, qp, planes, burst)
                                              : send_next(now, peer, qp, planes, path, burst);
    if (turn != Turn::over) return turn;
    if (owed && !qp.tx.owed) {  // that uses the turn up: others may be owed one, too
      qp.tx.turn = options_.quantum;
      break;
    }
  }
  const bool more = qp.tx.window.lost() > 0 || qp.tx.queue.backlog();
  return more ? Turn::over : Turn::idle;
}

/// Sends the oldest lost packet again, on another path than before (mrc-1.0 §2.9).
MRC_DECL Engine::Turn Engine::retransmit(Time now, Peer& peer, QueuePairState& qp, PlaneMask planes,
                                         wire::TxBurst& burst) noexcept {
  reliability::SendWindow& window = qp.tx.window;
  const Psn psn = window.first_lost();
  // Dynamic MPR shrank: wait until the window passes it (mrc-1.0 §2.4).
  if (static_cast<std::uint32_t>(psn - window.unacked()) >= qp.tx.range) return Turn::idle;
  const reliability::Packet packet = window.at(psn);
  const bool again = packet.transmissions() > 0;
  SendWqe& w = message_of(qp, psn);
  const auto k = static_cast<std::uint32_t>(psn - w.first);
  const detail::Slice slice = detail::slice_of(w, k, qp.mtu, options_.timestamps);
  if (!qp.tx.owed && !peer.congestion.can_send(slice.size)) return Turn::blocked;
  const path::PathIndex path = peer.paths.select(qp.tx.cursor, planes, packet.path());
  if (path == path::kNoPath) return Turn::blocked;
  qp.tx.owed = false;
  window.resend(psn, now, path);
  emit(now, peer, qp, w, slice, psn, again, path, burst);
  qp.tx.timer_start = now;
  ++qp.stats.retransmits;
  ++stats_.tx_retransmits;
  return Turn::over;
}

/// Sends the next new packet of the send queue.
[[gnu::always_inline]] inline Engine::Turn Engine::send_next(Time now, Peer& peer,
                                                             QueuePairState& qp, PlaneMask planes,
                                                             path::PathIndex& path,
                                                             wire::TxBurst& burst) noexcept {
  Requester& tx = qp.tx;
  if (!tx.queue.backlog() || !tx.window.open(tx.range)) return Turn::idle;
  SendWqe& w = tx.queue.at(tx.queue.sending());
  const bool first = tx.next_packet == 0;
  if (first && w.with_immediate && tx.wimm_in_flight >= tx.wimm_limit) return Turn::idle;
  const detail::Slice slice = detail::slice_of(w, tx.next_packet, qp.mtu, options_.timestamps);
  if (!tx.owed && !peer.congestion.can_send(slice.size)) return Turn::blocked;
  if (path == path::kNoPath || (planes & plane_bit(peer.paths[path].plane)) == 0)
    path = peer.paths.select(tx.cursor, planes);
  if (path == path::kNoPath) return Turn::blocked;
  const Psn psn = tx.window.next();
  if (!tx.window.append(now, path, slice.size)) {
    starved_ = qp.starved = true;
    ++stats_.pool_exhausted;
    return Turn::starved;
  }
  tx.owed = false;
  if (first) {
    w.first = psn;
    tx.wimm_in_flight = static_cast<std::uint16_t>(tx.wimm_in_flight + w.with_immediate);
  }
  if (tx.window.span() == 1) tx.timer_start = now;
  if (++tx.next_packet == w.packets) {
    tx.next_packet = 0;
    tx.queue.sent();
  }
  emit(now, peer, qp, w, slice, psn, false, path, burst);
  ++qp.stats.tx_packets;
  ++stats_.tx_data;
  return Turn::over;
}

/// The message of a packet in the window: messages follow each other in PSN order, so it is found
/// by halving. Only packets that were given up once are looked up, so records need not name it.
[[gnu::noinline]] inline SendWqe& Engine::message_of(QueuePairState& qp, Psn psn) noexcept {
  SendQueue& q = qp.tx.queue;
  const std::int32_t later = qp.tx.window.next() - psn;
  const auto begins_later = [&](std::uint32_t position) {
    const std::int32_t ahead = q.at(position).first - psn;
    return ahead > 0 && ahead < later;
  };
  const std::uint32_t end = q.sending() + (qp.tx.next_packet > 0);
  // No more messages can have begun since than there are later packets.
  std::uint32_t count = std::min(end - q.done(), static_cast<std::uint32_t>(later));
  std::uint32_t first = end - count;
  while (count > 1) {  // it is one of the `count` from `first` on
    const std::uint32_t half = count / 2;
    if (begins_later(first + half)) {
      count = half;
    } else {
      first += half;
      count -= half;
    }
  }
  return q.at(first);
}

/// Nominal size of an outstanding packet: on record during its first try.
MRC_DECL std::uint32_t Engine::size_of(QueuePairState& qp, Psn psn,
                                       reliability::Packet packet) noexcept {
  if (packet.first_try()) return packet.size();
  const SendWqe& w = message_of(qp, psn);
  const auto k = static_cast<std::uint32_t>(psn - w.first);
  return detail::slice_of(w, k, qp.mtu, options_.timestamps).size;
}

/// Builds one data packet and enters it into all accounts.
/// (Inlined, as is what it calls: a tenth less time per packet.)
[[gnu::always_inline]] inline void Engine::emit(Time now, Peer& peer, QueuePairState& qp,
                                                SendWqe& w, const detail::Slice& slice, Psn psn,
                                                bool again, path::PathIndex path,
                                                wire::TxBurst& burst) noexcept {
  Requester& tx = qp.tx;
  const path::PathSpec spec = peer.paths[path];
  const std::uint32_t size = slice.size;
  peer.congestion.on_send(size, now);
  peer.paths.on_sent(path, size);
  peer.reverse.on_outbound(spec.plane, now);
  charge(peer, spec.plane, size);
  tx.inflight += size;
  tx.turn += std::max(size, detail::kLeastCharge);
  tx.last_sent = now;

  wire::WriteHeader h;
  h.opcode = detail::write_opcode(slice.first, slice.last, w.with_immediate);
  h.pad = slice.pad;
  // Ask for a SACK when nothing more is queued or the window is nearly used up (mrc-1.0 §6.8).
  h.ack_request = (!tx.queue.backlog() && tx.window.lost() == 0) || peer.congestion.wants_ack();
  h.rtx = again;
  h.has_timestamp = options_.timestamps;
  h.timestamp = wire::timestamp_of(now);
  h.dqp = qp.remote.qpn;
  h.psn = psn;
  h.rqmsn = Rqmsn{w.with_immediate ? w.rqmsn : 0u};
  h.msn = Msn{w.msn};
  h.va = w.remote + slice.offset;
  h.rkey = w.rkey;
  h.dma_length = w.length;
  h.immediate = w.immediate;

  wire::TxPacket& packet = burst.append();
  packet.header_length =
      static_cast<std::uint8_t>(wire::build_write_header(packet.header.data(), h));
  packet.pad = h.pad;
  const bool trimmable = options_.trimming && qp.remote.trim_nack;
  const wire::DscpMap& dscp = options_.dscp;
  packet.dscp = !trimmable ? dscp.no_trim : again ? dscp.trimmable_retx : dscp.trimmable;
  packet.ecn = Ecn::ect0;
  packet.peer = peer.id;
  packet.owner = qp.qpn;
  packet.plane = spec.plane;
  packet.entropy = spec.ev;
  packet.port_path = spec.port_path;
  add_payload(w, slice, burst);
  burst.commit();
  qp.stats.tx_bytes += again ? 0 : slice.length;
}

/// Adds a packet's part of a message, out of the user's memory.
MRC_DECL void Engine::add_payload(SendWqe& w, const detail::Slice& slice,
                                  wire::TxBurst& burst) noexcept {
  std::uint32_t offset = slice.offset, length = slice.length;
  if (length == 0) return;
  if (w.inlined) {
    burst.add_piece(SendQueue::inline_data(w) + offset, length);
    return;
  }
  for (const LocalPiece* piece = SendQueue::pieces(w); length > 0; ++piece) {
    if (offset >= piece->length) {
      offset -= piece->length;
      continue;
    }
    const std::uint32_t n = std::min(length, piece->length - offset);
    burst.add_piece(piece->address + offset, n);
    length -= n;
    offset = 0;
  }
}

/// A packet enters a plane; when the receiver's buffer there could overrun, the plane is full.
MRC_DECL void Engine::charge(Peer& peer, Plane plane, std::uint32_t size) noexcept {
  std::uint64_t& inflight = peer.plane_inflight[plane];
  inflight += std::max(size, detail::kLeastCharge);
  if (peer.plane_window != 0 && inflight >= peer.plane_window) peer.full |= plane_bit(plane);
}

/// A packet has left a plane, one way or another.
MRC_DECL void Engine::release(Peer& peer, Plane plane, std::uint32_t size) noexcept {
  std::uint64_t& inflight = peer.plane_inflight[plane];
  inflight -= std::min<std::uint64_t>(inflight, std::max(size, detail::kLeastCharge));
  if (inflight < peer.plane_window) peer.full &= ~plane_bit(plane);
}

/// Puts a queue pair that has something to send, and may, in line for its turn.
MRC_DECL void Engine::update_ready(QueuePairState& qp) noexcept {
  if (qp.state != QpState::rts) return;
  Requester& tx = qp.tx;
  if (qp.starved && tx.window.lost() > 0) {  // what it has to send now has its record already
    qp.starved = false;
    qp.ready_hook.unlink();
  }
  if (!qp.ready_hook.is_linked()) {
    bool ready = tx.window.lost() > 0;
    if (!ready && tx.queue.backlog() && tx.window.open(tx.range)) {
      const SendWqe& w = tx.queue.at(tx.queue.sending());
      ready = tx.next_packet != 0 || !w.with_immediate || tx.wimm_in_flight < tx.wimm_limit;
    }
    if (!ready) return;
    if (tx.owed)
      qp.peer->ready.push_front(qp);
    else
      qp.peer->ready.push_back(qp);
  }
  wake(*qp.peer);
}

/// Puts a peer in line if one of its queue pairs waits for a turn.
MRC_DECL void Engine::wake(Peer& peer) noexcept {
  if (!peer.ready.empty() && !peer.hook.is_linked()) ready_peers_.push_back(peer);
}

/// What held everybody back is gone.
MRC_DECL void Engine::wake_all() noexcept {
  starved_ = false;
  for (auto& peer : peers_) {
    if (!peer) continue;
    for (QueuePairState& qp : peer->starved) qp.starved = false;
    peer->ready.splice(peer->ready.end(), peer->starved);
    wake(*peer);
  }
}

MRC_DECL void Engine::on_untransmitted(Time now, std::span<const wire::TxPacket> packets) noexcept {
  now = forward(now);
  for (const wire::TxPacket& packet : packets) {
    const auto& bth = wire::view_as<wire::Bth>(Bytes{packet.header.data(), packet.header_length});
    if (!wire::is_write(bth.opcode())) continue;  // lost control packets are made up for anyway
    QueuePairState* qp = qp_of(packet.owner);
    if (qp == nullptr || qp->state != QpState::rts || !qp->tx.window.contains(bth.psn())) continue;
    const reliability::Packet sent = qp->tx.window.at(bth.psn());
    if (sent.state() != reliability::PacketState::outstanding) continue;
    const std::uint32_t size = size_of(*qp, bth.psn(), sent);
    leave_flight(now, *qp, sent, size);
    qp->peer->congestion.on_forget(size);
    qp->tx.window.unsend(bth.psn());
    update_ready(*qp);
    arm(*qp, now);
  }
}

}  // namespace mrc::inline v0_1::engine
