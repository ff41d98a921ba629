// SPDX-License-Identifier: Apache-2.0
// Engine: the states of a queue pair (mrc-1.0 §2.11), and posting, which depends on them.
#pragma once

#include <algorithm>
#include <memory>

#include "mrc/core/types.hpp"
#include "mrc/engine/engine.hpp"
#include "mrc/engine/requester.inl"

namespace mrc::inline v0_1::engine {

Result<Psn> Engine::start_psn(Qpn qpn) const noexcept {
  const QueuePairState* qp = find_qp(qpn);
  if (qp == nullptr) return Errc::not_found;
  return qp->rc_state ? qp->rc_state->drawn_psn : qp->start_psn;
}

Result<std::uint64_t> Engine::tag(Qpn qpn) const noexcept {
  const QueuePairState* qp = find_qp(qpn);
  if (qp == nullptr) return Errc::not_found;
  return qp->tag.bits();
}

/// What the next connection begins with.
void Engine::renew(QueuePairState& qp) noexcept {
  qp.start_psn = Psn{static_cast<std::uint32_t>(ctx_.secrets.next())};
  qp.tag = wire::Tag::make(ctx_.secrets.next(), ctx_.options.icrc);
}

Errc Engine::to_init(Qpn qpn) noexcept {
  return with_qp(qpn, [](QueuePairState& qp) {
    if (qp.state != QpState::reset) return Errc::invalid_state;
    qp.state = QpState::init;
    return Errc::ok;
  });
}

Errc Engine::to_rtr(Qpn qpn, const RemoteQp& remote, const RtrAttributes& own) {
  return with_qp(qpn, [&](QueuePairState& qp) {
    Peer* peer = ctx_.objects.peer(remote.peer);
    if (peer == nullptr) return Errc::not_found;
    if (remote.mpr_dest == 0 || remote.max_wimm_dest == 0) return Errc::incompatible;
    if (const Errc e = enter_rtr(qp, remote, own, remote.rc); e != Errc::ok) return e;
    attach(qp, remote, *peer);
    if (qp.rc) begin_sending(ctx_.latest, qp);
    return Errc::ok;
  });
}

Errc Engine::to_rtr_unresolved(Qpn qpn, const RemoteQp& remote, const RtrAttributes& own) {
  return with_qp(qpn, [&](QueuePairState& qp) { return enter_rtr(qp, remote, own, true); });
}

Errc Engine::enter_rtr(QueuePairState& qp, const RemoteQp& remote, const RtrAttributes& own,
                       bool may_be_rc) {
  if (qp.state != QpState::init) return Errc::invalid_state;
  const std::uint32_t mtu = remote.mtu == 0 ? qp.attributes.mtu : remote.mtu;
  if (mtu > qp.attributes.mtu || !is_mtu(mtu)) return Errc::incompatible;
  const QpAttributes a = with(qp.attributes, own);
  if (out_of_range(a)) return Errc::invalid_argument;
  size_responder(qp, a);
  qp.tx.window.resize(a.mpr * kMprUnit);  // with RC it may be used from now on
  // While the peer is not known it may turn out to offer RC, even after a while.
  qp.rc_state = a.rc && may_be_rc ? std::make_unique<RcState>(a, ctx_.writes) : nullptr;
  if (qp.rc_state) qp.rc_state->drawn_psn = qp.start_psn;
  qp.attributes = a;
  qp.remote = remote;
  qp.trims_given = own.trim_nack.has_value();
  qp.trims = own.trim_nack.value_or(false);
  qp.mtu = qp.rtr_mtu = mtu;
  qp.heard = false;
  qp.state = QpState::rtr;
  return Errc::ok;
}

/// Before anything has arrived.
void Engine::size_responder(QueuePairState& qp, const QpAttributes& a) {
  qp.rx.resize(a);
  if (qp.init.srq && qp.rx.receives.capacity() < a.max_wimm_dest)
    qp.rx.receives = ReceiveQueue(a.max_wimm_dest, qp.rx.receives.sge_limit());
}

/// The limits as responder that are given with RTS, as far as they can still change: see
/// RtsAttributes.
void Engine::change_responder(QueuePairState& qp, QpAttributes& wanted) {
  const QpAttributes& now = qp.attributes;
  if (qp.heard) {
    wanted.mpr_dest = now.mpr_dest;
    wanted.max_wimm_dest = now.max_wimm_dest;
  } else if (qp.peer != nullptr) {
    wanted.mpr_dest = std::max(wanted.mpr_dest, now.mpr_dest);
    wanted.max_wimm_dest = std::max(wanted.max_wimm_dest, now.max_wimm_dest);
  }
  if (wanted.mpr_dest == now.mpr_dest && wanted.max_wimm_dest == now.max_wimm_dest) return;
  size_responder(qp, wanted);
  qp.attributes.mpr_dest = wanted.mpr_dest;
  qp.attributes.max_wimm_dest = wanted.max_wimm_dest;
  if (qp.peer != nullptr) responder_.start(qp);
}

/// The peer is known, in RTR or RTS.
void Engine::attach(QueuePairState& qp, const RemoteQp& remote, Peer& peer) noexcept {
  qp.remote = remote;
  if (qp.trims_given) qp.remote.trim_nack = qp.trims;
  qp.peer = &peer;
  ++peer.queue_pairs;
  qp.remote_tag = wire::Tag(remote.tag);
  qp.expected = qp.remote_tag ? qp.tag : wire::Tag();
  qp.remote.parts = remote.parts && qp.remote_tag && ctx_.options.part_places > 0;
  if (qp.remote_tag) peer.tagged.push_back(qp);
  if (qp.sharers != 0) peer.congestion.on_hint(qp.sharers);
  qp.rc = remote.rc && qp.rc_state != nullptr;
  if (qp.rc_state)
    qp.start_psn =
        qp.rc ? qp.rc_state->drawn_psn : qp.rc_state->own_psn.value_or(qp.rc_state->drawn_psn);
  responder_.start(qp);
}

/// The requester half starts to work.
void Engine::begin_sending(Time now, QueuePairState& qp) noexcept {
  if (!qp.active) requester_.start(qp);
  qp.active = true;
  requester_.attach(now, qp);
  qp.peer->largest_payload = std::max(qp.peer->largest_payload, qp.mtu);
  if (qp.remote.parts) qp.peer->sizes.allow_probes();
  endpoint_.on_connected(now, *qp.peer);
}

/// A request was posted that the peer, which was not known then, does not offer: the position of
/// the oldest one.
std::optional<std::uint32_t> Engine::unsupported_request(QueuePairState& qp) noexcept {
  const SendQueue& q = qp.tx.queue;
  if (qp.rc && qp.remote.max_rd_atomic_dest > 0) return std::nullopt;
  for (std::uint32_t p = q.done(); p != q.posted(); ++p) {
    const bool write = is_write(static_cast<SendOpcode>(q.at(p).kind));
    if (qp.rc ? q.at(p).is_request() : !write) return p;
  }
  return std::nullopt;
}

bool Engine::waits_for_rc(Qpn qpn) const noexcept {
  const QueuePairState* qp = find_qp(qpn);
  if (qp == nullptr) return false;
  const SendQueue& q = qp->tx.queue;
  for (std::uint32_t p = q.done(); p != q.posted(); ++p)
    if (!is_write(static_cast<SendOpcode>(q.at(p).kind))) return true;
  return false;
}

Errc Engine::to_rts(Qpn qpn, Time now, const RtsAttributes& own) {
  now = ctx_.forward(now);
  return with_qp(qpn, [&](QueuePairState& qp) {
    if (qp.state != QpState::rtr) return Errc::invalid_state;
    QpAttributes a = with(qp.attributes, own);
    if (out_of_range(a)) return Errc::invalid_argument;
    change_responder(qp, a);
    if (qp.rc_state) qp.rc_state->reads.reserve(a.max_rd_atomic);
    if (qp.active) {  // it answers since it is in RTR, under the number that the peer knows
      if (a.mpr > qp.attributes.mpr && !qp.tx.window.empty()) a.mpr = qp.attributes.mpr;
      if (a.mpr > qp.attributes.mpr) requester_.grow(qp, a.mpr);
      qp.attributes = a;
      requester_.change_limits(qp);
      qp.state = QpState::rts;
      return Errc::ok;
    }
    qp.tx.window.resize(a.mpr * kMprUnit);
    qp.attributes = a;
    if (own.send_psn) qp.start_psn = *own.send_psn;
    if (qp.rc_state) qp.rc_state->own_psn = own.send_psn;
    requester_.start(qp);
    qp.state = QpState::rts;
    qp.active = true;
    if (qp.peer != nullptr) begin_sending(now, qp);
    return Errc::ok;
  });
}

Errc Engine::resolve(Time now, Qpn qpn, const RemoteQp& known) noexcept {
  now = ctx_.forward(now);
  return with_qp(qpn, [&](QueuePairState& qp) {
    if ((qp.state != QpState::rtr && qp.state != QpState::rts) || qp.heard)
      return Errc::invalid_state;
    Peer* peer = ctx_.objects.peer(known.peer);
    if (peer == nullptr) return Errc::not_found;
    RemoteQp remote = known;
    remote.qpn = qp.remote.qpn;
    // Between OpenMRC peers the number counts that the peer has drawn: a program's own is known
    // only when it moves to RTS, and the peer may have to answer before that.
    if (!remote.rc || !qp.rc_state) remote.start_psn = qp.remote.start_psn;
    const std::uint32_t mtu = remote.mtu == 0 ? qp.rtr_mtu : std::min(qp.rtr_mtu, remote.mtu);
    if (remote.mpr_dest == 0 || remote.max_wimm_dest == 0 || !is_mtu(mtu))
      return Errc::incompatible;
    teardown_.leave_peer(qp);
    requester_.set_mtu(qp, mtu);
    attach(qp, remote, *peer);
    qp.active = qp.active && (qp.rc || qp.state == QpState::rts);
    if (qp.state != QpState::rts && !qp.rc) return Errc::ok;
    begin_sending(now, qp);
    if (const auto position = unsupported_request(qp)) {
      teardown_.fail(qp, QpErrorCause::unsupported, WcStatus::loc_qp_op_err, position);
      teardown_.fail_overrun_queues();
      return Errc::ok;
    }
    ctx_.ready.update(qp);
    ctx_.rearm(qp, now);
    return Errc::ok;
  });
}

Errc Engine::to_error(Qpn qpn) noexcept {
  return with_qp(qpn, [&](QueuePairState& qp) {
    if (qp.state == QpState::reset) return Errc::invalid_state;
    teardown_.fail(qp, QpErrorCause::requested, WcStatus::wr_flush_err);
    teardown_.fail_overrun_queues();
    return Errc::ok;
  });
}

Errc Engine::fail(Qpn qpn, QpErrorCause cause) noexcept {
  return with_qp(qpn, [&](QueuePairState& qp) {
    if (qp.state == QpState::reset) return Errc::invalid_state;
    teardown_.fail(qp, cause, WcStatus::retry_exc_err, qp.tx.queue.done());
    teardown_.fail_overrun_queues();
    return Errc::ok;
  });
}

void Engine::send_held_ack(Qpn qpn) noexcept {
  if (QueuePairState* qp = ctx_.objects.qp(qpn)) ctx_.queue_held_ack(*qp);
}

void Engine::send_held_acks() noexcept {
  ctx_.objects.for_each_qp([this](QueuePairState& qp) { ctx_.queue_held_ack(qp); });
}

Errc Engine::to_reset(Qpn qpn) noexcept {
  return with_qp(qpn, [&](QueuePairState& qp) {
    teardown_.detach(qp);
    forget_completions(qp);
    qp.rc_state = nullptr;  // with the number that the former peer was told
    qp.state = QpState::reset;
    qp.cause = QpErrorCause::none;
    qp.receiving = true;
    renew(qp);
    return Errc::ok;
  });
}

/// No completion of a queue pair that is as in verbs can be polled any more, and it keeps no slot.
void Engine::forget_completions(QueuePairState& qp) noexcept {
  if (!qp.init.as_verbs) return;
  ctx_.discard_completions(qp.qpn, qp.init.send_cq, qp.init.receive_cq);
  qp.rx.receives.free_slots();
}

Errc Engine::discard_completions(Qpn qpn) noexcept {
  return with_qp(qpn, [this](QueuePairState& qp) {
    if (!qp.init.as_verbs) return Errc::unsupported;
    ctx_.discard_completions(qp.qpn, qp.init.send_cq, qp.init.receive_cq);
    return Errc::ok;
  });
}

Errc Engine::complete_send(Qpn qpn, std::uint64_t wr_id, SendOpcode opcode,
                           WcStatus status) noexcept {
  const auto complete = [&](auto& queue, const auto& init) {
    if (!init.as_verbs) return Errc::unsupported;
    if (queue.full()) return Errc::queue_full;
    Completion c;
    c.wr_id = wr_id;
    c.qpn = qpn;
    c.opcode = detail::completes_as(static_cast<MessageKind>(opcode));
    c.status = status;
    c.made = true;
    queue.make();
    ctx_.complete(init.send_cq, c, true);
    teardown_.fail_overrun_queues();
    return Errc::ok;
  };
  if (QueuePairState* qp = ctx_.objects.qp(qpn)) return complete(qp->tx.queue, qp->init);
  if (DatagramState* qp = ctx_.datagrams.qp(qpn)) return complete(qp->queue, qp->init);
  return Errc::not_found;
}

Errc Engine::set_sharers(Qpn qpn, std::uint64_t sharers) noexcept {
  return with_qp(qpn, [=](QueuePairState& qp) {
    qp.sharers = static_cast<std::uint32_t>(std::min<std::uint64_t>(sharers, UINT32_MAX));
    if (qp.peer != nullptr) qp.peer->congestion.on_hint(sharers);
    return Errc::ok;
  });
}

Errc Engine::set_peer_rights(Qpn qpn, Access rights) noexcept {
  return with_qp(qpn, [=](QueuePairState& qp) {
    qp.peer_rights = rights;
    return Errc::ok;
  });
}

Errc Engine::stop_receiving(Qpn qpn) noexcept {
  return with_qp(qpn, [this](QueuePairState& qp) {
    qp.receiving = false;
    teardown_.discard_receives(qp);
    return Errc::ok;
  });
}

Errc Engine::set_mpr(Qpn qpn, std::uint8_t units) noexcept {
  return with_qp(qpn, [&](QueuePairState& qp) { return Responder::set_mpr(qp, units); });
}

Errc Engine::post_send(Qpn qpn, const SendRequest& request, Time now) noexcept {
  now = ctx_.forward(now);
  return with_qp(qpn, [&](QueuePairState& qp) {
    if (qp.state == QpState::rts) [[likely]]
      return requester_.post(now, qp, request);
    if (qp.state == QpState::err && qp.init.as_verbs) return teardown_.flush_posted(qp, request);
    return Errc::invalid_state;
  });
}

Errc Engine::post_receive(Qpn qpn, const ReceiveRequest& request) noexcept {
  return with_qp(qpn, [&](QueuePairState& qp) {
    const bool flushes = qp.state == QpState::err && qp.init.as_verbs;
    if ((qp.state == QpState::reset || qp.state == QpState::err) && !flushes)
      return Errc::invalid_state;
    if (qp.init.srq) return Errc::unsupported;  // its receives are posted there
    if (flushes) return teardown_.flush_posted(qpn, qp.rx.receives, qp.init.receive_cq, request);
    return ctx_.post_receive(qp.rx.receives, qp.init.pd, request);
  });
}

}  // namespace mrc::inline v0_1::engine
