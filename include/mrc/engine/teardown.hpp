// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include "mrc/engine/context.hpp"

namespace mrc::inline v0_1::engine {

/// Ends connections: the transition of a queue pair to ERR, and its removal from everything that it
/// shares with others (mrc-1.0 §2.11).
///
/// Inputs: fail() from requester, responder and loss recovery when a fatal error occurs, and from
/// Engine for the application. Outputs: completions with errors, a qp_error event; the queue pair
/// is out of timers, ready queue and congestion account. Calls no other part.
class Teardown {
 public:
  /// `context` must outlive this object.
  explicit Teardown(Context& context) : ctx_(context) {}

  /// Moves a queue pair to ERR. The send request at `position`, if any, completes with `status`;
  /// all other posted requests are flushed. Does nothing in ERR.
  void fail(QueuePairState& qp, QpErrorCause cause, WcStatus status,
            std::optional<std::uint32_t> position = std::nullopt) noexcept;
  /// Fails the queue pairs of completion queues that were overrun. Called at the end of each input:
  /// an overrun is detected while a queue pair is being modified.
  void fail_overrun_queues() noexcept;
  /// A request for a queue pair in ERR that is as in verbs: flushed. Errc::queue_full,
  /// Errc::too_many_sges.
  Errc flush_posted(QueuePairState& qp, const SendRequest& request) noexcept;
  /// The same for a receive, of whatever queue pair without shared receive queue.
  Errc flush_posted(Qpn qpn, ReceiveQueue& receives, CqId cq,
                    const ReceiveRequest& request) noexcept;
  /// Completes a request that its queue pair was not given: see Engine::complete_send().
  template <class Queue, class Init>
  Errc complete_send(Queue& queue, const Init& init, const Completion& c) noexcept {
    if (!init.as_verbs) return Errc::unsupported;
    if (queue.full()) return Errc::queue_full;
    queue.make();
    ctx_.complete(init.send_cq, c, true);
    fail_overrun_queues();
    return Errc::ok;
  }
  /// Discards posted receives, without completions, and stores that wait for earlier packets.
  void discard_receives(QueuePairState& qp) noexcept;
  /// Disconnects a queue pair and discards everything posted, without completions.
  void detach(QueuePairState& qp) noexcept;
  /// A queue pair that has heard nothing from its peer gets another: ends the connection to the
  /// present one, and keeps what is posted.
  void leave_peer(QueuePairState& qp) noexcept;
  /// The peer of such a queue pair was presumed, and may be another: what is posted waits for
  /// Engine::resolve().
  void doubt_peer(QueuePairState& qp) noexcept;

 private:
  void stop_sending(QueuePairState& qp) noexcept;
  void disconnect(QueuePairState& qp) noexcept;
  void flush(QueuePairState& qp, WcStatus status, std::optional<std::uint32_t> position) noexcept;

  Context& ctx_;
};

}  // namespace mrc::inline v0_1::engine
