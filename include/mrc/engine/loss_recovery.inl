// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstring>
#include <utility>

#include "mrc/engine/loss_recovery.hpp"
#include "mrc/engine/scheduler.hpp"
#include "mrc/engine/send_window.hpp"
#include "mrc/wire/transport.hpp"

namespace mrc::inline v0_1::engine {

namespace detail {

/// So many timeouts in a row while a peer is silent are held against no path: longer than busy
/// hosts usually keep a process waiting, with T(12) 12.6 ms.
inline constexpr unsigned kSilentTimeouts = 3;

/// A host with several times as many busy threads as processors keeps a process waiting for so
/// long.
inline constexpr Duration kBusyHost = std::chrono::milliseconds(100);

}  // namespace detail

void LossRecovery::review(Time now) noexcept {
  now = ctx_.forward(now);
  while (!to_review_.empty()) {
    QueuePairState& qp = to_review_.front();
    to_review_.pop_front();
    infer_losses(now, qp);
    ctx_.ready.update(qp);
    ctx_.rearm(qp, now);
  }
}

/// A packet must be a round trip old before it is judged lost by age. Timers::round_trip() includes
/// host delays, which base_rtt does not.
void LossRecovery::infer_losses(Time now, QueuePairState& qp) noexcept {
  Peer& peer = *qp.peer;
  RequesterState& tx = qp.tx;
  if (tx.window.outstanding() == 0) {
    tx.loss_check = kNever;
    return;
  }
  reliability::LossRule rule{.passed = std::exchange(tx.passed, 0),
                             .age = Timers::round_trip(qp),
                             .probed = Timers::probed_age(qp),
                             .passed_age = tx.rtt.likely(),
                             .stalled = ctx_.timers.stall().length,
                             .stalled_until = ctx_.timers.stall().end};
  if (rule.passed_age == Duration{}) rule.passed_age = rule.age;
  const auto lost = [&](Psn psn, reliability::Packet packet) {
    const std::uint32_t size = nominal_size(qp, psn, packet, ctx_.options.timestamps);
    remove_from_flight(qp, packet, size);
    peer.paths.on_inferred_loss(packet.path(), now, packet.sent());
    peer.congestion.on_loss(size, now);
    peer.on_loss(peer.paths[packet.path()].plane, size, now);
    ++qp.stats.inferred_losses;
    ++ctx_.stats.inferred_losses;
    ctx_.timers.arm(peer);  // the path may have to be probed from now on
  };
  const Time heard = ctx_.options.peers_stop ? peer.answered + rule.age / 2 : now;
  tx.loss_check = reliability::infer_losses(tx.window, std::min(now, heard), rule, lost);
  // The next answer or the retransmission timer ends a silence; looking again now and then is for
  // answers that change nothing here.
  if (heard < now) tx.loss_check = std::max(tx.loss_check, now + rule.age);
}

std::optional<LossRecovery::LostPacket> LossRecovery::give_up(QueuePairState& qp,
                                                              Psn psn) noexcept {
  reliability::SendWindow& window = qp.tx.window;
  const reliability::Packet packet = window.at(psn);
  if (packet.state() != reliability::PacketState::outstanding) return std::nullopt;
  const std::uint32_t size = nominal_size(qp, psn, packet, ctx_.options.timestamps);
  remove_from_flight(qp, packet, size);
  window.lose(psn);
  return LostPacket{packet.path(), size, packet.sent()};
}

/// Removes a packet from the accounts of bytes in flight, except the congestion context's, from
/// which the caller's on_loss(), on_nack(), on_timeout() or on_forget() subtracts its size. Only
/// outstanding packets are in flight: one that is reported after it was given up is not counted
/// again.
void LossRecovery::remove_from_flight(QueuePairState& qp, reliability::Packet packet,
                                      std::uint32_t size) noexcept {
  qp.peer->release(qp.peer->paths[packet.path()].plane, size);
  qp.tx.inflight -= size;
}

void LossRecovery::on_untransmitted(Time now, std::span<const wire::TxPacket> packets) noexcept {
  for (const wire::TxPacket& packet : packets) {
    const auto& bth = wire::view_as<wire::Bth>(Bytes{packet.header.data(), packet.header_length});
    if (!wire::is_data(bth.opcode()) && bth.opcode() != wire::Opcode::packet_part) continue;
    QueuePairState* qp = ctx_.objects.qp(packet.owner);
    if (qp == nullptr || !qp->active || !qp->tx.window.contains(bth.psn())) continue;
    const reliability::Packet sent = qp->tx.window.at(bth.psn());
    if (sent.state() != reliability::PacketState::outstanding) continue;
    const std::uint32_t size = nominal_size(*qp, bth.psn(), sent, ctx_.options.timestamps);
    remove_from_flight(*qp, sent, size);
    qp->peer->congestion.on_forget(size);
    qp->tx.window.unsend(bth.psn());
    ctx_.ready.update(*qp);
    ctx_.rearm(*qp, now);
  }
}

void LossRecovery::on_timer(Time now, QueuePairState& qp) noexcept {
  if (!qp.active) return;
  if (qp.waits_for_receiver() && now >= qp.rc_state->receiver.until) {
    ReceiverWait& wait = qp.rc_state->receiver;
    wait.waiting = false;
    if (wait.oldest) qp.tx.timer_start = std::max(qp.tx.timer_start, wait.until);
  }
  if (now >= qp.tx.loss_check) infer_losses(now, qp);
  if (Timers::awaits_peer(qp) && now >= ctx_.timers.retransmission_deadline(qp)) {
    on_retransmission_timeout(now, qp);
    if (!qp.active) return;
  } else if (now >= Timers::probe_deadline(qp)) {
    ask(now, qp);
  }
  ctx_.ready.update(qp);
  ctx_.rearm(qp, now);
}

/// The oldest packet is sent again on another path, and its present path is suspected, unless the
/// peer is silent on all paths (mrc-1.0 §2.10). If all packets are known to have arrived and only
/// the Transport ACK is missing, the probe asks for it, and a repeated packet after it.
void LossRecovery::on_retransmission_timeout(Time now, QueuePairState& qp) noexcept {
  RequesterState& tx = qp.tx;
  const Psn psn = tx.window.first_unreported();
  const bool all_arrived = psn == tx.window.next();
  if (!take_retry(now, qp, all_arrived)) return;
  ++qp.stats.timeouts;
  ++ctx_.stats.timeouts;
  ctx_.ready.exempt_waiting(now, *qp.peer, now - tx.timer_start);
  tx.timer_start = now;
  tx.probes = 0;
  const bool waits = !all_arrived && may_wait_to_run(now, qp, psn);
  // The timeout concerns one packet. If more were lost than a SACK can show, only the answer to a
  // probe reports the others; without it each would take a timeout of its own.
  send_probe(now, qp);
  if (all_arrived || waits) return;
  // If everything in flight was lost, it may use up the congestion window for good: one packet is
  // sent regardless, and before those of queue pairs that wait for the window.
  ReadyQueue::exempt(qp);
  const std::optional<LostPacket> lost = give_up(qp, psn);
  if (!lost) return;  // already marked lost, not yet sent again
  // Since the packet could have been answered, nothing was heard: the peer may not run (yet), and
  // silence on all paths at once is no evidence against one of them. If it lasts, all are suspected
  // in turn, to find one that works.
  const bool silence = qp.peer->answered <= lost->sent + Timers::round_trip(qp);
  if (qp.unmet(now)) {
    qp.peer->paths.on_silence(lost->path, now, lost->sent);
    return qp.peer->congestion.on_forget(lost->size);
  }
  if (silence && tx.retries.expired() <= detail::kSilentTimeouts)
    qp.peer->paths.on_silence(lost->path, now, lost->sent);
  else
    qp.peer->paths.on_timeout(lost->path, now, lost->sent);
  qp.peer->congestion.on_timeout(lost->size, tx.retries.expired(), now);
  qp.peer->on_loss(qp.peer->paths[lost->path].plane, lost->size, now);
  if (Peer::is_large(lost->size) && tx.in_vain())
    qp.peer->sizes.on_silence(ctx_.usable_planes(*qp.peer), now);
  ctx_.timers.arm(*qp.peer);
}

/// May the peer be a process that does not run? It was asked after this packet, and nothing has
/// been heard from it since, in any queue pair; an answer would have shown the loss. Then nothing
/// is known to be lost: it is only asked again.
bool LossRecovery::may_wait_to_run(Time now, QueuePairState& qp, Psn psn) const noexcept {
  if (!ctx_.options.peers_stop || !qp.remote.solicited) return false;
  const RequesterState& tx = qp.tx;
  const reliability::Packet packet = tx.window.at(psn);
  return packet.state() == reliability::PacketState::outstanding && tx.probe_pending &&
         tx.probe_sent >= packet.sent() && qp.peer->answered < tx.probe_sent &&
         now - packet.sent() < detail::kBusyHost;
}

/// The timer has expired: false if that was once too often, and the queue pair has failed.
bool LossRecovery::take_retry(Time now, QueuePairState& qp, bool all_arrived) noexcept {
  RequesterState& tx = qp.tx;
  if (qp.unmet(now)) {
    tx.retries.wait_longer();
    return true;
  }
  if (!qp.heard && tx.retries.used() == 0) tx.retries.reset();  // they begin only now
  const bool alive = tx.retries.take_answered() && all_arrived;
  if (alive ? tx.retries.take_unacknowledged(Timers::timeout_floor(qp)) : tx.retries.take())
    return true;
  teardown_.fail(qp, alive ? QpErrorCause::unacknowledged : QpErrorCause::retry_exhausted,
                 WcStatus::retry_exc_err,
                 tx.queue.empty() ? std::nullopt : std::optional(tx.queue.done()));
  return false;
}

/// Asks what has arrived, with a probe. If everything has and only the Transport ACK is missing,
/// every other time by repeating the last packet of the oldest message without one: an OpenMRC peer
/// repeats its ACK for a probe too, but one that works as RoCE does only for a packet that comes
/// again (mrc-1.0 §2.8). Peers with RC operations are OpenMRC peers.
void LossRecovery::ask(Time now, QueuePairState& qp) noexcept {
  RequesterState& tx = qp.tx;
  const bool repeat = tx.probes % 2 == 1 && !qp.rc && qp.waiting() > 0 &&
                      tx.window.first_unreported() == tx.window.next();
  if (!repeat) return send_probe(now, qp);
  ++tx.probes;
  tx.repeat_last = true;
}

void LossRecovery::on_unreachable(Time now, Peer& peer) noexcept {
  for (QueuePairState& qp : peer.ready) {
    if (qp.scheduled()) continue;
    qp.tx.timer_start = now;
    ctx_.rearm(qp, now);
  }
}

void LossRecovery::send_probe(Time now, QueuePairState& qp) noexcept {
  RequesterState& tx = qp.tx;
  ++tx.probes;
  tx.probe_sent = now;
  ++qp.stats.probes;
  ControlItem item;
  item.kind = ControlItem::Kind::probe;
  item.qpn = qp.qpn;
  item.id = ++tx.probe_id;
  tx.probe_pending = ctx_.queue_control(item);
}

void LossRecovery::write_probe(Time now, const ControlItem& item, QueuePairState& qp,
                               wire::TxPacket& packet) noexcept {
  auto& p = make_header<wire::ProbePacket>(
      packet, wire::Bth::make(wire::Opcode::probe, qp.remote.qpn, Psn{}));
  p.peth.probe_id = item.id;
  p.peth.spdcid = connection_id(qp.qpn);
  p.peth.dpdcid = connection_id(qp.remote.qpn);
  p.peth.set_tx_timestamp(wire::timestamp_of(now));
  const std::uint32_t order = qp.tx.window.send_order();
  if (order != qp.tx.probe_order) qp.tx.probe_first = item.id;
  qp.tx.probe_sent = now;
  qp.tx.probe_order = order;
}

}  // namespace mrc::inline v0_1::engine
