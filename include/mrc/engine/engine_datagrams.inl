// SPDX-License-Identifier: Apache-2.0
// Engine: datagram queue pairs, their states and posting.
#pragma once

#include <algorithm>
#include <bit>

#include "mrc/engine/engine.hpp"
#include "mrc/engine/engine_objects.inl"

namespace mrc::inline v0_1::engine {

namespace detail {

[[nodiscard]] inline bool in_range(const DatagramInit& init) noexcept {
  return !out_of_range(init.capacity) && init.mtu >= 256 && init.mtu <= wire::kMaxDatagram &&
         std::has_single_bit(init.mtu);
}

/// Is that a step of a queue pair's life? A step to the present state changes the Q_Key only.
[[nodiscard]] constexpr bool allowed(QpState from, QpState to) noexcept {
  switch (to) {
    case QpState::reset:
      return true;
    case QpState::err:
      return from != QpState::reset;
    case QpState::init:
      return from == QpState::reset || from == QpState::init;
    case QpState::rtr:
      return from == QpState::init || from == QpState::rtr;
    case QpState::rts:
      return from == QpState::rtr || from == QpState::rts;
  }
  return false;
}

}  // namespace detail

Result<Qpn> Engine::create_datagram_qp(const DatagramInit& asked) {
  if (!detail::in_range(asked)) return Errc::invalid_argument;
  DatagramInit init = asked;
  SharedReceiveQueue* srq = init.srq ? ctx_.objects.srq(*init.srq) : nullptr;
  if (init.srq) {
    if (srq == nullptr) return Errc::not_found;
    init.capacity.receive = init.capacity.receive_sges = 0;
  }
  const EngineOptions& o = ctx_.options;
  if (o.holding_planes != 0 && init.capacity.send_sges > o.held_copies)
    return Errc::invalid_argument;  // one packet could not be held
  CompletionRing* send_cq = ctx_.completions.find(init.send_cq);
  CompletionRing* receive_cq = ctx_.completions.find(init.receive_cq);
  if (!ctx_.objects.has_pd(init.pd) || send_cq == nullptr || receive_cq == nullptr)
    return Errc::not_found;
  const Result<Qpn> qpn = ctx_.datagrams.add_qp(init);
  if (!qpn) return qpn;
  if (srq != nullptr) ++srq->users;
  ++send_cq->users;
  ++receive_cq->users;
  if (init.as_verbs) send_cq->keeps = receive_cq->keeps = true;
  return qpn;
}

Errc Engine::destroy_datagram_qp(Qpn qpn) noexcept {
  DatagramState* qp = ctx_.datagrams.qp(qpn);
  if (qp == nullptr) return Errc::not_found;
  teardown_.clear(*qp);
  ctx_.completions.forget(qpn);
  --ctx_.completions.find(qp->init.send_cq)->users;
  --ctx_.completions.find(qp->init.receive_cq)->users;
  if (qp->init.srq) --ctx_.objects.srq(*qp->init.srq)->users;
  ctx_.datagrams.remove_qp(qpn);
  return Errc::ok;
}

Errc Engine::modify_datagram_qp(Qpn qpn, const DatagramChange& change) noexcept {
  DatagramState* qp = ctx_.datagrams.qp(qpn);
  if (qp == nullptr) return Errc::not_found;
  if (!detail::allowed(qp->state, change.state)) return Errc::invalid_state;
  const bool live = change.state != QpState::reset && change.state != QpState::err;
  const bool starts = change.state == QpState::rts && qp->state == QpState::rtr;
  if ((change.q_key && !live) || (change.send_psn && !starts)) return Errc::invalid_argument;
  if (change.state == QpState::err) {
    teardown_.fail(*qp, QpErrorCause::requested);
    teardown_.fail_overrun_queues();
    return Errc::ok;
  }
  if (change.state == QpState::reset) {
    teardown_.clear(*qp);
    qp->cause = QpErrorCause::none;
    qp->q_key = 0;
  }
  if (change.q_key) qp->q_key = *change.q_key;
  if (starts) {
    const Psn first =
        change.send_psn.value_or(Psn{static_cast<std::uint32_t>(ctx_.secrets.next())});
    // `first` is that of the next entry.
    qp->first_psn = first - static_cast<std::int32_t>(qp->queue.posted() & 0xFFFFFF);
  }
  qp->state = change.state;
  return Errc::ok;
}

Result<DestinationId> Engine::add_destination(const DestinationSpec& spec) {
  const auto unknown = [](const path::PathSpec& path) { return path.plane >= kMaxPlanes; };
  if (spec.paths.empty() || std::any_of(spec.paths.begin(), spec.paths.end(), unknown))
    return Errc::invalid_argument;
  return ctx_.datagrams.add_destination(spec);
}

Errc Engine::remove_destination(DestinationId id) noexcept {
  return ctx_.datagrams.remove_destination(id);
}

Errc Engine::post_datagram(Qpn qpn, const DatagramRequest& request, DestinationId to) noexcept {
  DatagramState* qp = ctx_.datagrams.qp(qpn);
  return qp == nullptr ? Errc::not_found : datagrams_.post(*qp, request, to);
}

Errc Engine::post_datagram_receive(Qpn qpn, const ReceiveRequest& request) noexcept {
  DatagramState* qp = ctx_.datagrams.qp(qpn);
  return qp == nullptr ? Errc::not_found : datagrams_.post_receive(*qp, request);
}

const DatagramState* Engine::find_datagram_qp(Qpn qpn) const noexcept {
  return ctx_.datagrams.qp(qpn);
}

/// Memory is deregistered by force: datagram queue pairs whose requests use it fail.
void Engine::withdraw_from_datagrams(std::uint32_t key) noexcept {
  ctx_.datagrams.for_each_qp([&](DatagramState& qp) {
    bool uses = false;
    for (std::uint32_t p = qp.queue.retired(); p != qp.queue.posted(); ++p)
      for (const LocalSge& sge : qp.queue.sges(p).first(qp.queue.at(p).sges))
        uses = uses || sge.lkey == key;
    qp.receives.for_each_sge([&](const ReceiveSge& sge) { uses = uses || sge.lkey == key; });
    if (uses) teardown_.fail(qp, QpErrorCause::memory_withdrawn);
  });
}

}  // namespace mrc::inline v0_1::engine
