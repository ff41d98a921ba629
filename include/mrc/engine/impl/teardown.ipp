// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "mrc/engine/packet_layout.hpp"
#include "mrc/engine/teardown.hpp"

namespace mrc::inline v0_1::engine {

/// Removes a queue pair's packets from the accounts that it shares with other queue pairs.
MRC_DECL void Teardown::stop_sending(QueuePairState& qp) noexcept {
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

MRC_DECL void Teardown::fail(QueuePairState& qp, QpErrorCause cause, WcStatus status,
                             std::optional<std::uint32_t> position) noexcept {
  if (qp.state == QpState::err) return;
  qp.state = QpState::err;
  qp.cause = cause;
  ++ctx_.stats.qp_errors;
  stop_sending(qp);
  ctx_.deferred.drop(qp.rx.deferred);
  flush(qp, status, position);
  if (!qp.error_reported) qp.error_reported = ctx_.completions.report_error(qp.qpn);
}

MRC_DECL void Teardown::flush(QueuePairState& qp, WcStatus status,
                              std::optional<std::uint32_t> position) noexcept {
  qp.tx.failed = position;
  qp.tx.failed_status = status;
  ctx_.retire(qp);
  while (!qp.rx.receives.empty()) {
    Completion c;
    c.wr_id = qp.rx.receives.front();
    c.qpn = qp.qpn;
    c.status = WcStatus::wr_flush_err;
    c.opcode = WcOpcode::recv_write_imm;
    ctx_.release_receive(qp.rx.receives);
    ctx_.completions.complete(qp.init.receive_cq, c);
  }
}

MRC_DECL void Teardown::fail_overrun_queues() noexcept {
  const auto overrun = [this](CqId cq) { return ctx_.completions.find(cq)->overrun(); };
  while (ctx_.completions.take_overrun()) {
    ctx_.objects.for_each_qp([&](QueuePairState& qp) {
      if (qp.state == QpState::err || qp.state == QpState::reset) return;
      if (overrun(qp.init.send_cq) || overrun(qp.init.receive_cq))
        fail(qp, QpErrorCause::cq_overrun, WcStatus::wr_flush_err);
    });
  }
}

/// What was sent is unsent again.
MRC_DECL void Teardown::leave_peer(QueuePairState& qp) noexcept {
  if (qp.peer == nullptr) return;
  stop_sending(qp);
  ctx_.deferred.drop(qp.rx.deferred);
  ctx_.control.invalidate([&qp](const ControlItem& item) { return item.qpn == qp.qpn; });
  disconnect(qp);
}

MRC_DECL void Teardown::disconnect(QueuePairState& qp) noexcept {
  qp.tagged_hook.unlink();
  if (--qp.peer->queue_pairs == 0) {
    ctx_.timers.cancel(*qp.peer);
    qp.peer->served = false;
  }
  qp.peer = nullptr;
}

MRC_DECL void Teardown::detach(QueuePairState& qp) noexcept {
  stop_sending(qp);
  SendQueue& q = qp.tx.queue;
  for (std::uint32_t p = q.retired(); p != q.posted(); ++p) ctx_.release_memory(q.at(p));
  ctx_.copies.forget_requests(qp.qpn);
  q.clear();
  while (!qp.rx.receives.empty()) ctx_.release_receive(qp.rx.receives);
  ctx_.deferred.drop(qp.rx.deferred);
  // Control packets of this connection, a NAK above all, must not be sent on the next one.
  ctx_.control.invalidate([&qp](const ControlItem& item) { return item.qpn == qp.qpn; });
  if (qp.peer != nullptr) disconnect(qp);
}

}  // namespace mrc::inline v0_1::engine
