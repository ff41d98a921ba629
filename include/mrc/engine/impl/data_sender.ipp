// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>

#include "mrc/engine/data_sender.hpp"
#include "mrc/wire/write_header.hpp"

namespace mrc::inline v0_1::engine {

namespace detail {

[[nodiscard]] constexpr wire::Opcode write_opcode(bool first, bool last, bool immediate) noexcept {
  if (first && last) return immediate ? wire::Opcode::write_only_imm : wire::Opcode::write_only;
  if (last) return immediate ? wire::Opcode::write_last_imm : wire::Opcode::write_last;
  return first ? wire::Opcode::write_first : wire::Opcode::write_middle;
}

}  // namespace detail

/// Inlined together with send_new() and emit(): less time per packet (docs/performance_log.md).
[[gnu::always_inline]] inline SendStatus DataSender::send(Time now, Peer& peer, QueuePairState& qp,
                                                          PlaneMask planes, path::PathIndex& path,
                                                          wire::TxBurst& burst) noexcept {
  return qp.tx.window.lost() > 0 ? send_again(now, peer, qp, planes, burst)
                                 : send_new(now, peer, qp, planes, path, burst);
}

/// Sends the oldest lost packet again, on another path than before (mrc-1.0 §2.9).
MRC_DECL SendStatus DataSender::send_again(Time now, Peer& peer, QueuePairState& qp,
                                           PlaneMask planes, wire::TxBurst& burst) noexcept {
  reliability::SendWindow& window = qp.tx.window;
  const Psn psn = window.first_lost();
  // Dynamic MPR has shrunk: wait until the window reaches the packet (mrc-1.0 §2.4).
  if (static_cast<std::uint32_t>(psn - window.unacked()) >= qp.tx.range) return SendStatus::idle;
  const reliability::Packet packet = window.at(psn);
  const bool again = packet.transmissions() > 0;  // not if the port refused its first transmission
  const std::uint32_t position = position_of(qp, psn);
  SendWqe& w = qp.tx.queue.at(position);
  const auto k = static_cast<std::uint32_t>(psn - w.first);
  const PacketSlice slice = slice_of(w, k, qp.mtu, ctx_.options.timestamps);
  if (!qp.tx.window_exempt && !peer.congestion.can_send(slice.size)) return SendStatus::blocked;
  path::PathIndex path = peer.paths.select(qp.tx.cursor, planes, packet.path());
  if (path == path::kNoPath) return SendStatus::blocked;
  if (qp.tx.in_vain()) {
    const path::PathIndex answered =
        peer.reverse.answered_though_bad(peer.paths[path].plane, peer.paths);
    if (answered != path::kNoPath && answered != packet.path()) path = answered;
  }
  qp.tx.window_exempt = false;
  window.resend(psn, now, path);
  emit(now, peer, qp, w, position, slice, psn, again, path, burst);
  qp.tx.timer_start = now;
  qp.tx.ask_again();  // it may be lost as well, and be the last
  ++qp.stats.retransmits;
  ++ctx_.stats.tx_retransmits;
  return SendStatus::sent;
}

/// Sends the next new packet of the send queue.
[[gnu::always_inline]] inline SendStatus DataSender::send_new(Time now, Peer& peer,
                                                              QueuePairState& qp, PlaneMask planes,
                                                              path::PathIndex& path,
                                                              wire::TxBurst& burst) noexcept {
  RequesterState& tx = qp.tx;
  if (!tx.queue.backlog() || !tx.window.open(tx.range)) return SendStatus::idle;
  const std::uint32_t position = tx.queue.sending();
  SendWqe& w = tx.queue.at(position);
  const bool first = tx.next_packet == 0;
  if (first && w.with_immediate && tx.wimm_in_flight >= tx.wimm_limit) return SendStatus::idle;
  const PacketSlice slice = slice_of(w, tx.next_packet, qp.mtu, ctx_.options.timestamps);
  if (!tx.window_exempt && !peer.congestion.can_send(slice.size)) return SendStatus::blocked;
  if (path == path::kNoPath || (planes & plane_bit(peer.paths[path].plane)) == 0)
    path = peer.paths.select(tx.cursor, planes);
  if (path == path::kNoPath) return SendStatus::blocked;
  const Psn psn = tx.window.next();
  if (!tx.window.append(now, path, slice.size)) {
    ctx_.ready.note_starved(qp);
    ++ctx_.stats.pool_exhausted;
    return SendStatus::starved;
  }
  tx.window_exempt = false;
  if (first) {
    w.first = psn;
    tx.wimm_in_flight = static_cast<std::uint16_t>(tx.wimm_in_flight + w.with_immediate);
  }
  if (tx.window.span() == 1) tx.timer_start = now;
  if (++tx.next_packet == w.packets) {
    tx.next_packet = 0;
    tx.queue.sent();
  }
  emit(now, peer, qp, w, position, slice, psn, false, path, burst);
  ++qp.stats.tx_packets;
  ++ctx_.stats.tx_data;
  return SendStatus::sent;
}

/// Adds a packet's part of a message: pointers into the user's memory, or into the send queue for
/// inline data.
[[gnu::always_inline]] inline void DataSender::add_payload(SendWqe& w, const PacketSlice& slice,
                                                           wire::TxBurst& burst) noexcept {
  std::uint32_t offset = slice.offset, length = slice.length;
  if (length == 0) return;
  if (w.inlined) {
    burst.add_sge(SendQueue::inline_data(w) + offset, length, 0);
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

/// Enters one data packet of request `w`, which is at `position`, into all accounts and writes it.
[[gnu::always_inline]] inline void DataSender::emit(Time now, Peer& peer, QueuePairState& qp,
                                                    SendWqe& w, std::uint32_t position,
                                                    const PacketSlice& slice, Psn psn, bool again,
                                                    path::PathIndex path,
                                                    wire::TxBurst& burst) noexcept {
  const EngineOptions& options = ctx_.options;
  RequesterState& tx = qp.tx;
  const path::PathSpec spec = peer.paths[path];
  const std::uint32_t size = slice.size;
  peer.congestion.on_send(size, now);
  peer.paths.on_sent(path, size);
  peer.reverse.on_outbound(spec.plane, now);
  peer.charge(spec.plane, size);
  tx.inflight += size;
  tx.quantum_used += std::max(size, kLeastCharge);
  tx.last_sent = now;

  wire::WriteHeader h;
  h.opcode = detail::write_opcode(slice.first, slice.last, w.with_immediate);
  h.pad = slice.pad;
  // Ask for a SACK if nothing more is queued or the window is nearly used up (mrc-1.0 §6.8).
  h.ack_request = (!tx.queue.backlog() && tx.window.lost() == 0) || peer.congestion.wants_ack();
  h.rtx = again;
  h.solicited = slice.last && w.solicited && w.with_immediate && qp.remote.solicited;
  h.has_timestamp = options.timestamps;
  h.timestamp = wire::timestamp_of(now);
  h.dqp = qp.remote.qpn;
  h.psn = psn;
  h.rqmsn = Rqmsn{w.with_immediate ? w.rqmsn : 0u};
  h.msn = Msn{w.msn};
  h.va = w.remote + slice.offset;
  h.rkey = w.rkey;
  h.dma_length = w.length;
  h.immediate = w.immediate;
  h.tag = qp.remote_tag;

  wire::TxPacket& packet = burst.append();
  packet.header_length =
      static_cast<std::uint8_t>(wire::build_write_header(packet.header.data(), h));
  packet.pad = h.pad;
  packet.check_seed = h.tag.check();
  const bool trimmable = options.trimming && qp.remote.trim_nack;
  const wire::DscpMap& dscp = options.dscp;
  packet.dscp = !trimmable ? dscp.no_trim : again ? dscp.trimmable_retx : dscp.trimmable;
  packet.ecn = Ecn::ect0;
  packet.peer = peer.id;
  packet.owner = qp.qpn;
  packet.plane = spec.plane;
  packet.entropy = spec.ev;
  packet.port_path = spec.port_path;
  add_payload(w, slice, burst);
  if ((options.holding_planes >> spec.plane & 1) != 0) [[unlikely]]
    ctx_.hold_payload(qp, position, burst);
  burst.commit();
  qp.stats.tx_bytes += again ? 0 : slice.length;
}

}  // namespace mrc::inline v0_1::engine
