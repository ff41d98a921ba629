// SPDX-License-Identifier: Apache-2.0
// Engine, responder side: data packets in, memory written, receives completed, SACKs and Transport
// ACKs due.
#pragma once

#include <cstdlib>

#include "mrc/engine/engine.hpp"

namespace mrc::inline v0_1::engine {

namespace detail {

/// What a NAK says of `cause`.
[[nodiscard]] constexpr wire::Syndrome refusal_of(QpErrorCause cause) noexcept {
  switch (cause) {
    case QpErrorCause::bad_request:
    case QpErrorCause::wimm_overflow:
      return wire::Syndrome::invalid_request;
    case QpErrorCause::no_receive:
    case QpErrorCause::cq_overrun:
      return wire::Syndrome::remote_operational_error;
    default:
      return wire::Syndrome::remote_access_error;
  }
}

}  // namespace detail

MRC_DECL void Engine::on_write(Time now, QueuePairState& qp,
                               const wire::RxPacket& packet) noexcept {
  using reliability::ReceiveWindow;
  const wire::WriteView w = wire::view_write(packet.bytes);
  const Psn psn = w.bth->psn();
  const std::uint16_t timestamp = w.tseth != nullptr ? w.tseth->tx_timestamp.value() : 0;
  Responder& rx = qp.rx;
  qp.peer->reverse.on_inbound(packet.plane, now);
  if (!qp.peer->scheduled()) arm(*qp.peer);
  stats_.rx_ecn += packet.ecn == Ecn::ce;

  const ReceiveWindow::Verdict verdict = rx.window.check(psn);
  if (verdict != ReceiveWindow::Verdict::fresh) {
    if (verdict == ReceiveWindow::Verdict::beyond) {
      queue_nack(now, qp, packet, psn, timestamp, wire::NackReason::psn_oor_window);
      return;
    }
    ++qp.stats.rx_duplicates;
    ++stats_.rx_duplicates;
    if (w.bth->ack_request() || w.bth->rtx()) queue_sack(qp, packet, psn, timestamp);
    if (w.bth->rtx() && rx.messages > 0 && !psn.after(rx.window.cack()))
      queue_ack(qp, packet.plane);
    return;
  }

  const MemoryEntry* region = nullptr;
  if (const QpErrorCause c = check_write(qp, w, &region); c != QpErrorCause::none)
    return refuse(now, qp, packet, psn, c);
  const bool end = wire::is_last(w.bth->opcode());
  const bool in_order = psn == rx.window.cack() + 1;
  const bool holds =
      !in_order && end && region != nullptr && !has(region->access, Access::relaxed_ordering);
  if (holds && held_tails_.full()) {
    queue_nack(now, qp, packet, psn, timestamp, wire::NackReason::no_resource);
    // The room comes back when the gap in front is filled, so the requester has to learn of it.
    queue_sack(qp, packet, psn, timestamp);
    return;
  }
  if (w.imm != nullptr) {
    const auto inserted = rx.wimms.insert(Rqmsn{w.meth->rqmsn.value()},
                                          {psn, w.imm->immediate, w.reth->dma_length, true});
    if (inserted != reliability::WimmTable::Insert::ok)
      return refuse(now, qp, packet, psn,
                    inserted == reliability::WimmTable::Insert::overflow
                        ? QpErrorCause::wimm_overflow
                        : QpErrorCause::bad_request);
  }

  place(qp, w, region, in_order);
  const ReceiveWindow::Advance advance = rx.window.accept(psn, end);
  ++stats_.rx_data;
  ++qp.stats.rx_packets;
  qp.stats.rx_bytes += w.payload.size();
  const std::uint32_t nominal = wire::nominal_size(packet.udp_length);
  rx.rcvd_bytes += nominal;
  rx.since_sack += std::max(nominal, 1024u);
  if (advance.packets > 0) {
    if (rx.tails.head != HeldTails::kNone) release_tails(qp);
    const QpErrorCause c = deliver(qp);
    if (c != QpErrorCause::none) return refuse(now, qp, packet, psn, c);
  }
  if (advance.messages > 0) {  // only now: a Transport ACK that waits must not name them before
    rx.messages += advance.messages;
    rx.last_end = advance.last_end;
  }
  // The SACK goes first: it brings the round-trip time and the byte count for what the Transport
  // ACK then completes.
  if (rx.since_sack >= options_.sack_threshold || w.bth->ack_request() || w.bth->rtx() ||
      packet.ecn == Ecn::ce)
    queue_sack(qp, packet, psn, timestamp);
  if (advance.messages > 0) queue_ack(qp, packet.plane);
}

/// May this packet be placed? Each one is checked by itself (mrc-1.0 §2.3).
MRC_DECL QpErrorCause Engine::check_write(const QueuePairState& qp, const wire::WriteView& w,
                                          const MemoryEntry** region) noexcept {
  const wire::Opcode opcode = w.bth->opcode();
  const std::size_t length = w.payload.size();
  const std::uint32_t mtu = qp.mtu;
  const bool whole = !wire::is_last(opcode);  // First and Middle are full
  const bool only = wire::is_first(opcode) && wire::is_last(opcode);
  if (length > mtu || (whole && length != mtu) || (!only && length == 0) ||
      w.reth->dma_length > kMaxMessage || w.reth->dma_length < length)
    return QpErrorCause::bad_request;
  if (length == 0) return QpErrorCause::none;  // touches no memory, so its key does not matter
  switch (memory_.check_remote_write(w.reth->rkey, qp.init.pd, w.reth->va, length, region)) {
    case AccessFault::none:
      return QpErrorCause::none;
    case AccessFault::key:
      return QpErrorCause::bad_key;
    case AccessFault::pd:
      return QpErrorCause::bad_pd;
    case AccessFault::bounds:
      return QpErrorCause::bad_bounds;
    case AccessFault::access:
      return QpErrorCause::bad_access;
  }
  return QpErrorCause::bad_key;
}

/// Writes the payload to its place. Out of order and without relaxed ordering, a message's last
/// bytes wait until everything before them is there.
MRC_DECL void Engine::place(QueuePairState& qp, const wire::WriteView& w, const MemoryEntry* region,
                            bool in_order) noexcept {
  if (region == nullptr) return;
  auto* to = region->address + (w.reth->va - reinterpret_cast<std::uint64_t>(region->address));
  std::size_t length = w.payload.size();
  if (has(region->access, Access::relaxed_ordering)) {
    std::memcpy(to, w.payload.data(), length);
    return;
  }
  if (!in_order && wire::is_last(w.bth->opcode())) {
    const auto held = static_cast<std::uint32_t>(std::min<std::size_t>(length, HeldTails::kBytes));
    length -= held;
    held_tails_.hold(qp.rx.tails, w.bth->psn(), w.reth->rkey, w.reth->va + length,
                     w.payload.data() + length, held);
  }
  copy_ascending(to, w.payload.data(), length);
}

/// Writes the held ends of the messages that nothing before them is missing from any more.
MRC_DECL void Engine::release_tails(QueuePairState& qp) noexcept {
  held_tails_.release(qp.rx.tails, qp.rx.window.cack(), [&](const HeldTails::Tail& t) {
    const MemoryEntry* region = nullptr;  // it may have been deregistered meanwhile
    if (memory_.check_remote_write(t.key, qp.init.pd, t.address, t.length, &region) !=
        AccessFault::none)
      return;
    copy_ascending(region->address + (t.address - reinterpret_cast<std::uint64_t>(region->address)),
                   t.bytes, t.length);
  });
}

/// Completes the receives of writes with immediate whose turn has come (mrc-1.0 §2.8). Fails when
/// there is no receive posted for one ([C-17]), or no room for its completion.
MRC_DECL QpErrorCause Engine::deliver(QueuePairState& qp) noexcept {
  Responder& rx = qp.rx;
  while (const reliability::WimmEntry* e = rx.wimms.ready(rx.window.cack())) {
    if (rx.receives.empty()) return QpErrorCause::no_receive;
    Completion c;
    c.wr_id = rx.receives.front();
    c.qpn = qp.qpn;
    c.opcode = WcOpcode::recv_write_imm;
    c.byte_len = e->length;
    c.immediate = e->immediate;
    rx.receives.pop_front();
    rx.wimms.pop();
    ++qp.stats.receives_completed;
    if (!complete(qp.init.receive_cq, c)) return QpErrorCause::cq_overrun;
  }
  return QpErrorCause::none;
}

/// The peer asked for something that it may not have: NAK, and this side goes to ERR as well.
MRC_DECL void Engine::refuse(Time now, QueuePairState& qp, const wire::RxPacket& packet, Psn psn,
                             QpErrorCause cause) noexcept {
  fail(qp, cause, WcStatus::wr_flush_err);
  qp.rx.refused = psn;
  qp.rx.last_limited = Time::min();
  answer_in_error(now, qp, packet, psn);
}

/// Answers what came to a queue pair in ERR, at most once per round trip ([O-21]). If it is there
/// because it refused a request, it repeats that: the first NAK may be lost or overtaken, and the
/// peer's program needs the true cause. Only a packet of another connection, whose requester would
/// not know what is meant, gets UNEXP_EVENT then; a probe, which can't be told from one, gets both.
MRC_DECL void Engine::answer_in_error(Time now, QueuePairState& qp, const wire::RxPacket& packet,
                                      Psn psn) noexcept {
  if (!may_nack_again(now, qp)) return;
  constexpr auto kFar = static_cast<std::int32_t>(kMaxMpr * kMprUnit);
  const bool probe = psn == Psn{};  // it has no PSN of its own
  const bool near = qp.rx.refused && std::abs(psn - *qp.rx.refused) < kFar;
  if (qp.rx.refused && (near || probe)) {
    ControlItem item;
    item.kind = ControlItem::Kind::nak;
    item.qpn = qp.qpn;
    item.plane = packet.plane;
    item.psn = *qp.rx.refused;
    item.syndrome = detail::refusal_of(qp.cause);
    queue_control(item);
  }
  if (!near || probe) queue_nack(now, qp, packet, psn, 0, wire::NackReason::unexp_event);
}

/// The head of a data packet whose payload a switch cut off (mrc-1.0 §1.12). Nothing protects it,
/// so it changes no state and only makes a NACK.
MRC_DECL void Engine::on_trimmed(Time now, const wire::RxPacket& packet) noexcept {
  ++stats_.rx_trimmed;
  wire::TrimmedView t;
  if (wire::view_trimmed(packet.bytes, t) != wire::ParseError::none || packet.plane >= kMaxPlanes) {
    ++stats_.drops.malformed;
    return;
  }
  QueuePairState* qp = qp_of(t.bth->dqp());
  if (qp == nullptr) {
    ++stats_.drops.unknown_qp;
  } else if (qp->state != QpState::rtr && qp->state != QpState::rts) {
    ++stats_.drops.wrong_state;
  } else if (!qp->peer->came_from_here(packet.plane, packet.source)) {
    ++stats_.drops.foreign;
  } else if (qp->init.attributes.trim_nack &&
             qp->rx.window.check(t.bth->psn()) == reliability::ReceiveWindow::Verdict::fresh) {
    const std::uint16_t timestamp = t.tseth != nullptr ? t.tseth->tx_timestamp.value() : 0;
    queue_nack(now, *qp, packet, t.bth->psn(), timestamp,
               packet.trim == wire::Trim::trimmed ? wire::NackReason::trimmed
                                                  : wire::NackReason::trimmed_last_hop);
  }
}

/// A reliability probe is answered with everything known (mrc-1.0 §5), the newest Transport ACK
/// included, since the one before may have been lost.
MRC_DECL void Engine::on_probe(QueuePairState& qp, const wire::RxPacket& packet) noexcept {
  const auto& p = wire::view_as<wire::ProbePacket>(packet.bytes);
  ControlItem item;
  item.kind = ControlItem::Kind::probe_sack;
  item.qpn = qp.qpn;
  item.plane = packet.plane;
  item.id = p.peth.probe_id();
  item.entropy = packet.entropy;
  item.timestamp = p.peth.tx_timestamp();
  item.mark = packet.ecn == Ecn::ce ? wire::SackMark::skip_once : wire::SackMark::none;
  qp.rx.since_sack = 0;
  queue_control(item);
  if (qp.rx.messages > 0) queue_ack(qp, packet.plane);
}

}  // namespace mrc::inline v0_1::engine
