// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <utility>

#include "mrc/core/containers.hpp"
#include "mrc/core/types.hpp"
#include "mrc/engine/peer.hpp"
#include "mrc/engine/queue_pair.hpp"

namespace mrc::inline v0_1::engine {

/// The last time that nobody drove the engine although it had something to do: its thread was not
/// scheduled. Packets that were sent just before may have left at the end of it, and answers have
/// waited: it counts neither for the age of a packet nor for a timeout. An earlier stall does, so
/// an engine that is always driven late finds losses, too, if later.
struct Stall {
  /// Missing a deadline by more than this is a stall.
  static constexpr Duration kLeast = std::chrono::microseconds(500);

  Time end = Time{Duration::min() / 2};  ///< when the engine was driven again
  Duration length{};                     ///< since it was driven before
};

/// When queue pairs and peers have to act. Each has one timer, set to the earliest of its
/// deadlines:
///
/// * a queue pair: retransmission timeout (mrc-1.0 §2.10), loss review, reliability probe (§5), end
///   of a pause (§2.9). LossRecovery::on_timer() acts on them; and a Transport ACK that has waited
///   long enough: Responder::on_timer();
/// * a peer: EV probes, reverse path probes, port status (§5). EndpointService::on_timer().
///
/// Input: their state. It changes nothing but the timers. One thread.
class Timers {
 public:
  /// `start`: no later than the first `now`.
  explicit Timers(Time start) : wheel_(start) {}

  /// When to call expire(): no later than the earliest timer; kNever if none is set.
  [[nodiscard]] Time next_deadline() const noexcept { return wheel_.next_deadline(); }
  /// Nobody drove the engine from `before` to `now`: a stall if a deadline was missed.
  void note_gap(Time before, Time now) noexcept {
    if (next_deadline() < now - Stall::kLeast) stall_ = {now, now - before};
  }
  /// The last stall.
  [[nodiscard]] const Stall& stall() const noexcept { return stall_; }
  /// Calls fn(EngineTimer&) for each timer that is due.
  template <class F>
  void expire(Time now, F&& fn) noexcept {
    wheel_.expire(now, [&](TimerNode& node) { fn(static_cast<EngineTimer&>(node)); });
  }
  /// Stops a timer; no effect if it is not set.
  void cancel(EngineTimer& timer) noexcept { wheel_.cancel(timer); }

  /// Sets the timer of a queue pair to its earliest deadline, or cancels it if there is none.
  void arm(QueuePairState& qp, Time now) noexcept;
  /// The same for a peer. Peers without queue pairs have no timer.
  void arm(Peer& peer) noexcept;
  /// A data packet was sent to the peer or received from it: no probe waits for its turn any more.
  void note_data(Peer& peer, Time now) noexcept {
    peer.data_at = now;
    release_probe(peer);
  }
  /// A probe need not wait for its turn any more: the peer is not idle.
  void release_probe(Peer& peer) noexcept {
    if (peer.held_probe == kNever) [[likely]]
      return;
    peer.held_probe = kNever;
    arm(peer);
  }

  /// Does the queue pair wait for its peer, so that the retransmission timer runs? Packets or a
  /// Transport ACK are outstanding, or no path is usable. Waiting for the congestion window does
  /// not count: other queue pairs may be using it.
  [[nodiscard]] static bool awaits_peer(const QueuePairState& qp) noexcept;
  /// Is a Transport ACK outstanding, or the response to a READ or an atomic?
  [[nodiscard]] static bool awaits_answer(const QueuePairState& qp) noexcept {
    return qp.waiting() > 0 || (qp.rc && qp.rc_state->reads.count() > 0);
  }
  /// Upper bound of a round trip: base RTT plus target queueing delay, or the measured bound if
  /// that is larger.
  [[nodiscard]] static Duration round_trip(const QueuePairState& qp) noexcept;
  /// Age at which a packet is lost when a probe sent after it has been answered.
  [[nodiscard]] static Duration probed_age(const QueuePairState& qp) noexcept;
  /// Least wait of the retransmission timer ([O-20]).
  [[nodiscard]] static Duration timeout_floor(const QueuePairState& qp) noexcept;
  /// When the retransmission timer expires, if it runs (mrc-1.0 §2.10).
  [[nodiscard]] Time retransmission_deadline(const QueuePairState& qp) const noexcept;
  /// When to send a reliability probe, or to repeat a packet in its place (LossRecovery::ask()): a
  /// usual round trip after the last packet, and another one after the first probe; then the time
  /// doubles. kNever if nothing is outstanding or the number of probes is used up ([O-6]).
  [[nodiscard]] static Time probe_deadline(const QueuePairState& qp) noexcept;

 private:
  TimingWheel wheel_;
  Stall stall_;
};

}  // namespace mrc::inline v0_1::engine
