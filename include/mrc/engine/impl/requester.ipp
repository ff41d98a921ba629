// SPDX-License-Identifier: Apache-2.0
// Requester: posting, NACKs, Transport ACKs. SACKs are in requester_sack.ipp.
#pragma once

#include <cstring>
#include <utility>

#include "mrc/engine/packet_layout.hpp"
#include "mrc/engine/requester.hpp"

namespace mrc::inline v0_1::engine {

namespace detail {

/// Can a Transport ACK with this MSN be an answer to one of the `waiting` messages from `oldest`
/// on? Peers differ in what they number: the newest finished message ([O-15]); the messages
/// finished, which is one more, as in IBTA; or nothing, always 0. So messages complete by PSN. But
/// MSNs begin at 0 on every connection, and with the PSN they help to tell late answers to an
/// earlier one.
[[nodiscard]] constexpr bool may_be_answer(std::uint32_t msn, Msn oldest,
                                           std::uint32_t waiting) noexcept {
  const std::int32_t ahead = Msn{msn} - oldest;
  return msn == 0 || (ahead >= 0 && static_cast<std::uint32_t>(ahead) <= waiting);
}

}  // namespace detail

MRC_DECL void Requester::start(QueuePairState& qp) noexcept {
  const QpAttributes& own = qp.attributes;
  RequesterState& tx = qp.tx;
  tx.window.start(qp.start_psn);
  tx.retries = {own.timeout, own.retry_linear, own.retry_exponential};
  tx.next_msn = {};
  tx.next_rqmsn = {};
  tx.fixed_range = tx.range = 0;  // nothing is sent before attach()
  tx.paused_until = Time::min();
  tx.loss_check = kNever;
  tx.wimm_limit = 0;
  tx.failed.reset();
}

MRC_DECL void Requester::set_mtu(QueuePairState& qp, std::uint32_t mtu) noexcept {
  if (mtu == qp.mtu) return;
  qp.mtu = mtu;
  SendQueue& q = qp.tx.queue;
  for (std::uint32_t p = q.done(); p != q.posted(); ++p)
    q.at(p).packets = packets_of(q.at(p).length, mtu);
}

MRC_DECL void Requester::attach(Time now, QueuePairState& qp) noexcept {
  const QpAttributes& own = qp.attributes;
  RequesterState& tx = qp.tx;
  tx.window.start(qp.start_psn);
  tx.queue.unsend();
  tx.retries.reset();
  tx.rtt = {};
  tx.cursor = qp.peer->paths.make_cursor();
  tx.fixed_range = tx.range = std::min(own.mpr, qp.remote.mpr_dest) * kMprUnit;
  tx.wimm_limit = std::min(own.max_wimm, qp.remote.max_wimm_dest);
  tx.wimm_in_flight = 0;
  tx.next_packet = 0;
  tx.newest_sack = {qp.start_psn - 1};
  tx.inflight = tx.reported = tx.reported_early = 0;
  tx.quantum_used = 0;
  tx.last_sent = tx.timer_start = now;
  tx.newest_report.fill(~std::uint32_t{0});  // just before transmission number 0
  tx.passed = 0;
  tx.window_exempt = false;
  tx.loss_check = kNever;
  tx.paused_until = Time::min();
  tx.probes = tx.probe_series = 0;
  tx.probe_id = static_cast<std::uint16_t>(ctx_.secrets.bits(16));
  tx.probe_pending = false;
}

// ------------------------------------------------------------------------------------- posting

/// Checks the SGEs of a write against the queue pair's capacity and the memory regions; `length`
/// is their sum.
[[gnu::always_inline]] inline Errc Requester::check_sges(const QueuePairState& qp,
                                                         const SendRequest& request,
                                                         std::uint64_t& length) noexcept {
  length = 0;
  for (const Sge& s : request.sges) length += s.length;
  const QpCapacity& c = qp.init.capacity;
  if (request.flags.inline_data) return length <= c.inline_bytes ? Errc::ok : Errc::too_long;
  if (length > kMaxMessage) return Errc::too_long;
  if (request.sges.size() > c.send_sges) return Errc::too_many_sges;
  for (const Sge& s : request.sges)
    if (const Errc e = ctx_.memory.check_local(s, qp.init.pd, Access::none); e != Errc::ok)
      return e;
  return Errc::ok;
}

/// Copies inline data, or the checked SGEs, behind the send queue entry.
[[gnu::always_inline]] inline void Requester::copy_sges(SendWqe& w,
                                                        const SendRequest& request) noexcept {
  if (w.inlined) {
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
  std::uint64_t length = 0;
  if (const Errc e = check_sges(qp, request, length); e != Errc::ok) return e;

  if (!Timers::awaits_peer(qp)) tx.timer_start = now;
  SendWqe& w = tx.queue.post();
  w.wr_id = request.wr_id;
  w.remote = request.remote.address;
  w.rkey = request.remote.rkey;
  w.length = static_cast<std::uint32_t>(length);
  w.packets = packets_of(w.length, qp.mtu);
  w.with_immediate = request.opcode == SendOpcode::write_imm;
  w.solicited = request.flags.solicited;
  w.immediate = request.immediate;
  w.signaled = request.flags.signaled || qp.init.signal_all;
  w.inlined = request.flags.inline_data;
  copy_sges(w, request);
  w.msn = static_cast<std::uint16_t>(tx.next_msn.value());
  ++tx.next_msn;
  if (w.with_immediate) {
    w.rqmsn = static_cast<std::uint16_t>(tx.next_rqmsn.value());
    ++tx.next_rqmsn;
  }
  ctx_.ready.update(qp);
  if (!qp.scheduled()) ctx_.rearm(qp, now);
  return Errc::ok;
}

// --------------------------------------------------------------------------------------- NACKs

MRC_DECL void Requester::on_nack(Time now, QueuePairState& qp,
                                 const wire::RxPacket& packet) noexcept {
  const auto& nack = wire::view_as<wire::NackPacket>(packet.bytes).neth;
  RequesterState& tx = qp.tx;
  ++ctx_.stats.nacks_received;
  ++qp.stats.nacks;
  const Psn psn = nack.nack_psn();
  const std::uint16_t timestamp = nack.tx_timestamp();
  const bool at_packet = tx.window.contains(psn);
  // The time stamp tells whether it refers to the packet's last transmission or an earlier one.
  const bool exact = at_packet && (!ctx_.options.timestamps ||
                                   timestamp == wire::timestamp_of(tx.window.at(psn).sent()));
  if (nack.reason() == wire::NackReason::unexp_event) {
    // A probe has no PSN of its own; the NACK that refuses one names PSN 0.
    const bool at_probe =
        tx.probe_pending && psn == Psn{} && timestamp == wire::timestamp_of(tx.probe_sent);
    if (!exact && !at_probe) {
      ++ctx_.stats.drops.stale;
      return;
    }
    return teardown_.fail(qp, QpErrorCause::peer_in_error, WcStatus::rem_op_err,
                          position_of(qp, psn));
  }
  // Trimming may have cut off the time stamp. A refusal costs a retry, so it has to be exact.
  const bool cut = at_packet && timestamp == 0 && wire::is_trim(nack.reason());
  if (!wire::is_known(nack.reason()) || !(exact || cut)) {
    ++ctx_.stats.drops.stale;
    return;
  }
  const auto lost = loss_.give_up(qp, psn);
  if (!lost) {
    ++ctx_.stats.drops.stale;
    return;
  }
  qp.heard = true;
  const bool trimmed = wire::is_trim(nack.reason());
  qp.peer->congestion.on_nack(lost->size, trimmed, now);
  if (trimmed) {
    ++qp.stats.trims;
    if (nack.reason() == wire::NackReason::trimmed) qp.peer->paths.on_trimmed(lost->path, now);
  } else {
    // The responder lacks resources: pause for a round trip, a limited number of times
    // (mrc-1.0 §2.9). NACKs during the pause are for packets sent before it and cost no retry.
    if (now >= tx.paused_until && !tx.retries.take_refused())
      return teardown_.fail(qp, QpErrorCause::retry_exhausted, WcStatus::retry_exc_err,
                            tx.queue.done());  // the oldest request (mrc-1.0 §2.10)
    tx.paused_until = now + Timers::round_trip(qp);
  }
  ctx_.ready.update(qp);
  ctx_.ready.wake(*qp.peer);
  ctx_.rearm(qp, now);
}

// ------------------------------------------------------------------------------ Transport ACKs

/// Every message whose last PSN is not after the one named is placed and delivered (mrc-1.0 §2.8).
MRC_DECL void Requester::on_ack(Time now, QueuePairState& qp,
                                const wire::RxPacket& packet) noexcept {
  const auto& ack = wire::view_as<wire::AckPacket>(packet.bytes);
  RequesterState& tx = qp.tx;
  SendQueue& q = tx.queue;
  ++ctx_.stats.acks_received;
  const Psn psn = ack.bth.psn();
  const std::uint32_t waiting = q.sending() - q.done();
  const auto late = static_cast<std::int32_t>(tx.fixed_range) + 1;
  if ((waiting == 0 && tx.next_packet == 0) || !psn.before(tx.window.next()) ||
      psn.before(tx.window.unacked() - late)) {
    ++ctx_.stats.drops.stale;
    return;
  }
  if (wire::is_nak(ack.aeth.code())) {
    // A responder may refuse what it has received, and SACKs say so; not what it has completed.
    if (!psn.before(q.at(q.done()).first)) return fail_by_nak(qp, psn, ack.aeth.code());
    ++ctx_.stats.drops.implausible;
    return;
  }
  const std::uint32_t messages = ended_by(q, psn);
  if (messages == 0) {
    ++ctx_.stats.drops.stale;
    return;
  }
  if (!detail::may_be_answer(ack.aeth.msn.value(), Msn{q.at(q.done()).msn}, waiting)) {
    ++ctx_.stats.drops.implausible;
    return;
  }
  complete(now, qp, messages);
}

/// Number of the oldest messages that were sent whole and end with or before `psn`. Takes time for
/// these only.
MRC_DECL std::uint32_t Requester::ended_by(const SendQueue& q, Psn psn) noexcept {
  std::uint32_t p = q.done();
  for (; p != q.sending(); ++p) {
    const SendWqe& w = q.at(p);
    if (psn.before(w.first + static_cast<std::int32_t>(w.packets - 1))) break;
  }
  return p - q.done();
}

/// The responder refused a request.
MRC_DECL void Requester::fail_by_nak(QueuePairState& qp, Psn psn,
                                     wire::Syndrome syndrome) noexcept {
  QpErrorCause cause = QpErrorCause::nak_remote_operational;
  WcStatus status = WcStatus::rem_op_err;
  if (syndrome == wire::Syndrome::invalid_request) {
    cause = QpErrorCause::nak_invalid_request;
    status = WcStatus::rem_inv_req_err;
  } else if (syndrome == wire::Syndrome::remote_access_error) {
    cause = QpErrorCause::nak_remote_access;
    status = WcStatus::rem_access_err;
  }
  teardown_.fail(qp, cause, status, position_of(qp, psn));
}

/// Completes the oldest `messages` messages, in posting order.
MRC_DECL void Requester::complete(Time now, QueuePairState& qp, std::uint32_t messages) noexcept {
  RequesterState& tx = qp.tx;
  const SendWqe& newest = tx.queue.at(tx.queue.done() + messages - 1);
  take_cack(now, qp, newest.first + static_cast<std::int32_t>(newest.packets - 1));
  // The SACK that tells of these packets may still come: congestion control learns about them then.
  qp.peer->congestion.on_forget(static_cast<std::uint32_t>(tx.reported));
  tx.reported_early += std::exchange(tx.reported, 0);
  for (; messages > 0; --messages) {
    if (tx.queue.at(tx.queue.done()).with_immediate) --tx.wimm_in_flight;
    tx.queue.finish();
  }
  qp.heard = true;
  ctx_.retire(qp);
  tx.on_progress(now);
  ctx_.ready.update(qp);
  ctx_.ready.wake(*qp.peer);
  ctx_.ready.wake_starved();
  ctx_.rearm(qp, now);
}

/// Position in the send queue of the message that a PSN belongs to; of the oldest message if that
/// is unknown.
MRC_DECL std::optional<std::uint32_t> Requester::position_of(QueuePairState& qp, Psn psn) noexcept {
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
