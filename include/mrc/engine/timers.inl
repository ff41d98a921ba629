// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>

#include "mrc/engine/timers.hpp"

namespace mrc::inline v0_1::engine {

namespace detail {

/// Most reliability probes without progress; after them only the retransmission timer is left
/// (mrc-1.0 §5, [O-6]).
inline constexpr std::uint8_t kMaxProbes = 5;

}  // namespace detail

Duration Timers::round_trip(const QueuePairState& qp) noexcept {
  const cc::Controller& c = qp.peer->congestion;
  return std::max(c.base_rtt() + c.target_qdelay(), qp.tx.rtt.bound());
}

/// The probe was sent a usual round trip after the packet, and has arrived: a packet that is only
/// late would be on a path that takes so much longer. If the answer has taken longer than usual,
/// that of the packet may.
Duration Timers::probed_age(const QueuePairState& qp) noexcept {
  const cc::Controller& c = qp.peer->congestion;
  const reliability::RttEstimator& rtt = qp.tx.rtt;
  return std::max({c.base_rtt() + c.target_qdelay(), rtt.usual(), rtt.recent()});
}

bool Timers::awaits_peer(const QueuePairState& qp) noexcept {
  const RequesterState& tx = qp.tx;
  if (qp.peer == nullptr) return false;  // it is not known yet
  return !tx.window.empty() || awaits_answer(qp) ||
         (qp.backlog() && qp.peer->paths.usable_planes() == 0);
}

Duration Timers::timeout_floor(const QueuePairState& qp) noexcept {
  return std::max(2 * qp.peer->congestion.base_rtt(), qp.tx.rtt.bound());
}

Time Timers::retransmission_deadline(const QueuePairState& qp) const noexcept {
  // Who waits for a receive at the peer does not wait for the peer.
  const bool waits = qp.rc && qp.rc_state->receiver.waiting && qp.rc_state->receiver.oldest;
  const Time start =
      waits ? std::max(qp.tx.timer_start, qp.rc_state->receiver.until) : qp.tx.timer_start;
  const Duration stalled = start < stall_.end ? stall_.length : Duration::zero();
  return start + qp.tx.retries.timeout(timeout_floor(qp)) + qp.tx.patience + stalled;
}

Time Timers::probe_deadline(const QueuePairState& qp) noexcept {
  const RequesterState& tx = qp.tx;
  const bool silent = tx.window.outstanding() > 0 || awaits_answer(qp);
  if (tx.probes >= detail::kMaxProbes || !silent) return kNever;
  const cc::Controller& c = qp.peer->congestion;
  const Duration usual = tx.rtt.usual();
  Duration wait = usual == Duration{} ? c.base_rtt() + c.target_qdelay()
                                      : std::max(usual, c.base_rtt() + c.base_rtt() / 4);
  if (qp.backlog()) wait = std::max(wait, 3 * c.base_rtt());
  if (tx.probes > 1) wait *= 1 << (tx.probes - 1);
  return std::max(tx.last_sent + tx.patience, tx.probe_sent) + wait;
}

void Timers::arm(QueuePairState& qp, Time now) noexcept {
  const RequesterState& tx = qp.tx;
  Time due = qp.rx.ack_by;
  if (!awaits_peer(qp)) {
    // A pause, or the wait for a receive at the peer, with data queued still has to end, even if
    // nothing is outstanding.
    const bool waits = qp.rc && qp.rc_state->receiver.waiting;
    const Time end =
        waits ? std::max(tx.paused_until, qp.rc_state->receiver.until) : tx.paused_until;
    if ((end > now || waits) && qp.backlog()) due = std::min(due, end);
    return due == kNever ? wheel_.cancel(qp) : wheel_.schedule(qp, due);
  }
  due = std::min({due, retransmission_deadline(qp), probe_deadline(qp), tx.loss_check});
  if (tx.paused_until > now) due = std::min(due, tx.paused_until);
  if (qp.rc && qp.rc_state->receiver.waiting) due = std::min(due, qp.rc_state->receiver.until);
  wheel_.schedule(qp, due);
}

void Timers::arm(Peer& peer) noexcept {
  Time due = std::min({peer.paths.next_probe(), peer.reverse.next_probe(), peer.trials.next_probe(),
                       peer.sizes.next_probe()});
  if (peer.held_probe != kNever && peer.ready.empty()) due = std::max(due, peer.held_probe);
  due = std::min({due, peer.pieces.next_probe(), peer.status_due, peer.next_rtt_probe});
  if (due == kNever || peer.queue_pairs == 0)
    wheel_.cancel(peer);
  else
    wheel_.schedule(peer, due);
}

}  // namespace mrc::inline v0_1::engine
