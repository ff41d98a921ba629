// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <boost/intrusive/list.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <vector>

#include "mrc/cc/controller.hpp"
#include "mrc/core/containers.hpp"
#include "mrc/core/types.hpp"
#include "mrc/engine/engine_stats.hpp"
#include "mrc/engine/memory.hpp"
#include "mrc/engine/options.hpp"
#include "mrc/engine/queues.hpp"
#include "mrc/engine/receive_window.hpp"
#include "mrc/engine/send_window.hpp"
#include "mrc/engine/verbs_types.hpp"
#include "mrc/path/path_set.hpp"
#include "mrc/path/reverse_paths.hpp"
#include "mrc/path/trials.hpp"
#include "mrc/wire/headers.hpp"
#include "mrc/wire/opcode.hpp"
#include "mrc/wire/transport.hpp"

namespace mrc::inline v0_1::engine {

// What a queue pair has beside MRC's state for SEND, READ and atomics (docs/extensions.md).

using reliability::RequestNumber;

/// A READ or an atomic of the peer that has arrived and is not executed yet.
struct PeerRequest {
  wire::Opcode opcode{};          ///< read_request, compare_swap or fetch_add
  std::uint16_t msn = 0;          ///< its number among all messages, as the peer counts
  std::uint32_t rkey = 0;         ///< of the region that it is about
  std::uint32_t length = 0;       ///< bytes of the response
  std::uint64_t address = 0;      ///< in that region
  std::uint64_t swap_or_add = 0;  ///< operands of an atomic
  std::uint64_t compare = 0;      ///< likewise
};

/// Own READs and atomics that wait for their response, by number. A response is whole when all of
/// its packets have arrived, whatever else of the peer's is missing: messages before it may wait
/// for a receive that this side posts only after its READ. The table also keeps the ends of
/// responses that must not be visible before the responses in front of them.
class ReadTable {
 public:
  /// `limit`: most of them, 0 .. 128.
  explicit ReadTable(std::uint32_t limit)
      : entries_(limit == 0 ? 1 : std::bit_ceil(limit)), limit_(limit) {}

  void start(std::uint32_t limit) noexcept {
    begin_ = next_ = {};
    set_limit(limit);
  }
  /// At most so many wait from now on, if there is room for them.
  void set_limit(std::uint32_t limit) noexcept {
    limit_ = std::min(limit, static_cast<std::uint32_t>(entries_.size()));
  }
  /// Makes room for up to `limit`, while none waits. Throws std::bad_alloc.
  void reserve(std::uint32_t limit) {
    if (limit > entries_.size() && count() == 0) entries_.resize(std::bit_ceil(limit));
  }
  [[nodiscard]] std::uint32_t count() const noexcept {
    return static_cast<std::uint32_t>(next_ - begin_);
  }
  [[nodiscard]] bool full() const noexcept { return count() >= limit_; }  ///< no further one
  /// A request is sent for the first time: its number. `packets`: of its response.
  [[nodiscard]] RequestNumber add(std::uint32_t position, std::uint32_t packets) noexcept {
    entries_[slot(next_)] = {position, packets, 0, {}};
    const RequestNumber number = next_;
    ++next_;
    return number;
  }
  /// The oldest request that waits; the next one to be sent if none does.
  [[nodiscard]] RequestNumber oldest() const noexcept { return begin_; }
  [[nodiscard]] bool waits(RequestNumber number) const noexcept {
    const std::int32_t ahead = number - begin_;
    return ahead >= 0 && static_cast<std::uint32_t>(ahead) < count();
  }
  [[nodiscard]] std::uint32_t position(RequestNumber number) const noexcept {
    return entries_[slot(number)].position;
  }
  [[nodiscard]] std::uint32_t& missing(RequestNumber number) noexcept {
    return entries_[slot(number)].missing;
  }
  /// Keeps the last bytes of a response that is not empty; returns how many.
  std::uint32_t hold(RequestNumber number, Bytes response) noexcept {
    Entry& e = entries_[slot(number)];
    e.held =
        static_cast<std::uint32_t>(std::min<std::size_t>(response.size(), DeferredStores::kBytes));
    std::memcpy(e.end, response.last(e.held).data(), e.held);
    return e.held;
  }
  [[nodiscard]] Bytes held() const noexcept {
    const Entry& e = entries_[slot(begin_)];
    return {e.end, e.held};
  }
  [[nodiscard]] bool answered() const noexcept {
    return count() > 0 && entries_[slot(begin_)].missing == 0;
  }
  void pop() noexcept { ++begin_; }  ///< removes it
  [[nodiscard]] std::size_t memory() const noexcept { return entries_.capacity() * sizeof(Entry); }

 private:
  struct Entry {
    std::uint32_t position = 0, missing = 0;
    std::uint32_t held = 0;                         ///< bytes in `end`
    std::uint8_t end[DeferredStores::kBytes] = {};  ///< of the response
  };

  [[nodiscard]] std::size_t slot(RequestNumber number) const noexcept {
    return number.value() & (entries_.size() - 1);
  }

  std::vector<Entry> entries_;
  std::uint32_t limit_;
  RequestNumber begin_, next_;
};

/// Where a requester stands that waits because the peer has no receive posted (RNR). Messages that
/// need none go on.
struct ReceiverWait {
  bool waiting = false;    ///< no message from `from` on is sent before `until`
  bool oldest = false;     ///< it is the oldest packet that was refused in this wait
  std::uint8_t tries = 0;  ///< waits since a message was delivered, at most 8
  Rqmsn from;              ///< the oldest message that was refused
  Time until{};            ///< end of the wait
  Time counted{};          ///< end of the newest wait in `tries`

  [[nodiscard]] bool holds(const SendWqe& w) const noexcept {
    return waiting && w.numbered() && !Rqmsn{w.rqmsn}.before(from);
  }
};

/// The state of both halves, of queue pairs that offer the operations.
struct RcState {
  RcState(const QpAttributes& attributes, SendPool& pool)
      : responses(pool, std::max<std::uint32_t>(1, attributes.max_rd_atomic_dest), 1, 16),
        reads(attributes.max_rd_atomic),
        requests(attributes.max_rd_atomic_dest) {}

  /// The first PSN to send where the peer offers RC: it may be told, and used, before RTS.
  Psn drawn_psn;
  std::optional<Psn> own_psn;  ///< the one that it wants: counts with other peers

  // Requester half.
  SendQueue responses;         ///< to the peer's READs and atomics, sent beside the send queue
  ReadTable reads;             ///< own READs and atomics without their response
  ReceiverWait receiver;       ///< RNR
  bool answering = false;      ///< the message that is being sent, or was sent last, is a response
  std::uint32_t reported = 0;  ///< packets of the oldest response that the peer has, in a row

  // Responder half.
  reliability::InOrderTable<PeerRequest> requests;  ///< of the peer, not executed yet

  /// All READs and atomics of the peer up to this PSN are executed, and it has the responses.
  [[nodiscard]] bool all_answered(Psn cack) noexcept {
    return requests.ready(cack) == nullptr && responses.empty();
  }
  [[nodiscard]] std::size_t memory() const noexcept {
    return sizeof(*this) + responses.memory() + reads.memory() + requests.memory();
  }
};

struct Peer;

namespace intrusive = boost::intrusive;

/// What a queue pair is created with.
struct QpInit {
  PdId pd{};                  ///< protection domain of all memory it uses
  CqId send_cq{};             ///< for completions of writes
  CqId receive_cq{};          ///< for completions of receives
  QpCapacity capacity{};      ///< sizes of its queues
  QpAttributes attributes{};  ///< this side's attributes, unless changed later
  bool signal_all = false;    ///< every request is signaled, whatever its flags
  /// Where its receives come from; default: a receive queue of its own, of capacity.receive.
  std::optional<SrqId> srq{};
  /// Its queues are as in verbs (QpOptions::as_verbs).
  bool as_verbs = false;
};

/// What tells the order in which a responder made its SACKs: the cumulative PSN, and, while that
/// stands still, the count of received bytes, which never goes back, whatever a peer counts there.
struct SackOrder {
  Psn cack;                      ///< cumulative PSN
  std::uint32_t rcvd_bytes = 0;  ///< CC_STATE.rcvd_bytes, modulo 2^24

  [[nodiscard]] bool after(const SackOrder& other) const noexcept {
    if (cack != other.cack) return cack.after(other.cack);
    const std::uint32_t ahead = (rcvd_bytes - other.rcvd_bytes) & 0xFFFFFF;
    return ahead != 0 && ahead < 1u << 23;
  }
};

/// Requester state of a queue pair (mrc-1.0 §2.5, Table 7-4). Written by Requester and DataSender.
struct RequesterState {
  RequesterState(const QpInit& init, SendPool& writes, reliability::PacketPool& packets)
      : queue(writes, init.capacity.send,
              std::max(init.capacity.send_sges, init.capacity.atomics ? 2u : 0u),
              init.capacity.inline_bytes, init.as_verbs),
        window(packets, init.attributes.mpr * kMprUnit),
        most_sges(static_cast<std::uint8_t>(std::max(init.capacity.send_sges, 1u))) {}

  SendQueue queue;                    ///< posted requests
  reliability::SendWindow window;     ///< sent packets above the cumulative PSN
  reliability::RetryCounter retries;  ///< retry counters (mrc-1.0 §2.10)
  reliability::RttEstimator rtt;      ///< RTT estimate and upper bound
  std::uint32_t next_packet = 0;  ///< index in the message at queue.sending() of what is sent next
  std::uint32_t range = 0;        ///< min(own, peer's, dynamic) MPR, packets
  std::uint32_t fixed_range = 0;  ///< min(own, peer's) MPR, packets
  Msn next_msn;                   ///< of the next message to be sent
  Rqmsn next_rqmsn;               ///< of the next posted WriteImm or SEND
  std::uint16_t wimm_limit = 0;   ///< most WriteImm and SENDs in flight
  std::uint16_t wimm_in_flight = 0;  ///< of these partly or wholly sent, not completed
  SackOrder newest_sack;             ///< of the newest SACK
  std::uint32_t quantum_used = 0;    ///< bytes sent in the present service
  /// Nominal bytes of its outstanding packets: its part of the congestion context's inflight.
  std::uint32_t inflight = 0;
  /// Bytes that left inflight as reported; the context is not told yet.
  std::uint32_t reported = 0;
  /// Bytes that left inflight, the context's too, with a Transport ACK: no SACK has told of them.
  std::uint32_t reported_early = 0;
  /// How long the peer may take to acknowledge the newest packet, above a round trip.
  Duration patience{};
  Time last_sent{};     ///< newest transmission of a data packet
  Time paused_until{};  ///< after a NACK for lack of resources (mrc-1.0 §2.9)
  Time timer_start{};   ///< of the retransmission timer
  // What every packet or SACK counts, beside what it touches anyway.
  std::uint64_t tx_packets = 0;    ///< as in QpStats
  std::uint64_t tx_bytes = 0;      ///< likewise
  std::uint64_t acknowledged = 0;  ///< likewise
  std::uint8_t most_sges;          ///< of one of its messages; a response has one
  bool window_exempt = false;      ///< one packet may exceed congestion window and plane windows
  bool repeat_last = false;        ///< DataSender is to repeat a packet for want of a Transport ACK
  WcStatus failed_status = WcStatus::wr_flush_err;  ///< in ERR: of the request at fault
  std::uint32_t passed = 0;    ///< packets marked Missed::passed since the last loss review
  Time loss_check = kNever;    ///< when to review losses again even if no SACK arrives
  std::uint16_t probe_id = 0;  ///< of the newest reliability probe
  /// Reliability probes, and packets repeated in their place, since progress or a retransmission.
  std::uint8_t probes = 0;
  std::uint8_t probe_series = 0;  ///< series of them that retransmissions have begun since progress
  bool probe_pending = false;     ///< the newest one is unanswered
  std::uint8_t unreflected = 0;   ///< SACKs in a row that lacked the time stamp of their packet
  std::uint16_t probe_first = 0;  ///< the first with the newest one's position in the send order
  Time probe_sent{};              ///< when the newest reliability probe was sent
  std::uint32_t probe_order = 0;  ///< its position in the send order
  /// In ERR: position of the request at fault, if any; the others are flushed.
  std::optional<std::uint32_t> failed;

  /// Timeout after timeout without progress: the paths that seem to work may all be dead, and one
  /// that has answered a probe, though not often enough to be GOOD again, is worth more.
  [[nodiscard]] bool in_vain() const noexcept { return retries.expired() >= 2; }

  void on_progress(Time now) noexcept {
    ++acknowledged;
    start_anew(now);
  }
  /// The peer is at work: timers and retry counters restart.
  void start_anew(Time now) noexcept {
    retries.reset();
    probes = probe_series = 0;
    timer_start = now;
  }
  static constexpr std::uint8_t kMaxProbeSeries = 8;
  /// After a retransmission a new series of probes begins. Not for ever: the timer is to expire
  /// where only probes get through, as on a path with too small an MTU.
  void ask_again() noexcept {
    if (probes == 0 || probe_series == kMaxProbeSeries) return;
    ++probe_series;
    probes = 0;
  }
};

/// Counts answers of one kind, for a limit per round trip.
struct AnswersPerRoundTrip {
  Time begin = Time{Duration::min() / 2};  ///< of the present round trip
  std::uint32_t count = 0;                 ///< answers in it

  [[nodiscard]] bool take(Time now, Duration round_trip, std::uint32_t limit) noexcept {
    if (now - begin >= round_trip) {
      begin = now;
      count = 0;
    }
    return count < limit && ++count > 0;
  }
};

/// What Transport ACKs name: the newest message that is placed and delivered, with all before it.
struct FinishedMessage {
  Psn last;               ///< its last PSN
  std::uint16_t msn = 0;  ///< its number, as the peer counts
  bool any = false;       ///< there is one
  bool due = false;       ///< a Transport ACK is to be queued for it
};

/// Responder state of a queue pair (mrc-1.0 §2.5, Table 7-5). Written by Responder.
struct ResponderState {
  /// `settling`: packets can be unsettled (RxPacket::unsettled).
  ResponderState(const QpInit& init, bool settling)
      : receives(init.capacity.receive, init.capacity.receive_sges),
        wimms(init.attributes.max_wimm_dest),
        window(init.attributes.mpr_dest * kMprUnit, settling) {}

  /// What the tables held is lost. Throws std::bad_alloc.
  void resize(const QpAttributes& attributes) {
    if (window.range() != attributes.mpr_dest * kMprUnit)
      window = reliability::ReceiveWindow(attributes.mpr_dest * kMprUnit, window.settling());
    if (wimms.limit() != attributes.max_wimm_dest)
      wimms = reliability::WimmTable(attributes.max_wimm_dest);
  }

  std::optional<Psn> refused;        ///< the request whose refusal moved the queue pair to ERR
  std::optional<Psn> doubted;        ///< a write that is not permitted, and may be forged
  Time last_limited{};               ///< newest rate-limited answer (PSN_OOR_WINDOW, or one in ERR)
  std::uint32_t trim_credit = 0;     ///< NACKs for trimmed packets that may still be sent,
  std::uint32_t trim_credit_at = 0;  ///< when so many packets had been accepted,
  Time trim_credit_time{};           ///< at this time
  AnswersPerRoundTrip probes;        ///< answers to reliability probes
  std::uint32_t newest_probe = 0;    ///< control queue number of the newest of these
  std::uint32_t received_at_probe = 0;  ///< low bits of rx_packets at the newest of these
  std::uint32_t messages = 0;           ///< messages that the cumulative PSN has passed
  // What every packet, or the end of a message, needs, side by side.
  /// Posted receive requests; with a shared receive queue, those that were taken from it.
  ReceiveQueue receives;
  reliability::WimmTable wimms;       ///< WriteImm and SENDs that wait for delivery in order
  DeferredStores::List deferred;      ///< stores that wait for earlier packets
  reliability::ReceiveWindow window;  ///< which PSNs have arrived
  std::uint64_t rx_packets = 0;       ///< as in QpStats
  std::uint64_t rx_bytes = 0;         ///< likewise
  std::uint32_t rcvd_bytes = 0;       ///< nominal bytes of accepted packets ([C-15]), modulo 2^32
  std::uint32_t since_sack = 0;       ///< bytes received since the last SACK (mrc-1.0 §2.6)
  std::uint32_t sack_threshold = 0;   ///< of since_sack
  std::uint32_t newest_sack = 0;      ///< control queue number of its newest SACK
  std::uint32_t sacks_queued = 0;     ///< SACKs in the control queue
  Psn passed;                         ///< last PSN of the newest of `messages`
  FinishedMessage finished;           ///< not newer than that
  std::uint16_t next_msn = 0;         ///< number of the message behind `passed`, as the peer counts
  std::uint8_t mpr = 0;               ///< sent in SACKs; 0: no dynamic MPR
  bool ack_queued = false;            ///< a Transport ACK is in the control queue
  Plane ack_plane = 0;                ///< where the packet came that made one due, which waits
  Time ack_by = kNever;               ///< for a SACK to travel with, until this time

  void prefetch_for_packet() const noexcept {
    const auto* const from = reinterpret_cast<const char*>(&receives);
    prefetch(from, static_cast<std::size_t>(reinterpret_cast<const char*>(this + 1) - from));
  }
};

/// Base of what has a timer in an engine: a queue pair or a peer.
struct EngineTimer : TimerNode {
  enum class Owner : std::uint8_t { queue_pair, peer };
  explicit EngineTimer(Owner o) noexcept : owner(o) {}  ///< not scheduled
  const Owner owner;                                    ///< type that it can be cast to
};

/// A queue pair inside an engine: identity, connection state and both halves.
struct QueuePairState : EngineTimer {
  /// A queue pair in RESET. `settling`: see ResponderState. Throws std::bad_alloc.
  QueuePairState(Qpn number, const QpInit& setup, SendPool& writes,
                 reliability::PacketPool& packets, bool settling)
      : EngineTimer(Owner::queue_pair),
        qpn(number),
        init(setup),
        tx(setup, writes, packets),
        rx(setup, settling),
        attributes(setup.attributes) {}

  const Qpn qpn;                            ///< top 8 bits: slot of the lane
  QpState state = QpState::reset;           ///< as in mrc-1.0 §2.11
  QpErrorCause cause = QpErrorCause::none;  ///< why it is in ERR; none in other states
  bool error_reported : 1 = false;          ///< its qp_error event waits to be polled
  bool heard : 1 = false;                   ///< the peer has sent something that fits
  bool trims_given : 1 = false;             ///< RtrAttributes::trim_nack was set,
  bool trims : 1 = false;                   ///< to this
  bool starved = false;                     ///< in Peer::starved, not Peer::ready
  bool rc = false;        ///< both sides offer SEND, READ and atomics; from when the peer is known
  bool active = false;    ///< the requester half runs: in RTS, with `rc` from RTR on
  bool receiving = true;  ///< accepts new data; what was received is always acknowledged
  Access peer_rights = kPeerRights;  ///< what the peer may do, if the memory region allows it, too
  wire::Tag expected;                ///< in all packets from the peer; none: plain ones
  std::uint32_t mtu = 0;             ///< agreed payload bytes per packet; set at RTR
  std::uint32_t rtr_mtu = 0;         ///< the own side of that: what this side entered RTR with
  Peer* peer = nullptr;              ///< remote device; null before RTR, and until it is known
  RemoteQp remote;                   ///< the peer's side, from RTR on
  wire::Tag remote_tag;              ///< in all packets to the peer
  wire::Tag tag;                     ///< that the peer is told: random, new in each RESET
  Psn start_psn;                     ///< first PSN that this side sends
  /// Windows that start together, this side's included, for the peer's congestion control; 0: not
  /// known.
  std::uint32_t sharers = 0;
  const QpInit init;  ///< as created
  /// Link in a list; unlinks itself when destroyed.
  using Hook = intrusive::list_member_hook<intrusive::link_mode<intrusive::auto_unlink>>;
  Hook ready_hook;                    ///< in Peer::ready or Peer::starved
  Hook tagged_hook;                   ///< in Peer::tagged
  Hook review_hook;                   ///< in Requester's list of queue pairs to review
  RequesterState tx;                  ///< requester half
  ResponderState rx;                  ///< responder half
  std::unique_ptr<RcState> rc_state;  ///< of both, from RTR on; null if RC is not offered
  QpStats stats;  ///< counters, but for those in `tx` and `rx`: Engine::qp_stats() has all
  QpAttributes attributes;  ///< in force; set at creation and by to_rtr(), to_rts()

  /// Prefetches what sending a packet, or an acknowledgement, touches in this object.
  void prefetch_requester() const noexcept {
    prefetch(this, kIdentity);
    prefetch(&ready_hook, sizeof(ready_hook));
    prefetch(&tx, sizeof(tx));
    prefetch(&stats.writes_completed, sizeof(stats.writes_completed));
  }
  void prefetch_responder() const noexcept {
    prefetch(this, kIdentity);
    rx.prefetch_for_packet();
    prefetch(&stats.receives_completed, sizeof(stats.receives_completed));
  }
  /// Bytes at the beginning with timer, number, state, peer and tags.
  static constexpr std::size_t kIdentity = 128;

  /// Has the peer been guessed (RemoteQp::presumed), and may it still turn out to offer RC?
  [[nodiscard]] bool presumed() const noexcept {
    return remote.presumed && !heard && rc_state != nullptr;
  }
  /// Need the peer not know this side yet (RemoteQp::heard_by)? Then its silence means nothing.
  [[nodiscard]] bool unmet(Time now) const noexcept { return !heard && now < remote.heard_by; }
  /// May `w`, the next message of the send queue, be started (mrc-1.0 §2.8)?
  [[nodiscard]] bool may_start(const SendWqe& w) const noexcept {
    if (w.numbered() && tx.wimm_in_flight >= tx.wimm_limit) return false;
    if (!rc) return true;
    const ReadTable& reads = rc_state->reads;
    return !rc_state->receiver.holds(w) && !(w.is_request() && reads.full()) &&
           !(w.flags.fence && reads.count() > 0);
  }
  [[nodiscard]] bool backlog() const noexcept {
    return tx.queue.backlog() || (rc && rc_state->responses.backlog());
  }
  [[nodiscard]] bool waits_for_receiver() const noexcept {
    return rc && rc_state->receiver.waiting;
  }
  [[nodiscard]] std::uint32_t waiting() const noexcept {
    return tx.queue.waiting() + (rc ? rc_state->responses.waiting() : 0);
  }
  [[nodiscard]] SendQueue& current() noexcept {
    return rc && rc_state->answering ? rc_state->responses : tx.queue;
  }

  /// Does a packet carry the tag of the connection? `check`: RxPacket::check.
  [[nodiscard]] bool admits(const wire::Bth& bth, std::uint32_t check) const noexcept {
    return check == expected.check() && (!expected || expected.is_in(bth));
  }

  [[nodiscard]] std::size_t memory() const noexcept {
    return sizeof(*this) + tx.queue.memory() + tx.window.memory() + rx.window.memory() +
           rx.wimms.memory() + rx.receives.memory() + (rc_state ? rc_state->memory() : 0);
  }
};

/// Least bytes that a packet counts as: receive buffers spend about this much on a small one.
inline constexpr std::uint32_t kLeastCharge = 1024;

/// A peer that no data was exchanged with for so long is idle.
inline constexpr Duration kIdleAfter = std::chrono::milliseconds(100);

/// A remote device, and what all queue pairs connected to it share (mrc-1.0 §6.8).
struct Peer : EngineTimer {
  Peer(PeerId number, const PeerSpec& spec, const EngineOptions& options, std::uint64_t seed)
      : EngineTimer(Owner::peer),
        id(number),
        slot(spec.slot),
        planes(spec.planes),
        head_check(spec.head_check),
        sizes(options.segmenting_planes),
        pieces(options.burst > 1 ? options.segmenting_planes : 0),
        source_tags(spec.source_tags),
        plane_window(spec.plane_window),
        congestion(spec.cc.value_or(options.cc)),
        paths(spec.paths, path_options(spec, options), seed),
        reverse({.probe_floor = options.reverse_probe_floor},
                static_cast<unsigned>(std::bit_width(spec.planes))),
        announced(options.planes) {
    for (const path::PathIndex path : spec.denied)
      (void)paths.set_health(path, path::Health::denied);
  }

  [[nodiscard]] static path::PathSetOptions path_options(const PeerSpec& spec,
                                                         const EngineOptions& options) {
    path::PathSetOptions paths = options.paths;
    if (spec.active_paths != 0) paths.active = spec.active_paths;
    paths.shared_routes = paths.shared_routes || spec.shared_routes;
    paths.min_active = spec.min_active_paths.value_or(paths.min_active);
    paths.event_mask = spec.event_mask.value_or(paths.event_mask);
    return paths;
  }

  using ReadyList = intrusive::list<
      QueuePairState,
      intrusive::member_hook<QueuePairState, QueuePairState::Hook, &QueuePairState::ready_hook>,
      intrusive::constant_time_size<false>>;

  const PeerId id;                      ///< index in ObjectTables
  const std::uint8_t slot;              ///< top 8 bits of its QPNs
  const PlaneMask planes;               ///< planes in which it has an address
  const bool head_check;                ///< PeerSpec::head_check
  PlaneMask remote_up = ~PlaneMask{0};  ///< its ports that are up (mrc-1.0 §5)
  path::PlaneTrials trials;             ///< planes that have to prove that they work
  path::SizeTrials sizes;               ///< planes that may be too narrow for full-size packets
  path::NarrowPath narrow_path;         ///< bad paths that may be too narrow for them
  path::PieceTrials pieces;             ///< planes in which bursts in one piece may vanish
  PlaneMask narrow = 0;                 ///< planes that are, here or on the way
  PlaneMask narrow_told = 0;            ///< as the driver knows it
  PlaneMask singly_told = 0;            ///< of pieces.singly(), as the driver knows it
  std::uint32_t largest_payload = 0;    ///< bytes of a packet to it, most: full size
  /// Planes of which nothing new can be learned from a packet that arrives in them.
  PlaneMask trusted = ~PlaneMask{0};
  PlaneMask full = 0;  ///< planes whose window (plane_window) is used up
  std::array<std::uint64_t, kMaxPlanes> source_tags;  ///< by plane: RxPacket::source of its packets
  std::array<std::uint64_t, kMaxPlanes> plane_inflight{};  ///< bytes sent and not yet reported
  std::uint64_t plane_window;                              ///< bytes, 0: no limit
  cc::Controller congestion;                               ///< shared by its queue pairs
  path::PathSet paths;                                     ///< paths to it, and their health
  path::ReverseSet reverse;  ///< paths for responses to it (mrc-1.0 §3.6)
  ReadyList ready;           ///< queue pairs with packets to send, in service order
  /// Its queue pairs with tags. Endpoint packets to it are sent to the first of them: the one by
  /// which it was heard since it was last used, or they take turns.
  intrusive::list<
      QueuePairState,
      intrusive::member_hook<QueuePairState, QueuePairState::Hook, &QueuePairState::tagged_hook>,
      intrusive::constant_time_size<false>>
      tagged;
  ReadyList starved;  ///< those that need a packet record while the pool is empty
  intrusive::list_member_hook<intrusive::link_mode<intrusive::auto_unlink>> hook;
  std::uint32_t queue_pairs = 0;  ///< connected to it
  bool served = false;            ///< one of them has been in RTS, since there are any
  Time answered{};                ///< newest SACK, NACK or Transport ACK from it
  Time asked{};                   ///< first data packet sent to it after that
  Time exempted{};                ///< when its waiting queue pairs last got a window exemption
  Time status_due = kNever;       ///< when to send, or repeat, the port status
  std::uint8_t status_tries = 0;  ///< times the current port status was sent
  std::uint16_t status_id = 0;    ///< request number of the newest port status sent
  /// Endpoint requests that carry no tag, and so may be anybody's, are answered so often.
  TokenBucket plain_answers{20'000, 64};
  std::uint8_t rtt_probes = 0;   ///< EV probes sent to measure the round-trip time
  bool tagged_heard = false;     ///< a packet came by the first of `tagged` since it was last used
  bool rtt_measured = false;     ///< an EV probe was answered since the first queue pair connected
  Time next_rtt_probe = kNever;  ///< when to send the next of them
  bool rtt_probe_turn = false;   ///< that is its turn (ProbePacer)
  Time data_at = Time{Duration::min() / 2};  ///< newest data packet sent to it or received from it
  Time held_probe = kNever;  ///< until then an EV probe waits for its turn (ProbePacer)
  /// The port mask in it; before, what a peer takes for granted: all of them are up.
  PlaneMask announced;
  std::uint16_t remote_status_id = 0;  ///< request number of the newest port status received
  Time remote_status_at = Time{Duration::min() / 2};  ///< when that arrived

  /// Is a data packet of that nominal size one that a narrow plane does not carry?
  [[nodiscard]] static constexpr bool is_large(std::uint32_t size) noexcept {
    return size > wire::kNominalOverhead + wire::kMaxPart;
  }
  /// Are EV probes in that plane of full size? Only they prove that it carries data.
  [[nodiscard]] bool probes_full_size(Plane plane) const noexcept {
    return sizes.probed() && (narrow >> plane & 1) == 0;
  }

  void on_loss(Plane plane, std::uint32_t size, Time now) noexcept {
    if (is_large(size)) (void)sizes.on_loss(plane, now);
    (void)pieces.on_loss(plane, now);
  }

  [[nodiscard]] bool idle(Time now) const noexcept {
    return ready.empty() && now - data_at >= kIdleAfter;
  }

  void charge(Plane plane, std::uint32_t size) noexcept {
    std::uint64_t& inflight = plane_inflight[plane];
    inflight += std::max(size, kLeastCharge);
    if (plane_window != 0 && inflight >= plane_window) full |= plane_bit(plane);
  }
  void release(Plane plane, std::uint32_t size) noexcept {
    std::uint64_t& inflight = plane_inflight[plane];
    inflight -= std::min<std::uint64_t>(inflight, std::max(size, kLeastCharge));
    if (inflight < plane_window) full &= ~plane_bit(plane);
  }

  /// Is `tag`, the source of a packet received in `plane`, an address of this peer? A tag of 0 is
  /// not checked.
  [[nodiscard]] bool came_from_here(Plane plane, std::uint64_t tag) const noexcept {
    if (tag == 0 || source_tags[plane] == tag || source_tags[plane] == 0) return true;
    return std::ranges::find(source_tags, tag) != source_tags.end();
  }
};

/// Gives turns to those who want to send something that is not urgent: so many per second, after a
/// burst of a sixth as many, but of kLeastBurst at least. A turn is a time in the future, given
/// once, so that thousands who wait need not ask again.
class ProbePacer {
 public:
  static constexpr std::uint32_t kLeastBurst = 64;  ///< lets a few peers begin at once

  /// `rate`: turns per second; 0: no limit.
  explicit ProbePacer(std::uint32_t rate) noexcept
      : interval_(rate == 0 ? 0 : std::chrono::nanoseconds(std::chrono::seconds(1)).count() / rate),
        burst_(interval_ * std::max(rate / 6, kLeastBurst)) {}

  [[nodiscard]] Time take(Time now) noexcept {
    const Time turn = std::max(now, spent_until_ - burst_);
    spent_until_ = std::max(spent_until_, now) + interval_;
    return turn;
  }

 private:
  Duration interval_;
  Duration burst_;
  Time spent_until_{};  ///< the turns until then are given, and a burst
};

/// What a responder asks of the requesters that send to it because its own resources run short: the
/// receiver's penalty (mrc-1.0 §6.7, [O-8]) and the MPR of its SACKs (§2.4).
///
/// The penalty follows the fill of the ports' receive buffers: 0 up to three quarters, then growing
/// to 64, half a window per round trip, for a full one. When it is lifted, restore_cwnd gives
/// senders their windows back: the buffer says nothing about the network. The application's own
/// penalty counts if it is greater.
///
/// The MPR is halved each time that the free part of a resource has halved, from a quarter on, down
/// to one unit; it grows back as that part does.
class ReceivePressure {
 public:
  static constexpr std::uint32_t kFull = 128;
  static constexpr std::uint32_t kHigh = 96;

  void set_fill(Plane plane, std::uint32_t fill) noexcept {
    fill = std::min(fill, kFull);
    if (fill_[plane] == fill) return;
    fill_[plane] = static_cast<std::uint8_t>(fill);
    highest_ = *std::max_element(fill_.begin(), fill_.end());
    if (own_penalty() > 0) own_seen_ = true;
  }
  /// The application's penalty, 0 .. 127, and its restore flag.
  void set_asked(std::uint8_t penalty, bool restore) noexcept {
    asked_ = penalty;
    asked_restore_ = restore;
  }

  /// rcv_cwnd_pen of the next SACK.
  [[nodiscard]] std::uint8_t penalty() const noexcept { return std::max(asked_, own_penalty()); }
  /// restore_cwnd of the next SACK: with a penalty, that the window is to be remembered; without
  /// one, that the window remembered is to be restored.
  [[nodiscard]] bool restore() const noexcept {
    if (asked_ > own_penalty()) return asked_restore_;
    return own_seen_ || asked_restore_;
  }

  /// The MPR to announce. `limit`: of the queue pair, 0: Dynamic MPR is off. `free` of `all` items
  /// of a pool that it draws on are left.
  [[nodiscard]] std::uint8_t mpr(std::uint8_t limit, std::size_t free,
                                 std::size_t all) const noexcept {
    const unsigned halved = std::max(halvings(free, all), halvings(kFull - highest_, kFull));
    return limit == 0 ? limit : std::max<std::uint8_t>(1, halved < 8 ? limit >> halved : 0);
  }

 private:
  /// How often the free part has halved, counted from a quarter on.
  [[nodiscard]] static unsigned halvings(std::size_t free, std::size_t all) noexcept {
    if (free == 0) return 8;
    const auto width = static_cast<unsigned>(std::bit_width(all / free));
    return width > 2 ? width - 2 : 0;
  }
  [[nodiscard]] std::uint8_t own_penalty() const noexcept {
    return static_cast<std::uint8_t>(highest_ > kHigh ? (highest_ - kHigh) * 2 : 0);
  }

  std::array<std::uint8_t, kMaxPlanes> fill_{};
  std::uint32_t highest_ = 0;  ///< greatest fill of a plane
  std::uint8_t asked_ = 0;
  bool asked_restore_ = false;
  bool own_seen_ = false;  ///< there has been a penalty of our own: senders may have windows saved
};

}  // namespace mrc::inline v0_1::engine
