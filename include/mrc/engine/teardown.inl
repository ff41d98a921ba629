// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <utility>

#include "mrc/engine/scheduler.hpp"
#include "mrc/engine/teardown.hpp"

namespace mrc::inline v0_1::engine {

/// Removes a queue pair's packets from the accounts that it shares with other queue pairs.
void Teardown::stop_sending(QueuePairState& qp) noexcept {
  ctx_.timers.cancel(qp);
  ReadyQueue::remove(qp);
  qp.review_hook.unlink();
  RequesterState& tx = qp.tx;
  if (qp.peer != nullptr) {
    Peer& peer = *qp.peer;
    for (Psn p = tx.window.unacked(); p != tx.window.next(); ++p) {
      const reliability::Packet packet = tx.window.at(p);
      if (packet.state() == reliability::PacketState::outstanding)
        peer.release(peer.paths[packet.path()].plane,
                     nominal_size(qp, p, packet, ctx_.options.timestamps));
    }
    if (tx.inflight > 0) peer.congestion.on_forget(static_cast<std::uint32_t>(tx.inflight));
    tx.inflight = 0;
    ctx_.ready.wake(peer);
  }
  tx.window.clear();
  ctx_.ready.wake_starved();
}

void Teardown::fail(QueuePairState& qp, QpErrorCause cause, WcStatus status,
                    std::optional<std::uint32_t> position) noexcept {
  if (qp.state == QpState::err) return;
  ctx_.queue_held_ack(qp);  // before the cause of this: it is about what came before
  qp.state = QpState::err;
  qp.active = false;
  qp.cause = cause;
  ++ctx_.stats.qp_errors;
  stop_sending(qp);
  ctx_.deferred.drop(qp.rx.deferred);
  flush(qp, status, position);
  if (!qp.error_reported) qp.error_reported = ctx_.completions.report_error(qp.qpn);
}

void Teardown::flush(QueuePairState& qp, WcStatus status,
                     std::optional<std::uint32_t> position) noexcept {
  // If nothing was posted, what is posted later is not at fault.
  qp.tx.failed = position == qp.tx.queue.posted() ? std::nullopt : position;
  qp.tx.failed_status = status;
  ctx_.retire(qp);
  // The receive that was too short is the oldest one.
  WcStatus received =
      qp.cause == QpErrorCause::receive_too_short ? WcStatus::loc_len_err : WcStatus::wr_flush_err;
  while (!qp.rx.receives.empty()) {
    Completion c;
    c.wr_id = qp.rx.receives.front();
    c.qpn = qp.qpn;
    c.status = std::exchange(received, WcStatus::wr_flush_err);
    c.opcode = qp.rc ? WcOpcode::recv : WcOpcode::recv_write_imm;
    ctx_.complete_receive(qp, c);
  }
  if (qp.init.srq) ctx_.completions.report_last_wqe(qp.qpn);
}

void Teardown::fail_overrun_queues() noexcept {
  const auto overrun = [this](CqId cq) { return ctx_.completions.find(cq)->overrun(); };
  while (ctx_.completions.take_overrun()) {
    ctx_.objects.for_each_qp([&](QueuePairState& qp) {
      if (qp.state == QpState::err || qp.state == QpState::reset) return;
      if (overrun(qp.init.send_cq) || overrun(qp.init.receive_cq))
        fail(qp, QpErrorCause::cq_overrun, WcStatus::wr_flush_err);
    });
    if (ctx_.service) ctx_.service->fail_overrun_queues();
  }
}

Errc Teardown::flush_posted(QueuePairState& qp, const SendRequest& request) noexcept {
  SendQueue& q = qp.tx.queue;
  if (q.full()) return Errc::queue_full;
  if (!request.flags.inline_data && request.sges.size() > qp.init.capacity.send_sges)
    return Errc::too_many_sges;
  SendWqe& w = q.post();
  w.wr_id = request.wr_id;
  w.kind = static_cast<MessageKind>(request.opcode);
  w.flags.inline_data = true;  // it has no memory
  ctx_.retire(qp);
  fail_overrun_queues();
  return Errc::ok;
}

Errc Teardown::flush_posted(Qpn qpn, ReceiveQueue& receives, CqId cq,
                            const ReceiveRequest& request) noexcept {
  if (receives.full()) return Errc::queue_full;
  if (request.sges.size() > receives.sge_limit()) return Errc::too_many_sges;
  Completion c;
  c.wr_id = request.wr_id;
  c.qpn = qpn;
  c.status = WcStatus::wr_flush_err;
  c.opcode = WcOpcode::recv;
  receives.keep_slot();
  ctx_.complete(cq, c, true);
  fail_overrun_queues();
  return Errc::ok;
}

/// What was sent is unsent again.
void Teardown::leave_peer(QueuePairState& qp) noexcept {
  if (qp.peer == nullptr) return;
  stop_sending(qp);
  ctx_.deferred.drop(qp.rx.deferred);
  ctx_.control.invalidate([&qp](const ControlItem& item) { return item.qpn == qp.qpn; });
  disconnect(qp);
}

void Teardown::doubt_peer(QueuePairState& qp) noexcept {
  leave_peer(qp);
  RequesterState& tx = qp.tx;
  tx.queue.unsend();
  tx.window.start(qp.start_psn);
  tx.next_packet = 0;
  tx.fixed_range = tx.range = 0;  // nothing is sent
}

void Teardown::disconnect(QueuePairState& qp) noexcept {
  qp.tagged_hook.unlink();
  if (--qp.peer->queue_pairs == 0) {
    ctx_.timers.cancel(*qp.peer);
    qp.peer->served = false;
  }
  qp.peer = nullptr;
}

void Teardown::discard_receives(QueuePairState& qp) noexcept {
  if (qp.init.srq)  // what it has taken, and not used, serves the others
    if (SharedReceiveQueue* srq = ctx_.objects.srq(*qp.init.srq))
      while (!qp.rx.receives.empty()) {
        if (qp.init.as_verbs) srq->receives.free_slot();
        if (srq->receives.full()) break;
        srq->receives.take_front(qp.rx.receives);
      }
  while (!qp.rx.receives.empty()) ctx_.release_receive(qp.rx.receives);
  ctx_.deferred.drop(qp.rx.deferred);
}

void Teardown::detach(QueuePairState& qp) noexcept {
  stop_sending(qp);
  qp.active = false;
  const auto clear = [this](SendQueue& q) {
    for (std::uint32_t p = q.retired(); p != q.posted(); ++p) ctx_.release_memory(q.at(p));
    q.clear();
  };
  ctx_.copies.forget_requests(qp.qpn);
  clear(qp.tx.queue);
  if (qp.rc_state) clear(qp.rc_state->responses);
  qp.rc = false;
  discard_receives(qp);
  // Control packets of this connection, a NAK above all, must not be sent on the next one.
  ctx_.control.invalidate([&qp](const ControlItem& item) { return item.qpn == qp.qpn; });
  if (qp.peer != nullptr) disconnect(qp);
}

}  // namespace mrc::inline v0_1::engine
