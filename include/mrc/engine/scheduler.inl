// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "mrc/engine/scheduler.hpp"

#include <array>
#include <cstring>
#include <new>

namespace mrc::inline v0_1::engine {

namespace detail {

/// Opcodes of packets by MessageKind: middle, first, last and only one of their message.
inline constexpr auto kMessageOpcodes = [] {
  using enum wire::Opcode;
  return std::array<std::array<wire::Opcode, 4>, 9>{{
      {write_middle, write_first, write_last, write_only},
      {write_middle, write_first, write_last_imm, write_only_imm},
      {send_middle, send_first, send_last, send_only},
      {send_middle, send_first, send_last_imm, send_only_imm},
      {read_request, read_request, read_request, read_request},
      {compare_swap, compare_swap, compare_swap, compare_swap},
      {fetch_add, fetch_add, fetch_add, fetch_add},
      {read_response_middle, read_response_first, read_response_last, read_response_only},
      {atomic_response, atomic_response, atomic_response, atomic_response},
  }};
}();

[[nodiscard]] constexpr wire::Opcode opcode_of(MessageKind kind, bool first, bool last) noexcept {
  return kMessageOpcodes[static_cast<std::size_t>(kind)][(first ? 1u : 0u) + (last ? 2u : 0u)];
}

}  // namespace detail

/// Inlined together with send_new(), charge() and emit(): less time per packet
/// (docs/performance_log.md).
[[gnu::always_inline]] inline SendStatus DataSender::send(Time now, Peer& peer, QueuePairState& qp,
                                                          PlaneMask planes, path::PathIndex& path,
                                                          wire::TxBurst& burst) noexcept {
  if (qp.tx.window.lost() > 0)
    if (const Psn psn = next_lost(qp); psn != qp.tx.window.next())
      return send_again(now, peer, qp, psn, planes, burst);
  return send_new(now, peer, qp, planes, path, burst);
}

/// The window's next PSN if no lost packet may be sent again.
[[gnu::always_inline]] inline Psn DataSender::next_lost(QueuePairState& qp) noexcept {
  const reliability::SendWindow& window = qp.tx.window;
  Psn psn = window.first_lost();
  if (!qp.rc || !qp.rc_state->receiver.waiting) [[likely]]
    return psn;
  while (psn != window.next() && qp.rc_state->receiver.holds(message_of(qp, psn).wqe()))
    psn = window.first_lost(psn + 1);
  return psn;
}

/// Sends a lost packet again, on another path than before (mrc-1.0 §2.9).
SendStatus DataSender::send_again(Time now, Peer& peer, QueuePairState& qp, Psn psn,
                                  PlaneMask planes, wire::TxBurst& burst) noexcept {
  reliability::SendWindow& window = qp.tx.window;
  // Dynamic MPR has shrunk: wait until the window reaches the packet (mrc-1.0 §2.4).
  if (static_cast<std::uint32_t>(psn - window.unacked()) >= qp.tx.range) return SendStatus::idle;
  const reliability::Packet packet = window.at(psn);
  Copy copy = Copy::again;
  if (packet.missed() == reliability::Missed::refused)
    copy = Copy::refused;
  else if (packet.transmissions() == 0)  // the port has refused it
    copy = Copy::first;
  const SentMessage message = message_of(qp, psn);
  SendWqe& w = message.wqe();
  const auto k = static_cast<std::uint32_t>(psn - w.first);
  const PacketSlice slice = slice_of(w, k, qp.mtu, ctx_.options.timestamps);
  if (!qp.tx.window_exempt && !peer.congestion.can_send(slice.size)) return SendStatus::blocked;
  const path::PathIndex path = path_for_repeat(peer, qp, planes, packet.path());
  if (path == path::kNoPath) return SendStatus::blocked;
  qp.tx.window_exempt = false;
  window.resend(psn, now, path);
  charge(now, peer, qp, slice.size, path);
  emit(now, peer, qp, message, w, slice, psn, copy, path, burst);
  // The timer is that of the oldest packet. Others may be sent again and again while it is missing.
  if (psn == window.first_unreported()) qp.tx.timer_start = now;
  if (copy != Copy::refused) qp.tx.ask_again();  // it may be lost as well, and be the last
  ++qp.stats.retransmits;
  ++ctx_.stats.tx_retransmits;
  return SendStatus::sent;
}

/// A path for a packet that was sent by `avoid` before.
path::PathIndex DataSender::path_for_repeat(Peer& peer, QueuePairState& qp, PlaneMask planes,
                                            path::PathIndex avoid) noexcept {
  const path::PathIndex path = peer.paths.select(planes, avoid);
  if (path == path::kNoPath || !qp.tx.in_vain()) return path;
  const path::PathIndex answered =
      peer.reverse.answered_though_bad(peer.paths[path].plane, peer.paths);
  return answered != path::kNoPath && answered != avoid ? answered : path;
}

/// Repeats the last packet of the oldest message without Transport ACK, which the peer is known to
/// have (Requester::ask()). Like a probe it is in no window and in no account.
[[gnu::noinline]] SendStatus DataSender::repeat_last(Time now, Peer& peer, QueuePairState& qp,
                                                     PlaneMask planes,
                                                     wire::TxBurst& burst) noexcept {
  RequesterState& tx = qp.tx;
  if (tx.queue.waiting() > 0) {
    const path::PathIndex path = path_for_repeat(peer, qp, planes, path::kNoPath);
    if (path == path::kNoPath) return SendStatus::blocked;
    const SentMessage message{&tx.queue, tx.queue.acknowledged()};
    SendWqe& w = message.wqe();
    const PacketSlice slice = slice_of(w, w.packets - 1, qp.mtu, ctx_.options.timestamps);
    const Psn psn = w.first + static_cast<std::int32_t>(w.packets - 1);
    emit(now, peer, qp, message, w, slice, psn, Copy::repeat, path, burst);
    ++qp.stats.retransmits;
    ++ctx_.stats.tx_retransmits;
  }
  tx.repeat_last = false;
  return SendStatus::idle;
}

/// The queue whose next packet is sent: that of the message that was begun, else the send queue or
/// that of responses, in turns. Null if there is nothing that may be sent.
[[gnu::always_inline]] inline SendQueue* DataSender::next_queue(QueuePairState& qp) noexcept {
  RequesterState& tx = qp.tx;
  if (tx.next_packet != 0) return &qp.current();
  const bool request = tx.queue.backlog() && qp.may_start(tx.queue.at(tx.queue.sending()));
  if (qp.rc) [[unlikely]] {
    RcState& rc = *qp.rc_state;
    rc.answering = rc.responses.backlog() && (!request || !rc.answering);
    if (rc.answering) return &rc.responses;
  }
  return request ? &tx.queue : nullptr;
}

/// The planes that a new packet may take. Without packets in flight no answer would come to end the
/// wait for a plane, so there is none then.
[[gnu::always_inline]] inline PlaneMask DataSender::planes_for_new(const Peer& peer,
                                                                   PlaneMask planes) noexcept {
  const PlaneMask within = peer.paths.within_limits(planes);
  if (within == 0 && peer.congestion.inflight() == 0) [[unlikely]]
    return planes;
  return within;
}

/// Sends the next new packet.
[[gnu::always_inline]] inline SendStatus DataSender::send_new(Time now, Peer& peer,
                                                              QueuePairState& qp, PlaneMask planes,
                                                              path::PathIndex& path,
                                                              wire::TxBurst& burst) noexcept {
  RequesterState& tx = qp.tx;
  if (!tx.window.open(tx.range)) return SendStatus::idle;
  SendQueue* const queue = next_queue(qp);
  if (queue == nullptr)
    return tx.repeat_last ? repeat_last(now, peer, qp, planes, burst) : SendStatus::idle;
  const SentMessage message{queue, queue->sending()};
  SendWqe& w = message.wqe();
  const PacketSlice slice = slice_of(w, tx.next_packet, qp.mtu, ctx_.options.timestamps);
  if (!tx.window_exempt && !peer.congestion.can_send(slice.size)) return SendStatus::blocked;
  if (path == path::kNoPath || (planes & plane_bit(peer.paths[path].plane)) == 0)
    path = peer.paths.select(planes_for_new(peer, planes));
  if (path == path::kNoPath) return SendStatus::blocked;
  const Psn psn = tx.window.next();
  if (!tx.window.append(now, path, slice.size)) {
    ctx_.ready.note_starved(qp);
    ++ctx_.stats.pool_exhausted;
    return SendStatus::starved;
  }
  tx.window_exempt = false;
  if (tx.next_packet == 0) {
    w.first = psn;
    w.msn = static_cast<std::uint16_t>(tx.next_msn.value());
    ++tx.next_msn;
    tx.wimm_in_flight = static_cast<std::uint16_t>(tx.wimm_in_flight + w.numbered());
    if (w.is_request())
      w.rqmsn = static_cast<std::uint16_t>(
          qp.rc_state->reads.add(message.position, packets_of(w.message_length(), qp.mtu)).value());
  }
  if (tx.window.span() == 1) tx.timer_start = now;
  if (++tx.next_packet == w.packets) {
    tx.next_packet = 0;
    queue->sent();
  }
  charge(now, peer, qp, slice.size, path);
  emit(now, peer, qp, message, w, slice, psn, Copy::first, path, burst);
  ++tx.tx_packets;
  ++ctx_.stats.tx_data;
  return SendStatus::sent;
}

/// Pointers into the user's memory; inline data and operands of an atomic are in the send queue.
[[gnu::always_inline]] inline void DataSender::add_payload(SendWqe& w, std::uint32_t offset,
                                                           std::uint32_t length,
                                                           wire::TxBurst& burst) noexcept {
  if (length == 0) return;
  if (w.flags.inline_data) {
    burst.add_sge(SendQueue::inline_data(w) + offset, length, 0);
    return;
  }
  if (w.is_atomic()) {
    burst.add_sge(reinterpret_cast<const std::uint8_t*>(&SendQueue::operands(w)), length, 0);
    return;
  }
  for (const LocalSge* sge = SendQueue::sges(w); length > 0; ++sge) {
    if (offset >= sge->length) {
      offset -= sge->length;
      continue;
    }
    const std::uint32_t n = std::min(length, sge->length - offset);
    burst.add_sge(sge->address + offset, n, sge->lkey);
    length -= n;
    offset = 0;
  }
}

/// Enters one data packet into the accounts of bytes in flight.
[[gnu::always_inline]] inline void DataSender::charge(Time now, Peer& peer, QueuePairState& qp,
                                                      std::uint32_t size,
                                                      path::PathIndex path) noexcept {
  peer.congestion.on_send(size, now);
  peer.charge(peer.paths[path].plane, size);
  qp.tx.inflight += size;
  qp.tx.quantum_used += std::max(size, kLeastCharge);
}

/// Does nobody wait for the acknowledgement of a request? An unsignaled one completes with a later
/// one; it only has to leave room for more in the send queue, and among the WriteImm and SENDs in
/// flight; and the retransmission timer must leave time.
[[gnu::always_inline]] inline bool DataSender::may_be_acknowledged_late(
    const QueuePairState& qp, const SendWqe& w) const noexcept {
  const RequesterState& tx = qp.tx;
  return !w.flags.signaled && !w.is_request() && !tx.queue.half_full() &&
         tx.wimm_in_flight < tx.wimm_limit / 2 &&
         reliability::timeout_value(qp.attributes.timeout) >= 4 * ctx_.options.ack_delay;
}

/// Writes one data packet of a message.
[[gnu::always_inline]] inline void DataSender::emit(Time now, Peer& peer, QueuePairState& qp,
                                                    const SentMessage& message, SendWqe& w,
                                                    const PacketSlice& slice, Psn psn, Copy copy,
                                                    path::PathIndex path,
                                                    wire::TxBurst& burst) noexcept {
  const EngineOptions& options = ctx_.options;
  RequesterState& tx = qp.tx;
  const bool again = copy != Copy::first;
  const path::PathSpec spec = peer.paths[path];
  peer.paths.on_sent(path, slice.size);
  peer.reverse.on_outbound(spec.plane, now);
  ctx_.timers.note_data(peer, now);
  if (copy != Copy::refused) tx.last_sent = now;

  wire::WriteHeader h;
  h.opcode = detail::opcode_of(w.kind, slice.first, slice.last);
  h.pad = slice.pad;
  // Ask for a SACK if nothing more is queued or the window is nearly used up (mrc-1.0 §6.8).
  const bool more = qp.backlog() || (tx.window.lost() > 0 && !qp.waits_for_receiver());
  // Where Transport ACKs wait for SACKs, each message that may not wait asks for one.
  const bool held = options.ack_delay > Duration{} && qp.remote.solicited && slice.last && !again &&
                    message.queue == &tx.queue;
  const bool late = held && may_be_acknowledged_late(qp, w);
  h.ack_request = (held ? !late : !more) || copy == Copy::repeat || peer.congestion.wants_ack();
  tx.patience = late && !h.ack_request ? 2 * options.ack_delay : Duration{};
  h.rtx = again;
  h.solicited = slice.last && w.flags.solicited && w.numbered() && qp.remote.solicited;
  h.has_timestamp = options.timestamps;
  h.timestamp = wire::timestamp_of(now);
  h.dqp = qp.remote.qpn;
  h.psn = psn;
  h.rqmsn = Rqmsn{w.rqmsn};
  h.msn = Msn{w.msn};
  h.va = w.remote + slice.offset;
  h.rkey = w.rkey;
  h.dma_length = w.message_length();
  h.immediate = w.immediate;
  h.tag = qp.remote_tag;
  h.head_check = peer.head_check;

  tx.tx_bytes += again ? 0 : slice.length;
  if (peer.narrow != 0) [[unlikely]]
    if ((peer.narrow >> spec.plane & 1) != 0 && slice.length > wire::kPartPayload &&
        qp.remote.parts && wire::parts_of(slice.length) <= burst.room())
      return emit_parts(peer, qp, message, w, h, spec, slice, burst);
  put(peer, qp, message, w, h, spec, slice.offset, slice.length, burst);
  burst.commit();
}

/// Writes a packet with that part of the message's payload. The caller commits it.
[[gnu::always_inline]] inline void DataSender::put(Peer& peer, QueuePairState& qp,
                                                   const SentMessage& message, SendWqe& w,
                                                   const wire::WriteHeader& h,
                                                   const path::PathSpec& spec, std::uint32_t offset,
                                                   std::uint32_t length,
                                                   wire::TxBurst& burst) noexcept {
  const EngineOptions& options = ctx_.options;
  wire::TxPacket& packet = burst.append();
  packet.header_length =
      static_cast<std::uint8_t>(wire::build_write_header(packet.header.data(), h));
  packet.pad = h.pad;
  packet.check_seed = h.tag.check();
  const bool trimmable = options.trimming && qp.remote.trim_nack;
  const wire::DscpMap& dscp = options.dscp;
  packet.dscp = !trimmable ? dscp.no_trim : h.rtx ? dscp.trimmable_retx : dscp.trimmable;
  packet.ecn = Ecn::ect0;
  packet.peer = peer.id;
  packet.owner = qp.qpn;
  packet.plane = spec.plane;
  packet.entropy = spec.ev;
  packet.port_path = spec.port_path;
  add_payload(w, offset, length, burst);
  if ((options.holding_planes >> spec.plane & 1) != 0) [[unlikely]]
    ctx_.hold_payload(qp, *message.queue, message.position, burst);
}

/// The packet in parts (wire/transport.hpp), one behind the other on one path. A switch that
/// trims would cut off what tells where a part belongs.
void DataSender::emit_parts(Peer& peer, QueuePairState& qp, const SentMessage& message, SendWqe& w,
                            const wire::WriteHeader& h, const path::PathSpec& spec,
                            const PacketSlice& slice, wire::TxBurst& burst) noexcept {
  constexpr std::size_t kBth = sizeof(wire::Bth);
  wire::PartHeader part;
  part.op = static_cast<std::uint8_t>(h.opcode);
  part.length = static_cast<std::uint16_t>(slice.length);
  for (std::uint32_t done = 0; done < slice.length; done += wire::kPartPayload) {
    const std::uint32_t length = std::min(wire::kPartPayload, slice.length - done);
    put(peer, qp, message, w, h, spec, slice.offset + done, length, burst);
    wire::TxPacket& packet = burst.newest();
    part.offset = static_cast<std::uint16_t>(done);
    std::uint8_t* const header = packet.header.data();
    std::memmove(header + kBth + sizeof part, header + kBth, packet.header_length - kBth);
    std::memcpy(header + kBth, &part, sizeof part);
    packet.header_length = static_cast<std::uint8_t>(packet.header_length + sizeof part);
    packet.pad = done + length == slice.length ? h.pad : std::uint8_t{0};
    wire::Bth bth;
    std::memcpy(&bth, header, kBth);
    bth.op = static_cast<std::uint8_t>(wire::Opcode::packet_part);
    bth.set_pad(packet.pad);
    std::memcpy(header, &bth, kBth);
    packet.dscp = ctx_.options.dscp.no_trim;
    burst.commit();
    ++ctx_.stats.tx_parts;
  }
}

void Scheduler::poll_transmit(Time now, PlaneMask free_planes, wire::TxBurst& burst) noexcept {
  EngineService* const service = ctx_.service.get();
  if (service != nullptr) service->settle();
  if ((free_planes & ~last_free_) != 0) {  // a port has room again
    ctx_.ready.wake_all();
    if (service != nullptr) service->wake();
  }
  last_free_ = free_planes;
  requester_.review(now);
  control_.send(now, free_planes, burst);
  burst.end_control();
  while (burst.room() > 0) {
    if (ctx_.service_waits() && (turns_of_peers_ == 0 || ctx_.ready.empty())) {
      if (service->serve(free_planes, burst) == EngineService::Turn::burst_full) return;
      turns_of_peers_ = ctx_.ready.size();
      continue;
    }
    if (ctx_.ready.empty()) return;
    if (turns_of_peers_ > 0) --turns_of_peers_;
    Peer& peer = ctx_.ready.pop();
    if (peer.ready.empty()) continue;
    QueuePairState& qp = peer.ready.front();
    if (qp.tx.quantum_used == 0 && ctx_.lookahead.pays()) ctx_.lookahead.before_service(peer);
    const SendStatus status = serve(now, peer, qp, free_planes, burst);
    ctx_.rearm(qp, now);
    const bool leaves = status == SendStatus::idle || status == SendStatus::starved;
    if (leaves || qp.tx.quantum_used >= ctx_.options.quantum) {
      qp.tx.quantum_used = 0;
      peer.ready.pop_front();
      if (!leaves) peer.ready.push_back(qp);
      // Others may have retransmissions, which need no new record.
      if (status == SendStatus::starved) peer.starved.push_back(qp);
    }
    if (status == SendStatus::blocked || peer.ready.empty()) continue;  // until wake()
    if (status == SendStatus::burst_full) {
      ctx_.ready.push_front(peer);
      return;
    }
    ctx_.ready.push_back(peer);
  }
}

/// Sends a burst, and further ones while nothing else is ready: up to the quantum, or without that
/// limit if the queue pair is the only one of its peer. Sets the timer once for all of them.
[[gnu::always_inline]] inline SendStatus Scheduler::serve(Time now, Peer& peer, QueuePairState& qp,
                                                          PlaneMask free_planes,
                                                          wire::TxBurst& burst) noexcept {
  const bool only = &qp == &peer.ready.back();
  SendStatus status;
  do {
    status = serve_burst(now, peer, qp, free_planes, burst);
  } while (status == SendStatus::sent && ctx_.ready.empty() && !ctx_.service_waits() &&
           burst.room() > 0 && (only || qp.tx.quantum_used < ctx_.options.quantum));
  if (peer.asked <= peer.answered && qp.tx.last_sent == now) peer.asked = now;
  return status;
}

/// Packets of a burst that has begun and may have `most`, at least one. If nothing follows a
/// message, what is left of it goes in bursts of one size, each on a path of its own: those that
/// would be left over cost as much as a full burst, and two paths in turns would carry very
/// different loads.
[[nodiscard]] inline std::uint32_t even_share(QueuePairState& qp, std::uint32_t most) noexcept {
  const SendQueue& queue = qp.current();
  if (queue.posted() - queue.sending() != 1) return most;
  const std::uint32_t left = queue.at(queue.sending()).packets - qp.tx.next_packet + 1;
  if (left <= most) return most;
  const std::uint32_t bursts = (left + most - 1) / most;
  return (left + bursts - 1) / bursts;
}

/// Up to EngineOptions::burst packets of one queue pair, but no more bytes than burst_bytes: lost
/// ones first, new ones then on one path. `sent`: it has more to send.
SendStatus Scheduler::serve_burst(Time now, Peer& peer, QueuePairState& qp, PlaneMask free_planes,
                                  wire::TxBurst& burst) noexcept {
  RequesterState& tx = qp.tx;
  if (now < tx.paused_until) return SendStatus::idle;  // its timer ends the pause
  if (tx.window_exempt && tx.window.empty() && peer.answered > peer.exempted)
    tx.window_exempt = false;  // the peer has answered since
  const bool exempt = tx.window_exempt;
  path::PathIndex path = path::kNoPath;
  const std::uint32_t begin = tx.quantum_used;
  std::uint32_t most = ctx_.options.burst;
  for (std::uint32_t n = 0; n < most; ++n) {
    const std::uint32_t before = tx.quantum_used;
    if (!DataSender::has_room(peer, qp, burst)) return SendStatus::burst_full;
    const PlaneMask full = tx.window_exempt ? 0 : peer.full;
    const PlaneMask planes = free_planes & ctx_.usable_planes(peer) & ~full &
                             ctx_.planes_for_data(peer) & ctx_.planes_for_payload(qp.tx.most_sges);
    const SendStatus status = data_.send(now, peer, qp, planes, path, burst);
    if (status != SendStatus::sent) return status;
    if (exempt && !tx.window_exempt) {  // exemption used: other queue pairs may have one too
      tx.quantum_used = ctx_.options.quantum;
      break;
    }
    const std::uint32_t bytes = ctx_.options.burst_bytes;
    const std::uint32_t size = tx.quantum_used - before;
    if (bytes != 0 && tx.quantum_used - begin + size > bytes) break;  // one more is too many
    if (n == 0 && most > 1) {
      const std::uint32_t fit = bytes == 0 ? most : std::min(most, bytes / size);
      if (const std::uint32_t share = even_share(qp, fit); share < fit) most = share;
    }
  }
  const bool more = tx.window.lost() > 0 || qp.backlog();
  return more ? SendStatus::sent : SendStatus::idle;
}

namespace detail {

/// The last message of `q` that begins no later than `psn`, from the oldest unacknowledged one to
/// the one before `end`; the oldest if there is none. `later`: PSNs sent after psn, and itself.
[[nodiscard]] inline std::uint32_t last_begun(const SendQueue& q, std::uint32_t end, Psn psn,
                                              std::int32_t later) noexcept {
  const auto begins_later = [&](std::uint32_t position) {
    const std::int32_t ahead = q.at(position).first - psn;
    return ahead > 0 && ahead < later;
  };
  // Each later message takes at least one later PSN, which bounds the search.
  std::uint32_t count = std::min(end - q.acknowledged(), static_cast<std::uint32_t>(later));
  std::uint32_t first = end - count;
  while (count > 1) {  // the message is one of the `count` from `first` on
    const std::uint32_t half = count / 2;
    if (begins_later(first + half)) {
      count = half;
    } else {
      first += half;
      count -= half;
    }
  }
  return first;
}

}  // namespace detail

[[gnu::noinline]] SentMessage message_of(QueuePairState& qp, Psn psn) noexcept {
  const std::int32_t later = qp.tx.window.next() - psn;
  const bool part = qp.tx.next_packet > 0;
  SendQueue& q = qp.tx.queue;
  if (!qp.rc) return {&q, detail::last_begun(q, q.sending() + part, psn, later)};
  RcState& rc = *qp.rc_state;
  const std::uint32_t end = q.sending() + (part && !rc.answering);
  if (end != q.acknowledged()) {
    const SentMessage found{&q, detail::last_begun(q, end, psn, later)};
    const std::int32_t offset = psn - found.wqe().first;
    if (offset >= 0 && static_cast<std::uint32_t>(offset) < found.wqe().packets) return found;
  }
  SendQueue& r = rc.responses;
  return {&r, detail::last_begun(r, r.sending() + (part && rc.answering), psn, later)};
}

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
  using S = EngineStats;
  static constexpr std::array<std::uint64_t S::*, 9> kCounters{
      // by kind
      &S::sacks_sent,     &S::sacks_sent,        &S::nacks_sent,
      &S::acks_sent,      &S::acks_sent,         &S::probes_sent,
      &S::ev_probes_sent, &S::port_updates_sent, &S::endpoint_answers_sent};
  ++ctx_.stats.tx_control;
  ++(ctx_.stats.*kCounters[static_cast<std::size_t>(kind)]);
  ctx_.stats.probe_sacks_sent += kind == ControlItem::Kind::probe_sack;
}

/// Appends the newest probe once more, to leave in one piece with it; those of full size more
/// often.
void ControlSender::complete_piece(const ControlItem& item, std::uint32_t padding,
                                   wire::TxBurst& burst) noexcept {
  const wire::TxPacket& packet = burst.newest();
  const unsigned fit = detail::kPieceBytes / packet.transport_length();
  const unsigned packets =
      item.full_size ? std::clamp(fit, 2u, std::min(detail::kPiecePackets, ctx_.options.burst)) : 2;
  for (unsigned n = 2; n <= packets && burst.room() > 0 && burst.sge_room() > 0; ++n) {
    wire::TxPacket& copy = burst.append();
    const std::uint32_t first_sge = copy.first_sge;
    copy = packet;
    copy.first_sge = first_sge;
    copy.sge_count = 0;
    copy.payload_length = 0;
    const bool shorter = item.piece == path::Piece::shorter_end && n == packets;
    if (padding > 0 && !shorter) burst.add_sge(detail::kPadding.data(), padding, 0);
    burst.commit_behind();
    count(ControlItem::Kind::ev_probe);
  }
}

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
    requester_.write_probe(now, item, *qp, packet);
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
  p.seth.spdcid = connection_id(qp.qpn);
  p.seth.dpdcid = connection_id(qp.remote.qpn);
  p.seth.set_cack_psn(cack);
  p.seth.mpr = announced_mpr(rx);
  p.seth.set_sack_offset(range.offset);
  p.seth.sack_bitmap = range.bitmap;
  p.cc.tx_timestamp = item.timestamp;
  p.cc.set_ooo_count(rx.window.out_of_order());
  p.cc.set_rcv_cwnd_pen(ctx_.pressure.penalty());
  p.cc.set_restore_cwnd(ctx_.pressure.restore());
  p.cc.rcvd_bytes = static_cast<std::uint32_t>((rx.rcvd_bytes + 255) / 256);
}

void Responder::write_nack(const ControlItem& item, QueuePairState& qp,
                           wire::TxPacket& packet) noexcept {
  auto& p = make_header<wire::NackPacket>(
      packet, wire::Bth::make(wire::Opcode::nack, qp.remote.qpn, item.psn));
  p.neth.reason = item.reason;
  if (item.reason == wire::NackReason::receiver_not_ready)
    p.neth.vendor_info = qp.attributes.min_rnr_timer;
  p.neth.set_entropy(item.entropy);
  p.neth.spdcid = connection_id(qp.qpn);
  p.neth.dpdcid = connection_id(qp.remote.qpn);
  p.neth.set_nack_psn(item.psn);
  p.neth.tx_timestamp = item.timestamp;
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
