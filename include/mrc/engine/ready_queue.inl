// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>

#include "mrc/engine/ready_queue.hpp"

namespace mrc::inline v0_1::engine {

void ReadyQueue::update(QueuePairState& qp) noexcept {
  if (!qp.active) return;
  RequesterState& tx = qp.tx;
  if (qp.starved && tx.window.lost() > 0) remove(qp);  // a retransmission has its record already
  if (!qp.ready_hook.is_linked()) {
    bool ready = tx.window.lost() > 0 || tx.repeat_last;
    if (!ready && tx.window.open(tx.range)) {
      ready = tx.next_packet != 0 ||
              (tx.queue.backlog() && qp.may_start(tx.queue.at(tx.queue.sending()))) ||
              (qp.rc && qp.rc_state->responses.backlog());
    }
    if (!ready) return;
    if (tx.window_exempt)
      qp.peer->ready.push_front(qp);
    else
      qp.peer->ready.push_back(qp);
  }
  wake(*qp.peer);
}

void ReadyQueue::wake_all() noexcept {
  starved_ = false;
  objects_.for_each_peer([this](Peer& peer) {
    for (QueuePairState& qp : peer.starved) qp.starved = false;
    peer.ready.splice(peer.ready.end(), peer.starved);
    wake(peer);
  });
}

void ReadyQueue::exempt(QueuePairState& qp) noexcept {
  qp.tx.window_exempt = true;
  if (!qp.ready_hook.is_linked() || qp.starved) return;
  qp.ready_hook.unlink();
  qp.peer->ready.push_front(qp);
}

void ReadyQueue::exempt_waiting(Time now, Peer& peer, Duration timeout) noexcept {
  if (now - std::max(peer.answered, peer.exempted) < timeout) return;
  peer.exempted = now;
  for (auto next = peer.ready.begin(); next != peer.ready.end();) {
    QueuePairState& qp = *next++;
    if (qp.tx.window.empty()) exempt(qp);
  }
  wake(peer);
}

}  // namespace mrc::inline v0_1::engine
