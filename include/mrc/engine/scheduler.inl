// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>

#include "mrc/engine/data_sender.inl"
#include "mrc/engine/scheduler.hpp"

namespace mrc::inline v0_1::engine {

void Scheduler::poll_transmit(Time now, PlaneMask free_planes, wire::TxBurst& burst) noexcept {
  datagrams_.settle();
  if ((free_planes & ~last_free_) != 0) {  // a port has room again
    ctx_.ready.wake_all();
    datagrams_.wake();
  }
  last_free_ = free_planes;
  loss_.review(now);
  control_.send(now, free_planes, burst);
  burst.end_control();
  while (burst.room() > 0) {
    if (datagrams_.waiting() && (turns_of_peers_ == 0 || ctx_.ready.empty())) {
      if (datagrams_.serve(free_planes, burst) == DatagramService::Turn::burst_full) return;
      turns_of_peers_ = ctx_.ready.size();
      continue;
    }
    if (ctx_.ready.empty()) return;
    if (turns_of_peers_ > 0) --turns_of_peers_;
    Peer& peer = ctx_.ready.pop();
    if (peer.ready.empty()) continue;
    QueuePairState& qp = peer.ready.front();
    if (qp.tx.quantum_used == 0 && ctx_.lookahead.pays()) ctx_.lookahead.before_service(peer);
    const SendStatus status = serve(now, peer, qp, free_planes, burst);
    ctx_.rearm(qp, now);
    const bool leaves = status == SendStatus::idle || status == SendStatus::starved;
    if (leaves || qp.tx.quantum_used >= ctx_.options.quantum) {
      qp.tx.quantum_used = 0;
      peer.ready.pop_front();
      if (!leaves) peer.ready.push_back(qp);
      // Others may have retransmissions, which need no new record.
      if (status == SendStatus::starved) peer.starved.push_back(qp);
    }
    if (status == SendStatus::blocked || peer.ready.empty()) continue;  // until wake()
    if (status == SendStatus::burst_full) {
      ctx_.ready.push_front(peer);
      return;
    }
    ctx_.ready.push_back(peer);
  }
}

/// Sends a burst, and further ones while nothing else is ready: up to the quantum, or without that
/// limit if the queue pair is the only one of its peer. Sets the timer once for all of them.
[[gnu::always_inline]] inline SendStatus Scheduler::serve(Time now, Peer& peer, QueuePairState& qp,
                                                          PlaneMask free_planes,
                                                          wire::TxBurst& burst) noexcept {
  const bool only = &qp == &peer.ready.back();
  SendStatus status;
  do {
    status = serve_burst(now, peer, qp, free_planes, burst);
  } while (status == SendStatus::sent && ctx_.ready.empty() && !datagrams_.waiting() &&
           burst.room() > 0 && (only || qp.tx.quantum_used < ctx_.options.quantum));
  if (peer.asked <= peer.answered && qp.tx.last_sent == now) peer.asked = now;
  return status;
}

/// Packets of a burst that has begun and may have `most`, at least one. If nothing follows a
/// message, what is left of it goes in bursts of one size, each on a path of its own: those that
/// would be left over cost as much as a full burst, and two paths in turns would carry very
/// different loads.
[[nodiscard]] inline std::uint32_t even_share(QueuePairState& qp, std::uint32_t most) noexcept {
  const SendQueue& queue = qp.current();
  if (queue.posted() - queue.sending() != 1) return most;
  const std::uint32_t left = queue.at(queue.sending()).packets - qp.tx.next_packet + 1;
  if (left <= most) return most;
  const std::uint32_t bursts = (left + most - 1) / most;
  return (left + bursts - 1) / bursts;
}

/// Up to EngineOptions::burst packets of one queue pair, but no more bytes than burst_bytes: lost
/// ones first, new ones then on one path. `sent`: it has more to send.
SendStatus Scheduler::serve_burst(Time now, Peer& peer, QueuePairState& qp, PlaneMask free_planes,
                                  wire::TxBurst& burst) noexcept {
  RequesterState& tx = qp.tx;
  if (now < tx.paused_until) return SendStatus::idle;  // its timer ends the pause
  if (tx.window_exempt && tx.window.empty() && peer.answered > peer.exempted)
    tx.window_exempt = false;  // the peer has answered since
  const bool exempt = tx.window_exempt;
  path::PathIndex path = path::kNoPath;
  const std::uint32_t begin = tx.quantum_used;
  std::uint32_t most = ctx_.options.burst;
  for (std::uint32_t n = 0; n < most; ++n) {
    const std::uint32_t before = tx.quantum_used;
    if (!DataSender::has_room(peer, qp, burst)) return SendStatus::burst_full;
    const PlaneMask full = tx.window_exempt ? 0 : peer.full;
    const PlaneMask planes = free_planes & ctx_.usable_planes(peer) & ~full &
                             ctx_.planes_for_data(peer) & ctx_.planes_for_payload(qp.tx.most_sges);
    const SendStatus status = data_.send(now, peer, qp, planes, path, burst);
    if (status != SendStatus::sent) return status;
    if (exempt && !tx.window_exempt) {  // exemption used: other queue pairs may have one too
      tx.quantum_used = ctx_.options.quantum;
      break;
    }
    const std::uint32_t bytes = ctx_.options.burst_bytes;
    const std::uint32_t size = tx.quantum_used - before;
    if (bytes != 0 && tx.quantum_used - begin + size > bytes) break;  // one more is too many
    if (n == 0 && most > 1) {
      const std::uint32_t fit = bytes == 0 ? most : std::min(most, bytes / size);
      if (const std::uint32_t share = even_share(qp, fit); share < fit) most = share;
    }
  }
  const bool more = tx.window.lost() > 0 || qp.backlog();
  return more ? SendStatus::sent : SendStatus::idle;
}

}  // namespace mrc::inline v0_1::engine
