// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>

#include "mrc/core/linkage.hpp"
#include "mrc/core/random.hpp"
#include "mrc/core/secret_random.hpp"
#include "mrc/core/types.hpp"
#include "mrc/engine/completions.hpp"
#include "mrc/engine/control_queue.hpp"
#include "mrc/engine/copy_table.hpp"
#include "mrc/engine/deferred_stores.hpp"
#include "mrc/engine/memory.hpp"
#include "mrc/engine/object_tables.hpp"
#include "mrc/engine/options.hpp"
#include "mrc/engine/peer.hpp"
#include "mrc/engine/queue_pair.hpp"
#include "mrc/engine/ready_queue.hpp"
#include "mrc/engine/receive_pressure.hpp"
#include "mrc/engine/send_pool.hpp"
#include "mrc/engine/stats.hpp"
#include "mrc/engine/timers.hpp"
#include "mrc/reliability/packet_pool.hpp"

namespace mrc::inline v0_1::engine {

/// What the parts of an engine share. Each member is complete in itself and calls none of the
/// parts, so a part depends on the context and on the few other parts that its constructor names:
///
///     Teardown          Context
///     LossRecovery      Context, Teardown
///     Requester         Context, LossRecovery, Teardown
///     Responder         Context, Teardown
///     EndpointService   Context, LossRecovery
///     DataSender        Context
///     ControlSender     Context, LossRecovery, Responder, EndpointService
///     Scheduler         Context, LossRecovery, DataSender, ControlSender
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
        completions(o.max_cqs, o.max_qps),
        objects(options, secrets),
        ready(objects),
        local_up(o.planes),
        latest(o.start) {}
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  /// Time is monotonic: a `now` earlier than the latest one is replaced by it. Every input and
  /// application call with a time begins with this.
  [[nodiscard]] Time forward(Time now) noexcept { return latest = std::max(latest, now); }

  /// Planes in which packets can be sent to a peer: up here, up there, with an address, and not
  /// withheld until they have proved that they work. If all are withheld they are used: there is
  /// nothing to lose.
  [[nodiscard]] PlaneMask usable_planes(const Peer& peer) const noexcept {
    const PlaneMask up = peer.planes & peer.remote_up & local_up;
    const PlaneMask proved = up & ~peer.trials.withheld();
    return proved != 0 ? proved : up;
  }

  /// Queues a control packet. If the queue is full the item is dropped and counted: control packets
  /// may be lost, and a timer of either side recovers.
  void queue_control(const ControlItem& item) noexcept {
    if (!control.push(item)) ++stats.drops.control_overflow;
  }

  /// To be called after any change to a queue pair in RTS: sets its timer.
  void rearm(QueuePairState& qp, Time now) noexcept;

  /// Removes the oldest requests that are done, up to the first of which a port holds a copy, and
  /// completes them. In ERR all requests count as done: the others are flushed.
  void retire(QueuePairState& qp) noexcept;
  /// A posted request no longer uses its local memory.
  void release_memory(SendWqe& wqe) noexcept;

  /// Removes the oldest receive request, which no longer uses its memory.
  void release_receive(ReceiveQueue& receives) noexcept {
    for (const ReceiveSge& sge : receives.front_sges())
      if (MemoryEntry* e = memory.find(sge.lkey)) --e->uses;
    receives.pop_front();
  }

  /// A port that reads payload later was given a packet of a request: what waits for it is noted.
  void hold_payload(QueuePairState& qp, std::uint32_t position, wire::TxBurst& burst) noexcept;
  /// The reverse, when the port no longer reads the payload. Returns the request's queue pair if
  /// the request still exists.
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
  ReadyQueue ready;                 ///< queue pairs with packets to send
  PlaneMask local_up;               ///< own ports that are up
  std::uint64_t path_events = 0;    ///< that path sets have made and nobody has taken yet
  Time latest;                      ///< see forward()
};

}  // namespace mrc::inline v0_1::engine

#ifndef MRC_SEPARATE_COMPILATION
#include "mrc/engine/impl/context.ipp"
#endif
