// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "mrc/engine/requester.hpp"

#include <bit>
#include <cstring>
#include <utility>

#include "mrc/engine/scheduler.hpp"

namespace mrc::inline v0_1::engine {

namespace detail {

/// Can a Transport ACK with this MSN be an answer to one of the `waiting` messages from `oldest`
/// on? Peers differ in what they number: the newest finished message ([O-15]); the messages
/// finished, as in IBTA; or nothing, always 0. So messages complete by PSN, and MSNs only help to
/// tell late answers to an earlier connection.
[[nodiscard]] constexpr bool may_be_answer(std::uint32_t msn, Msn oldest,
                                           std::uint32_t waiting) noexcept {
  const std::int32_t ahead = Msn{msn} - oldest;
  return msn == 0 || (ahead >= 0 && static_cast<std::uint32_t>(ahead) <= waiting);
}

/// Does the peer offer this operation, as far as is known, and has the queue pair room for it?
[[gnu::noinline]] inline Errc check_offered(const QueuePairState& qp, SendOpcode opcode) noexcept {
  const QpAttributes& own = qp.attributes;
  if (!own.rc || (qp.peer != nullptr && !qp.rc && !qp.presumed())) return Errc::unsupported;
  if (!has_response(opcode)) return Errc::ok;
  if (own.max_rd_atomic == 0 || (qp.rc && qp.remote.max_rd_atomic_dest == 0))
    return Errc::unsupported;
  const QpCapacity& c = qp.init.capacity;
  const bool room = c.atomics || c.send_sges >= 2 || c.inline_bytes >= 32;
  return opcode == SendOpcode::read || room ? Errc::ok : Errc::unsupported;
}

/// Makes a SEND, a READ or an atomic of what was filled in as for a write.
[[gnu::noinline]] inline void make_operation(SendWqe& w, const SendRequest& request) noexcept {
  if (!has_response(request.opcode)) {
    w.remote = 0;
    w.rkey = 0;
    return;
  }
  w.immediate = std::exchange(w.length, 0);
  w.packets = 1;
  if (!w.is_atomic()) return;
  w.length = sizeof(wire::AtomicOperands);
  const bool swap = w.kind == MessageKind::compare_swap;
  SendQueue::operands(w) = {swap ? request.swap : request.compare_add,
                            swap ? request.compare_add : 0};
}

/// The oldest message without Transport ACK, sent wholly or in part; there must be one.
[[gnu::noinline]] inline const SendWqe& oldest_waiting(QueuePairState& qp) noexcept {
  const SendQueue& q = qp.tx.queue;
  if (!qp.rc) return q.at(q.acknowledged());
  const RcState& rc = *qp.rc_state;
  const SendQueue& r = rc.responses;
  const bool part = qp.tx.next_packet > 0;
  const bool request = q.waiting() > 0 || (part && !rc.answering);
  const bool response = r.waiting() > 0 || (part && rc.answering);
  if (!request) return r.at(r.acknowledged());
  if (!response) return q.at(q.acknowledged());
  const SendWqe& a = q.at(q.acknowledged());
  const SendWqe& b = r.at(r.acknowledged());
  return a.first.before(b.first) ? a : b;
}

/// The oldest messages that were sent whole and end with or before `psn`.
[[gnu::noinline]] inline Ended ended_by(QueuePairState& qp, Psn psn) noexcept {
  Ended ended;
  const auto count = [&](const SendQueue& q) {
    std::uint32_t p = q.acknowledged();
    for (; p != q.sending(); ++p) {
      const SendWqe& w = q.at(p);
      const Psn last = w.first + static_cast<std::int32_t>(w.packets - 1);
      if (psn.before(last)) break;
      ended.last = !ended.any() || ended.last.before(last) ? last : ended.last;
      ++(&q == &qp.tx.queue ? ended.requests : ended.responses);
    }
  };
  count(qp.tx.queue);
  if (qp.rc) count(qp.rc_state->responses);
  return ended;
}

/// What a Transport ACK means for waits for a receive and for responses.
[[gnu::noinline]] inline void finish_rc(QueuePairState& qp, const Ended& ended) noexcept {
  RcState& rc = *qp.rc_state;
  const SendQueue& q = qp.tx.queue;
  for (std::uint32_t p = q.acknowledged() - ended.requests; p != q.acknowledged(); ++p)
    if (const SendWqe& w = q.at(p); w.numbered()) {
      rc.receiver.tries = 0;
      // It was refused, and a second copy of it was not.
      if (!Rqmsn{w.rqmsn}.before(rc.receiver.from)) rc.receiver.waiting = false;
    }
  for (std::uint32_t n = ended.responses; n > 0; --n) rc.responses.finish();
  if (ended.responses > 0) rc.reported = 0;
  Context::finish(qp);
}

/// Position in the send queue of the message of a PSN; of the oldest message if that is unknown.
[[gnu::noinline]] inline std::optional<std::uint32_t> position_of(QueuePairState& qp,
                                                                  Psn psn) noexcept {
  SendQueue& q = qp.tx.queue;
  if (q.empty()) return std::nullopt;
  if (qp.rc && qp.tx.window.contains(psn)) {
    const SentMessage message = message_of(qp, psn);
    return message.queue == &q ? std::optional(message.position) : std::nullopt;
  }
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

}  // namespace detail

void Requester::start(QueuePairState& qp) noexcept {
  const QpAttributes& own = qp.attributes;
  RequesterState& tx = qp.tx;
  tx.window.start(qp.start_psn);
  tx.retries = {own.timeout, own.retry_linear, own.retry_exponential, own.max_timeout};
  tx.next_msn = {};
  tx.next_rqmsn = {};
  tx.fixed_range = tx.range = 0;  // nothing is sent before attach()
  tx.paused_until = Time::min();
  tx.loss_check = kNever;
  tx.wimm_limit = 0;
  tx.failed.reset();
}

void Requester::change_limits(QueuePairState& qp) noexcept {
  const QpAttributes& own = qp.attributes;
  qp.tx.retries = {own.timeout, own.retry_linear, own.retry_exponential, own.max_timeout};
  qp.tx.fixed_range = std::min(own.mpr, qp.remote.mpr_dest) * kMprUnit;
  qp.tx.range = qp.attributes.dynamic_mpr && qp.remote.dynamic_mpr
                    ? std::min(qp.tx.range, qp.tx.fixed_range)
                    : qp.tx.fixed_range;
  qp.tx.wimm_limit = std::min(own.max_wimm, qp.remote.max_wimm_dest);
  qp.rc_state->reads.set_limit(std::min(own.max_rd_atomic, qp.remote.max_rd_atomic_dest));
}

void Requester::attach(Time now, QueuePairState& qp) noexcept {
  const QpAttributes& own = qp.attributes;
  RequesterState& tx = qp.tx;
  tx.window.start(qp.start_psn);
  tx.queue.unsend();
  tx.next_msn = {};
  if (qp.rc) {
    RcState& rc = *qp.rc_state;
    rc.reads.start(std::min(own.max_rd_atomic, qp.remote.max_rd_atomic_dest));
    rc.receiver = {};
    rc.answering = false;
    rc.reported = 0;
  }
  tx.retries.reset();
  tx.rtt = {};
  tx.patience = {};
  tx.fixed_range = tx.range = std::min(own.mpr, qp.remote.mpr_dest) * kMprUnit;
  tx.wimm_limit = std::min(own.max_wimm, qp.remote.max_wimm_dest);
  tx.wimm_in_flight = 0;
  tx.next_packet = 0;
  tx.newest_sack = {qp.start_psn - 1};
  tx.inflight = tx.reported = tx.reported_early = 0;
  tx.quantum_used = 0;
  tx.last_sent = tx.timer_start = now;
  tx.passed = 0;
  tx.window_exempt = tx.repeat_last = false;
  tx.loss_check = kNever;
  tx.paused_until = Time::min();
  tx.probes = tx.probe_series = 0;
  tx.probe_id = static_cast<std::uint16_t>(ctx_.secrets.bits(16));
  tx.probe_pending = false;
  tx.unreflected = 0;
}

// ------------------------------------------------------------------------------------- posting

/// `length` becomes the sum of the SGEs.
[[gnu::always_inline]] inline Errc Requester::check_sges(const QueuePairState& qp,
                                                         const SendRequest& request,
                                                         std::uint64_t& length) noexcept {
  length = 0;
  for (const Sge& s : request.sges) length += s.length;
  const QpCapacity& c = qp.init.capacity;
  const bool response = has_response(request.opcode), read = request.opcode == SendOpcode::read;
  if (response && (request.flags.inline_data ||
                   (!read && (length != 8 || request.sges.size() != 1)))) [[unlikely]]
    return Errc::invalid_argument;
  if (request.flags.inline_data) return length <= c.inline_bytes ? Errc::ok : Errc::too_long;
  if (length > kMaxMessage) return Errc::too_long;
  if (request.sges.size() > c.send_sges) return Errc::too_many_sges;
  const Access rights = response ? Access::local_write : Access::none;
  for (const Sge& s : request.sges)
    if (const Errc e = ctx_.memory.check_local(s, qp.init.pd, rights); e != Errc::ok) return e;
  return Errc::ok;
}

[[gnu::always_inline]] inline void Requester::copy_sges(SendWqe& w,
                                                        const SendRequest& request) noexcept {
  if (w.flags.inline_data) {
    std::uint8_t* to = SendQueue::inline_data(w);
    for (const Sge& s : request.sges) {
      if (s.length > 0) std::memcpy(to, s.address, s.length);
      to += s.length;
    }
    return;
  }
  LocalSge* sges = SendQueue::sges(w);
  for (const Sge& s : request.sges) {
    sges[w.sges++] = {static_cast<const std::uint8_t*>(s.address), s.length, s.lkey};
    ++ctx_.memory.find(s.lkey)->uses;
  }
}

/// Inlined into Engine::post_send().
[[gnu::always_inline]] inline Errc Requester::post(Time now, QueuePairState& qp,
                                                   const SendRequest& request) noexcept {
  RequesterState& tx = qp.tx;
  if (tx.queue.full()) return Errc::queue_full;
  if (!is_write(request.opcode)) [[unlikely]]
    if (const Errc e = detail::check_offered(qp, request.opcode); e != Errc::ok) return e;
  std::uint64_t length = 0;
  if (const Errc e = check_sges(qp, request, length); e != Errc::ok) return e;

  if (!Timers::awaits_peer(qp)) tx.timer_start = now;
  SendWqe& w = tx.queue.post();
  w.wr_id = request.wr_id;
  w.kind = static_cast<MessageKind>(request.opcode);
  w.remote = request.remote.address;
  w.rkey = request.remote.rkey;
  w.length = static_cast<std::uint32_t>(length);
  w.packets = packets_of(w.length, qp.mtu);
  w.immediate = request.immediate;
  w.flags = request.flags;
  w.flags.signaled |= qp.init.signal_all;
  copy_sges(w, request);
  if (!is_write(request.opcode)) [[unlikely]]
    detail::make_operation(w, request);
  if (w.numbered()) {
    w.rqmsn = static_cast<std::uint16_t>(tx.next_rqmsn.value());
    ++tx.next_rqmsn;
  }
  if (!is_write(request.opcode) && qp.peer != nullptr && !qp.rc) [[unlikely]]
    teardown_.doubt_peer(qp);
  ctx_.ready.update(qp);
  if (!qp.scheduled()) ctx_.rearm(qp, now);
  if (qp.peer != nullptr) ctx_.timers.release_probe(*qp.peer);
  return Errc::ok;
}

// --------------------------------------------------------------------------------------- NACKs

void Requester::on_nack(Time now, QueuePairState& qp, const wire::RxPacket& packet) noexcept {
  const auto& nack = wire::view_as<wire::NackPacket>(packet.bytes).neth;
  RequesterState& tx = qp.tx;
  ++ctx_.stats.nacks_received;
  ++qp.stats.nacks;
  const Psn psn = nack.nack_psn();
  const std::uint16_t timestamp = nack.tx_timestamp.value();
  const bool at_packet = tx.window.contains(psn);
  // The time stamp tells whether it refers to the packet's last transmission or an earlier one.
  const bool exact = at_packet && (!ctx_.options.timestamps ||
                                   timestamp == wire::timestamp_of(tx.window.at(psn).sent()));
  if (nack.reason == wire::NackReason::unexp_event) {
    // A probe has no PSN of its own; the NACK that refuses one names PSN 0.
    const bool at_probe =
        tx.probe_pending && psn == Psn{} && timestamp == wire::timestamp_of(tx.probe_sent);
    if (!exact && !at_probe) {
      ++ctx_.stats.drops.stale;
      return;
    }
    // RC's requests complete in order, so the oldest one is the first that fails.
    const auto oldest = tx.queue.empty() ? std::nullopt : std::optional(tx.queue.done());
    return teardown_.fail(qp, QpErrorCause::peer_in_error, WcStatus::rem_op_err,
                          qp.rc ? oldest : detail::position_of(qp, psn));
  }
  if (nack.reason == wire::NackReason::receiver_not_ready)
    return on_receiver_not_ready(now, qp, psn, exact, nack.vendor_info);
  // Trimming may have cut off the time stamp. A refusal costs a retry, so it has to be exact.
  const bool cut = at_packet && timestamp == 0 && wire::is_trim(nack.reason);
  if (!wire::is_known(nack.reason) || !(exact || cut)) {
    ++ctx_.stats.drops.stale;
    return;
  }
  const auto lost = give_up(qp, psn);
  if (!lost) {
    ++ctx_.stats.drops.stale;
    return;
  }
  qp.heard = true;
  const bool trimmed = wire::is_trim(nack.reason);
  qp.peer->congestion.on_nack(lost->size, trimmed, now);
  if (trimmed) {
    ++qp.stats.trims;
    if (nack.reason == wire::NackReason::trimmed) qp.peer->paths.on_trimmed(lost->path, now);
  } else if (!on_refused(now, qp, psn)) {
    return;
  }
  ctx_.ready.update(qp);
  ctx_.ready.wake(*qp.peer);
  ctx_.rearm(qp, now);
}

/// The responder lacks resources: pause for a round trip (mrc-1.0 §2.9). That costs a retry if it
/// is the oldest packet that was refused; of others, the retransmission timer of the oldest one
/// decides. False if no retry was left, and the queue pair has failed.
bool Requester::on_refused(Time now, QueuePairState& qp, Psn psn) noexcept {
  RequesterState& tx = qp.tx;
  note_refused(qp, psn);
  if (psn == tx.window.first_unreported() && !tx.retries.take_refused()) {
    teardown_.fail(qp, QpErrorCause::retry_exhausted, WcStatus::retry_exc_err,
                   tx.queue.done());  // the oldest request (mrc-1.0 §2.10)
    return false;
  }
  tx.paused_until = now + Timers::round_trip(qp);
  return true;
}

void Requester::note_refused(QueuePairState& qp, Psn psn) noexcept {
  qp.tx.window.at(psn).set_missed(reliability::Missed::refused);
  ++qp.stats.refused;
  ++ctx_.stats.refused;
}

/// No receive is posted at the peer. The message waits, and with it those behind it that need one;
/// the peer works, so nothing is counted against it.
void Requester::on_receiver_not_ready(Time now, QueuePairState& qp, Psn psn, bool exact,
                                      std::uint8_t timer) noexcept {
  if (!qp.rc || !exact) {
    ++ctx_.stats.drops.stale;
    return;
  }
  const SentMessage message = message_of(qp, psn);
  const SendWqe& w = message.wqe();
  const auto refused = w.numbered() ? give_up(qp, psn) : std::nullopt;
  if (!refused) {
    ++ctx_.stats.drops.stale;
    return;
  }
  qp.heard = true;
  note_refused(qp, psn);
  qp.peer->congestion.on_forget(refused->size);
  ReceiverWait& wait = qp.rc_state->receiver;
  const Rqmsn number{w.rqmsn};
  if (!wait.waiting) {
    wait.waiting = true;
    wait.oldest = false;
    wait.from = number;
    wait.until = now + rnr_time(timer);
  } else if (number.before(wait.from)) {
    wait.from = number;
  }
  // Only what was sent after a wait has been tried again. Its refusal may find the next one begun.
  if (refused->sent >= wait.counted) {
    wait.tries = static_cast<std::uint8_t>(std::min(wait.tries + 1, 8));
    wait.counted = wait.until;
  }
  // Its turn to fail comes when all requests before it are complete.
  const bool exhausted = qp.attributes.rnr_retry < 7 && wait.tries > qp.attributes.rnr_retry;
  if (exhausted && message.position == qp.tx.queue.done())
    return teardown_.fail(qp, QpErrorCause::rnr_exhausted, WcStatus::rnr_retry_exc_err,
                          message.position);
  // Else the timer keeps running for what is missing before it: no SACK tells of that.
  if (psn == qp.tx.window.first_unreported()) {
    wait.oldest = true;
    qp.tx.start_anew(now);
  }
  ctx_.ready.update(qp);
  ctx_.ready.wake(*qp.peer);
  ctx_.rearm(qp, now);
}

// ------------------------------------------------------------------------------ Transport ACKs

/// Every message whose last PSN is not after the one named is placed and delivered (mrc-1.0 §2.8).
void Requester::on_ack(Time now, QueuePairState& qp, const wire::RxPacket& packet) noexcept {
  const auto& ack = wire::view_as<wire::AckPacket>(packet.bytes);
  RequesterState& tx = qp.tx;
  ++ctx_.stats.acks_received;
  const Psn psn = ack.bth.psn();
  const auto late = static_cast<std::int32_t>(tx.fixed_range) + 1;
  const bool answered = qp.waiting() == 0 && tx.next_packet == 0;
  if ((answered && tx.queue.done() == tx.queue.acknowledged()) || !psn.before(tx.window.next()) ||
      psn.before(tx.window.unacked() - late)) {
    ++ctx_.stats.drops.stale;
    return;
  }
  if (wire::is_nak(ack.aeth.code())) {
    // A responder may refuse what it has received, and SACKs say so; not what it has completed:
    // without its response, a READ or an atomic is not.
    const bool unanswered = tx.queue.done() != tx.queue.acknowledged();
    const SendWqe& oldest = unanswered ? tx.queue.at(tx.queue.done()) : detail::oldest_waiting(qp);
    if (!psn.before(oldest.first)) return fail_by_nak(now, qp, psn, ack.aeth.code());
    ++ctx_.stats.drops.implausible;
    return;
  }
  const detail::Ended ended = detail::ended_by(qp, psn);
  if (!ended.any()) {
    ++ctx_.stats.drops.stale;
    return;
  }
  const Msn oldest{detail::oldest_waiting(qp).msn};
  if (!detail::may_be_answer(
          ack.aeth.msn.value(), oldest,
          static_cast<std::uint32_t>(tx.next_msn - oldest) - (tx.next_packet > 0))) {
    ++ctx_.stats.drops.implausible;
    return;
  }
  complete(now, qp, ended);
}

/// The responder refused a request. With RC it has executed everything before that.
void Requester::fail_by_nak(Time now, QueuePairState& qp, Psn psn,
                            wire::Syndrome syndrome) noexcept {
  if (qp.rc)
    if (const detail::Ended before = detail::ended_by(qp, psn - 1); before.any())
      complete(now, qp, before);
  QpErrorCause cause = QpErrorCause::nak_remote_operational;
  WcStatus status = WcStatus::rem_op_err;
  if (syndrome == wire::Syndrome::invalid_request) {
    cause = QpErrorCause::nak_invalid_request;
    status = WcStatus::rem_inv_req_err;
  } else if (syndrome == wire::Syndrome::remote_access_error) {
    cause = QpErrorCause::nak_remote_access;
    status = WcStatus::rem_access_err;
  }
  teardown_.fail(qp, cause, status, detail::position_of(qp, psn));
}

/// Completes the oldest messages in posting order, as far as no response is missing.
void Requester::complete(Time now, QueuePairState& qp, const detail::Ended& ended) noexcept {
  RequesterState& tx = qp.tx;
  take_cack(now, qp, ended.last);
  // The SACK that tells of these packets may still come: congestion control learns about them then.
  qp.peer->congestion.on_forget(static_cast<std::uint32_t>(tx.reported));
  tx.reported_early += std::exchange(tx.reported, 0);
  for (std::uint32_t n = ended.requests; n > 0; --n) {
    tx.wimm_in_flight = static_cast<std::uint16_t>(tx.wimm_in_flight -
                                                   tx.queue.at(tx.queue.acknowledged()).numbered());
    qp.rc ? tx.queue.acknowledge() : tx.queue.finish();
  }
  if (qp.rc) [[unlikely]]
    detail::finish_rc(qp, ended);
  qp.heard = true;
  ctx_.retire(qp);
  qp.tx.on_progress(now);
  ctx_.ready.update(qp);
  ctx_.ready.wake(*qp.peer);
  ctx_.ready.wake_starved();
  ctx_.rearm(qp, now);
}

/// Responses that the peer has whole are done: their Transport ACK may be late, since it speaks of
/// what is before them, too, such as a message that waits for a receive.
void Requester::finish_reported(QueuePairState& qp) noexcept {
  RcState& rc = *qp.rc_state;
  SendQueue& r = rc.responses;
  const reliability::SendWindow& window = qp.tx.window;
  const std::uint32_t before = r.done();
  while (r.waiting() > 0) {
    const SendWqe& w = r.at(r.acknowledged());
    for (; rc.reported < w.packets; ++rc.reported) {
      const Psn psn = w.first + static_cast<std::int32_t>(rc.reported);
      if (!psn.before(window.unacked()) &&
          window.at(psn).state() != reliability::PacketState::reported)
        break;
    }
    if (rc.reported < w.packets) break;
    r.finish();
    rc.reported = 0;
  }
  if (r.done() != before) ctx_.retire(qp);
}

// Requester: SACKs (mrc-1.0 §2.7).

namespace detail {

/// Answers to so many of the newest reliability probes are taken.
inline constexpr std::uint16_t kLateProbes = 16;

/// A peer of which so many SACKs in a row lacked the time stamp of a packet that was sent once
/// reflects none.
inline constexpr std::uint8_t kUnreflected = 4;

/// Half the span of a 16-bit time stamp: the age from which a sample is ambiguous (mrc-1.0 §1.5).
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

/// Is `timestamp` certainly that of the packet's last transmission? (mrc-1.0 §6.3)
[[nodiscard]] inline bool is_last_transmission(reliability::Packet packet, Time now,
                                               std::uint16_t timestamp) noexcept {
  if (wire::timestamp_of(packet.sent()) != timestamp) return false;
  return packet.transmissions() == 1 || now - packet.sent() <= kHalfTimestampSpan;
}

/// Has a later packet of the same burst arrived, that is one which left at the same moment behind
/// it on the same path?
[[nodiscard]] inline bool passed_in_burst(const reliability::SendWindow& window, Psn psn,
                                          reliability::Packet packet) noexcept {
  if (packet.transmissions() != 1) return false;
  for (Psn p = psn + 1; window.contains(p); ++p) {
    const reliability::Packet later = window.at(p);
    if (later.transmissions() != 1 || later.path() != packet.path() ||
        later.sent() != packet.sent())
      return false;
    if (later.state() == reliability::PacketState::reported) return true;
  }
  return false;
}

/// Is `psn` the newest one that the SACK reports?
[[nodiscard]] inline bool is_newest_in(const wire::Seth& seth, Psn psn) noexcept {
  const std::uint64_t bits = seth.sack_bitmap.value();
  const Psn cack = seth.cack_psn();
  if (bits == 0) return psn == cack;
  const Psn highest = cack + seth.sack_offset() + (63 - std::countl_zero(bits));
  return psn == (highest.after(cack) ? highest : cack);
}

/// The clear bits of a SACK that carry information: those below the highest set one.
[[nodiscard]] constexpr std::uint64_t holes_in(std::uint64_t bits) noexcept {
  return bits == 0 ? 0 : ~bits & (~std::uint64_t{0} >> std::countl_zero(bits));
}

/// Can a packet without a reflected time stamp be timed? If the peer reflects none, and the packet
/// was sent once, and this SACK is the first to report it and was sent for it: it names the packet,
/// or the packet is the newest one that has arrived. A packet that arrived before others would be
/// timed until the SACK that they brought about.
[[gnu::noinline]] inline bool timed_by_psn(Time now, RequesterState& tx,
                                           const wire::SackPacket& sack, Psn trigger,
                                           reliability::Packet sent) noexcept {
  if (sent.transmissions() != 1) return false;
  if (tx.unreflected < kUnreflected) {
    ++tx.unreflected;
    return false;
  }
  if (sent.state() != reliability::PacketState::outstanding) return false;
  if (now - sent.sent() >= reliability::kOldestSent) return false;  // it may have been sent earlier
  return sack.seth.ack_psn_offset() != 0 || is_newest_in(sack.seth, trigger);
}

/// True if a newer SACK has already been processed: its state, the MPR above all, takes precedence.
/// Two SACKs of one cumulative PSN may have the same byte count: its unit is 256 bytes, and not
/// every peer counts. A clear bit for a packet already reported then shows which one is older.
[[gnu::noinline]] inline bool overtaken(const QueuePairState& qp,
                                        const wire::SackPacket& sack) noexcept {
  const SackOrder order{sack.seth.cack_psn(), sack.cc.rcvd_bytes.value()};
  const SackOrder& newest = qp.tx.newest_sack;
  if (newest.after(order)) return true;
  if (order.cack != newest.cack) return false;
  const reliability::SendWindow& window = qp.tx.window;
  const Psn base = order.cack + sack.seth.sack_offset();
  for (std::uint64_t h = holes_in(sack.seth.sack_bitmap.value()); h != 0; h &= h - 1) {
    const Psn psn = base + std::countr_zero(h);
    if (window.contains(psn) && window.at(psn).state() == reliability::PacketState::reported)
      return true;
  }
  return false;
}

/// A SACK shows that an outstanding packet was missing when a later PSN had arrived: records how
/// strong the evidence for a loss is.
[[gnu::always_inline]] inline void note_missing(QueuePairState& qp, Psn psn) noexcept {
  reliability::Packet packet = qp.tx.window.at(psn);
  if (packet.state() != reliability::PacketState::outstanding) return;
  path::PathSet& paths = qp.peer->paths;
  if (paths.passed(packet.path(), packet.sent())) {
    qp.tx.passed += packet.missed() != reliability::Missed::passed;
    packet.set_missed(reliability::Missed::passed);
  } else if (packet.missed() != reliability::Missed::passed) {
    // What left at one moment keeps its order on a path as well, but hosts may delay parts of it
    // differently: lost when it is as old as round trips usually become.
    packet.set_missed(passed_in_burst(qp.tx.window, psn, packet) ? reliability::Missed::passed
                                                                 : reliability::Missed::absent);
  }
}

/// Hands a SACK to congestion control. The bytes newly received are by the records of this side:
/// peers count rcvd_bytes in several ways ([C-15]). Of a SACK that was overtaken nothing else is
/// used: the window follows the present state of the network.
[[gnu::noinline]] inline void feed_congestion(Time now, QueuePairState& qp,
                                              const wire::SackPacket& sack, const RttSample& rtt,
                                              bool overtaken) noexcept {
  RequesterState& tx = qp.tx;
  cc::SackSample sample;
  sample.now = now;
  sample.early = std::exchange(tx.reported_early, 0);
  sample.newly = sample.early + std::exchange(tx.reported, 0);
  if (!overtaken) {
    sample.rtt = rtt.rtt;
    sample.has_rtt = rtt.valid;
    sample.ecn = sack.seth.m() == wire::SackMark::skip_once;
    sample.rcv_cwnd_pen = sack.cc.rcv_cwnd_pen();
    sample.restore_cwnd = sack.cc.restore_cwnd();
  }
  qp.peer->congestion.on_sack(sample);
}

}  // namespace detail

void Requester::on_sack(Time now, QueuePairState& qp, const wire::RxPacket& packet) noexcept {
  const auto& sack = wire::view_as<wire::SackPacket>(packet.bytes);
  RequesterState& tx = qp.tx;
  const Psn cack = sack.seth.cack_psn();
  if (!cack.before(tx.window.next())) {
    ++ctx_.stats.drops.implausible;
    return;
  }
  // A late SACK is at most a window behind; anything older is of an earlier connection.
  if (tx.window.unacked() - cack > static_cast<std::int32_t>(tx.fixed_range)) {
    ++ctx_.stats.drops.stale;
    return;
  }
  // An answer to a probe names one of the last that were sent.
  if (sack.seth.probe()) {
    const auto late = static_cast<std::uint16_t>(tx.probe_id - sack.seth.probe_id());
    if (late >= detail::kLateProbes) {
      DropStats& drops = ctx_.stats.drops;
      ++(late < 0x8000 ? drops.stale : drops.implausible);
      return;
    }
  }
  ++ctx_.stats.sacks_received;
  qp.heard = true;

  const bool overtaken = detail::overtaken(qp, sack);
  if (!overtaken) tx.newest_sack = {cack, sack.cc.rcvd_bytes.value()};
  const detail::RttSample sample =
      sample_rtt(now, qp, sack);  // first: take_cack() may free the record
  // A peer that has received everything and answers is at work on a response.
  if (sack.seth.probe() && qp.rc && tx.window.empty()) tx.start_anew(now);
  if (sack.seth.m() != wire::SackMark::none) apply_mark(now, qp, sack, sample.path);
  if (sample.valid) {
    tx.rtt.sample(sample.rtt);
    qp.peer->paths.on_rtt(sample.path, sample.rtt);
  }

  take_cack(now, qp, cack);
  // It may have been overtaken by a Transport ACK, too.
  const bool shows_gaps = !overtaken && cack + 1 == tx.window.unacked();
  take_sack_bits(now, qp, cack + sack.seth.sack_offset(), sack.seth.sack_bitmap.value(),
                 shows_gaps);
  if (qp.rc) finish_reported(qp);
  if (!overtaken && sack.seth.mpr != 0 && qp.attributes.dynamic_mpr && qp.remote.dynamic_mpr)
    tx.range = std::min(tx.fixed_range, sack.seth.mpr * kMprUnit);
  detail::feed_congestion(now, qp, sack, sample, overtaken);
  if (!qp.review_hook.is_linked()) to_review_.push_back(qp);
  ctx_.ready.update(qp);
  ctx_.ready.wake(*qp.peer);
  ctx_.ready.wake_starved();
  ctx_.rearm(qp, now);
}

/// The round-trip time of the packet or probe that triggered a SACK.
[[gnu::always_inline]] inline detail::RttSample Requester::sample_rtt(
    Time now, QueuePairState& qp, const wire::SackPacket& sack) noexcept {
  RequesterState& tx = qp.tx;
  detail::RttSample sample;
  if (sack.seth.probe()) return sample_probe(now, qp, sack);
  const Psn trigger = sack.seth.cack_psn() + sack.seth.ack_psn_offset();
  if (!tx.window.contains(trigger)) return sample;
  const reliability::Packet sent = tx.window.at(trigger);
  if (detail::is_last_transmission(sent, now, sack.cc.tx_timestamp.value()))
    tx.unreflected = 0;
  else if (!detail::timed_by_psn(now, tx, sack, trigger, sent))
    return sample;
  sample.rtt = now - sent.sent();
  sample.valid = ctx_.options.timestamps;
  sample.path = sent.path();
  qp.peer->reverse.on_working(sample.path, now, qp.peer->paths);
  return sample;
}

/// The round-trip time of a reliability probe, and what its answer proves: the probe has overtaken
/// what was sent before it. An older probe is equally conclusive if no packet followed it: its
/// answer may only be late, and that to the newest be lost.
detail::RttSample Requester::sample_probe(Time now, QueuePairState& qp,
                                          const wire::SackPacket& sack) noexcept {
  RequesterState& tx = qp.tx;
  detail::RttSample sample;
  const auto older = static_cast<std::uint16_t>(tx.probe_id - sack.seth.probe_id());
  const auto same = static_cast<std::uint16_t>(tx.probe_id - tx.probe_first);
  if (!tx.probe_pending || older > same) return sample;
  ++ctx_.stats.probe_answers;
  tx.retries.on_answer();
  tx.window.on_probe_answered(tx.probe_order);
  const std::uint16_t timestamp = sack.cc.tx_timestamp.value();
  if (older == 0) {
    tx.probe_pending = false;
    sample.rtt = now - tx.probe_sent;
    sample.valid = timestamp == wire::timestamp_of(tx.probe_sent) ||
                   tx.unreflected >= detail::kUnreflected;  // its number is unique as well
    return sample;
  }
  // Its time is known from the time stamp only.
  if (tx.unreflected > 0) return sample;
  sample.rtt = wire::timestamp_distance(timestamp, wire::timestamp_of(now));
  sample.valid = sample.rtt <= detail::kHalfTimestampSpan && sample.rtt > now - tx.probe_sent;
  return sample;
}

/// To the path with the reflected EV if that of the trigger is unknown.
void Requester::apply_mark(Time now, QueuePairState& qp, const wire::SackPacket& sack,
                           path::PathIndex path) noexcept {
  if (path == path::kNoPath) path = qp.peer->paths.find(sack.seth.entropy());
  if (path != path::kNoPath) qp.peer->paths.on_mark(path, detail::to_path_mark(sack.seth.m()), now);
  if (sack.seth.m() == wire::SackMark::always_skip)
    ctx_.timers.arm(*qp.peer);  // the path is probed from now on
}

void Requester::take_cack(Time now, QueuePairState& qp, Psn cack) noexcept {
  if (cack.before(qp.tx.window.unacked())) return;
  qp.tx.window.acknowledge(
      cack, [&](Psn psn, reliability::Packet packet) { on_reported(now, qp, psn, packet); });
  qp.tx.on_progress(now);
}

/// A clear bit below a set one means that the PSN was missing when a later one had arrived. Others
/// say nothing, nor does any of a SACK that a newer one has overtaken.
void Requester::take_sack_bits(Time now, QueuePairState& qp, Psn base, std::uint64_t bits,
                               bool shows_gaps) noexcept {
  if (bits == 0) return;
  reliability::SendWindow& window = qp.tx.window;
  window.report(base, bits,
                [&](Psn psn, reliability::Packet packet) { on_reported(now, qp, psn, packet); });
  if (!shows_gaps) return;
  for (std::uint64_t holes = detail::holes_in(bits); holes != 0; holes &= holes - 1) {
    const Psn psn = base + std::countr_zero(holes);
    if (window.contains(psn)) detail::note_missing(qp, psn);
  }
}

[[gnu::always_inline]] inline void Requester::on_reported(Time now, QueuePairState& qp, Psn psn,
                                                          reliability::Packet packet) noexcept {
  Peer& peer = *qp.peer;
  const Plane plane = peer.paths[packet.path()].plane;
  // Of a packet sent more than once it is unknown which transmission, and so which path, arrived.
  const bool certain = packet.transmissions() == 1;
  const bool outstanding = packet.state() == reliability::PacketState::outstanding;
  // Its last transmission was given up, or the port has refused it: an earlier one arrived.
  if (certain || outstanding) peer.paths.on_delivered(packet.path(), packet.sent(), now, certain);
  if (!outstanding) return;  // released when it was given up
  const std::uint32_t size = nominal_size(qp, psn, packet, ctx_.options.timestamps);
  peer.release(plane, size);
  qp.tx.inflight -= size;
  qp.tx.reported += size;
  if (peer.sizes.doubted() != 0 && certain && Peer::is_large(size)) [[unlikely]]
    peer.sizes.on_delivered(plane);
}

// Requester: losses (mrc-1.0 §2.9, §2.10).

namespace detail {

/// So many timeouts in a row while a peer is silent are held against no path: longer than busy
/// hosts usually keep a process waiting, with T(12) 12.6 ms.
inline constexpr unsigned kSilentTimeouts = 3;

/// A host with several times as many busy threads as processors keeps a process waiting so long.
inline constexpr Duration kBusyHost = std::chrono::milliseconds(100);

/// The account of congestion control follows with the caller's on_loss(), on_nack(), on_timeout()
/// or on_forget().
inline void remove_from_flight(QueuePairState& qp, reliability::Packet packet,
                               std::uint32_t size) noexcept {
  qp.peer->release(qp.peer->paths[packet.path()].plane, size);
  qp.tx.inflight -= size;
}

}  // namespace detail

void Requester::review(Time now) noexcept {
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
void Requester::infer_losses(Time now, QueuePairState& qp) noexcept {
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
    detail::remove_from_flight(qp, packet, size);
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

/// Marks an outstanding packet lost. The caller informs congestion control.
std::optional<Requester::LostPacket> Requester::give_up(QueuePairState& qp, Psn psn) noexcept {
  reliability::SendWindow& window = qp.tx.window;
  const reliability::Packet packet = window.at(psn);
  if (packet.state() != reliability::PacketState::outstanding) return std::nullopt;
  const std::uint32_t size = nominal_size(qp, psn, packet, ctx_.options.timestamps);
  detail::remove_from_flight(qp, packet, size);
  window.lose(psn);
  return LostPacket{packet.path(), size, packet.sent()};
}

void Requester::on_untransmitted(Time now, std::span<const wire::TxPacket> packets) noexcept {
  for (const wire::TxPacket& packet : packets) {
    const auto& bth = wire::view_as<wire::Bth>(Bytes{packet.header.data(), packet.header_length});
    if (!wire::is_data(bth.opcode()) && bth.opcode() != wire::Opcode::packet_part) continue;
    QueuePairState* qp = ctx_.objects.qp(packet.owner);
    if (qp == nullptr || !qp->active || !qp->tx.window.contains(bth.psn())) continue;
    const reliability::Packet sent = qp->tx.window.at(bth.psn());
    if (sent.state() != reliability::PacketState::outstanding) continue;
    const std::uint32_t size = nominal_size(*qp, bth.psn(), sent, ctx_.options.timestamps);
    detail::remove_from_flight(*qp, sent, size);
    qp->peer->congestion.on_forget(size);
    qp->tx.window.unsend(bth.psn());
    ctx_.ready.update(*qp);
    ctx_.rearm(*qp, now);
  }
}

void Requester::on_timer(Time now, QueuePairState& qp) noexcept {
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
/// peer is silent on all paths (mrc-1.0 §2.10). If only the Transport ACK is missing, it is asked
/// for.
void Requester::on_retransmission_timeout(Time now, QueuePairState& qp) noexcept {
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
bool Requester::may_wait_to_run(Time now, QueuePairState& qp, Psn psn) const noexcept {
  if (!ctx_.options.peers_stop || !qp.remote.solicited) return false;
  const RequesterState& tx = qp.tx;
  const reliability::Packet packet = tx.window.at(psn);
  return packet.state() == reliability::PacketState::outstanding && tx.probe_pending &&
         tx.probe_sent >= packet.sent() && qp.peer->answered < tx.probe_sent &&
         now - packet.sent() < detail::kBusyHost;
}

/// The timer has expired: false if that was once too often, and the queue pair has failed.
bool Requester::take_retry(Time now, QueuePairState& qp, bool all_arrived) noexcept {
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
/// every other time by repeating the last packet of the oldest message without one: a peer that
/// works as RoCE repeats its ACK only for that (mrc-1.0 §2.8). Those with RC are OpenMRC peers.
void Requester::ask(Time now, QueuePairState& qp) noexcept {
  RequesterState& tx = qp.tx;
  const bool repeat = tx.probes % 2 == 1 && !qp.rc && qp.waiting() > 0 &&
                      tx.window.first_unreported() == tx.window.next();
  if (!repeat) return send_probe(now, qp);
  ++tx.probes;
  tx.repeat_last = true;
}

void Requester::send_probe(Time now, QueuePairState& qp) noexcept {
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

void Requester::write_probe(Time now, const ControlItem& item, QueuePairState& qp,
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
