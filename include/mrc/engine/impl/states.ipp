// SPDX-License-Identifier: Apache-2.0
// Engine: the states of a queue pair (mrc-1.0 §2.11).
#pragma once

#include <bit>

#include "mrc/engine/engine.hpp"

namespace mrc::inline v0_1::engine {

MRC_DECL Result<Psn> Engine::start_psn(Qpn qpn) const noexcept {
  const QueuePairState* qp = find_qp(qpn);
  if (qp == nullptr) return Errc::not_found;
  return qp->start_psn;
}

MRC_DECL Errc Engine::to_init(Qpn qpn) noexcept {
  QueuePairState* qp = qp_of(qpn);
  if (qp == nullptr) return Errc::not_found;
  if (qp->state != QpState::reset) return Errc::invalid_state;
  qp->state = QpState::init;
  return Errc::ok;
}

MRC_DECL Errc Engine::to_rtr(Qpn qpn, const RemoteQp& remote) noexcept {
  QueuePairState* qp = qp_of(qpn);
  if (qp == nullptr) return Errc::not_found;
  if (qp->state != QpState::init) return Errc::invalid_state;
  Peer* peer = find_peer(remote.peer);
  if (peer == nullptr) return Errc::not_found;
  if (remote.mpr_dest == 0 || remote.max_wimm_dest == 0) return Errc::incompatible;
  const std::uint32_t mtu = remote.mtu == 0 ? qp->init.attributes.mtu : remote.mtu;
  if (mtu > qp->init.attributes.mtu || mtu < 256 || !std::has_single_bit(mtu))
    return Errc::incompatible;
  qp->remote = remote;
  qp->mtu = mtu;
  qp->peer = peer;
  ++peer->queue_pairs;
  const bool dynamic = qp->init.attributes.dynamic_mpr && remote.dynamic_mpr;
  qp->rx.window.start(remote.start_psn);
  qp->rx.wimms.start();
  qp->rx.rcvd_bytes = qp->rx.since_sack = qp->rx.messages = 0;
  qp->rx.mpr = dynamic ? qp->init.attributes.mpr_dest : std::uint8_t{0};
  qp->rx.ack_queued = false;
  qp->rx.newest_sack = 0;
  qp->rx.last_limited = Time::min();
  qp->rx.refused.reset();
  qp->state = QpState::rtr;
  return Errc::ok;
}

MRC_DECL Errc Engine::to_rts(Qpn qpn, Time now) noexcept {
  now = forward(now);
  QueuePairState* qp = qp_of(qpn);
  if (qp == nullptr) return Errc::not_found;
  if (qp->state != QpState::rtr) return Errc::invalid_state;
  const QpAttributes& own = qp->init.attributes;
  Requester& tx = qp->tx;
  tx.window.start(qp->start_psn);
  tx.retries = {own.timeout, own.retry_linear, own.retry_exponential};
  tx.rtt = {};
  tx.cursor = qp->peer->paths.make_cursor();
  tx.fixed_range = tx.range = std::min(own.mpr, qp->remote.mpr_dest) * kMprUnit;
  tx.wimm_limit = std::min(own.max_wimm, qp->remote.max_wimm_dest);
  tx.wimm_in_flight = 0;
  tx.next_msn = {};
  tx.next_rqmsn = {};
  tx.next_packet = tx.rcvd_bytes = 0;
  tx.inflight = 0;
  tx.turn = 0;
  tx.last_sent = tx.timer_start = now;
  tx.newest_report.fill(~std::uint32_t{0});  // before the first transmission, which is number 0
  tx.passed = 0;
  tx.owed = false;
  tx.loss_check = kNever;
  tx.paused_until = Time::min();
  tx.probes = 0;
  tx.probe_pending = false;
  qp->state = QpState::rts;
  tell_ports(now, *qp->peer);
  return Errc::ok;
}

MRC_DECL Errc Engine::to_error(Qpn qpn) noexcept {
  QueuePairState* qp = qp_of(qpn);
  if (qp == nullptr) return Errc::not_found;
  if (qp->state == QpState::reset) return Errc::invalid_state;
  if (qp->state != QpState::err) fail(*qp, QpErrorCause::requested, WcStatus::wr_flush_err);
  fail_overrun_queues();
  return Errc::ok;
}

MRC_DECL Errc Engine::to_reset(Qpn qpn) noexcept {
  QueuePairState* qp = qp_of(qpn);
  if (qp == nullptr) return Errc::not_found;
  detach(*qp);
  qp->state = QpState::reset;
  qp->cause = QpErrorCause::none;
  qp->start_psn = Psn{static_cast<std::uint32_t>(random_.next())};
  return Errc::ok;
}

MRC_DECL Errc Engine::set_mpr(Qpn qpn, std::uint8_t units) noexcept {
  QueuePairState* qp = qp_of(qpn);
  if (qp == nullptr) return Errc::not_found;
  if (units == 0 || units > qp->init.attributes.mpr_dest) return Errc::invalid_argument;
  if (qp->rx.mpr == 0) return Errc::invalid_state;
  qp->rx.mpr = units;
  return Errc::ok;
}

/// A queue pair stops sending for good: its packets leave the accounts that it shares with others.
MRC_DECL void Engine::stop(QueuePairState& qp) noexcept {
  timers_.cancel(qp);
  qp.ready_hook.unlink();
  qp.review_hook.unlink();
  qp.starved = false;
  Requester& tx = qp.tx;
  if (qp.peer != nullptr) {
    for (Psn p = tx.window.unacked(); p != tx.window.next(); ++p) {
      const reliability::Packet packet = tx.window.at(p);
      if (packet.state() == reliability::PacketState::outstanding)
        release(*qp.peer, qp.peer->paths[packet.path()].plane, size_of(qp, p, packet));
    }
    if (tx.inflight > 0) qp.peer->congestion.on_forget(static_cast<std::uint32_t>(tx.inflight));
    tx.inflight = 0;
    wake(*qp.peer);
  }
  tx.window.clear();
  if (starved_) wake_all();
}

/// Moves a queue pair to ERR: the request at `position` (if any) completes with `status`, every
/// other one is flushed.
MRC_DECL void Engine::fail(QueuePairState& qp, QpErrorCause cause, WcStatus status,
                           std::optional<std::uint32_t> position) noexcept {
  if (qp.state == QpState::err) return;
  qp.state = QpState::err;
  qp.cause = cause;
  ++stats_.qp_errors;
  stop(qp);
  held_tails_.drop(qp.rx.tails);
  flush(qp, status, position);
  if (!qp.error_reported) qp.error_reported = failed_.push_back(qp.qpn);
}

MRC_DECL void Engine::flush(QueuePairState& qp, WcStatus status,
                            std::optional<std::uint32_t> position) noexcept {
  SendQueue& q = qp.tx.queue;
  while (!q.empty()) {
    const std::uint32_t p = q.done();
    SendWqe& w = q.at(p);
    return_memory(w);
    Completion c;
    c.wr_id = w.wr_id;
    c.qpn = qp.qpn;
    c.status = position == p ? status : WcStatus::wr_flush_err;
    c.opcode = w.with_immediate ? WcOpcode::write_imm : WcOpcode::write;
    q.complete();
    complete(qp.init.send_cq, c);
  }
  for (; !qp.rx.receives.empty(); qp.rx.receives.pop_front()) {
    Completion c;
    c.wr_id = qp.rx.receives.front();
    c.qpn = qp.qpn;
    c.status = WcStatus::wr_flush_err;
    c.opcode = WcOpcode::recv_write_imm;
    complete(qp.init.receive_cq, c);
  }
}

/// The queue pairs of overrun completion queues go to ERR. Not done where the overrun happens,
/// since that is in the middle of something.
MRC_DECL void Engine::fail_overrun_queues() noexcept {
  while (overrun_pending_) {
    overrun_pending_ = false;
    for (auto& qp : qps_) {
      if (!qp || qp->state == QpState::err || qp->state == QpState::reset) continue;
      if (cq_of(qp->init.send_cq)->overrun() || cq_of(qp->init.receive_cq)->overrun())
        fail(*qp, QpErrorCause::cq_overrun, WcStatus::wr_flush_err);
    }
  }
}

}  // namespace mrc::inline v0_1::engine
