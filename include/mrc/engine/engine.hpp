// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>

#include "mrc/core/error.hpp"
#include "mrc/core/types.hpp"
#include "mrc/engine/context.hpp"
#include "mrc/engine/endpoint_service.hpp"
#include "mrc/engine/engine_stats.hpp"
#include "mrc/engine/options.hpp"
#include "mrc/engine/queue_pair.hpp"
#include "mrc/engine/queues.hpp"
#include "mrc/engine/requester.hpp"
#include "mrc/engine/responder.hpp"
#include "mrc/engine/scheduler.hpp"
#include "mrc/engine/verbs_types.hpp"
#include "mrc/wire/burst.hpp"

namespace mrc::inline v0_1::engine {

/// The MRC protocol engine of one device: queue pairs, their reliability, paths and congestion
/// control. Sans-IO: no clock, no socket, no thread; the same object runs under real ports, under
/// a simulator and under a fuzzer, and a run with a given seed is repeatable bit for bit.
///
/// A facade: the parts of context.hpp do the work. Inputs report what happened outside; what they
/// and application calls leave to be sent waits for poll_transmit() (has_output()). Before it
/// sleeps, a driver calls that until the burst stays empty, then reads next_deadline(). A `now`
/// earlier than the latest one seen is replaced by it.
///
/// Thread contract: one thread at a time. Memory: the constructor and the calls that create objects
/// allocate; inputs, posting and outputs neither allocate nor throw.
class Engine {
 public:
  /// Throws mrc::Error when an option is out of range.
  explicit Engine(const EngineOptions& options);
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;
  ~Engine();

  // --- Application calls: objects -----------------------------------------------------------

  /// Allocates a protection domain. Errc::no_resources at EngineOptions::max_pds.
  Result<PdId> alloc_pd() { return ctx_.objects.add_pd(); }
  /// Errc::in_use while a memory region or a queue pair uses it.
  Errc dealloc_pd(PdId pd) noexcept;

  /// Registers memory; the key is lkey and rkey. remote_write implies local_write. `key` is that of
  /// the same region in another engine, if both are to have one.
  Result<std::uint32_t> register_memory(void* address, std::uint64_t length, Access access, PdId pd,
                                        std::optional<std::uint32_t> key = std::nullopt);
  [[nodiscard]] bool memory_in_use(std::uint32_t key) noexcept;
  [[nodiscard]] bool pd_in_use(PdId pd) noexcept;
  /// Errc::in_use while posted requests use it, unless `force`: their queue pairs go to ERR. The
  /// key is invalid from now on; the memory itself may be read until copies_held() is 0.
  Errc deregister_memory(std::uint32_t key, bool force = false) noexcept;
  [[nodiscard]] std::uint32_t copies_held(std::uint32_t key) const noexcept {
    return ctx_.memory.copies(key);
  }

  /// `depth` 1 .. 4,194,304 completions.
  Result<CqId> create_cq(std::uint32_t depth) { return ctx_.completions.create(depth); }
  /// Errc::in_use while a queue pair uses it.
  Errc destroy_cq(CqId cq) noexcept { return ctx_.completions.destroy(cq); }

  /// Creates a queue pair in RESET. Errc::invalid_argument if a value is out of its documented
  /// range.
  Result<Qpn> create_qp(const QpInit& init);
  /// In any state. What is posted is discarded without completions, and with QpInit::as_verbs so
  /// are completions.
  Errc destroy_qp(Qpn qpn) noexcept;

  /// A shared receive queue: `depth` 1 .. 32,768 requests with up to `sges` SGEs each, 1 .. 64.
  Result<SrqId> create_srq(PdId pd, std::uint32_t depth, std::uint32_t sges);
  /// Errc::in_use while a queue pair uses it.
  Errc destroy_srq(SrqId srq) noexcept;
  Errc post_receive(SrqId srq, const ReceiveRequest& request) noexcept;
  /// As soon as fewer than `limit` receives are left, Event::Kind::srq_limit is raised, once; 0:
  /// never. Errc::invalid_argument if it is larger than the depth.
  Errc set_srq_limit(SrqId srq, std::uint32_t limit) noexcept;

  /// Adds a remote device. Throws mrc::Error if it has no paths.
  Result<PeerId> add_peer(const PeerSpec& spec);
  /// Errc::in_use while queue pairs are connected to it.
  Errc remove_peer(PeerId peer) noexcept;
  /// Administration of the paths to a peer: calls fn(path::PathSet&), which may set states of paths
  /// and replace some.
  template <class F>
  Errc change_paths(Time now, PeerId id, F&& fn) noexcept {
    Peer* peer = ctx_.objects.peer(id);
    if (peer == nullptr) return Errc::not_found;
    fn(peer->paths);
    endpoint_.on_planes_changed(ctx_.forward(now), *peer);
    return Errc::ok;
  }

  // --- Application calls: states (mrc-1.0 §2.11) ---------------------------------------------

  /// First PSN that the queue pair will send, for RemoteQp::start_psn at the peer. Random, a new
  /// one after each reset.
  Result<Psn> start_psn(Qpn qpn) const noexcept;
  /// The tag that the peer shall put into packets to this queue pair (wire::Tag), for RemoteQp::tag
  /// there. Random, a new one after each to_reset().
  Result<std::uint64_t> tag(Qpn qpn) const noexcept;
  Errc to_init(Qpn qpn) noexcept;  ///< from RESET
  /// From INIT: can receive. Errc::incompatible if the MTU or a limit of the peer can't be met;
  /// Errc::invalid_argument if an attribute is out of its documented range. May throw
  /// std::bad_alloc, since larger limits take memory.
  Errc to_rtr(Qpn qpn, const RemoteQp& remote, const RtrAttributes& own = {});
  /// The same while all that is known of the peer is its queue pair number, first PSN and MTU:
  /// packets are dropped until resolve().
  Errc to_rtr_unresolved(Qpn qpn, const RemoteQp& remote, const RtrAttributes& own = {});
  /// From RTR: can also send; what is posted before resolve() waits for it. Errors as to_rtr().
  Errc to_rts(Qpn qpn, Time now, const RtsAttributes& own = {});
  /// The peer of a queue pair in RTR or RTS is known now, or known better. Its QPN stays; so does
  /// its first PSN, unless both sides have RC (RemoteQp::rc): then remote.start_psn counts. Of
  /// remote.mtu and the MTU of to_rtr_unresolved() the smaller one counts.
  /// Errc::invalid_state if a packet of the present peer has arrived. Everything that was sent to
  /// the present one is sent again.
  Errc resolve(Time now, Qpn qpn, const RemoteQp& remote) noexcept;
  /// From any but RESET: everything posted is flushed.
  Errc to_error(Qpn qpn) noexcept { return fail(qpn, QpErrorCause::requested); }
  /// The same for another cause: the oldest send request completes with retry_exc_err.
  Errc fail(Qpn qpn, QpErrorCause cause) noexcept;
  /// For what comes before to_reset() or destroy_qp(): the next poll_transmit() sends a Transport
  /// ACK that still waits for a SACK (EngineOptions::ack_delay).
  void send_held_ack(Qpn qpn) noexcept;
  void send_held_acks() noexcept;  ///< the same for all queue pairs
  /// From any: everything posted is discarded, and with QpInit::as_verbs so are completions.
  Errc to_reset(Qpn qpn) noexcept;

  // --- Application calls: posting -------------------------------------------------------------

  /// Posts a send request; needs RTS, or with QpInit::as_verbs ERR. Nothing is posted when it
  /// fails.
  Errc post_send(Qpn qpn, const SendRequest& request, Time now) noexcept;
  /// Posts a receive request; needs INIT, RTR or RTS, or with QpInit::as_verbs ERR.
  Errc post_receive(Qpn qpn, const ReceiveRequest& request) noexcept;
  Errc post_receive(Qpn qpn, std::uint64_t wr_id) noexcept {
    return post_receive(qpn, ReceiveRequest{wr_id, {}});
  }

  /// Completes a send request at once that the queue pair, of whatever kind, was not given. Takes a
  /// slot until it is polled. Errc::queue_full; Errc::unsupported without QpInit::as_verbs.
  Errc complete_send(Qpn qpn, std::uint64_t wr_id, SendOpcode opcode, WcStatus status) noexcept;
  /// Completions of the queue pair that were not polled vanish, as if they had been.
  /// Errc::unsupported without QpInit::as_verbs.
  Errc discard_completions(Qpn qpn) noexcept;
  /// Takes completions; 0 when there are none.
  std::size_t poll_cq(CqId cq, std::span<Completion> out) noexcept;
  /// The next such completion of this queue raises Event::Kind::completion, once.
  Errc arm_cq(CqId cq, Arm what = Arm::all) noexcept { return ctx_.completions.arm(cq, what); }

  // --- Application calls: settings ------------------------------------------------------------

  /// Tells the congestion control of the queue pair's peer, now or when there is one, how many
  /// windows start at the same time (cc::CongestionControl, on_hint); 0: not known. Kept through
  /// to_reset().
  Errc set_sharers(Qpn qpn, std::uint64_t sharers) noexcept;
  /// Which of kPeerRights the peer has through this queue pair; the memory region must allow them,
  /// too. Kept through to_reset().
  Errc set_peer_rights(Qpn qpn, Access rights) noexcept;
  /// Acknowledges what was received and accepts nothing new, until to_reset(). Posted receives are
  /// discarded, without completions.
  Errc stop_receiving(Qpn qpn) noexcept;
  /// Sets the MPR that SACKs tell the peer (Dynamic MPR, mrc-1.0 §2.4): `units` of 128 PSNs, at
  /// most the queue pair's mpr_dest. Errc::invalid_state unless both sides agreed on Dynamic MPR.
  Errc set_mpr(Qpn qpn, std::uint8_t units) noexcept;
  /// The receiver's penalty in all SACKs from now on (mrc-1.0 §6.7): 0 .. 127, in 1/128 of the
  /// bytes that a SACK newly reports; 64 halves the senders' windows in a round trip. `restore`
  /// with a penalty asks them to remember their windows, without one to restore them. Errc::
  /// invalid_argument above 127.
  Errc set_receiver_penalty(unsigned penalty, bool restore) noexcept {
    if (penalty > 127) return Errc::invalid_argument;
    ctx_.pressure.set_asked(static_cast<std::uint8_t>(penalty), restore);
    return Errc::ok;
  }

  // --- Inputs -----------------------------------------------------------------------------------

  void receive(Time now, std::span<const wire::RxPacket> packets) noexcept;
  /// To be called when next_deadline() is reached.
  void on_time(Time now) noexcept;
  /// The part of a port's receive buffer that is in use, 0 .. 128 (ReceivePressure::kFull). Senders
  /// are asked for less while it is above three quarters (engine/queue_pair.hpp).
  void set_receive_fill(Plane plane, std::uint32_t fill) noexcept {
    ctx_.pressure.set_fill(plane, fill);
  }
  /// A local port is up or down; without effect if the engine knows. Initially all are up.
  void set_plane_up(Time now, Plane plane, bool up) noexcept;
  /// A local port can no longer send packets of full size but only packet parts
  /// (wire/transport.hpp), or can again; without effect if the engine knows. Where a peer has
  /// other planes these are used; else packets to it go in parts, if it takes them.
  void set_plane_narrow(Time now, Plane plane, bool narrow) noexcept {
    endpoint_.set_plane_narrow(ctx_.forward(now), plane, narrow);
  }
  /// Infers losses from the SACKs received; poll_transmit() does so too. For drivers that may
  /// receive more before they send: to be called when all packets that had arrived by `now` were
  /// passed to receive().
  void review_losses(Time now) noexcept { requester_.review(now); }
  /// Ports no longer read the payload of these packets (TxPacket::copy).
  void on_released(std::span<const wire::CopyId> copies) noexcept;
  /// Ports no longer write payload of these data packets, which were reported RxPacket::unsettled.
  void on_settled(Time now, Plane plane, std::span<const wire::PacketName> packets) noexcept;
  /// Packets of the burst filled last that a port did not send: data packets are queued again.
  void on_untransmitted(Time now, std::span<const wire::TxPacket> packets) noexcept;

  // --- Outputs ----------------------------------------------------------------------------------

  /// Appends packets to send now on ports of `free_planes`, control packets first.
  void poll_transmit(Time now, PlaneMask free_planes, wire::TxBurst& burst) noexcept;
  /// When to call on_time(): no later than the earliest timer; kNever if no timer is set.
  [[nodiscard]] Time next_deadline() const noexcept { return ctx_.timers.next_deadline(); }
  /// Is there something for poll_transmit()?
  [[nodiscard]] bool has_output() const noexcept {
    return !ctx_.control.empty() || !ctx_.ready.empty() || requester_.review_requested() ||
           (ctx_.service != nullptr && ctx_.service->has_output());
  }

  [[nodiscard]] bool has_event() const noexcept { return ctx_.completions.has_event(); }
  using Event = EngineEvent;
  bool poll_event(Event& event) noexcept;

  /// Probes of paths that the driver wants, and what only it can answer.
  [[nodiscard]] EndpointService& endpoint() noexcept { return endpoint_; }
  [[nodiscard]] const EndpointService& endpoint() const noexcept { return endpoint_; }

  /// Is there something for the take_ functions that follow?
  [[nodiscard]] bool has_path_events() const noexcept { return ctx_.path_events != 0; }
  // The take_ functions tell of what has changed since their last call.

  /// Calls fn(const Peer&, const path::PathEvent&) for each path that became ASSUMED_BAD or GOOD.
  template <class F>
  void take_path_events(F&& fn) noexcept {
    ctx_.path_events = 0;
    ctx_.objects.for_each_peer([&](Peer& peer) {
      path::PathEvent event;
      while (peer.paths.poll_event(event)) fn(std::as_const(peer), event);
    });
  }
  /// fn(const Peer&, PlaneMask): planes that became narrow or wide (Peer::narrow).
  template <class F>
  void take_narrow_changes(F&& fn) noexcept {
    ctx_.objects.for_each_peer([&](Peer& peer) {
      const PlaneMask changed = peer.narrow ^ std::exchange(peer.narrow_told, peer.narrow);
      if (changed != 0) fn(std::as_const(peer), changed);
    });
  }
  /// fn(const Peer&, path::PathIndex): a narrow path in a plane with wide ones (Peer::narrow_path).
  template <class F>
  void take_narrow_paths(F&& fn) noexcept {
    ctx_.objects.for_each_peer([&](Peer& peer) {
      const path::PathIndex path = peer.narrow_path.take();
      if (path != path::kNoPath) fn(std::as_const(peer), path);
    });
  }
  /// fn(const Peer&, PlaneMask): planes in which pieces vanish, or no longer do (Peer::pieces).
  template <class F>
  void take_piece_changes(F&& fn) noexcept {
    ctx_.objects.for_each_peer([&](Peer& peer) {
      const PlaneMask singly = peer.pieces.singly();
      const PlaneMask changed = singly ^ std::exchange(peer.singly_told, singly);
      if (changed != 0) fn(std::as_const(peer), changed);
    });
  }
  /// Planes in which packets are to leave one by one, for the sake of some peer.
  [[nodiscard]] PlaneMask planes_sent_singly() noexcept {
    PlaneMask singly = 0;
    ctx_.objects.for_each_peer([&](const Peer& peer) { singly |= peer.pieces.singly(); });
    return singly;
  }

  /// Plain data packets for queue pairs whose peer is not known yet, and whose PSN fits: the peer
  /// may be another implementation of MRC, which need not wait for anything. The driver looks at
  /// them before the port's next receive(): those whose peer it has found, by resolve(), it gives
  /// to receive() again. forget_early() drops the rest, and is due in any case.
  [[nodiscard]] std::span<const wire::RxPacket> early() const noexcept { return early_; }
  /// See early(). `taken`: how many went to receive().
  void forget_early(std::size_t taken) noexcept;

  // --- Getters: what find_ functions return is valid until the next call that is not a getter.
  // Null if there is none with that number.

  [[nodiscard]] const QueuePairState* find_qp(Qpn qpn) const noexcept {
    return ctx_.objects.qp(qpn);
  }
  [[nodiscard]] const CompletionRing* find_cq(CqId cq) const noexcept {
    return ctx_.completions.find(cq);
  }
  [[nodiscard]] const SharedReceiveQueue* find_srq(SrqId srq) const noexcept {
    return ctx_.objects.srq(srq);
  }
  [[nodiscard]] const Peer* find_peer(PeerId peer) const noexcept {
    return ctx_.objects.peer(peer);
  }
  [[nodiscard]] Peer* find_peer(PeerId peer) noexcept { return ctx_.objects.peer(peer); }

  /// What the parts share. For drivers to look at, and for datagrams (resolve/datagrams.hpp).
  [[nodiscard]] Context& context() noexcept { return ctx_; }
  [[nodiscard]] const Context& context() const noexcept { return ctx_; }
  [[nodiscard]] Teardown& teardown() noexcept { return teardown_; }
  [[nodiscard]] const EngineOptions& options() const noexcept { return ctx_.options; }
  [[nodiscard]] const EngineStats& stats() const noexcept { return ctx_.stats; }
  /// Packets of a plane that were dropped because their iCRC was wrong.
  [[nodiscard]] std::uint64_t bad_icrc(Plane plane) const noexcept { return bad_icrc_[plane]; }
  /// Counters of a queue pair, with its present RTT, window and bytes in flight.
  [[nodiscard]] QpStats qp_stats(const QueuePairState& qp) const noexcept;
  [[nodiscard]] std::uint32_t qp_count() const noexcept { return ctx_.objects.qp_count(); }
  [[nodiscard]] std::uint32_t datagram_qp_count() const noexcept {
    return ctx_.service != nullptr ? ctx_.service->qp_count() : 0;
  }
  [[nodiscard]] std::uint32_t peer_count() const noexcept { return ctx_.objects.peer_count(); }
  [[nodiscard]] bool quiet() const noexcept {
    return ctx_.records.free_chunks() == ctx_.records.chunk_count();
  }

 private:
  void renew(QueuePairState& qp) noexcept;
  void forget_completions(QueuePairState& qp) noexcept;
  Errc enter_rtr(QueuePairState& qp, const RemoteQp& remote, const RtrAttributes& own,
                 bool may_be_rc);
  void attach(QueuePairState& qp, const RemoteQp& remote, Peer& peer) noexcept;
  static void size_responder(QueuePairState& qp, const QpAttributes& a);
  void change_responder(QueuePairState& qp, QpAttributes& wanted);
  void begin_sending(Time now, QueuePairState& qp) noexcept;
  [[nodiscard]] static std::optional<std::uint32_t> unsupported_request(
      QueuePairState& qp) noexcept;
  template <class F>
  Errc with_qp(Qpn qpn, F&& fn) {
    QueuePairState* qp = ctx_.objects.qp(qpn);
    return qp == nullptr ? Errc::not_found : fn(*qp);
  }
  void receive_one(Time now, const wire::RxPacket& packet) noexcept;
  void receive_many(Time now, std::span<const wire::RxPacket> packets) noexcept;
  void receive_part(Time now, const QueuePairState& qp, const wire::RxPacket& part) noexcept;
  void resume(QueuePairState& qp, Plane plane) noexcept;
  void receive_datagram(const wire::RxPacket& packet) noexcept;
  [[nodiscard]] bool keep_early(const QueuePairState& qp, const wire::RxPacket& packet,
                                const wire::Bth& bth) noexcept;
  void receive_endpoint(Time now, const wire::RxPacket& packet, QueuePairState* via) noexcept;
  [[nodiscard]] bool admit(QueuePairState* qp, const wire::Bth& bth,
                           const wire::RxPacket& packet) noexcept;

  // In the order in which they depend on each other (context.hpp).
  Context ctx_;
  Teardown teardown_{ctx_};
  Requester requester_{ctx_, teardown_};
  Responder responder_{ctx_, teardown_};
  EndpointService endpoint_{ctx_};
  DataSender data_{ctx_};
  ControlSender control_{ctx_, responder_, requester_, endpoint_};
  Scheduler scheduler_{ctx_, requester_, control_, data_};
  std::array<std::uint64_t, kMaxPlanes> bad_icrc_{};
  std::vector<wire::RxPacket> early_;
};

}  // namespace mrc::inline v0_1::engine
