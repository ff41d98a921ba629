// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "mrc/engine/responder.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "mrc/engine/memory.hpp"
#include "mrc/engine/scheduler.hpp"

namespace mrc::inline v0_1::engine {

namespace detail {

/// The NAK syndrome for a refused request.
[[nodiscard]] constexpr wire::Syndrome refusal_of(QpErrorCause cause) noexcept {
  switch (cause) {
    case QpErrorCause::bad_request:
    case QpErrorCause::wimm_overflow:
    case QpErrorCause::bad_rqmsn:
    case QpErrorCause::receive_too_short:
    case QpErrorCause::bad_atomic:
      return wire::Syndrome::invalid_request;
    case QpErrorCause::no_receive:
    case QpErrorCause::cq_overrun:
      return wire::Syndrome::remote_operational_error;
    default:
      return wire::Syndrome::remote_access_error;
  }
}

/// Why a request that the memory table does not permit is refused.
[[nodiscard]] constexpr QpErrorCause cause_of(AccessFault fault) noexcept {
  switch (fault) {
    case AccessFault::none:
      return QpErrorCause::none;
    case AccessFault::pd:
      return QpErrorCause::bad_pd;
    case AccessFault::bounds:
      return QpErrorCause::bad_bounds;
    case AccessFault::access:
      return QpErrorCause::bad_access;
    case AccessFault::key:
      break;
  }
  return QpErrorCause::bad_key;
}

/// What is limited per round trip is limited at least per this time.
constexpr Duration kLimitPeriod = std::chrono::microseconds(100);
/// NACKs for trimmed packets that are sent per round trip, whatever else arrives.
inline constexpr std::uint32_t kTrimsPerRoundTrip = 16;
/// Most answers to reliability probes per round trip.
inline constexpr std::uint32_t kProbeAnswers = 8;

/// What the receive window calls for each message that the cumulative PSN passes.
struct PassMessage {
  QueuePairState& qp;
  std::optional<Psn>& misnumbered;  ///< set to the end of the first one that has a wrong number

  void operator()(Psn first, Psn last) const noexcept {
    if (!qp.rx.wimms.pass(first, last, qp.mtu) && !misnumbered) misnumbered = last;
  }
};

[[nodiscard]] inline std::uint16_t timestamp_in(const wire::WriteView& w) noexcept {
  return w.tseth != nullptr ? w.tseth->tx_timestamp.value() : 0;
}

/// A Transport ACK says that a message and all before it are placed and delivered (mrc-1.0 §2.8).
/// A READ or an atomic that waits to be executed holds up delivery behind it, and so the Transport
/// ACK. The peer sends WriteImm or SEND number n + max_wimm_dest only after the Transport ACK of
/// number n, which has then left WimmTable. To be called after deliver().
[[gnu::noinline]] inline void finish_messages(QueuePairState& qp) noexcept {
  ResponderState& rx = qp.rx;
  if (rx.messages == 0) return;
  Psn last = rx.passed;
  std::uint32_t msn = rx.next_msn - 1u;
  if (qp.rc) {
    auto& requests = qp.rc_state->requests;
    if (const PeerRequest* waiting = requests.ready(rx.window.cack())) {
      last = requests.last() - 1;
      msn = waiting->msn - 1u;
    }
  }
  if (rx.finished.any && rx.finished.last == last) return;
  rx.finished = {last, static_cast<std::uint16_t>(msn), true, true};
}

/// Anybody can send a write with a wrong key if the connection has no tag. The first one is not
/// answered: if it is the peer's, it comes again.
[[nodiscard, gnu::noinline]] inline bool doubt(QueuePairState& qp, Psn psn,
                                               QpErrorCause cause) noexcept {
  const bool access = refusal_of(cause) == wire::Syndrome::remote_access_error;
  using Verdict = reliability::ReceiveWindow::Verdict;
  std::optional<Psn>& first = qp.rx.doubted;
  if (qp.expected || !access || first == psn) return false;
  if (!first || qp.rx.window.check(*first) != Verdict::fresh) first = psn;
  return true;
}

/// A trimmed packet has no iCRC, so it is easily forged. As many are answered as the window has
/// packets, which a sender can lose at once; then twice as many as arrive whole, and some per round
/// trip.
[[nodiscard, gnu::noinline]] inline bool may_report_trim(Time now, QueuePairState& qp) noexcept {
  ResponderState& rx = qp.rx;
  const Duration rtt = std::max(qp.peer->congestion.base_rtt(), kLimitPeriod);
  const auto trips = static_cast<std::uint64_t>((now - rx.trim_credit_time) / rtt);
  const std::uint64_t earned =
      2 * std::uint64_t{static_cast<std::uint32_t>(rx.rx_packets) - rx.trim_credit_at} +
      kTrimsPerRoundTrip * std::min<std::uint64_t>(trips, 1u << 20);
  rx.trim_credit = static_cast<std::uint32_t>(
      std::min<std::uint64_t>(rx.trim_credit + earned, rx.window.range()));
  rx.trim_credit_at = static_cast<std::uint32_t>(rx.rx_packets);
  if (trips > 0) rx.trim_credit_time = now;
  if (rx.trim_credit == 0) return false;
  --rx.trim_credit;
  return true;
}

}  // namespace detail

void Responder::start(QueuePairState& qp) noexcept {
  ResponderState& rx = qp.rx;
  const bool dynamic = qp.attributes.dynamic_mpr && qp.remote.dynamic_mpr;
  rx.window.start(qp.remote.start_psn);
  rx.wimms.start();
  rx.rcvd_bytes = rx.since_sack = rx.messages = 0;
  // Larger packets than MRC has would else bring about a SACK each.
  rx.sack_threshold = ctx_.options.sack_threshold * std::max(qp.mtu / kLargestMrcMtu, 1u);
  rx.passed = qp.remote.start_psn - 1;
  rx.finished = {rx.passed, 0xFFFF};
  rx.next_msn = 0;
  rx.mpr = dynamic ? qp.attributes.mpr_dest : std::uint8_t{0};
  rx.ack_queued = false;
  rx.ack_by = kNever;
  rx.newest_sack = 0;
  rx.last_limited = Time::min();
  rx.refused.reset();
  rx.doubted.reset();
  rx.newest_probe = 0;
  rx.received_at_probe = ~static_cast<std::uint32_t>(rx.rx_packets);
  rx.trim_credit = rx.window.range();
  rx.trim_credit_at = static_cast<std::uint32_t>(rx.rx_packets);
  if (!qp.rc) return;
  qp.rc_state->requests.start();
}

void Responder::on_data(Time now, QueuePairState& qp, const wire::RxPacket& packet) noexcept {
  using reliability::ReceiveWindow;
  const wire::WriteView w = wire::view_write(packet.bytes);
  const Psn psn = w.bth->psn();
  ResponderState& rx = qp.rx;
  qp.peer->reverse.on_inbound(packet.plane, now);
  ctx_.timers.note_data(*qp.peer, now);
  if (!qp.peer->scheduled()) ctx_.timers.arm(*qp.peer);
  ctx_.stats.rx_ecn += packet.ecn == Ecn::ce;
  if (w.bth->rtx()) [[unlikely]]
    qp.peer->reverse.on_repeated();

  const ReceiveWindow::Verdict verdict = rx.window.check(psn);
  if (verdict != ReceiveWindow::Verdict::fresh)
    return on_not_fresh(now, qp, packet, w, verdict == ReceiveWindow::Verdict::beyond);
  if (!qp.receiving) [[unlikely]] {
    ++ctx_.stats.drops.not_receiving;
    return;
  }

  const std::size_t length = w.payload.size() + packet.placed;
  const bool end = wire::is_last(w.bth->opcode());
  const bool placed = wire::is_write(w.bth->opcode()) ? take_write(now, qp, packet, w, length, end)
                                                      : take_operation(now, qp, packet, w, length);
  if (!placed) return;
  // Peers may count from any number on ([O-15]); the next packet of the oldest message has it.
  if (psn == rx.window.cack() + 1) rx.next_msn = w.meth->msn;
  std::optional<Psn> misnumbered;
  const ReceiveWindow::Advance progress =
      rx.window.accept(psn, end, !packet.unsettled, detail::PassMessage{qp, misnumbered});
  if (!qp.heard) qp.heard = true;  // that line of memory stays clean
  ++ctx_.stats.rx_data;
  ++rx.rx_packets;
  rx.rx_bytes += length;
  const std::uint32_t nominal = wire::nominal_size(packet.udp_length);
  rx.rcvd_bytes += nominal;
  rx.since_sack += std::max(nominal, 1024u);
  if (!advance(now, qp, packet, psn, progress, misnumbered)) return;
  // The SACK before the Transport ACK: it has the round-trip time and byte count of the packets
  // that the Transport ACK then completes.
  if (rx.since_sack >= rx.sack_threshold || w.bth->ack_request() || w.bth->rtx() ||
      packet.ecn == Ecn::ce) {
    queue_sack(qp, packet, psn, detail::timestamp_in(w));
  } else if (rx.finished.due && progress.packets == 1 && may_wait(qp)) {
    if (rx.ack_by != kNever) return;
    rx.ack_by = now + ctx_.options.ack_delay;
    rx.ack_plane = packet.plane;
    return ctx_.rearm(qp, now);
  }
  if (rx.finished.due) ctx_.queue_ack(qp, packet.plane, w.bth->rtx());
}

/// May a Transport ACK wait for a SACK to travel with, if the packet that finished a message asks
/// for none? An OpenMRC peer does not wait for either then (DataSender::emit()).
bool Responder::may_wait(const QueuePairState& qp) const noexcept {
  return ctx_.options.ack_delay > Duration{} && qp.remote.solicited && qp.active;
}

void Responder::on_timer(Time now, QueuePairState& qp) noexcept {
  if (now >= qp.rx.ack_by) ctx_.queue_held_ack(qp);
}

[[gnu::always_inline]] inline bool Responder::take_write(Time now, QueuePairState& qp,
                                                         const wire::RxPacket& packet,
                                                         const wire::WriteView& w,
                                                         std::size_t length, bool end) noexcept {
  ResponderState& rx = qp.rx;
  const Psn psn = w.bth->psn();
  const MemoryEntry* region = nullptr;
  if (const QpErrorCause c = check_write(qp, w, length, &region); c != QpErrorCause::none) {
    if (!detail::doubt(qp, psn, c)) return refuse_in_turn(now, qp, packet, psn, c);
    ++ctx_.stats.drops.bad_key;
    return false;
  }
  const bool in_order = psn == rx.window.cack() + 1;
  const bool defers =
      !in_order && end && packet.placed == 0 && region != nullptr && region->in_message_order();
  if (defers && ctx_.deferred.full()) return ask_to_repeat(now, qp, packet, w);
  if (w.imm != nullptr) {
    using reliability::WimmTable;
    const std::int32_t ahead = Rqmsn{w.meth->rqmsn.value()} - rx.wimms.next();
    if (qp.rc && ahead >= 0 && !has_receive(qp, static_cast<std::uint32_t>(ahead)))
      return ask_to_wait(now, qp, packet, w);
    const auto inserted = rx.wimms.insert(
        Rqmsn{w.meth->rqmsn.value()}, {psn, w.imm->immediate, static_cast<std::uint32_t>(length),
                                       true, w.bth->solicited_event(), false, true});
    if (inserted != WimmTable::Insert::ok) {
      refuse(now, qp, packet, psn,
             inserted == WimmTable::Insert::overflow ? QpErrorCause::wimm_overflow
                                                     : QpErrorCause::bad_rqmsn);
      return false;
    }
  }
  if (packet.placed == 0) place(qp, w, region, in_order);
  return true;
}

/// The cumulative PSN has advanced: completes what it has passed. False if that failed; `packet` is
/// then refused. `misnumbered`: end of a message that WimmTable::pass() objected to.
[[gnu::always_inline]] inline bool Responder::advance(
    Time now, QueuePairState& qp, const wire::RxPacket& packet, Psn psn,
    const reliability::ReceiveWindow::Advance& advance, std::optional<Psn> misnumbered) noexcept {
  ResponderState& rx = qp.rx;
  if (advance.packets > 0 && rx.deferred.head != DeferredStores::kNone) write_deferred(qp);
  if (qp.rc && !finish_operations(now, qp, packet.plane)) return false;
  if (advance.packets > 0 && rx.wimms.ready(rx.window.cack()) != nullptr)
    if (const QpErrorCause c = deliver(qp); c != QpErrorCause::none) {
      refuse(now, qp, packet, psn, c);
      return false;
    }
  if (misnumbered) [[unlikely]] {
    refuse(now, qp, packet, *misnumbered, QpErrorCause::bad_rqmsn);
    return false;
  }
  if (advance.messages > 0) {
    rx.messages += advance.messages;
    rx.passed = advance.last_end;
    rx.next_msn = static_cast<std::uint16_t>(rx.next_msn + advance.messages);
  }
  if (qp.rc || advance.messages > 0) detail::finish_messages(qp);
  return true;
}

void Responder::on_settled(Time now, QueuePairState& qp, Plane plane, Psn psn) noexcept {
  std::optional<Psn> misnumbered;
  const reliability::ReceiveWindow::Advance progress =
      qp.rx.window.settle(psn, detail::PassMessage{qp, misnumbered});
  wire::RxPacket packet;
  packet.plane = plane;
  if (advance(now, qp, packet, psn, progress, misnumbered) && qp.rx.finished.due)
    ctx_.queue_ack(qp, plane, false);
}

/// A data packet beyond the receive window, or a duplicate.
void Responder::on_not_fresh(Time now, QueuePairState& qp, const wire::RxPacket& packet,
                             const wire::WriteView& w, bool beyond) noexcept {
  const Psn psn = w.bth->psn();
  const std::uint16_t timestamp = detail::timestamp_in(w);
  if (beyond) return queue_nack(now, qp, packet, psn, timestamp, wire::NackReason::psn_oor_window);
  ++qp.stats.rx_duplicates;
  ++ctx_.stats.rx_duplicates;
  if (packet.unsettled) qp.rx.window.unsettle(psn);  // a further copy was sent meanwhile
  // The answers may have vanished, because they left in one piece.
  if (w.bth->rtx() && qp.peer->pieces.on_loss(packet.plane, now)) ctx_.timers.arm(*qp.peer);
  // A mark is about the way that this copy took, not about its payload (mrc-1.0 §2.6).
  if (w.bth->ack_request() || w.bth->rtx() || packet.ecn == Ecn::ce)
    queue_sack(qp, packet, psn, timestamp);
  if (w.bth->rtx() && qp.rx.finished.any && !psn.after(qp.rx.window.cack()))
    ctx_.queue_ack(qp, packet.plane, true);
}

/// Validates a packet of `length` bytes before it is placed, or after the port has placed it. Each
/// packet is checked by itself (mrc-1.0 §2.3). `region` is set to its memory region if it has
/// payload.
[[gnu::always_inline]] inline QpErrorCause Responder::check_write(
    const QueuePairState& qp, const wire::WriteView& w, std::size_t length,
    const MemoryEntry** region) noexcept {
  const wire::Opcode opcode = w.bth->opcode();
  const std::uint32_t mtu = qp.mtu;
  const bool whole = !wire::is_last(opcode);  // First and Middle are full
  const bool only = wire::is_first(opcode) && wire::is_last(opcode);
  if (length > mtu || (whole && length != mtu) || (!only && length == 0) ||
      w.reth->dma_length > kMaxMessage || w.reth->dma_length < length)
    return QpErrorCause::bad_request;
  if (length == 0) return QpErrorCause::none;  // touches no memory, so its key does not matter
  if (!has(qp.peer_rights, Access::remote_write)) return QpErrorCause::bad_access;
  return detail::cause_of(ctx_.memory.check_remote(w.reth->rkey, qp.init.pd, w.reth->va, length,
                                                   Access::remote_write, region));
}

/// Out of order, and if the region is in message order, the stores of a message's last bytes are
/// deferred until everything before them has arrived.
void Responder::place(QueuePairState& qp, const wire::WriteView& w, const MemoryEntry* region,
                      bool in_order) noexcept {
  if (region == nullptr) return;
  auto* to = region->address + (w.reth->va - reinterpret_cast<std::uint64_t>(region->address));
  std::size_t length = w.payload.size();
  if (!in_order && wire::is_last(w.bth->opcode()) && region->in_message_order()) {
    const auto deferred =
        static_cast<std::uint32_t>(std::min<std::size_t>(length, DeferredStores::kBytes));
    length -= deferred;
    ctx_.deferred.defer(qp.rx.deferred, w.bth->psn(), w.reth->rkey, w.reth->va + length,
                        w.payload.data() + length, deferred);
  }
  copy_payload(region->access, to, w.payload.data(), length);
}

void Responder::write_deferred(QueuePairState& qp) noexcept {
  ctx_.deferred.release(qp.rx.deferred, qp.rx.window.cack(), [&](const DeferredStores::Store& s) {
    // Checked when they were deferred, but the region may have been deregistered meanwhile.
    const MemoryEntry* const region = ctx_.memory.find(s.key);
    if (region == nullptr || region->pd != qp.init.pd ||
        !MemoryTable::inside(*region, s.address, s.length))
      return;
    const auto base = reinterpret_cast<std::uint64_t>(region->address);
    copy_ascending(region->address + (s.address - base), s.bytes, s.length);
  });
}

/// Completes receives for the WriteImm and SENDs that are next in RQMSN order and complete (mrc-1.0
/// §2.8), and behind no READ or atomic that waits to be executed. Fails if no receive is posted for
/// one ([C-17]), or its completion does not fit.
QpErrorCause Responder::deliver(QueuePairState& qp) noexcept {
  if (!qp.receiving) return QpErrorCause::none;
  ResponderState& rx = qp.rx;
  const Psn end = qp.rc ? qp.rc_state->requests.executed(rx.window.cack()) : rx.window.cack();
  while (const reliability::WimmEntry* e = rx.wimms.ready(end)) {
    if (!has_receive(qp, 0)) return QpErrorCause::no_receive;
    Completion c;
    c.wr_id = rx.receives.front();
    c.qpn = qp.qpn;
    c.opcode = e->send ? WcOpcode::recv : WcOpcode::recv_write_imm;
    c.byte_len = e->length;
    c.immediate = e->immediate;
    c.has_immediate = e->has_immediate;
    c.solicited = e->solicited;
    rx.wimms.pop();
    ++qp.stats.receives_completed;
    if (!ctx_.complete_receive(qp, c)) return QpErrorCause::cq_overrun;
  }
  return QpErrorCause::none;
}

/// The peer sent a request that is not allowed: NAK, and this side moves to ERR as well.
void Responder::refuse(Time now, QueuePairState& qp, const wire::RxPacket& packet, Psn psn,
                       QpErrorCause cause) noexcept {
  teardown_.fail(qp, cause, WcStatus::wr_flush_err);
  qp.rx.refused = psn;
  qp.rx.last_limited = Time::min();
  answer_in_error(now, qp, packet, psn);
}

/// At most one answer per round trip. The NAK of a refused request is repeated: the first one may
/// have been lost, and the peer's program needs the cause. A packet far from the refused PSN
/// belongs to another connection: it gets UNEXP_EVENT. A probe has no PSN and, without a tag, could
/// be of either: it gets both.
void Responder::answer_in_error(Time now, QueuePairState& qp, const wire::RxPacket& packet,
                                Psn psn) noexcept {
  if (!may_answer_again(now, qp)) return;
  constexpr auto kFar = static_cast<std::int32_t>(kMaxMpr * kMprUnit);
  // Without bytes it is a packet that its port has settled only now.
  const bool probe = !packet.bytes.empty() &&
                     wire::view_as<wire::Bth>(packet.bytes).opcode() == wire::Opcode::probe;
  const bool near = qp.rx.refused && std::abs(psn - *qp.rx.refused) < kFar;
  if (qp.rx.refused && (near || probe)) {
    ControlItem item;
    item.kind = ControlItem::Kind::nak;
    item.qpn = qp.qpn;
    item.plane = packet.plane;
    item.psn = *qp.rx.refused;
    item.syndrome = detail::refusal_of(qp.cause);
    ctx_.queue_control(item);
  }
  if (qp.rx.refused && (probe ? static_cast<bool>(qp.expected) : near)) return;
  const std::uint16_t timestamp =
      probe ? wire::view_as<wire::ProbePacket>(packet.bytes).peth.tx_timestamp.value()
            : detail::timestamp_in(wire::view_write(packet.bytes));
  queue_nack(now, qp, packet, psn, timestamp, wire::NackReason::unexp_event);
}

void Responder::on_trimmed(Time now, const wire::RxPacket& packet) noexcept {
  DropStats& drops = ctx_.stats.drops;
  ++ctx_.stats.rx_trimmed;
  wire::TrimmedView t;
  if (wire::view_trimmed(packet.bytes, t) != wire::ParseError::none || packet.plane >= kMaxPlanes) {
    ++drops.malformed;
    return;
  }
  QueuePairState* qp = ctx_.objects.qp(t.bth->dqp());
  if (qp == nullptr) {
    ++drops.unknown_qp;
  } else if ((qp->state != QpState::rtr && qp->state != QpState::rts) || qp->peer == nullptr) {
    ++drops.wrong_state;
  } else if (!qp->peer->came_from_here(packet.plane, packet.source)) {
    ++drops.foreign;
  } else if (qp->expected && !qp->expected.is_in(*t.bth)) {
    ++drops.bad_tag;
  } else if (!qp->attributes.trim_nack ||
             qp->rx.window.check(t.bth->psn()) != reliability::ReceiveWindow::Verdict::fresh) {
    return;
  } else if (!detail::may_report_trim(now, *qp)) {
    ++drops.limited;
  } else {
    const std::uint16_t timestamp = t.tseth != nullptr ? t.tseth->tx_timestamp.value() : 0;
    queue_nack(now, *qp, packet, t.bth->psn(), timestamp,
               packet.trim == wire::Trim::trimmed ? wire::NackReason::trimmed
                                                  : wire::NackReason::trimmed_last_hop);
  }
}

/// The answer has all state (mrc-1.0 §5), with the newest Transport ACK in case it was lost. A
/// probe that is not answered yet when the next one comes is not answered at all, and there are so
/// many answers per round trip; a requester sends one.
void Responder::on_probe(Time now, QueuePairState& qp, const wire::RxPacket& packet) noexcept {
  const auto& p = wire::view_as<wire::ProbePacket>(packet.bytes);
  const auto received = static_cast<std::uint32_t>(qp.rx.rx_packets);
  if (std::exchange(qp.rx.received_at_probe, received) == received) qp.peer->reverse.on_repeated();
  ControlItem* waiting = ctx_.control.find(qp.rx.newest_probe);
  const bool merge = waiting != nullptr && waiting->qpn == qp.qpn &&
                     waiting->kind == ControlItem::Kind::probe_sack;
  const Duration rtt = std::max(qp.peer->congestion.base_rtt(), detail::kLimitPeriod);
  if (!merge && !qp.rx.probes.take(now, rtt, detail::kProbeAnswers)) {
    ++ctx_.stats.drops.limited;
    return;
  }
  ControlItem fresh;
  ControlItem& item = merge ? *waiting : fresh;
  item.kind = ControlItem::Kind::probe_sack;
  item.again = true;
  item.qpn = qp.qpn;
  item.plane = packet.plane;
  item.id = p.peth.probe_id.value();
  item.entropy = packet.entropy;
  item.timestamp = p.peth.tx_timestamp.value();
  item.mark = packet.ecn == Ecn::ce ? wire::SackMark::skip_once : wire::SackMark::none;
  qp.rx.since_sack = 0;
  if (!merge && !ctx_.control.push(fresh, &qp.rx.newest_probe)) ++ctx_.stats.drops.control_overflow;
  if (qp.rx.finished.any) ctx_.queue_ack(qp, packet.plane, true);
}

// Responder: SEND, READ, atomics and responses (docs/extensions.md).

namespace detail {

/// Is a packet the part of a message that its opcode says: full unless it is the last one, at a
/// place where a packet begins, and within the message?
[[nodiscard]] inline bool is_part(const wire::WriteView& w, std::uint32_t mtu) noexcept {
  const wire::Opcode opcode = w.bth->opcode();
  const std::uint64_t offset = w.reth->va, size = w.reth->dma_length;
  const std::size_t length = w.payload.size();
  const bool last = wire::is_last(opcode);
  return size <= kMaxMessage && offset <= size && length <= size - offset && length <= mtu &&
         offset % mtu == 0 && (offset == 0) == wire::is_first(opcode) &&
         (last ? offset + length == size && (length > 0 || size == 0) : length == mtu);
}

/// Calls place(sge, to, bytes) for each piece of the part of a message that begins at `offset`, in
/// ascending order. What does not fit into the scatter list is left out.
template <class Sges, class F>
void for_each_piece(const Sges& sges, std::uint64_t offset, Bytes bytes, F&& place) noexcept {
  for (const auto& sge : sges) {
    if (bytes.empty()) return;
    if (offset >= sge.length) {
      offset -= sge.length;
      continue;
    }
    const std::size_t n = std::min<std::size_t>(bytes.size(), sge.length - offset);
    place(sge, const_cast<std::uint8_t*>(sge.address) + offset, bytes.first(n));
    bytes = bytes.subspan(n);
    offset = 0;
  }
}

template <class Sges>
void scatter(MemoryTable& memory, const Sges& sges, std::uint64_t offset, Bytes bytes) noexcept {
  for_each_piece(sges, offset, bytes, [&](const auto& sge, std::uint8_t* to, Bytes piece) {
    if (const MemoryEntry* region = memory.find(sge.lkey))
      copy_payload(region->access, to, piece.data(), piece.size());
  });
}

/// Must the end of a message for this scatter list be visible after everything in front of it?
template <class Sges>
[[nodiscard]] bool in_message_order(MemoryTable& memory, const Sges& sges) noexcept {
  return std::any_of(sges.begin(), sges.end(), [&](const auto& sge) {
    const MemoryEntry* region = memory.find(sge.lkey);
    return region != nullptr && region->in_message_order();
  });
}

template <class Sges>
[[nodiscard]] std::uint64_t room_of(const Sges& sges) noexcept {
  std::uint64_t room = 0;
  for (const auto& sge : sges) room += sge.length;
  return room;
}

/// In this host's byte order. Returns what was there.
[[nodiscard]] inline std::uint64_t execute_atomic(std::uint64_t address,
                                                  const PeerRequest& r) noexcept {
  auto* const word = reinterpret_cast<std::uint64_t*>(address);
  if (r.opcode == wire::Opcode::fetch_add)
    return __atomic_fetch_add(word, r.swap_or_add, __ATOMIC_SEQ_CST);
  std::uint64_t found = r.compare;
  __atomic_compare_exchange_n(word, &found, r.swap_or_add, false, __ATOMIC_SEQ_CST,
                              __ATOMIC_SEQ_CST);
  return found;
}

}  // namespace detail

/// A data packet that is no write.
bool Responder::take_operation(Time now, QueuePairState& qp, const wire::RxPacket& packet,
                               const wire::WriteView& w, std::size_t length) noexcept {
  const wire::Opcode opcode = w.bth->opcode();
  if (!qp.rc) {  // not agreed on: no opcode of MRC (mrc-1.0 §2.13)
    ++ctx_.stats.drops.malformed;
    return false;
  }
  if (length != w.payload.size())  // placed by a port, which knows writes only
    return refuse_in_turn(now, qp, packet, w.bth->psn(), QpErrorCause::bad_request);
  if (wire::is_send(opcode)) return take_send(now, qp, packet, w);
  if (wire::is_request(opcode)) return take_request(now, qp, packet, w);
  return take_response(now, qp, packet, w);
}

/// A request that is not allowed takes its turn: the packet is dropped, and comes again, until
/// everything before it is executed and answered. So what was posted before it succeeds.
bool Responder::refuse_in_turn(Time now, QueuePairState& qp, const wire::RxPacket& packet, Psn psn,
                               QpErrorCause cause) noexcept {
  const Psn cack = qp.rx.window.cack();
  const bool turn = psn == cack + 1 && (!qp.rc || qp.rc_state->all_answered(cack));
  if (!qp.rc || turn) refuse(now, qp, packet, psn, cause);
  return false;
}

// ---------------------------------------------------------------------------------------- SEND

/// Is there a receive for the message `ahead` numbers after the next one? Takes receives from the
/// shared queue if need be: all messages up to that one have been sent, each in a packet at least.
bool Responder::has_receive(QueuePairState& qp, std::uint32_t ahead) noexcept {
  ReceiveQueue& own = qp.rx.receives;
  if (own.size() > ahead) return true;
  SharedReceiveQueue* const srq = qp.init.srq ? ctx_.objects.srq(*qp.init.srq) : nullptr;
  if (srq == nullptr || ahead >= own.capacity()) return false;
  while (own.size() <= ahead && !srq->receives.empty()) {
    own.take_front(srq->receives);
    if (qp.init.as_verbs) srq->receives.keep_slot();
  }
  ctx_.note_taken(*srq);
  return own.size() > ahead;
}

bool Responder::ask_to_wait(Time now, QueuePairState& qp, const wire::RxPacket& packet,
                            const wire::WriteView& w) noexcept {
  queue_nack(now, qp, packet, w.bth->psn(), detail::timestamp_in(w),
             wire::NackReason::receiver_not_ready);
  ++qp.stats.receiver_not_ready;
  return false;
}

/// There is no room to hold the end of its message back: the packet is to come again. Room comes
/// back when the gap before it is filled; the SACK shows the gap.
bool Responder::ask_to_repeat(Time now, QueuePairState& qp, const wire::RxPacket& packet,
                              const wire::WriteView& w) noexcept {
  const Psn psn = w.bth->psn();
  queue_nack(now, qp, packet, psn, detail::timestamp_in(w), wire::NackReason::no_resource);
  queue_sack(qp, packet, psn, detail::timestamp_in(w));
  return false;
}

bool Responder::take_send(Time now, QueuePairState& qp, const wire::RxPacket& packet,
                          const wire::WriteView& w) noexcept {
  using reliability::WimmTable;
  ResponderState& rx = qp.rx;
  const Psn psn = w.bth->psn();
  if (!detail::is_part(w, qp.mtu))
    return refuse_in_turn(now, qp, packet, psn, QpErrorCause::bad_request);
  const Rqmsn number{w.meth->rqmsn.value()};
  const std::int32_t ahead = number - rx.wimms.next();
  if (ahead < 0 || static_cast<std::size_t>(ahead) >= rx.wimms.limit())
    return refuse_in_turn(now, qp, packet, psn,
                          ahead < 0 ? QpErrorCause::bad_request : QpErrorCause::wimm_overflow);
  if (ahead >= psn - qp.rc_state->requests.executed(rx.window.cack()))
    return refuse_in_turn(now, qp, packet, psn, QpErrorCause::bad_request);
  if (!has_receive(qp, static_cast<std::uint32_t>(ahead))) return ask_to_wait(now, qp, packet, w);
  const auto sges = rx.receives.sges_at(static_cast<std::size_t>(ahead));
  for (const ReceiveSge& s : sges)  // of a shared queue, it may have been withdrawn by force
    if (ctx_.memory.find(s.lkey) == nullptr) {
      teardown_.fail(qp, QpErrorCause::memory_withdrawn, WcStatus::wr_flush_err);
      return false;
    }
  if (w.reth->dma_length > detail::room_of(sges))
    return refuse_in_turn(now, qp, packet, psn, QpErrorCause::receive_too_short);
  const bool end = wire::is_last(w.bth->opcode());
  const bool defers =
      end && psn != rx.window.cack() + 1 && detail::in_message_order(ctx_.memory, sges);
  if (defers && ctx_.deferred.free() < DeferredStores::kBytes)
    return ask_to_repeat(now, qp, packet, w);
  if (end) {
    const bool immediate = w.imm != nullptr;
    const reliability::WimmEntry entry{psn,
                                       immediate ? w.imm->immediate.value() : 0,
                                       w.reth->dma_length,
                                       true,
                                       w.bth->solicited_event(),
                                       true,
                                       immediate};
    if (rx.wimms.insert(number, entry) != WimmTable::Insert::ok)
      return refuse_in_turn(now, qp, packet, psn, QpErrorCause::bad_request);
  }
  Bytes payload = w.payload;
  if (defers) {
    const Bytes tail = payload.last(std::min<std::size_t>(payload.size(), DeferredStores::kBytes));
    payload = payload.first(payload.size() - tail.size());
    detail::for_each_piece(sges, w.reth->va + payload.size(), tail,
                           [&](const ReceiveSge& sge, const std::uint8_t* to, Bytes piece) {
                             ctx_.deferred.defer(rx.deferred, psn, sge.lkey,
                                                 reinterpret_cast<std::uint64_t>(to), piece.data(),
                                                 static_cast<std::uint32_t>(piece.size()));
                           });
  }
  detail::scatter(ctx_.memory, sges, w.reth->va, payload);
  return true;
}

// ---------------------------------------------------------------------------- READ and atomics

/// May this request be executed? `payload`: bytes that it carries.
QpErrorCause Responder::check_request(const QueuePairState& qp, const PeerRequest& r,
                                      std::size_t payload) noexcept {
  const MemoryEntry* region = nullptr;
  if (!wire::is_atomic(r.opcode)) {
    if (payload != 0 || r.length > kMaxMessage) return QpErrorCause::bad_request;
    if (r.length == 0) return QpErrorCause::none;  // touches no memory
    if (!has(qp.peer_rights, Access::remote_read)) return QpErrorCause::bad_access;
    return detail::cause_of(ctx_.memory.check_remote(r.rkey, qp.init.pd, r.address, r.length,
                                                     Access::remote_read, &region));
  }
  if (payload != sizeof(wire::AtomicOperands) || r.length != 8) return QpErrorCause::bad_request;
  if (r.address % 8 != 0) return QpErrorCause::bad_atomic;
  if (!has(qp.peer_rights, Access::remote_atomic)) return QpErrorCause::bad_access;
  return detail::cause_of(ctx_.memory.check_remote(r.rkey, qp.init.pd, r.address, r.length,
                                                   Access::remote_atomic, &region));
}

bool Responder::take_request(Time now, QueuePairState& qp, const wire::RxPacket& packet,
                             const wire::WriteView& w) noexcept {
  RcState& rc = *qp.rc_state;
  const Psn psn = w.bth->psn();
  const RequestNumber number{w.meth->rqmsn.value()};
  PeerRequest request{
      w.bth->opcode(), w.meth->msn, w.reth->rkey, w.reth->dma_length, w.reth->va, 0, 0};
  if (w.payload.size() == sizeof(wire::AtomicOperands)) {
    const auto& operands = wire::view_as<wire::AtomicOperands>(w.payload);
    request.swap_or_add = operands.swap_or_add;
    request.compare = operands.compare;
  }
  QpErrorCause cause = check_request(qp, request, w.payload.size());
  if (cause == QpErrorCause::none && !rc.requests.expects(number))
    cause = QpErrorCause::bad_request;
  if (cause != QpErrorCause::none) return refuse_in_turn(now, qp, packet, psn, cause);
  rc.requests.insert(number, psn, request);
  return true;
}

void Responder::respond(QueuePairState& qp, const PeerRequest& request,
                        RequestNumber number) noexcept {
  SendWqe& w = qp.rc_state->responses.post();
  w.rqmsn = static_cast<std::uint16_t>(number.value());
  w.length = request.length;
  w.packets = packets_of(request.length, qp.mtu);
  if (wire::is_atomic(request.opcode)) {
    w.kind = MessageKind::atomic_response;
    w.flags.inline_data = true;
    const wire::Be64 found = detail::execute_atomic(request.address, request);
    std::memcpy(SendQueue::inline_data(w), &found, sizeof(found));
    return;
  }
  w.kind = MessageKind::read_response;
  if (request.length == 0) return;
  w.sges = 1;
  SendQueue::sges(w)[0] = {reinterpret_cast<const std::uint8_t*>(request.address), request.length,
                           request.rkey};
  ++ctx_.memory.find(request.rkey)->uses;
}

/// Executes the READs and atomics of the peer before which nothing is missing any more, as far as
/// there is room for responses. `plane`: for a NAK. False if one had to be refused.
bool Responder::execute(Time now, QueuePairState& qp, Plane plane) noexcept {
  RcState& rc = *qp.rc_state;
  const PeerRequest* request = rc.requests.ready(qp.rx.window.cack());
  if (request == nullptr) return true;
  if (!Timers::awaits_peer(qp)) qp.tx.timer_start = now;
  for (; request != nullptr && !rc.responses.full();
       request = rc.requests.ready(qp.rx.window.cack())) {
    const std::size_t payload = wire::is_atomic(request->opcode) ? sizeof(wire::AtomicOperands) : 0;
    if (QpErrorCause c = check_request(qp, *request, payload); c != QpErrorCause::none) {
      if (!rc.responses.empty()) break;  // those before it are answered first
      if (const QpErrorCause before = deliver(qp); before != QpErrorCause::none) c = before;
      wire::RxPacket settled;  // its packet is gone; memory was deregistered since
      settled.plane = plane;
      refuse(now, qp, settled, rc.requests.last(), c);
      return false;
    }
    respond(qp, *request, rc.requests.next());
    rc.requests.pop();
  }
  ctx_.ready.update(qp);
  if (!qp.scheduled()) ctx_.rearm(qp, now);
  return true;
}

void Responder::resume(Time now, QueuePairState& qp, Plane plane) noexcept {
  if (!execute(now, qp, plane)) return;
  const QpErrorCause c = deliver(qp);
  if (c == QpErrorCause::none) {
    detail::finish_messages(qp);
    if (qp.rx.finished.due) ctx_.queue_ack(qp, plane, false);
    return;
  }
  wire::RxPacket settled;
  settled.plane = plane;
  refuse(now, qp, settled, qp.rx.window.cack(), c);
}

// ------------------------------------------------------------------------------------ responses

bool Responder::take_response(Time now, QueuePairState& qp, const wire::RxPacket& packet,
                              const wire::WriteView& w) noexcept {
  RcState& rc = *qp.rc_state;
  const Psn psn = w.bth->psn();
  const RequestNumber number{w.meth->rqmsn.value()};
  const auto refuse_it = [&] {
    return refuse_in_turn(now, qp, packet, psn, QpErrorCause::bad_request);
  };
  if (!rc.reads.waits(number) || rc.reads.missing(number) == 0 || !detail::is_part(w, qp.mtu))
    return refuse_it();
  SendWqe& request = qp.tx.queue.at(rc.reads.position(number));
  const bool atomic = w.bth->opcode() == wire::Opcode::atomic_response;
  if (request.message_length() != w.reth->dma_length || request.is_atomic() != atomic)
    return refuse_it();
  const std::span sges(SendQueue::sges(request), request.sges);
  Bytes payload = w.payload;
  std::uint64_t found = 0;  // by an atomic, in this host's byte order
  if (atomic) {
    found = wire::view_as<wire::Be64>(w.payload).value();
    payload = {reinterpret_cast<const std::uint8_t*>(&found), sizeof(found)};
  }
  if (wire::is_last(w.bth->opcode()) && !payload.empty() &&
      detail::in_message_order(ctx_.memory, sges))
    payload = payload.first(payload.size() - rc.reads.hold(number, payload));
  detail::scatter(ctx_.memory, sges, w.reth->va, payload);
  --rc.reads.missing(number);
  qp.tx.on_progress(now);  // the peer is at work
  return true;
}

/// A packet was accepted: requests of the peer whose turn has come are executed, own ones whose
/// responses are whole complete. False if the queue pair failed.
bool Responder::finish_operations(Time now, QueuePairState& qp, Plane plane) noexcept {
  RcState& rc = *qp.rc_state;
  while (rc.reads.answered()) {
    const Bytes end = rc.reads.held();
    SendWqe& request = qp.tx.queue.at(rc.reads.position(rc.reads.oldest()));
    detail::scatter(ctx_.memory, std::span(SendQueue::sges(request), request.sges),
                    request.message_length() - end.size(), end);
    rc.reads.pop();
    Context::finish(qp);
    ctx_.retire(qp);
    ctx_.ready.update(qp);
    ctx_.rearm(qp, now);
  }
  return rc.requests.empty() || execute(now, qp, plane);
}

}  // namespace mrc::inline v0_1::engine
