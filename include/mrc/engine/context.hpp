// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <boost/intrusive/list.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "mrc/cc/congestion_control.hpp"
#include "mrc/core/containers.hpp"
#include "mrc/core/error.hpp"
#include "mrc/core/random.hpp"
#include "mrc/core/types.hpp"
#include "mrc/engine/engine_stats.hpp"
#include "mrc/engine/memory.hpp"
#include "mrc/engine/options.hpp"
#include "mrc/engine/queue_pair.hpp"
#include "mrc/engine/queues.hpp"
#include "mrc/engine/send_window.hpp"
#include "mrc/engine/service.hpp"
#include "mrc/engine/verbs_types.hpp"
#include "mrc/wire/burst.hpp"
#include "mrc/wire/headers.hpp"
#include "mrc/wire/opcode.hpp"
#include "mrc/wire/transport.hpp"

namespace mrc::inline v0_1::engine {

/// Protection domains, queue pairs and peers by number. It only stores and finds them; Engine
/// checks arguments, and Teardown disconnects a queue pair before it is removed. One thread.
class ObjectTables {
 public:
  /// `secrets`: of the numbers of queue pairs.
  ObjectTables(const EngineOptions& options, SecretRandom& secrets);

  // Those that add something return Errc::no_resources when the table is full.

  Result<PdId> add_pd();
  void remove_pd(PdId pd) noexcept { pds_[static_cast<std::uint32_t>(pd)] = 0; }
  [[nodiscard]] bool has_pd(PdId pd) const noexcept {
    const auto i = static_cast<std::uint32_t>(pd);
    return i < pds_.size() && pds_[i] != 0;
  }

  /// All bits of its number but the slot are random, and its place in the table is reused as late
  /// as possible: late packets of its former owner are dropped.
  Result<Qpn> add_qp(const QpInit& init, SendPool& writes, reliability::PacketPool& records);
  void remove_qp(Qpn qpn) noexcept;

  /// The number of the next queue pair, of whatever kind; take_number() follows once there is one.
  Result<Qpn> next_number();
  void take_number() noexcept { free_qps_.pop_front(); }
  void return_number(Qpn qpn) noexcept { (void)free_qps_.push_back(place_of(qpn)); }
  /// Less than EngineOptions::max_qps for a number that is in use.
  [[nodiscard]] std::uint32_t place_of(Qpn qpn) const noexcept {
    return (value(qpn) & ((1u << index_bits_) - 1)) - kFirstUserQpn;
  }

  /// The queue pair in the place of that number; it may have another number. Null if it is empty.
  [[nodiscard]] QueuePairState* candidate(Qpn qpn) const noexcept {
    const std::uint32_t index = place_of(qpn);
    return index < qps_.size() ? qps_[index].get() : nullptr;
  }
  /// Null when there is no such object, as below.
  [[nodiscard]] QueuePairState* qp(Qpn qpn) const noexcept {
    QueuePairState* qp = candidate(qpn);
    return qp != nullptr && qp->qpn == qpn ? qp : nullptr;
  }
  template <class F>
  void for_each_qp(F&& fn) const {
    for (const auto& qp : qps_)
      if (qp) fn(*qp);
  }
  [[nodiscard]] std::size_t qp_places() const noexcept { return qps_.size(); }
  [[nodiscard]] const QueuePairState* qp_at(std::size_t place) const noexcept {
    return qps_[place].get();
  }
  [[nodiscard]] std::uint32_t qp_count() const noexcept { return qp_count_; }

  Result<SrqId> add_srq(PdId pd, std::uint32_t depth, std::uint32_t sges);
  void remove_srq(SrqId srq) noexcept { srqs_[static_cast<std::uint32_t>(srq)].reset(); }
  [[nodiscard]] SharedReceiveQueue* srq(SrqId id) const noexcept {
    const auto i = static_cast<std::uint32_t>(id);
    return i < srqs_.size() ? srqs_[i].get() : nullptr;
  }
  template <class F>
  void for_each_srq(F&& fn) const {
    for (const auto& srq : srqs_)
      if (srq) fn(*srq);
  }

  /// Takes one number of `random` if there is room.
  Result<PeerId> add_peer(const PeerSpec& spec, Random& random);
  void remove_peer(Peer& peer) noexcept;
  [[nodiscard]] Peer* peer(PeerId id) const noexcept {
    return value(id) < peers_.size() ? peers_[value(id)].get() : nullptr;
  }
  /// Calls fn(Peer&) for each peer with process number `slot` at address `tag` (RxPacket::source).
  template <class F>
  void for_each_peer_at(std::uint64_t tag, std::uint8_t slot, F&& fn) const {
    const auto [first, last] = peers_by_source_.equal_range(tag);
    for (auto it = first; it != last; ++it)
      if (Peer& found = *peer(it->second.id); found.slot == slot) fn(found);
  }
  /// A peer without tags at address `tag`, or null; with process number `slot` if there is one,
  /// since other implementations have none. Of several the newest: the process may be a new one.
  [[nodiscard]] Peer* plain_peer_at(std::uint64_t tag, std::uint8_t slot) noexcept;
  template <class F>
  void for_each_peer(F&& fn) const {
    for (const auto& peer : peers_)
      if (peer) fn(*peer);
  }
  [[nodiscard]] std::uint32_t peer_count() const noexcept { return peer_count_; }

 private:
  template <class F>
  [[nodiscard]] Peer* newest_at(std::uint64_t tag, F&& suits) noexcept;

  const EngineOptions& options_;
  SecretRandom& secrets_;
  const unsigned index_bits_;
  /// By place_of(): low bits of a QPN, less kFirstUserQpn. Those between them and the slot are
  /// random.
  std::vector<std::unique_ptr<QueuePairState>> qps_;
  Ring<std::uint32_t> free_qps_;   // indices, in random order, then the longest unused first
  std::vector<std::uint8_t> pds_;  // 1: in use
  std::vector<std::unique_ptr<SharedReceiveQueue>> srqs_;  // by SrqId
  std::vector<std::unique_ptr<Peer>> peers_;               // by PeerId
  struct Source {
    PeerId id;
    std::uint64_t serial;  ///< later peers have larger ones
  };
  std::unordered_multimap<std::uint64_t, Source> peers_by_source_;  // by source tag
  std::uint64_t next_serial_ = 0;
  std::uint32_t qp_count_ = 0;
  std::uint32_t peer_count_ = 0;
};

/// Brings into the cache what is needed next. With thousands of queue pairs these waits for main
/// memory one by one would take as long as the work (docs/performance_log.md). Changes no state.
class Lookahead {
 public:
  static constexpr std::size_t kBatch = 16;
  /// So many queue pairs stay in the cache by themselves.
  static constexpr std::uint32_t kFew = 32;

  explicit Lookahead(ObjectTables& objects) noexcept : objects_(objects) {}

  [[nodiscard]] bool pays() const noexcept { return objects_.qp_count() > kFew; }

  /// These packets, at most kBatch, will be received: asks for the state of their queue pairs.
  void announce(std::span<const wire::RxPacket> packets) noexcept {
    count_ = 0;
    Qpn last{};
    for (const wire::RxPacket& packet : packets) {
      if (packet.bytes.size() < sizeof(wire::Bth)) continue;
      const auto& bth = wire::view_as<wire::Bth>(packet.bytes);
      if (count_ > 0 && bth.dqp() == last) continue;
      last = bth.dqp();
      const QueuePairState* const qp = objects_.candidate(last);
      if (qp == nullptr) continue;
      const bool data = wire::is_data(bth.opcode());
      data ? qp->prefetch_responder() : qp->prefetch_requester();
      coming_[count_++] = {qp, data};
    }
  }
  /// The packets announced are received now: asks for what an acknowledgement finds through that
  /// state. The second loop reads what the first has asked for.
  void deepen() const noexcept {
    const std::span<const Coming> coming(coming_.data(), count_);
    for (const auto& [qp, data] : coming)
      if (!data) prefetch_index(*qp, qp->tx.window.unacked(), qp->tx.queue.acknowledged());
    for (const auto& [qp, data] : coming)
      if (!data) prefetch_records(*qp, qp->tx.window.unacked(), qp->tx.queue.acknowledged());
  }

  /// The first queue pair that is ready at `peer` is served now, and then those behind it: asks for
  /// each of the next three what the call before has brought within reach.
  void before_service(const Peer& peer) const noexcept {
    auto next = peer.ready.begin();
    const auto end = peer.ready.end();
    if (++next == end) return;
    prefetch_records(*next, next->tx.window.next(), next->tx.queue.sending());
    if (++next == end) return;
    prefetch_index(*next, next->tx.window.next(), next->tx.queue.sending());
    if (++next != end) next->prefetch_requester();
  }

 private:
  struct Coming {
    const QueuePairState* qp;
    bool data;
  };

  static void prefetch_index(const QueuePairState& qp, Psn psn, std::uint32_t request) noexcept {
    qp.tx.window.prefetch_index(psn);
    qp.tx.queue.prefetch_index(request);
  }
  static void prefetch_records(const QueuePairState& qp, Psn psn, std::uint32_t request) noexcept {
    qp.tx.window.prefetch_record(psn);
    qp.tx.queue.prefetch_entry(request);
  }

  ObjectTables& objects_;
  std::array<Coming, kBatch> coming_{};
  std::size_t count_ = 0;
};

/// The queue pairs with packets to send, in service order: peers round robin (`peers` here), and
/// for each peer its queue pairs round robin (Peer::ready).
///
/// A blocked peer (congestion window, no plane) leaves the queue, its queue pairs stay in
/// Peer::ready; wake() puts the peer back. A queue pair that finds the pool of packet records empty
/// goes to Peer::starved until wake_starved().
class ReadyQueue {
 public:
  explicit ReadyQueue(ObjectTables& objects) : objects_(objects) {}

  /// Adds a queue pair if it has a packet that its own windows admit (mrc-1.0 §2.4, §2.8), and
  /// wakes its peer. Harmless in any state.
  void update(QueuePairState& qp) noexcept;
  static void remove(QueuePairState& qp) noexcept {
    qp.ready_hook.unlink();
    qp.starved = false;
  }

  void wake(Peer& peer) noexcept {
    if (!peer.ready.empty() && !peer.hook.is_linked()) peers_.push_back(peer);
  }
  void wake_all() noexcept;
  void wake_starved() noexcept {
    if (starved_) wake_all();
  }
  /// The record pool is empty: the queue pair can't send until records become free.
  void note_starved(QueuePairState& qp) noexcept { starved_ = qp.starved = true; }

  /// Window exemption: lets the queue pair send one packet although congestion window and planes
  /// are full, and serves it before the queue pairs that wait for the window.
  static void exempt(QueuePairState& qp) noexcept;
  /// The same for the peer's waiting queue pairs with nothing in flight, at most once per `timeout`
  /// of silence, when one times out: else they would detect a dead peer one after the other.
  void exempt_waiting(Time now, Peer& peer, Duration timeout) noexcept;

  [[nodiscard]] bool empty() const noexcept { return peers_.empty(); }
  [[nodiscard]] std::size_t size() const noexcept { return peers_.size(); }
  [[nodiscard]] Peer& pop() noexcept {
    Peer& peer = peers_.front();
    peers_.pop_front();
    return peer;
  }
  void push_front(Peer& peer) noexcept { peers_.push_front(peer); }
  void push_back(Peer& peer) noexcept { peers_.push_back(peer); }

 private:
  using PeerList =
      intrusive::list<Peer, intrusive::member_hook<Peer, decltype(Peer::hook), &Peer::hook>,
                      intrusive::constant_time_size<false>>;

  ObjectTables& objects_;
  PeerList peers_;
  bool starved_ = false;  // some Peer::starved may be non-empty; see wake_starved()
};

/// The last time that nobody drove the engine although it had something to do. Packets may have
/// left at the end of it, and answers have waited: it counts neither for the age of a packet nor
/// for a timeout. An earlier stall does, so an engine that is always driven late finds losses, too.
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
///   of a pause (§2.9). Requester::on_timer() acts on them; and a Transport ACK that has waited
///   long enough: Responder::on_timer();
/// * a peer: EV probes, reverse path probes, port status (§5). EndpointService::on_timer().
class Timers {
 public:
  explicit Timers(Time start) : wheel_(start) {}

  [[nodiscard]] Time next_deadline() const noexcept { return wheel_.next_deadline(); }
  /// Nobody drove the engine from `before` to `now`: a stall if a deadline was missed.
  void note_gap(Time before, Time now) noexcept {
    if (next_deadline() < now - Stall::kLeast) stall_ = {now, now - before};
  }
  [[nodiscard]] const Stall& stall() const noexcept { return stall_; }
  template <class F>
  void expire(Time now, F&& fn) noexcept {
    wheel_.expire(now, [&](TimerNode& node) { fn(static_cast<EngineTimer&>(node)); });
  }
  void cancel(EngineTimer& timer) noexcept { wheel_.cancel(timer); }

  void arm(QueuePairState& qp, Time now) noexcept;
  /// Peers without queue pairs have no timer.
  void arm(Peer& peer) noexcept;
  /// A data packet was sent to the peer or received from it: no probe waits for its turn any more.
  void note_data(Peer& peer, Time now) noexcept {
    peer.data_at = now;
    release_probe(peer);
  }
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
  /// When to send a reliability probe, or to repeat a packet in its place (Requester::ask()): a
  /// usual round trip after the last packet, and another one after the first probe; then the time
  /// doubles. kNever if nothing is outstanding or the number of probes is used up ([O-6]).
  [[nodiscard]] static Time probe_deadline(const QueuePairState& qp) noexcept;

 private:
  TimingWheel wheel_;
  Stall stall_;
};

/// What the parts of an engine share. Each member is complete in itself and calls none of the
/// parts, so a part depends on the context and on the few other parts that its constructor names:
///
///     Teardown          Context
///     Requester         Context, Teardown
///     Responder         Context, Teardown
///     EndpointService   Context
///     DataSender        Context
///     ControlSender     Context, Requester, Responder, EndpointService
///     EngineService     Context, Teardown
///     Scheduler         Context, Requester, DataSender, ControlSender
///
/// Engine owns the context and all parts. One thread.
struct Context {
  /// Allocates all tables and pools. Engine checks the ranges of the options.
  explicit Context(const EngineOptions& o) : options(o) {}
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  /// Time is monotonic: a `now` earlier than the latest one is replaced by it. Every input and
  /// application call with a time begins with this.
  [[nodiscard]] Time forward(Time now) noexcept {
    if (now - latest > Stall::kLeast) [[unlikely]]
      timers.note_gap(latest, now);
    return latest = std::max(latest, now);
  }

  /// Planes in which packets can be sent to a peer. If all are narrow, or all are withheld, they
  /// are used: there is nothing to lose.
  [[nodiscard]] PlaneMask usable_planes(const Peer& peer) const noexcept {
    const PlaneMask all = peer.planes & peer.remote_up & local_up;
    const PlaneMask wide = all & ~local_narrow;
    const PlaneMask up = wide != 0 ? wide : all;
    const PlaneMask proved = up & ~peer.trials.withheld();
    return proved != 0 ? proved : up;
  }

  /// Planes for a port status: without usable ones all that are up here, since the peer's ports may
  /// have come back.
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
  void queue_held_ack(QueuePairState& qp) noexcept {
    if (qp.rx.ack_by != kNever) queue_ack(qp, qp.rx.ack_plane, false);
  }

  /// To be called after any change to a queue pair in RTS.
  void rearm(QueuePairState& qp, Time now) noexcept;

  /// Finishes the oldest requests that have their Transport ACK and, if they await one, their
  /// response.
  static void finish(QueuePairState& qp) noexcept;
  /// Removes and completes the oldest requests that are done, up to the first of which a port holds
  /// a copy; responses without completion. In ERR all count as done, and are flushed.
  void retire(QueuePairState& qp) noexcept;
  void release_memory(SendWqe& wqe) noexcept;
  [[nodiscard]] static SendQueue& queue_of(QueuePairState& qp, bool response) noexcept {
    return response ? qp.rc_state->responses : qp.tx.queue;
  }

  /// Posts a receive request to a queue in `pd`. Nothing is posted if it fails.
  Errc post_receive(ReceiveQueue& receives, PdId pd, const ReceiveRequest& request) noexcept;
  void release_receive(ReceiveQueue& receives) noexcept {
    for (const ReceiveSge& sge : receives.sges_at(0))
      if (MemoryEntry* e = memory.find(sge.lkey)) --e->uses;
    receives.pop_front();
  }

  /// Completes a request. False: the completion queue has no room for it. `as_verbs`: of such a
  /// queue pair, whose slot is free now if nobody can poll the completion.
  bool complete(CqId cq, const Completion& c, bool as_verbs) noexcept;
  /// The same for the oldest receive request, which no longer uses its memory.
  bool complete_receive(QueuePairState& qp, const Completion& c) noexcept;
  /// A completion was polled, or never will be: frees the slots that this frees, of a queue pair
  /// that is as in verbs.
  void on_polled(const Completion& c) noexcept;
  /// The same of a queue pair with these queues; `shared`: where its receives come from, if it has
  /// none of its own.
  template <class Sends>
  void free_slot(const Completion& c, Sends& sends, ReceiveQueue& own,
                 const std::optional<SrqId>& shared) noexcept {
    if (!c.is_receive()) return sends.on_polled(c);
    if (!shared) return own.free_slot();
    if (SharedReceiveQueue* srq = objects.srq(*shared)) srq->receives.free_slot();
  }
  /// The completions of a queue pair that is as in verbs vanish, in both of its queues.
  void discard_completions(Qpn qpn, CqId send_cq, CqId receive_cq) noexcept;

  /// Receives were taken from a shared queue, or its limit was set: raises the event.
  void note_taken(SharedReceiveQueue& srq) noexcept;

  /// A port that reads payload later was given a packet of a request.
  void hold_payload(QueuePairState& qp, const SendQueue& queue, std::uint32_t position,
                    wire::TxBurst& burst) noexcept;
  /// The part of it that concerns memory regions. False: the packet has nothing of any.
  [[nodiscard]] bool hold_regions(const CopyTable::Request& request, wire::TxBurst& burst) noexcept;
  /// The reverse, when the port no longer reads the payload. Returns the request's queue pair if
  /// the request still exists and is of a connected one.
  QueuePairState* release_payload(wire::CopyId copy) noexcept;
  /// Not those of ports that read later, while too few further copies can be noted.
  [[nodiscard]] PlaneMask planes_for_payload(std::uint32_t sges) const noexcept {
    return options.holding_planes == 0 || copies.room() >= sges ? ~PlaneMask{0}
                                                                : ~options.holding_planes;
  }

  const EngineOptions options;
  EngineStats stats;
  Random random{options.seed};           ///< of path choice
  SecretRandom secrets{options.secret};  ///< of what nobody may predict
  Timers timers{options.start};
  reliability::PacketPool records{options.max_outstanding};
  SendPool writes;  ///< entries of send queues
  MemoryTable memory{options.max_mrs};
  CopyTable copies{options.held_copies};  ///< payload that ports still read
  DeferredStores deferred{options.deferred_stores};
  ReceivePressure pressure;
  ControlQueue control{options.control_queue};
  Completions completions{options.max_cqs, options.max_qps, options.max_srqs};
  ObjectTables objects{options, secrets};
  ReadyQueue ready{objects};
  Lookahead lookahead{objects};
  cc::HostLink link;  ///< destinations to which packets are in flight
  PartAssembly parts{options.part_places, options.largest_payload};
  PlaneMask local_up = options.planes;     ///< own ports that are up
  PlaneMask local_narrow = 0;              ///< own ports that can't send packets of full size
  std::uint64_t path_events = 0;           ///< that path sets have made and nobody has taken yet
  Time latest = options.start;             ///< see forward()
  std::unique_ptr<EngineService> service;  ///< null: there are no datagrams

  [[nodiscard]] bool service_waits() const noexcept {
    return service != nullptr && service->waiting();
  }
};

/// What keeps a queue pair from making progress, as far as its own side can tell; the most lasting
/// cause first where there are several.
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
  constexpr std::array kNames{"nothing", "peer-device",    "path",
                              "receive", "peer-resources", "answer",
                              "window",  "receive-buffer", "port"};
  return kNames[static_cast<std::size_t>(w)];
}

/// Whether something of the queue pair is unanswered.
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

/// Under the lock of the engine, as the others.
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

/// Ends connections: to ERR, and out of all that queue pairs share (mrc-1.0 §2.11).
class Teardown {
 public:
  explicit Teardown(Context& context) : ctx_(context) {}

  /// Moves a queue pair to ERR. The send request at `position`, if any, completes with `status`;
  /// all other posted requests are flushed. Does nothing in ERR.
  void fail(QueuePairState& qp, QpErrorCause cause, WcStatus status,
            std::optional<std::uint32_t> position = std::nullopt) noexcept;
  /// Called at the end of each input: an overrun is detected while a queue pair is being modified.
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

  Context& ctx_;
};

}  // namespace mrc::inline v0_1::engine
