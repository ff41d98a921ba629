// SPDX-License-Identifier: Apache-2.0
// Engine: the states of a queue pair (mrc-1.0 §2.11), and posting, which depends on them.
#pragma once

#include <bit>

#include "mrc/engine/engine.hpp"
#include "mrc/engine/impl/requester.ipp"

namespace mrc::inline v0_1::engine {

MRC_SETUP Result<Psn> Engine::start_psn(Qpn qpn) const noexcept {
  const QueuePairState* qp = find_qp(qpn);
  if (qp == nullptr) return Errc::not_found;
  return qp->start_psn;
}

MRC_SETUP Errc Engine::to_init(Qpn qpn) noexcept {
  return with_qp(qpn, [](QueuePairState& qp) {
    if (qp.state != QpState::reset) return Errc::invalid_state;
    qp.state = QpState::init;
    return Errc::ok;
  });
}

MRC_SETUP Errc Engine::to_rtr(Qpn qpn, const RemoteQp& remote) noexcept {
  return with_qp(qpn, [&](QueuePairState& qp) {
    if (qp.state != QpState::init) return Errc::invalid_state;
    Peer* peer = ctx_.objects.peer(remote.peer);
    if (peer == nullptr) return Errc::not_found;
    if (remote.mpr_dest == 0 || remote.max_wimm_dest == 0) return Errc::incompatible;
    const std::uint32_t mtu = remote.mtu == 0 ? qp.init.attributes.mtu : remote.mtu;
    if (mtu > qp.init.attributes.mtu || mtu < 256 || !std::has_single_bit(mtu))
      return Errc::incompatible;
    qp.remote = remote;
    qp.mtu = mtu;
    qp.peer = peer;
    ++peer->queue_pairs;
    responder_.start(qp);
    qp.state = QpState::rtr;
    return Errc::ok;
  });
}

MRC_SETUP Errc Engine::to_rts(Qpn qpn, Time now) noexcept {
  now = ctx_.forward(now);
  return with_qp(qpn, [&](QueuePairState& qp) {
    if (qp.state != QpState::rtr) return Errc::invalid_state;
    requester_.start(now, qp);
    qp.state = QpState::rts;
    endpoint_.on_connected(now, *qp.peer);
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

MRC_SETUP Errc Engine::to_reset(Qpn qpn) noexcept {
  return with_qp(qpn, [&](QueuePairState& qp) {
    teardown_.detach(qp);
    qp.state = QpState::reset;
    qp.cause = QpErrorCause::none;
    qp.start_psn = Psn{static_cast<std::uint32_t>(ctx_.random.next())};
    return Errc::ok;
  });
}

MRC_SETUP Errc Engine::set_mpr(Qpn qpn, std::uint8_t units) noexcept {
  return with_qp(qpn, [&](QueuePairState& qp) { return Responder::set_mpr(qp, units); });
}

MRC_DECL Errc Engine::post_write(Qpn qpn, const WriteRequest& request, Time now) noexcept {
  now = ctx_.forward(now);
  return with_qp(qpn, [&](QueuePairState& qp) {
    if (qp.state != QpState::rts) return Errc::invalid_state;
    return requester_.post(now, qp, request);
  });
}

MRC_DECL Errc Engine::post_receive(Qpn qpn, std::uint64_t wr_id) noexcept {
  return with_qp(qpn, [&](QueuePairState& qp) {
    if (qp.state == QpState::reset || qp.state == QpState::err) return Errc::invalid_state;
    return Responder::post_receive(qp, wr_id);
  });
}

}  // namespace mrc::inline v0_1::engine
