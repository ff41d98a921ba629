// SPDX-License-Identifier: Apache-2.0
// Responder: SACKs, NACKs and Transport ACKs, queued and written.
#pragma once

#include "mrc/engine/responder.hpp"

namespace mrc::inline v0_1::engine {

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
