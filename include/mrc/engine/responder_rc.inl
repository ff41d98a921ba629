// SPDX-License-Identifier: Apache-2.0
// Responder: SEND, READ, atomics and responses (docs/extensions.md).
#pragma once

#include <algorithm>
#include <cstring>

#include "mrc/engine/message_layout.hpp"
#include "mrc/engine/placement.hpp"
#include "mrc/engine/responder.hpp"

namespace mrc::inline v0_1::engine {

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

/// Copies a part of a message, which begins at `offset`, to its scatter list, in the order that the
/// memory regions promise.
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

/// Executes an atomic on 8 bytes at an aligned address, in this host's byte order. Returns what was
/// there. Atomic for all threads and processes that share the memory.
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
Responder::Fate Responder::take_operation(Time now, QueuePairState& qp,
                                          const wire::RxPacket& packet, const wire::WriteView& w,
                                          std::size_t length) noexcept {
  const wire::Opcode opcode = w.bth->opcode();
  if (!qp.rc) {  // not agreed on: no opcode of MRC (mrc-1.0 §2.13)
    ++ctx_.stats.drops.malformed;
    return Fate::drop;
  }
  if (length != w.payload.size())  // placed by a port, which knows writes only
    return refuse_in_turn(now, qp, packet, w.bth->psn(), QpErrorCause::bad_request);
  if (wire::is_send(opcode)) return take_send(now, qp, packet, w);
  if (wire::is_request(opcode)) return take_request(now, qp, packet, w);
  return take_response(now, qp, packet, w);
}

/// A request that is not allowed takes its turn: the packet is dropped, and comes again, until
/// everything before it is executed and answered. So what was posted before it succeeds.
Responder::Fate Responder::refuse_in_turn(Time now, QueuePairState& qp,
                                          const wire::RxPacket& packet, Psn psn,
                                          QpErrorCause cause) noexcept {
  const Psn cack = qp.rx.window.cack();
  const bool turn = psn == cack + 1 && (!qp.rc || qp.rc_state->all_answered(cack));
  if (!qp.rc || turn) refuse(now, qp, packet, psn, cause);
  return Fate::drop;
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

/// No receive is posted: the message waits (RNR).
Responder::Fate Responder::ask_to_wait(Time now, QueuePairState& qp, const wire::RxPacket& packet,
                                       const wire::WriteView& w) noexcept {
  queue_nack(now, qp, packet, w.bth->psn(), detail::timestamp_in(w),
             wire::NackReason::receiver_not_ready);
  ++qp.stats.receiver_not_ready;
  return Fate::drop;
}

/// There is no room to hold the end of its message back: the packet is to come again. Room comes
/// back when the gap before it is filled; the SACK shows the gap.
Responder::Fate Responder::ask_to_repeat(Time now, QueuePairState& qp, const wire::RxPacket& packet,
                                         const wire::WriteView& w) noexcept {
  const Psn psn = w.bth->psn();
  queue_nack(now, qp, packet, psn, detail::timestamp_in(w), wire::NackReason::no_resource);
  queue_sack(qp, packet, psn, detail::timestamp_in(w));
  return Fate::drop;
}

Responder::Fate Responder::take_send(Time now, QueuePairState& qp, const wire::RxPacket& packet,
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
      return Fate::drop;
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
  return Fate::accept;
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

Responder::Fate Responder::take_request(Time now, QueuePairState& qp, const wire::RxPacket& packet,
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
  return Fate::accept;
}

/// Queues the response to a request that is executed now.
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
    finish_messages(qp);
    if (qp.rx.finished.due) ctx_.queue_ack(qp, plane, false);
    return;
  }
  wire::RxPacket settled;
  settled.plane = plane;
  refuse(now, qp, settled, qp.rx.window.cack(), c);
}

// ------------------------------------------------------------------------------------ responses

Responder::Fate Responder::take_response(Time now, QueuePairState& qp, const wire::RxPacket& packet,
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
  Requester::on_response(now, qp);
  return Fate::accept;
}

/// The response to the oldest READ or atomic is whole: writes what was held back of it.
void Responder::write_held(QueuePairState& qp) noexcept {
  const ReadTable& reads = qp.rc_state->reads;
  const Bytes end = reads.held();
  SendWqe& request = qp.tx.queue.at(reads.position(reads.oldest()));
  detail::scatter(ctx_.memory, std::span(SendQueue::sges(request), request.sges),
                  request.message_length() - end.size(), end);
}

/// A packet was accepted: requests of the peer whose turn has come are executed, own ones whose
/// responses are whole complete. False if the queue pair failed.
bool Responder::finish_operations(Time now, QueuePairState& qp, Plane plane) noexcept {
  RcState& rc = *qp.rc_state;
  while (rc.reads.answered()) {
    write_held(qp);
    requester_.on_answered(now, qp);
  }
  return rc.requests.empty() || execute(now, qp, plane);
}

}  // namespace mrc::inline v0_1::engine
