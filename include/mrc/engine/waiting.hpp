// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

#include "mrc/core/types.hpp"
#include "mrc/engine/peer.hpp"
#include "mrc/engine/queue_pair.hpp"
#include "mrc/engine/timers.hpp"

/// What keeps a queue pair from making progress, as far as its own side can tell.
namespace mrc::inline v0_1::engine {

/// What a queue pair waits for, the most lasting cause first where there are several.
enum class WaitsFor : std::uint8_t {
  nothing,         ///< no request is unfinished, or it is not in RTS
  peer_device,     ///< the peer's device is being looked for
  path,            ///< no path to the peer can carry data
  receive,         ///< the peer has no receive posted for the next message
  peer_resources,  ///< the peer has said that it has no room (mrc-1.0 §2.9), or refused for now
  answer,  ///< nothing more may be in flight until the peer answers, or it owes an answer for
           ///< longer than the retransmission timeout
  window,  ///< the congestion window, which queue pairs to the same peer share, is full
  receive_buffer,  ///< as much is in flight in each plane as the peer's receive buffer takes
  port,            ///< its turn, or a port with room
};

/// In one word, as mrc_ctl shows it.
[[nodiscard]] constexpr const char* to_string(WaitsFor w) noexcept {
  switch (w) {
    case WaitsFor::nothing:
      return "nothing";
    case WaitsFor::peer_device:
      return "peer-device";
    case WaitsFor::path:
      return "path";
    case WaitsFor::receive:
      return "receive";
    case WaitsFor::peer_resources:
      return "peer-resources";
    case WaitsFor::answer:
      return "answer";
    case WaitsFor::window:
      return "window";
    case WaitsFor::receive_buffer:
      return "receive-buffer";
    case WaitsFor::port:
      return "port";
  }
  return "unknown";
}

/// Whether something of the queue pair is unanswered. Under the lock of the engine, as the others.
[[nodiscard]] inline bool has_in_flight(const QueuePairState& qp) noexcept {
  return !qp.tx.window.empty() || Timers::awaits_answer(qp);
}

/// How long its peer has owed an answer, to this queue pair or to another one: since the first data
/// packet after its newest answer, however often it was sent again; since that answer, if no packet
/// was sent after it and some are unanswered. 0: it owes none.
[[nodiscard]] inline Duration silence(const QueuePairState& qp, Time now) noexcept {
  if (qp.peer == nullptr) return Duration(0);
  const Peer& peer = *qp.peer;
  if (peer.asked > peer.answered) return std::max(Duration(0), now - peer.asked);
  return has_in_flight(qp) ? std::max(Duration(0), now - peer.answered) : Duration(0);
}

/// What keeps it from making progress.
[[nodiscard]] inline WaitsFor waits_for(const QueuePairState& qp, Time now) noexcept {
  const RequesterState& tx = qp.tx;
  const bool in_flight = has_in_flight(qp);
  if (!qp.active || (!in_flight && !qp.backlog())) return WaitsFor::nothing;
  if (qp.peer == nullptr) return WaitsFor::peer_device;
  const Peer& peer = *qp.peer;
  if (peer.paths.active_count() == 0) return WaitsFor::path;
  if (qp.waits_for_receiver()) return WaitsFor::receive;
  if (tx.paused_until > now) return WaitsFor::peer_resources;
  if (tx.window.lost() == 0) {
    const auto begun = static_cast<std::uint32_t>(tx.window.next() - tx.window.unacked());
    const bool may_start = tx.next_packet != 0 || (qp.rc && qp.rc_state->responses.backlog()) ||
                           (tx.queue.backlog() && qp.may_start(tx.queue.at(tx.queue.sending())));
    if (!may_start || begun >= tx.range) return WaitsFor::answer;
  }
  // A window that a silent peer has filled opens when it answers, or when timers expire.
  if (silence(qp, now) > tx.retries.timeout(Timers::timeout_floor(qp))) return WaitsFor::answer;
  if (!tx.window_exempt && !peer.congestion.can_send(qp.mtu)) return WaitsFor::window;
  if ((peer.paths.usable_planes() & ~peer.full) == 0) return WaitsFor::receive_buffer;
  return WaitsFor::port;
}

}  // namespace mrc::inline v0_1::engine
