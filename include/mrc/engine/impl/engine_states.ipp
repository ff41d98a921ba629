// SPDX-License-Identifier: Apache-2.0
// Engine: the states of a queue pair (mrc-1.0 §2.11), and posting, which depends on them.
#pragma once

#include <algorithm>

#include "mrc/core/mtu.hpp"
#include "mrc/engine/engine.hpp"
#include "mrc/engine/impl/requester.ipp"

namespace mrc::inline v0_1::engine {

MRC_SETUP Result<Psn> Engine::start_psn(Qpn qpn) const noexcept {
  const QueuePairState* qp = find_qp(qpn);
  if (qp == nullptr) return Errc::not_found;
  return qp->start_psn;
}

MRC_SETUP Result<std::uint64_t> Engine::tag(Qpn qpn) const noexcept {
  const QueuePairState* qp = find_qp(qpn);
  if (qp == nullptr) return Errc::not_found;
  return qp->tag.bits();
}

/// What the next connection begins with.
MRC_SETUP void Engine::renew(QueuePairState& qp) noexcept {
  qp.start_psn = Psn{static_cast<std::uint32_t>(ctx_.secrets.next())};
  qp.tag = wire::Tag::make(ctx_.secrets.next(), ctx_.options.icrc);
}

MRC_SETUP Errc Engine::to_init(Qpn qpn) noexcept {
  return with_qp(qpn, [](QueuePairState& qp) {
    if (qp.state != QpState::reset) return Errc::invalid_state;
    qp.state = QpState::init;
    return Errc::ok;
  });
}

MRC_SETUP Errc Engine::to_rtr(Qpn qpn, const RemoteQp& remote, const RtrAttributes& own) {
  return with_qp(qpn, [&](QueuePairState& qp) {
    Peer* peer = ctx_.objects.peer(remote.peer);
    if (peer == nullptr) return Errc::not_found;
    if (remote.mpr_dest == 0 || remote.max_wimm_dest == 0) return Errc::incompatible;
    if (const Errc e = enter_rtr(qp, remote, own); e != Errc::ok) return e;
    attach(qp, remote, *peer);
    return Errc::ok;
  });
}

MRC_SETUP Errc Engine::to_rtr_unresolved(Qpn qpn, const RemoteQp& remote,
                                         const RtrAttributes& own) {
  return with_qp(qpn, [&](QueuePairState& qp) { return enter_rtr(qp, remote, own); });
}

MRC_SETUP Errc Engine::enter_rtr(QueuePairState& qp, const RemoteQp& remote,
                                 const RtrAttributes& own) {
  if (qp.state != QpState::init) return Errc::invalid_state;
  const std::uint32_t mtu = remote.mtu == 0 ? qp.attributes.mtu : remote.mtu;
  if (mtu > qp.attributes.mtu || !is_mtu(mtu)) return Errc::incompatible;
  QpAttributes a = qp.attributes;
  a.mpr_dest = own.mpr_dest.value_or(a.mpr_dest);
  a.max_wimm_dest = own.max_wimm_dest.value_or(a.max_wimm_dest);
  a.dynamic_mpr = own.dynamic_mpr.value_or(a.dynamic_mpr);
  if (!detail::in_range(a)) return Errc::invalid_argument;
  qp.rx.resize(a);
  qp.attributes = a;
  qp.remote = remote;
  qp.mtu = qp.rtr_mtu = mtu;
  qp.heard = false;
  qp.state = QpState::rtr;
  return Errc::ok;
}

/// The peer is known, in RTR or RTS.
MRC_SETUP void Engine::attach(QueuePairState& qp, const RemoteQp& remote, Peer& peer) noexcept {
  qp.remote = remote;
  qp.peer = &peer;
  ++peer.queue_pairs;
  qp.remote_tag = wire::Tag(remote.tag);
  qp.expected = qp.remote_tag ? qp.tag : wire::Tag();
  if (qp.remote_tag) peer.tagged.push_back(qp);
  if (qp.sharers != 0) peer.congestion.on_hint(qp.sharers);
  responder_.start(qp);
}

MRC_SETUP Errc Engine::to_rts(Qpn qpn, Time now, const RtsAttributes& own) {
  now = ctx_.forward(now);
  return with_qp(qpn, [&](QueuePairState& qp) {
    if (qp.state != QpState::rtr) return Errc::invalid_state;
    QpAttributes a = qp.attributes;
    a.mpr = own.mpr.value_or(a.mpr);
    a.max_wimm = own.max_wimm.value_or(a.max_wimm);
    a.timeout = own.timeout.value_or(a.timeout);
    a.retry_linear = own.retry_linear.value_or(a.retry_linear);
    a.retry_exponential = own.retry_exponential.value_or(a.retry_exponential);
    if (!detail::in_range(a)) return Errc::invalid_argument;
    qp.tx.window.resize(a.mpr * kMprUnit);
    qp.attributes = a;
    if (own.send_psn) qp.start_psn = *own.send_psn;
    requester_.start(qp);
    qp.state = QpState::rts;
    if (qp.peer == nullptr) return Errc::ok;
    requester_.attach(now, qp);
    endpoint_.on_connected(now, *qp.peer);
    return Errc::ok;
  });
}

MRC_SETUP Errc Engine::resolve(Time now, Qpn qpn, const RemoteQp& known) noexcept {
  now = ctx_.forward(now);
  return with_qp(qpn, [&](QueuePairState& qp) {
    if ((qp.state != QpState::rtr && qp.state != QpState::rts) || qp.heard)
      return Errc::invalid_state;
    Peer* peer = ctx_.objects.peer(known.peer);
    if (peer == nullptr) return Errc::not_found;
    RemoteQp remote = known;
    remote.qpn = qp.remote.qpn;
    remote.start_psn = qp.remote.start_psn;
    const std::uint32_t mtu = remote.mtu == 0 ? qp.rtr_mtu : std::min(qp.rtr_mtu, remote.mtu);
    if (remote.mpr_dest == 0 || remote.max_wimm_dest == 0 || !is_mtu(mtu))
      return Errc::incompatible;
    teardown_.leave_peer(qp);
    attach(qp, remote, *peer);
    requester_.set_mtu(qp, mtu);
    if (qp.state != QpState::rts) return Errc::ok;
    requester_.attach(now, qp);
    endpoint_.on_connected(now, *peer);
    ctx_.ready.update(qp);
    ctx_.rearm(qp, now);
    return Errc::ok;
  });
}

MRC_DECL Errc Engine::to_error(Qpn qpn) noexcept {
  return with_qp(qpn, [&](QueuePairState& qp) {
    if (qp.state == QpState::reset) return Errc::invalid_state;
    teardown_.fail(qp, QpErrorCause::requested, WcStatus::wr_flush_err);
    teardown_.fail_overrun_queues();
    return Errc::ok;
  });
}

MRC_SETUP Errc Engine::fail(Qpn qpn, QpErrorCause cause) noexcept {
  return with_qp(qpn, [&](QueuePairState& qp) {
    if (qp.state == QpState::reset) return Errc::invalid_state;
    teardown_.fail(qp, cause, WcStatus::retry_exc_err, qp.tx.queue.done());
    teardown_.fail_overrun_queues();
    return Errc::ok;
  });
}

MRC_SETUP Errc Engine::to_reset(Qpn qpn) noexcept {
  return with_qp(qpn, [&](QueuePairState& qp) {
    teardown_.detach(qp);
    qp.state = QpState::reset;
    qp.cause = QpErrorCause::none;
    renew(qp);
    return Errc::ok;
  });
}

MRC_SETUP Errc Engine::set_sharers(Qpn qpn, std::uint64_t sharers) noexcept {
  return with_qp(qpn, [=](QueuePairState& qp) {
    qp.sharers = sharers;
    if (qp.peer != nullptr) qp.peer->congestion.on_hint(sharers);
    return Errc::ok;
  });
}

MRC_SETUP Errc Engine::set_mpr(Qpn qpn, std::uint8_t units) noexcept {
  return with_qp(qpn, [&](QueuePairState& qp) { return Responder::set_mpr(qp, units); });
}

MRC_DECL Errc Engine::post_send(Qpn qpn, const SendRequest& request, Time now) noexcept {
  now = ctx_.forward(now);
  return with_qp(qpn, [&](QueuePairState& qp) {
    if (qp.state != QpState::rts) return Errc::invalid_state;
    return requester_.post(now, qp, request);
  });
}

MRC_DECL Errc Engine::post_receive(Qpn qpn, const ReceiveRequest& request) noexcept {
  return with_qp(qpn, [&](QueuePairState& qp) {
    if (qp.state == QpState::reset || qp.state == QpState::err) return Errc::invalid_state;
    return responder_.post_receive(qp, request);
  });
}

}  // namespace mrc::inline v0_1::engine
