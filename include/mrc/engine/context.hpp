// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>

#include "mrc/cc/congestion_control.hpp"
#include "mrc/core/random.hpp"
#include "mrc/core/types.hpp"
#include "mrc/engine/completions.hpp"
#include "mrc/engine/control_queue.hpp"
#include "mrc/engine/copy_table.hpp"
#include "mrc/engine/datagram_tables.hpp"
#include "mrc/engine/deferred_stores.hpp"
#include "mrc/engine/engine_stats.hpp"
#include "mrc/engine/lookahead.hpp"
#include "mrc/engine/memory.hpp"
#include "mrc/engine/object_tables.hpp"
#include "mrc/engine/options.hpp"
#include "mrc/engine/part_assembly.hpp"
#include "mrc/engine/peer.hpp"
#include "mrc/engine/queue_pair.hpp"
#include "mrc/engine/ready_queue.hpp"
#include "mrc/engine/receive_pressure.hpp"
#include "mrc/engine/send_pool.hpp"
#include "mrc/engine/shared_receives.hpp"
#include "mrc/engine/timers.hpp"
#include "mrc/reliability/send_window.hpp"

namespace mrc::inline v0_1::engine {

/// What the parts of an engine share. Each member is complete in itself and calls none of the
/// parts, so a part depends on the context and on the few other parts that its constructor names:
///
///     Teardown          Context
///     LossRecovery      Context, Teardown
///     Requester         Context, LossRecovery, Teardown
///     Responder         Context, Requester, Teardown
///     EndpointService   Context, LossRecovery
///     DataSender        Context
///     ControlSender     Context, LossRecovery, Responder, EndpointService
///     DatagramService   Context, Teardown
///     Scheduler         Context, LossRecovery, DataSender, ControlSender, DatagramService
///
/// Engine owns the context and all parts. One thread.
struct Context {
  /// Allocates all tables and pools. Engine checks the ranges of the options.
  explicit Context(const EngineOptions& o)
      : options(o),
        random(o.seed),
        secrets(o.secret),
        timers(o.start),
        records(o.max_outstanding),
        memory(o.max_mrs),
        copies(o.held_copies),
        deferred(o.deferred_stores),
        control(o.control_queue),
        completions(o.max_cqs, o.max_qps, o.max_srqs),
        objects(options, secrets),
        datagrams(objects),
        ready(objects),
        lookahead(objects),
        parts(o.part_places, o.largest_payload),
        local_up(o.planes),
        latest(o.start) {}
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  /// Time is monotonic: a `now` earlier than the latest one is replaced by it. Every input and
  /// application call with a time begins with this.
  [[nodiscard]] Time forward(Time now) noexcept {
    if (now - latest > Stall::kLeast) [[unlikely]]
      timers.note_gap(latest, now);
    return latest = std::max(latest, now);
  }

  /// Planes in which packets can be sent to a peer: up here, up there, with an address, not too
  /// narrow here, and not withheld until they have proved that they work. If all are narrow, or all
  /// are withheld, they are used: there is nothing to lose.
  [[nodiscard]] PlaneMask usable_planes(const Peer& peer) const noexcept {
    const PlaneMask all = peer.planes & peer.remote_up & local_up;
    const PlaneMask wide = all & ~local_narrow;
    const PlaneMask up = wide != 0 ? wide : all;
    const PlaneMask proved = up & ~peer.trials.withheld();
    return proved != 0 ? proved : up;
  }

  /// Planes in which a peer can be told which ports are up here: usable ones. Without any, all that
  /// are up here: its ports may have come back, and it could not say so.
  [[nodiscard]] PlaneMask planes_to_tell(const Peer& peer) const noexcept {
    const PlaneMask usable = usable_planes(peer);
    return usable != 0 ? usable : peer.planes & local_up;
  }

  /// The own planes that peers are to use.
  [[nodiscard]] PlaneMask offered_planes() const noexcept {
    const PlaneMask wide = local_up & ~local_narrow;
    return wide != 0 ? wide : local_up;
  }
  /// Planes for data: where some carry packets of full size, not those that don't (Peer::narrow).
  [[nodiscard]] static PlaneMask planes_for_data(const Peer& peer) noexcept {
    if (peer.narrow == 0) [[likely]]
      return ~PlaneMask{0};
    const PlaneMask wide = peer.paths.usable_planes() & ~peer.narrow;
    return wide != 0 ? wide : ~PlaneMask{0};
  }

  /// Queues a control packet. If the queue is full the item is dropped and counted, and the result
  /// is false: control packets may be lost, and a timer of either side recovers.
  bool queue_control(const ControlItem& item) noexcept {
    const bool queued = control.push(item);
    if (!queued) ++stats.drops.control_overflow;
    return queued;
  }

  /// Queues a Transport ACK for the newest finished message (mrc-1.0 §2.8, [O-15]).
  void queue_ack(QueuePairState& qp, Plane plane, bool again) noexcept;
  /// Queues the one that waits for a SACK, if there is one.
  void queue_held_ack(QueuePairState& qp) noexcept {
    if (qp.rx.ack_by != kNever) queue_ack(qp, qp.rx.ack_plane, false);
  }

  /// To be called after any change to a queue pair in RTS: sets its timer.
  void rearm(QueuePairState& qp, Time now) noexcept;

  /// Finishes the oldest requests that have their Transport ACK and, if they await one, their
  /// response.
  static void finish(QueuePairState& qp) noexcept;
  /// Removes the oldest requests that are done, up to the first of which a port holds a copy, and
  /// completes them. In ERR all requests count as done: the others are flushed. Likewise responses,
  /// which nobody is told of.
  void retire(QueuePairState& qp) noexcept;
  /// The part of retire() for responses.
  void retire_responses(QueuePairState& qp) noexcept;
  /// The same for datagrams.
  void retire(DatagramState& qp) noexcept;
  /// A posted request no longer uses its local memory.
  void release_memory(SendWqe& wqe) noexcept;
  /// A posted datagram no longer uses its local memory, nor its destination.
  void release_memory(DatagramState& qp, std::uint32_t position) noexcept;
  /// The queue that a copy's request is in.
  [[nodiscard]] static SendQueue& queue_of(QueuePairState& qp, bool response) noexcept {
    return response ? qp.rc_state->responses : qp.tx.queue;
  }

  /// Posts a receive request to a queue in `pd`. Nothing is posted if it fails.
  Errc post_receive(ReceiveQueue& receives, PdId pd, const ReceiveRequest& request) noexcept;
  /// Removes the oldest receive request, which no longer uses its memory.
  void release_receive(ReceiveQueue& receives) noexcept {
    for (const ReceiveSge& sge : receives.front_sges())
      if (MemoryEntry* e = memory.find(sge.lkey)) --e->uses;
    receives.pop_front();
  }

  /// Completes a request. False: the completion queue has no room for it. `as_verbs`: of such a
  /// queue pair, whose slot is free now if nobody can poll the completion.
  bool complete(CqId cq, const Completion& c, bool as_verbs) noexcept;
  /// Completes the oldest receive request of a queue pair, which no longer uses its memory. False:
  /// as complete().
  bool complete_receive(QueuePairState& qp, const Completion& c) noexcept;
  /// The same for datagrams; `receives`: the queue pair's own queue, or the shared one.
  bool complete_receive(DatagramState& qp, ReceiveQueue& receives, const Completion& c) noexcept;
  /// A completion was polled, or never will be: frees the slots that this frees, of a queue pair
  /// that is as in verbs.
  void on_polled(const Completion& c) noexcept;
  /// The completions of a queue pair that is as in verbs vanish, in both of its queues.
  void discard_completions(Qpn qpn, CqId send_cq, CqId receive_cq) noexcept;

  /// Receives were taken from a shared queue, or its limit was set: raises the event.
  void note_taken(SharedReceiveQueue& srq) noexcept;

  /// A port that reads payload later was given a packet of a request: what waits for it is noted.
  void hold_payload(QueuePairState& qp, const SendQueue& queue, std::uint32_t position,
                    wire::TxBurst& burst) noexcept;
  /// The part of it that concerns memory regions. False: the packet has nothing of any.
  [[nodiscard]] bool hold_regions(const CopyTable::Request& request, wire::TxBurst& burst) noexcept;
  /// The reverse, when the port no longer reads the payload. Returns the request's queue pair if
  /// the request still exists. Datagrams that waited for it are complete then.
  QueuePairState* release_payload(wire::CopyId copy) noexcept;
  /// Planes in which a packet with payload of `sges` SGEs may be sent: not those of ports that read
  /// later, while too few further copies can be noted.
  [[nodiscard]] PlaneMask planes_for_payload(std::uint32_t sges) const noexcept {
    return options.holding_planes == 0 || copies.room() >= sges ? ~PlaneMask{0}
                                                                : ~options.holding_planes;
  }

  const EngineOptions options;      ///< fixed at creation
  EngineStats stats;                ///< counters of the whole engine
  Random random;                    ///< of path choice; seeded with EngineOptions::seed
  SecretRandom secrets;             ///< of what nobody may predict; EngineOptions::secret
  Timers timers;                    ///< of queue pairs and peers
  reliability::PacketPool records;  ///< of packets in flight
  SendPool writes;                  ///< entries of send queues
  MemoryTable memory;               ///< registered memory regions
  CopyTable copies;                 ///< payload that ports still read
  DeferredStores deferred;          ///< ends of messages that arrived out of order
  ReceivePressure pressure;         ///< what senders are asked for while resources run short
  ControlQueue control;             ///< control packets waiting to be sent
  Completions completions;          ///< completion queues and events
  ObjectTables objects;             ///< protection domains, queue pairs, peers
  DatagramTables datagrams;         ///< datagram queue pairs and where they send to
  ReadyQueue ready;                 ///< queue pairs with packets to send
  Lookahead lookahead;              ///< fetches the state of queue pairs before it is needed
  cc::HostLink link;                ///< destinations to which packets are in flight
  PartAssembly parts;               ///< data packets that arrive in parts
  PlaneMask local_up;               ///< own ports that are up
  PlaneMask local_narrow = 0;       ///< own ports that can't send packets of full size
  std::uint64_t path_events = 0;    ///< that path sets have made and nobody has taken yet
  Time latest;                      ///< see forward()
};

}  // namespace mrc::inline v0_1::engine
