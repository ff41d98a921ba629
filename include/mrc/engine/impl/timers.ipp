// SPDX-License-Identifier: Apache-2.0
// Engine: time. A queue pair has one timer for retransmission timeout, loss inference, reliability
// probe and pause; a peer has one for EV probes and port status.
#pragma once

#include "mrc/engine/engine.hpp"

namespace mrc::inline v0_1::engine {

namespace detail {

/// Reliability probes per silence; then the retransmission timer takes over (mrc-1.0 §5, [O-6]).
inline constexpr std::uint8_t kMaxProbes = 5;
/// Port status: sent again until answered, so often at most, with a doubling interval.
inline constexpr std::uint8_t kMaxStatusTries = 10;
MRC_DECL constexpr Duration kFirstStatusRetry = std::chrono::milliseconds(1);

}  // namespace detail

/// What a round trip may take: base_rtt and the queueing that congestion control aims at, or what
/// was measured, whichever is longer.
MRC_DECL Duration Engine::round_trip(const QueuePairState& qp) const noexcept {
  const cc::Controller& c = qp.peer->congestion;
  return std::max(c.base_rtt() + c.target_qdelay(), qp.tx.rtt.bound());
}

/// Does the queue pair wait for the peer? (Waiting for the congestion window, which others may
/// hold, is not the peer's fault. Having no path at all is.)
MRC_DECL bool Engine::awaits(const QueuePairState& qp) const noexcept {
  const Requester& tx = qp.tx;
  return !tx.window.empty() || tx.queue.sending() != tx.queue.done() ||
         (tx.queue.backlog() && qp.peer->paths.usable_planes() == 0);
}

MRC_DECL Time Engine::retransmission_deadline(const QueuePairState& qp) const noexcept {
  const Duration floor = std::max(2 * qp.peer->congestion.base_rtt(), qp.tx.rtt.bound());
  return qp.tx.timer_start + qp.tx.retries.timeout(floor);  // [O-20]
}

MRC_DECL Time Engine::probe_deadline(const QueuePairState& qp) const noexcept {
  const Requester& tx = qp.tx;
  const bool silent = tx.window.outstanding() > 0 || tx.queue.sending() != tx.queue.done();
  if (tx.probes >= detail::kMaxProbes || !silent) return kNever;
  const Time last = tx.probes == 0 ? tx.last_sent : std::max(tx.last_sent, tx.probe_sent);
  const Duration base = round_trip(qp);
  return last + (tx.queue.backlog() ? std::max(base, 3 * qp.peer->congestion.base_rtt()) : base);
}

/// Ends the handling of anything that concerns a queue pair: settles its account and sets its
/// timer.
MRC_DECL void Engine::arm(QueuePairState& qp, Time now) noexcept {
  if (qp.state != QpState::rts) return timers_.cancel(qp);
  if (qp.tx.window.outstanding() == 0 && qp.tx.inflight > 0) {
    // Nothing is under way, so what is left in the account is what SACKs that got lost, or the
    // rounding of those that did not, have not taken out of it.
    qp.peer->congestion.on_forget(static_cast<std::uint32_t>(qp.tx.inflight));
    qp.tx.inflight = 0;
    wake(*qp.peer);
  }
  if (!awaits(qp)) {
    // After a pause it wants its turn, even when nothing is under way any more.
    if (qp.tx.paused_until <= now || !qp.tx.queue.backlog()) return timers_.cancel(qp);
    return timers_.schedule(qp, qp.tx.paused_until);
  }
  Time due = std::min({retransmission_deadline(qp), probe_deadline(qp), qp.tx.loss_check});
  if (qp.tx.paused_until > now) due = std::min(due, qp.tx.paused_until);
  timers_.schedule(qp, due);
}

MRC_DECL void Engine::arm(Peer& peer) noexcept {
  const Time due = std::min({peer.paths.next_probe(), peer.reverse.next_probe(), peer.status_due});
  if (due == kNever || peer.queue_pairs == 0)
    timers_.cancel(peer);
  else
    timers_.schedule(peer, due);
}

MRC_DECL void Engine::on_time(Time now) noexcept {
  now = forward(now);
  timers_.expire(now, [&](TimerNode& node) {
    auto& timer = static_cast<EngineTimer&>(node);
    if (timer.owner == EngineTimer::Owner::peer)
      on_peer_time(now, static_cast<Peer&>(timer));
    else
      on_qp_time(now, static_cast<QueuePairState&>(timer));
  });
  fail_overrun_queues();
}

MRC_DECL void Engine::on_qp_time(Time now, QueuePairState& qp) noexcept {
  Requester& tx = qp.tx;
  if (qp.state != QpState::rts) return;
  if (now >= tx.loss_check) find_losses(now, qp);
  if (awaits(qp) && now >= retransmission_deadline(qp)) {
    on_retransmission_timeout(now, qp);
    if (qp.state != QpState::rts) return;
  } else if (now >= probe_deadline(qp)) {
    ask(now, qp);
  }
  update_ready(qp);
  arm(qp, now);
}

/// Sends a reliability probe.
MRC_DECL void Engine::ask(Time now, QueuePairState& qp) noexcept {
  Requester& tx = qp.tx;
  ++tx.probes;
  tx.probe_pending = true;
  tx.probe_sent = now;
  ++qp.stats.probes;
  ControlItem item;
  item.kind = ControlItem::Kind::probe;
  item.qpn = qp.qpn;
  item.id = ++tx.probe_id;
  queue_control(item);
}

/// One packet may go although the window is closed, and before those of queue pairs that wait.
MRC_DECL void Engine::owe(QueuePairState& qp) noexcept {
  qp.tx.owed = true;
  if (!qp.ready_hook.is_linked() || qp.starved) return;
  qp.ready_hook.unlink();
  qp.peer->ready.push_front(qp);
}

/// The peer is silent, and some queue pairs hold the window: those that wait for it get one packet
/// each under way. So they learn what the others learn, at the same time as they, and not after
/// them.
MRC_DECL void Engine::owe_waiting(Time now, Peer& peer, Duration timeout) noexcept {
  if (now - std::max(peer.answered, peer.owed) < timeout) return;
  peer.owed = now;
  for (auto next = peer.ready.begin(); next != peer.ready.end();) {
    QueuePairState& qp = *next++;
    if (qp.tx.window.empty()) owe(qp);
  }
  wake(peer);
}

/// The oldest packet has had its time (mrc-1.0 §2.10): it goes out again on another path, and the
/// path that it took is suspected. When every packet is known to have arrived and only the
/// Transport ACK is missing, a probe asks for it.
MRC_DECL void Engine::on_retransmission_timeout(Time now, QueuePairState& qp) noexcept {
  Requester& tx = qp.tx;
  const Psn psn = tx.window.first_unreported();
  if (!tx.retries.take())
    return fail(qp, QpErrorCause::retry_exhausted, WcStatus::retry_exc_err,
                qp.tx.queue.empty() ? std::nullopt : std::optional(qp.tx.queue.done()));
  ++qp.stats.timeouts;
  ++stats_.timeouts;
  owe_waiting(now, *qp.peer, now - tx.timer_start);
  tx.timer_start = now;
  tx.probes = 0;
  // The timer speaks of one packet. If a whole burst is lost, more than a SACK can show, only the
  // answer to a probe tells of the others, or they come one by one, a timeout each.
  ask(now, qp);
  if (psn == tx.window.next()) return;  // all of it has arrived
  // What else is in flight may hold the window for ever, if all of it is lost: one packet goes, and
  // before those of other queue pairs that wait for the window.
  owe(qp);
  const std::optional<GivenUp> lost = give_up(now, qp, psn);
  if (!lost) return;  // lost already, and waits for a path or its turn
  qp.peer->paths.on_timeout(lost->path, now);
  qp.peer->congestion.on_timeout(lost->size, tx.retries.expired(), now);
  arm(*qp.peer);
}

MRC_DECL void Engine::on_peer_time(Time now, Peer& peer) noexcept {
  const auto probe = [&](path::PathIndex path) {
    if (path == path::kNoPath) return;
    ControlItem item;
    item.kind = ControlItem::Kind::ev_probe;
    item.peer = peer.id;
    item.path = path;
    item.id = open_request(peer.id, wire::EndpointOp::ev_probe, path);
    queue_control(item);
  };
  peer.paths.set_probe_spacing(peer.congestion.base_rtt());  // at most one per round trip
  peer.reverse.set_rtt(peer.congestion.base_rtt());
  probe(peer.paths.poll_probe(now));
  probe(peer.reverse.poll_probe(now, peer.paths, random_));
  if (now >= peer.status_due) {
    ControlItem item;
    item.kind = ControlItem::Kind::port_status;
    item.peer = peer.id;
    item.plane = static_cast<Plane>(std::countr_zero(usable_planes(peer) | (1u << 31)));
    item.id = peer.status_id = open_request(peer.id, wire::EndpointOp::port_status, path::kNoPath);
    queue_control(item);
    const Duration wait = std::max(detail::kFirstStatusRetry, 2 * peer.congestion.base_rtt());
    peer.status_due = ++peer.status_tries < detail::kMaxStatusTries
                          ? now + wait * (1 << peer.status_tries)
                          : kNever;
  }
  arm(peer);
}

}  // namespace mrc::inline v0_1::engine
