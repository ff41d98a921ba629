// SPDX-License-Identifier: Apache-2.0
// Engine, requester side: what SACKs, NACKs and Transport ACKs do to packets, paths, congestion
// control and completions.
#pragma once

#include <bit>

#include "mrc/engine/engine.hpp"
#include "mrc/reliability/loss.hpp"

namespace mrc::inline v0_1::engine {

namespace detail {

/// Half the span of a 16-bit time stamp: older samples are ambiguous (mrc-1.0 §1.5).
inline constexpr Duration kHalfTimestampSpan{128 * 0x8000};

[[nodiscard]] constexpr path::Mark to_path_mark(wire::SackMark m) noexcept {
  switch (m) {
    case wire::SackMark::skip_once:
      return path::Mark::skip_once;
    case wire::SackMark::always_skip:
      return path::Mark::always_skip;
    default:
      return path::Mark::none;
  }
}

/// Is `timestamp` that of the packet's last transmission, beyond doubt? (mrc-1.0 §6.3)
[[nodiscard]] inline bool is_last_transmission(reliability::Packet packet, Time now,
                                               std::uint16_t timestamp) noexcept {
  if (wire::timestamp_of(packet.sent()) != timestamp) return false;
  return packet.transmissions() == 1 || now - packet.sent() <= kHalfTimestampSpan;
}

/// What has come in since a SACK that said `before`, in units of 256 bytes; nothing if this is an
/// older SACK that was overtaken.
[[nodiscard]] inline std::optional<std::uint32_t> newly_received(const wire::SackPacket& sack,
                                                                 std::uint32_t before) noexcept {
  const std::uint32_t units = (sack.cc.rcvd_bytes() - before) & 0xFFFFFF;
  return units < 1u << 23 ? std::optional(units) : std::nullopt;
}

}  // namespace detail

MRC_DECL void Engine::on_sack(Time now, QueuePairState& qp, const wire::RxPacket& packet) noexcept {
  const auto& sack = wire::view_as<wire::SackPacket>(packet.bytes);
  Requester& tx = qp.tx;
  const Psn cack = sack.seth.cack_psn();
  if (!cack.before(tx.window.next())) {
    ++stats_.drops.implausible;
    return;
  }
  // A late one can be behind by what a window holds; others are of an earlier connection.
  if (tx.window.unacked() - cack > static_cast<std::int32_t>(tx.fixed_range)) {
    ++stats_.drops.stale;
    return;
  }
  ++stats_.sacks_received;

  // The packet that triggered it gives the round-trip time and takes the mark; its record may be
  // freed below.
  Duration rtt{};
  bool has_rtt = false;
  path::PathIndex path = path::kNoPath;
  const bool probe = sack.seth.probe();
  if (probe) {
    if (tx.probe_pending && sack.seth.probe_id() == tx.probe_id) {
      tx.probe_pending = false;
      ++stats_.probe_answers;
      rtt = now - tx.probe_sent;
      has_rtt = sack.cc.tx_timestamp() == wire::timestamp_of(tx.probe_sent);
      tx.window.on_probe_answered(tx.probe_order);
    }
  } else if (const Psn trigger = cack + sack.seth.ack_psn_offset(); tx.window.contains(trigger)) {
    const reliability::Packet sent = tx.window.at(trigger);
    if (detail::is_last_transmission(sent, now, sack.cc.tx_timestamp())) {
      rtt = now - sent.sent();
      has_rtt = options_.timestamps;
      path = sent.path();
      qp.peer->reverse.on_working(path, now, qp.peer->paths);
    }
  }
  if (const wire::SackMark m = sack.seth.m(); m != wire::SackMark::none) {
    if (path == path::kNoPath) path = qp.peer->paths.find(sack.seth.entropy());
    if (path != path::kNoPath) qp.peer->paths.on_mark(path, detail::to_path_mark(m), now);
    if (m == wire::SackMark::always_skip) arm(*qp.peer);  // probes will bring it back
  }
  if (has_rtt) tx.rtt.sample(rtt);

  take_cack(now, qp, cack);
  const bool newest =
      detail::newly_received(sack, tx.rcvd_bytes).has_value() && cack + 1 == tx.window.unacked();
  take_sack_bits(now, qp, cack + sack.seth.sack_offset(), sack.seth.sack_bitmap(), newest);
  if (sack.seth.mpr() != 0 && qp.init.attributes.dynamic_mpr && qp.remote.dynamic_mpr)
    tx.range = std::min(tx.fixed_range, sack.seth.mpr() * kMprUnit);
  feed_congestion(now, qp, sack, rtt, has_rtt);
  if (!qp.review_hook.is_linked()) to_review_.push_back(qp);
  update_ready(qp);
  wake(*qp.peer);
  if (starved_) wake_all();
  arm(qp, now);
}

/// Everything up to `cack` has arrived.
MRC_DECL void Engine::take_cack(Time now, QueuePairState& qp, Psn cack) noexcept {
  if (cack.before(qp.tx.window.unacked())) return;
  qp.tx.window.acknowledge(
      cack, [&](Psn psn, reliability::Packet packet) { reported(now, qp, psn, packet); });
  progress(now, qp);
}

/// A set bit is definite (mrc-1.0 §2.7). A clear one in front of a set one tells that its packet
/// had not come when one behind it had; other clear bits say nothing, nor do those of a SACK that a
/// newer one has overtaken.
MRC_DECL void Engine::take_sack_bits(Time now, QueuePairState& qp, Psn base, std::uint64_t bits,
                                     bool newest_sack) noexcept {
  if (bits == 0) return;
  reliability::SendWindow& window = qp.tx.window;
  std::uint64_t holes = ~bits & (~std::uint64_t{0} >> std::countl_zero(bits));
  // It is older as well if it misses what has been reported; the count's unit is 256 bytes.
  for (std::uint64_t h = holes; h != 0 && newest_sack; h &= h - 1) {
    const Psn psn = base + std::countr_zero(h);
    if (window.contains(psn) && window.at(psn).state() == reliability::PacketState::reported)
      newest_sack = false;
  }
  window.report(base, bits,
                [&](Psn psn, reliability::Packet packet) { reported(now, qp, psn, packet); });
  for (; holes != 0 && newest_sack; holes &= holes - 1) {
    const Psn psn = base + std::countr_zero(holes);
    if (!window.contains(psn)) continue;
    reliability::Packet packet = window.at(psn);
    if (packet.state() != reliability::PacketState::outstanding) continue;
    const std::uint32_t newest = qp.tx.newest_report[qp.peer->paths[packet.path()].plane];
    const bool overtaken = static_cast<std::int32_t>(newest - window.order_of(packet)) > 0;
    if (qp.peer->paths.passed(packet.path(), packet.sent(), now)) {
      qp.tx.passed += packet.missed() != reliability::Missed::passed;
      packet.set_missed(reliability::Missed::passed);
    } else {
      packet.set_missed(overtaken ? reliability::Missed::overtaken : reliability::Missed::absent);
    }
  }
}

/// One packet is known to have arrived, for the first time.
[[gnu::always_inline]] inline void Engine::reported(Time now, QueuePairState& qp, Psn psn,
                                                    reliability::Packet packet) noexcept {
  Peer& peer = *qp.peer;
  const Plane plane = peer.paths[packet.path()].plane;
  // Of a packet that was sent again nobody knows which copy came, and so by which path.
  const bool certain = packet.transmissions() == 1;
  const bool outstanding = packet.state() == reliability::PacketState::outstanding;
  const std::uint32_t order = qp.tx.window.order_of(packet);
  peer.paths.on_delivered(packet.path(), packet.sent(), now, certain);
  if (!outstanding) return;  // released when it was given up
  release(peer, plane, size_of(qp, psn, packet));
  std::uint32_t& newest = qp.tx.newest_report[plane];
  if (certain && static_cast<std::int32_t>(order - newest) > 0) newest = order;
}

/// The peer got further: timers and counters start anew (mrc-1.0 §2.10).
MRC_DECL void Engine::progress(Time now, QueuePairState& qp) noexcept {
  qp.tx.retries.reset();
  qp.tx.probes = 0;
  qp.tx.timer_start = now;
}

/// Hands a SACK to congestion control. What is newly received counts against this queue pair's own
/// share of what is in flight, so that neither a lying nor a forgetful peer upsets the account.
MRC_DECL void Engine::feed_congestion(Time now, QueuePairState& qp, const wire::SackPacket& sack,
                                      Duration rtt, bool has_rtt) noexcept {
  Requester& tx = qp.tx;
  cc::SackSample sample;
  sample.now = now;
  if (const auto units = detail::newly_received(sack, tx.rcvd_bytes)) {
    tx.rcvd_bytes = sack.cc.rcvd_bytes();
    sample.newly = std::min<std::uint64_t>(std::uint64_t{*units} << 8, tx.inflight);
    tx.inflight -= sample.newly;
  }
  sample.rtt = rtt;
  sample.has_rtt = has_rtt;
  sample.ecn = sack.seth.m() == wire::SackMark::skip_once;
  sample.rcv_cwnd_pen = sack.cc.rcv_cwnd_pen();
  sample.restore_cwnd = sack.cc.restore_cwnd();
  qp.peer->congestion.on_sack(sample);
}

/// An outstanding packet counts as lost from now on. Nothing if it was not outstanding.
MRC_DECL std::optional<Engine::GivenUp> Engine::give_up(Time now, QueuePairState& qp,
                                                        Psn psn) noexcept {
  reliability::SendWindow& window = qp.tx.window;
  const reliability::Packet packet = window.at(psn);
  if (packet.state() != reliability::PacketState::outstanding) return std::nullopt;
  const std::uint32_t size = size_of(qp, psn, packet);
  leave_flight(now, qp, packet, size);
  window.lose(psn);
  return GivenUp{packet.path(), size};
}

/// A packet that is given up is no longer in flight. Congestion control will be told so by the
/// caller and subtract its size; where a SACK has already counted it (it was not lost after all),
/// the account is filled up first.
MRC_DECL void Engine::leave_flight(Time now, QueuePairState& qp, reliability::Packet packet,
                                   std::uint32_t size) noexcept {
  release(*qp.peer, qp.peer->paths[packet.path()].plane, size);
  if (qp.tx.inflight < size) {
    qp.peer->congestion.on_send(static_cast<std::uint32_t>(size - qp.tx.inflight), now);
    qp.tx.inflight = size;
  }
  qp.tx.inflight -= size;
}

/// Looks for losses where SACKs came in. Not at each SACK: a host that was not scheduled for a
/// while finds the SACKs of several planes waiting, and the first of them makes packets look
/// overtaken whose own SACKs are further back in the queue.
MRC_DECL void Engine::review_losses(Time now) noexcept {
  now = forward(now);
  while (!to_review_.empty()) {
    QueuePairState& qp = to_review_.front();
    to_review_.pop_front();
    find_losses(now, qp);
    update_ready(qp);
    arm(qp, now);
  }
}

/// Loss inference (mrc-1.0 §2.9, [O-3]). Hosts add delays that base_rtt knows nothing of, so the
/// age is at least what round trips take at present.
MRC_DECL void Engine::find_losses(Time now, QueuePairState& qp) noexcept {
  Peer& peer = *qp.peer;
  Requester& tx = qp.tx;
  if (tx.window.outstanding() == 0) {
    tx.loss_check = kNever;
    return;
  }
  const reliability::LossRule rule{std::exchange(tx.passed, 0), round_trip(qp)};
  const auto lost = [&](Psn psn, reliability::Packet packet) {
    const std::uint32_t size = size_of(qp, psn, packet);
    leave_flight(now, qp, packet, size);
    peer.paths.on_inferred_loss(packet.path(), now);
    peer.congestion.on_loss(size, now);
    ++qp.stats.inferred_losses;
    ++stats_.inferred_losses;
    arm(peer);  // the path may have to be probed from now on
  };
  tx.loss_check = reliability::infer_losses(tx.window, now, rule, lost);
}

MRC_DECL void Engine::on_nack(Time now, QueuePairState& qp, const wire::RxPacket& packet) noexcept {
  const auto& nack = wire::view_as<wire::NackPacket>(packet.bytes).neth;
  Requester& tx = qp.tx;
  ++stats_.nacks_received;
  ++qp.stats.nacks;
  const Psn psn = nack.nack_psn();
  if (nack.reason() == wire::NackReason::unexp_event) {
    // A probe has no PSN of its own; its refusal names 0.
    if (!tx.window.contains(psn) && !(tx.probe_pending && psn == Psn{})) {
      ++stats_.drops.stale;
      return;
    }
    return fail(qp, QpErrorCause::peer_in_error, WcStatus::rem_op_err, position_of(qp, psn));
  }
  if (!wire::is_known(nack.reason()) || !tx.window.contains(psn)) {
    ++stats_.drops.stale;
    return;
  }
  const bool old = nack.tx_timestamp() != 0 && options_.timestamps &&
                   nack.tx_timestamp() != wire::timestamp_of(tx.window.at(psn).sent());
  const std::optional<GivenUp> lost = old ? std::nullopt : give_up(now, qp, psn);
  if (!lost) {  // speaks of an earlier copy
    ++stats_.drops.stale;
    return;
  }
  const bool trimmed = wire::is_trim(nack.reason());
  qp.peer->congestion.on_nack(lost->size, trimmed, now);
  if (trimmed) {
    ++qp.stats.trims;
    if (nack.reason() == wire::NackReason::trimmed) qp.peer->paths.on_trimmed(lost->path, now);
  } else {
    // The responder lacks something: wait a round trip, and not for ever (mrc-1.0 §2.9). What it
    // refuses meanwhile was sent before the pause and is no further try.
    if (now >= tx.paused_until && !tx.retries.take_refused())
      return fail(qp, QpErrorCause::retry_exhausted, WcStatus::retry_exc_err, position_of(qp, psn));
    tx.paused_until = now + round_trip(qp);
  }
  update_ready(qp);
  wake(*qp.peer);
  arm(qp, now);
}

/// Transport ACK (mrc-1.0 §2.8): every message up to the one named is placed and delivered.
MRC_DECL void Engine::on_ack(Time now, QueuePairState& qp, const wire::RxPacket& packet) noexcept {
  const auto& ack = wire::view_as<wire::AckPacket>(packet.bytes);
  SendQueue& q = qp.tx.queue;
  ++stats_.acks_received;
  // Message numbers start at 0 on every connection, so only the PSN tells an answer to this one
  // from a late answer to an earlier one ([O-15]).
  const Psn psn = ack.bth.psn();
  const std::uint32_t waiting = q.sending() - q.done();
  const auto late = static_cast<std::int32_t>(qp.tx.fixed_range) + 1;
  if ((waiting == 0 && qp.tx.next_packet == 0) || !psn.before(qp.tx.window.next()) ||
      psn.before(qp.tx.window.unacked() - late)) {
    ++stats_.drops.stale;
    return;
  }
  if (wire::is_nak(ack.aeth.code())) {
    QpErrorCause cause = QpErrorCause::nak_remote_operational;
    WcStatus status = WcStatus::rem_op_err;
    if (ack.aeth.code() == wire::Syndrome::invalid_request) {
      cause = QpErrorCause::nak_invalid_request;
      status = WcStatus::rem_inv_req_err;
    } else if (ack.aeth.code() == wire::Syndrome::remote_access_error) {
      cause = QpErrorCause::nak_remote_access;
      status = WcStatus::rem_access_err;
    }
    return fail(qp, cause, status, position_of(qp, psn));
  }
  const std::int32_t ahead = Msn{ack.aeth.msn.value()} - Msn{q.at(q.done()).msn};
  if (ahead < 0) {
    ++stats_.drops.stale;
    return;
  }
  const auto is_of = [psn](const SendWqe& w) {
    return !psn.before(w.first + static_cast<std::int32_t>(w.packets - 1));
  };
  if (static_cast<std::uint32_t>(ahead) >= waiting ||
      !is_of(q.at(q.done() + static_cast<std::uint32_t>(ahead)))) {
    ++stats_.drops.implausible;
    return;
  }
  on_acknowledged(now, qp, static_cast<std::uint32_t>(ahead) + 1);
}

/// Completes the oldest `messages` messages, in posting order.
MRC_DECL void Engine::on_acknowledged(Time now, QueuePairState& qp,
                                      std::uint32_t messages) noexcept {
  Requester& tx = qp.tx;
  const SendWqe& newest = tx.queue.at(tx.queue.done() + messages - 1);
  take_cack(now, qp, newest.first + static_cast<std::int32_t>(newest.packets - 1));
  for (; messages > 0; --messages) {
    SendWqe& w = tx.queue.at(tx.queue.done());
    return_memory(w);
    if (w.with_immediate) --tx.wimm_in_flight;
    Completion c;
    c.wr_id = w.wr_id;
    c.qpn = qp.qpn;
    c.opcode = w.with_immediate ? WcOpcode::write_imm : WcOpcode::write;
    const bool signaled = w.signaled;
    tx.queue.complete();
    ++qp.stats.writes_completed;
    if (signaled) complete(qp.init.send_cq, c);
  }
  progress(now, qp);
  update_ready(qp);
  wake(*qp.peer);
  if (starved_) wake_all();
  arm(qp, now);
}

/// Which posted message a PSN belongs to; the oldest one if it can't be told.
MRC_DECL std::optional<std::uint32_t> Engine::position_of(QueuePairState& qp, Psn psn) noexcept {
  SendQueue& q = qp.tx.queue;
  if (q.empty()) return std::nullopt;
  for (std::uint32_t p = q.done(); p != q.sending(); ++p) {
    const std::int32_t offset = psn - q.at(p).first;
    if (offset >= 0 && static_cast<std::uint32_t>(offset) < q.at(p).packets) return p;
  }
  if (q.backlog() && qp.tx.next_packet > 0) {
    const std::int32_t offset = psn - q.at(q.sending()).first;
    if (offset >= 0 && static_cast<std::uint32_t>(offset) < qp.tx.next_packet) return q.sending();
  }
  return q.done();
}

}  // namespace mrc::inline v0_1::engine
