// SPDX-License-Identifier: Apache-2.0
// Engine: posting requests, completions and events.
#pragma once

#include "mrc/engine/engine.hpp"

namespace mrc::inline v0_1::engine {

/// Checks the pieces of a write against its queue pair and the memory regions; sums them up.
MRC_DECL Errc Engine::check_pieces(const QueuePairState& qp, const WriteRequest& request,
                                   std::uint64_t& length) noexcept {
  length = 0;
  for (const Sge& s : request.pieces) length += s.length;
  const QpCapacity& c = qp.init.capacity;
  if (request.flags.inline_data) return length <= c.inline_bytes ? Errc::ok : Errc::too_long;
  if (length > kMaxMessage) return Errc::too_long;
  if (request.pieces.size() > c.send_sges) return Errc::too_many_sges;
  for (const Sge& s : request.pieces) {
    const MemoryEntry* e = memory_.find(s.lkey);
    if (e == nullptr) return Errc::invalid_lkey;
    if (e->pd != qp.init.pd) return Errc::wrong_pd;
    if (!MemoryTable::inside(*e, reinterpret_cast<std::uint64_t>(s.address), s.length))
      return Errc::invalid_lkey;
  }
  return Errc::ok;
}

MRC_DECL Errc Engine::post_write(Qpn qpn, const WriteRequest& request, Time now) noexcept {
  now = forward(now);
  QueuePairState* qp = qp_of(qpn);
  if (qp == nullptr) return Errc::not_found;
  if (qp->state != QpState::rts) return Errc::invalid_state;
  SendQueue& q = qp->tx.queue;
  if (q.full()) return Errc::queue_full;
  std::uint64_t length = 0;
  if (const Errc e = check_pieces(*qp, request, length); e != Errc::ok) return e;

  if (!awaits(*qp)) qp->tx.timer_start = now;
  SendWqe& w = q.post();
  w.wr_id = request.wr_id;
  w.remote = request.remote.address;
  w.rkey = request.remote.rkey;
  w.length = static_cast<std::uint32_t>(length);
  w.packets = std::max(1u, (w.length + qp->mtu - 1) / qp->mtu);
  w.with_immediate = request.with_immediate;
  w.immediate = request.immediate;
  w.signaled = request.flags.signaled || qp->init.signal_all;
  w.inlined = request.flags.inline_data;
  if (w.inlined) {
    std::uint8_t* to = q.inline_data(w);
    for (const Sge& s : request.pieces) {
      if (s.length > 0) std::memcpy(to, s.address, s.length);
      to += s.length;
    }
  } else {
    LocalPiece* pieces = q.pieces(w);
    for (const Sge& s : request.pieces) {
      pieces[w.pieces++] = {static_cast<const std::uint8_t*>(s.address), s.length, s.lkey};
      ++memory_.find(s.lkey)->uses;
    }
  }
  w.msn = static_cast<std::uint16_t>(qp->tx.next_msn.value());
  ++qp->tx.next_msn;
  if (w.with_immediate) {
    w.rqmsn = static_cast<std::uint16_t>(qp->tx.next_rqmsn.value());
    ++qp->tx.next_rqmsn;
  }
  update_ready(*qp);
  if (!qp->scheduled()) arm(*qp, now);
  return Errc::ok;
}

MRC_DECL Errc Engine::post_receive(Qpn qpn, std::uint64_t wr_id) noexcept {
  QueuePairState* qp = qp_of(qpn);
  if (qp == nullptr) return Errc::not_found;
  if (qp->state == QpState::reset || qp->state == QpState::err) return Errc::invalid_state;
  return qp->rx.receives.push_back(wr_id) ? Errc::ok : Errc::queue_full;
}

MRC_DECL std::size_t Engine::poll_cq(CqId id, std::span<Completion> out) noexcept {
  CompletionRing* cq = cq_of(id);
  return cq == nullptr ? 0 : cq->poll(out);
}

MRC_DECL Errc Engine::arm_cq(CqId id) noexcept {
  CompletionRing* cq = cq_of(id);
  if (cq == nullptr) return Errc::not_found;
  cq->armed = true;
  return Errc::ok;
}

/// Puts a completion into its queue. False: it is full, so it is overrun, which
/// fail_overrun_queues() acts on.
MRC_DECL bool Engine::complete(CqId id, const Completion& completion) noexcept {
  CompletionRing* cq = cq_of(id);
  const bool room = cq->push(completion);
  if (!room && !cq->failing) {
    cq->failing = true;
    overrun_pending_ = true;
    overrun_.push_back(id);
  }
  if (cq->armed && !cq->signalled) {
    cq->armed = false;
    cq->signalled = signalled_.push_back(id);
  }
  return room;
}

MRC_DECL bool Engine::poll_event(Event& event) noexcept {
  event = {};
  if (!signalled_.empty()) {
    event.kind = Event::Kind::completion;
    event.cq = signalled_.front();
    signalled_.pop_front();
    if (CompletionRing* cq = cq_of(event.cq)) cq->signalled = false;
    return true;
  }
  if (!overrun_.empty()) {
    event.kind = Event::Kind::cq_overrun;
    event.cq = overrun_.front();
    overrun_.pop_front();
    return true;
  }
  if (failed_.empty()) return false;
  event.kind = Event::Kind::qp_error;
  event.qpn = failed_.front();
  failed_.pop_front();
  if (QueuePairState* qp = qp_of(event.qpn)) qp->error_reported = false;
  return true;
}

}  // namespace mrc::inline v0_1::engine
