// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <boost/intrusive/list.hpp>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "mrc/core/error.hpp"
#include "mrc/core/linkage.hpp"
#include "mrc/core/random.hpp"
#include "mrc/core/ring.hpp"
#include "mrc/core/timing_wheel.hpp"
#include "mrc/core/types.hpp"
#include "mrc/engine/completion_queue.hpp"
#include "mrc/engine/control_queue.hpp"
#include "mrc/engine/memory.hpp"
#include "mrc/engine/options.hpp"
#include "mrc/engine/peer.hpp"
#include "mrc/engine/placement.hpp"
#include "mrc/engine/queue_pair.hpp"
#include "mrc/engine/stats.hpp"
#include "mrc/engine/types.hpp"
#include "mrc/reliability/packet_pool.hpp"
#include "mrc/wire/burst.hpp"
#include "mrc/wire/transport.hpp"

namespace mrc::inline v0_1::engine {

namespace detail {
struct Slice;
}

/// The MRC protocol engine of one device: queue pairs, their reliability, paths and congestion
/// control. Sans-IO: no clock, no socket, no thread; the same object runs under real ports, under
/// a simulator and under a fuzzer, and a run with a given seed is repeatable bit for bit.
///
/// Methods are of four kinds:
/// * inputs, which carry what happened outside: receive(), on_time(), set_plane_up(),
///   on_untransmitted();
/// * application calls: objects, states, posting;
/// * outputs: poll_transmit() fills a burst, next_deadline() says when to call on_time();
/// * getters: poll_cq(), poll_event(), statistics.
///
/// After any input or application call, call poll_transmit() until the burst stays empty, then
/// read next_deadline(). Time goes on: who names an older one than was named before is taken to
/// mean that.
///
/// Thread contract: one thread at a time. Memory: everything is taken by the constructor and by
/// the calls that make objects; inputs, posting and outputs neither allocate nor throw.
class Engine {
 public:
  /// Throws mrc::Error when an option is out of range.
  explicit Engine(const EngineOptions& options);
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;
  ~Engine();

  // --- Application calls: objects -----------------------------------------------------------

  Result<PdId> alloc_pd();
  /// Errc::in_use while a memory region or a queue pair belongs to it.
  Errc dealloc_pd(PdId pd) noexcept;

  /// Registers memory; the key serves as lkey and rkey. Remote write includes local write.
  Result<std::uint32_t> register_memory(void* address, std::uint64_t length, Access access,
                                        PdId pd);
  /// Errc::in_use while posted requests lie in it, unless `force`: their queue pairs go to ERR.
  Errc deregister_memory(std::uint32_t key, bool force = false) noexcept;

  /// `depth` 1 .. 4,194,304 completions.
  Result<CqId> create_cq(std::uint32_t depth);
  /// Errc::in_use while a queue pair uses it.
  Errc destroy_cq(CqId cq) noexcept;

  /// A queue pair in RESET. Errc::invalid_argument when init is out of the documented ranges.
  Result<Qpn> create_qp(const QpInit& init);
  /// In any state; what is posted vanishes without completions.
  Errc destroy_qp(Qpn qpn) noexcept;

  /// Makes a remote device known. Throws mrc::Error if it has no paths.
  Result<PeerId> add_peer(const PeerSpec& spec);
  /// Errc::in_use while queue pairs are connected to it.
  Errc remove_peer(PeerId peer) noexcept;

  // --- Application calls: states (mrc-1.0 §2.11) ---------------------------------------------

  /// First PSN that the queue pair will send; the peer needs it. Random, new after each reset.
  Result<Psn> start_psn(Qpn qpn) const noexcept;
  Errc to_init(Qpn qpn) noexcept;                         ///< from RESET
  Errc to_rtr(Qpn qpn, const RemoteQp& remote) noexcept;  ///< from INIT: can receive
  Errc to_rts(Qpn qpn, Time now) noexcept;                ///< from RTR: can send too
  Errc to_error(Qpn qpn) noexcept;  ///< from any but RESET: everything posted is flushed
  Errc to_reset(Qpn qpn) noexcept;  ///< from any: everything posted vanishes

  // --- Application calls: posting -------------------------------------------------------------

  /// Posts a write; needs RTS. Nothing is posted when it fails.
  Errc post_write(Qpn qpn, const WriteRequest& request, Time now) noexcept;
  /// Posts a receive request; needs INIT, RTR or RTS.
  Errc post_receive(Qpn qpn, std::uint64_t wr_id) noexcept;

  /// Takes completions; 0 when there are none.
  std::size_t poll_cq(CqId cq, std::span<Completion> out) noexcept;
  /// The next completion of this queue raises Event::Kind::completion, once.
  Errc arm_cq(CqId cq) noexcept;

  // --- Inputs -----------------------------------------------------------------------------------

  /// Packets that a port received.
  void receive(Time now, std::span<const wire::RxPacket> packets) noexcept;
  /// Time has reached next_deadline().
  void on_time(Time now) noexcept;
  /// A local port went down or came up. All are up at first.
  void set_plane_up(Time now, Plane plane, bool up) noexcept;
  /// Packets of the burst filled last that a port did not take: they count as lost at once.
  void on_untransmitted(Time now, std::span<const wire::TxPacket> packets) noexcept;

  // --- Outputs ----------------------------------------------------------------------------------

  /// Appends packets to send now, control packets first, on ports of `free_planes` only.
  void poll_transmit(Time now, PlaneMask free_planes, wire::TxBurst& burst) noexcept;
  /// When on_time() is due; kNever if no timer runs. Never later than the earliest timer.
  [[nodiscard]] Time next_deadline() const noexcept { return timers_.next_deadline(); }

  // --- Getters ----------------------------------------------------------------------------------

  /// Something that an application waits for; each waits until it is taken.
  struct Event {
    enum class Kind : std::uint8_t { completion, cq_overrun, qp_error };
    Kind kind{};
    CqId cq{};
    Qpn qpn{};
  };
  bool poll_event(Event& event) noexcept;

  /// An EV probe (mrc-1.0 §5) from none of the peers: of mrc_probe, say, or of a device to which no
  /// queue pair is connected. The engine knows no way to its sender; a driver that does answers.
  struct GuestProbe {
    std::uint64_t source = 0;  ///< RxPacket::source
    Ev entropy{};              ///< as it came
    std::uint16_t id = 0;      ///< of the request
    std::uint16_t timestamp = 0;
    Plane plane = 0;
  };
  /// The oldest of them, at most EngineOptions::guest_probes; more than that are dropped.
  bool poll_guest_probe(GuestProbe& probe) noexcept;

  [[nodiscard]] const EngineOptions& options() const noexcept { return options_; }
  [[nodiscard]] const EngineStats& stats() const noexcept { return stats_; }
  /// Null when there is no such object. Valid until the next call that is not a getter.
  [[nodiscard]] const QueuePairState* find_qp(Qpn qpn) const noexcept;
  [[nodiscard]] const Peer* find_peer(PeerId peer) const noexcept;
  [[nodiscard]] Peer* find_peer(PeerId peer) noexcept;
  [[nodiscard]] const CompletionRing* find_cq(CqId cq) const noexcept;
  [[nodiscard]] QpStats qp_stats(const QueuePairState& qp) const noexcept;
  [[nodiscard]] std::uint32_t qp_count() const noexcept { return qp_count_; }
  [[nodiscard]] std::uint32_t peer_count() const noexcept { return peer_count_; }
  /// Free room for packets in flight, in packets; all of it when the engine is idle.
  [[nodiscard]] std::size_t free_records() const noexcept {
    return pool_.free_chunks() * reliability::kRecordsPerChunk;
  }

  /// Looks for losses where SACKs have come in; poll_transmit() does so too. For drivers that may
  /// read more before they send: to be called when all that had arrived by `now` was handed over.
  void review_losses(Time now) noexcept;

  /// poll_transmit() may have something: control packets, or a queue pair's turn.
  [[nodiscard]] bool has_output() const noexcept {
    return !control_.empty() || !ready_peers_.empty() || !to_review_.empty();
  }

  /// No packet is in flight.
  [[nodiscard]] bool quiet() const noexcept { return pool_.free_chunks() == pool_.chunk_count(); }

  /// Tells peers in SACKs how many packets they may have under way (Dynamic MPR, mrc-1.0 §2.4):
  /// `units` of 128 PSNs, at most the queue pair's mpr_dest; needs it agreed on with the peer.
  Errc set_mpr(Qpn qpn, std::uint8_t units) noexcept;

 private:
  using PeerList =
      intrusive::list<Peer, intrusive::member_hook<Peer, decltype(Peer::hook), &Peer::hook>,
                      intrusive::constant_time_size<false>>;
  using ReviewList = intrusive::list<
      QueuePairState,
      intrusive::member_hook<QueuePairState, QueuePairState::Hook, &QueuePairState::review_hook>,
      intrusive::constant_time_size<false>>;
  /// How a queue pair's turn to send ended.
  enum class Turn : std::uint8_t { over, idle, blocked, starved, burst_full };
  /// The transmission of a packet that counts as lost.
  struct GivenUp {
    path::PathIndex path = path::kNoPath;
    std::uint32_t size = 0;  ///< nominal
  };
  /// An endpoint request on its way.
  struct EndpointRequest {
    PeerId peer{};
    std::uint16_t id = 0;
    std::uint16_t timestamp = 0;  ///< that it went out with, which the answer copies
    path::PathIndex path = path::kNoPath;
    wire::EndpointOp op{};
    bool open = false;
  };
  static constexpr std::size_t kOpenRequests = 1024;

  // impl/objects.ipp
  [[nodiscard]] QueuePairState* qp_of(Qpn qpn) noexcept;
  [[nodiscard]] CompletionRing* cq_of(CqId cq) noexcept;
  [[nodiscard]] static Errc check(const QpInit& init) noexcept;
  void detach(QueuePairState& qp) noexcept;
  void return_memory(SendWqe& wqe) noexcept;
  void adjust_planes(Peer& peer) noexcept;
  void on_planes_changed(Time now, Peer& peer) noexcept;  // impl/endpoint.ipp
  [[nodiscard]] PlaneMask usable_planes(const Peer& peer) const noexcept {
    return peer.planes & peer.remote_up & local_up_;
  }

  // impl/post.ipp
  Errc check_pieces(const QueuePairState& qp, const WriteRequest& request,
                    std::uint64_t& length) noexcept;
  bool complete(CqId cq, const Completion& completion) noexcept;
  void fail(QueuePairState& qp, QpErrorCause cause, WcStatus status,
            std::optional<std::uint32_t> position = std::nullopt) noexcept;
  void flush(QueuePairState& qp, WcStatus status, std::optional<std::uint32_t> position) noexcept;
  void stop(QueuePairState& qp) noexcept;
  void fail_overrun_queues() noexcept;

  // impl/transmit.ipp
  Turn take_turn(Time now, Peer& peer, QueuePairState& qp, PlaneMask free_planes,
                 wire::TxBurst& burst) noexcept;
  Turn retransmit(Time now, Peer& peer, QueuePairState& qp, PlaneMask planes,
                  wire::TxBurst& burst) noexcept;
  Turn send_next(Time now, Peer& peer, QueuePairState& qp, PlaneMask planes, path::PathIndex& path,
                 wire::TxBurst& burst) noexcept;
  void emit(Time now, Peer& peer, QueuePairState& qp, SendWqe& w, const detail::Slice& slice,
            Psn psn, bool again, path::PathIndex path, wire::TxBurst& burst) noexcept;
  [[nodiscard]] SendWqe& message_of(QueuePairState& qp, Psn psn) noexcept;
  [[nodiscard]] std::uint32_t size_of(QueuePairState& qp, Psn psn,
                                      reliability::Packet packet) noexcept;
  static void add_payload(SendWqe& w, const detail::Slice& slice, wire::TxBurst& burst) noexcept;
  void charge(Peer& peer, Plane plane, std::uint32_t size) noexcept;
  void release(Peer& peer, Plane plane, std::uint32_t size) noexcept;
  void update_ready(QueuePairState& qp) noexcept;
  void wake(Peer& peer) noexcept;
  void wake_all() noexcept;

  // impl/control.ipp
  void send_control(Time now, PlaneMask free_planes, wire::TxBurst& burst) noexcept;
  [[nodiscard]] bool waits_for_port(const ControlItem& item, PlaneMask free_planes) noexcept;
  bool build_control(Time now, const ControlItem& item, Peer*& peer,
                     wire::TxPacket& packet) noexcept;
  void build_sack(const ControlItem& item, QueuePairState& qp, wire::TxPacket& packet) noexcept;
  void queue_control(const ControlItem& item) noexcept;
  void queue_sack(QueuePairState& qp, const wire::RxPacket& packet, Psn psn,
                  std::uint16_t timestamp) noexcept;
  void queue_ack(QueuePairState& qp, Plane plane) noexcept;
  [[nodiscard]] static bool may_nack_again(Time now, QueuePairState& qp) noexcept;
  void queue_nack(Time now, QueuePairState& qp, const wire::RxPacket& packet, Psn psn,
                  std::uint16_t timestamp, wire::NackReason reason) noexcept;

  // impl/responder.ipp
  void on_write(Time now, QueuePairState& qp, const wire::RxPacket& packet) noexcept;
  void on_trimmed(Time now, const wire::RxPacket& packet) noexcept;
  void on_probe(QueuePairState& qp, const wire::RxPacket& packet) noexcept;
  [[nodiscard]] QpErrorCause check_write(const QueuePairState& qp, const wire::WriteView& w,
                                         const MemoryEntry** region) noexcept;
  void place(QueuePairState& qp, const wire::WriteView& w, const MemoryEntry* region,
             bool in_order) noexcept;
  void release_tails(QueuePairState& qp) noexcept;
  QpErrorCause deliver(QueuePairState& qp) noexcept;
  void refuse(Time now, QueuePairState& qp, const wire::RxPacket& packet, Psn psn,
              QpErrorCause cause) noexcept;
  void answer_in_error(Time now, QueuePairState& qp, const wire::RxPacket& packet,
                       Psn psn) noexcept;

  // impl/requester.ipp
  void on_sack(Time now, QueuePairState& qp, const wire::RxPacket& packet) noexcept;
  void on_nack(Time now, QueuePairState& qp, const wire::RxPacket& packet) noexcept;
  void on_ack(Time now, QueuePairState& qp, const wire::RxPacket& packet) noexcept;
  void on_acknowledged(Time now, QueuePairState& qp, std::uint32_t messages) noexcept;
  void take_sack_bits(Time now, QueuePairState& qp, Psn base, std::uint64_t bits,
                      bool newest_sack) noexcept;
  void take_cack(Time now, QueuePairState& qp, Psn cack) noexcept;
  void reported(Time now, QueuePairState& qp, Psn psn, reliability::Packet packet) noexcept;
  void feed_congestion(Time now, QueuePairState& qp, const wire::SackPacket& sack, Duration rtt,
                       bool has_rtt) noexcept;
  std::optional<GivenUp> give_up(Time now, QueuePairState& qp, Psn psn) noexcept;
  void leave_flight(Time now, QueuePairState& qp, reliability::Packet packet,
                    std::uint32_t size) noexcept;
  void find_losses(Time now, QueuePairState& qp) noexcept;
  void progress(Time now, QueuePairState& qp) noexcept;
  [[nodiscard]] std::optional<std::uint32_t> position_of(QueuePairState& qp, Psn psn) noexcept;

  // impl/endpoint.ipp
  void on_endpoint_request(Time now, const wire::RxPacket& packet) noexcept;
  void on_endpoint_response(Time now, const wire::RxPacket& packet) noexcept;
  void tell_ports(Time now, Peer& peer) noexcept;
  std::uint16_t open_request(PeerId peer, wire::EndpointOp op, path::PathIndex path) noexcept;

  // impl/timers.ipp
  void arm(QueuePairState& qp, Time now) noexcept;
  void arm(Peer& peer) noexcept;
  void on_qp_time(Time now, QueuePairState& qp) noexcept;
  void ask(Time now, QueuePairState& qp) noexcept;
  static void owe(QueuePairState& qp) noexcept;
  void owe_waiting(Time now, Peer& peer, Duration timeout) noexcept;
  void on_retransmission_timeout(Time now, QueuePairState& qp) noexcept;
  void on_peer_time(Time now, Peer& peer) noexcept;
  [[nodiscard]] bool awaits(const QueuePairState& qp) const noexcept;
  [[nodiscard]] Duration round_trip(const QueuePairState& qp) const noexcept;
  [[nodiscard]] Time retransmission_deadline(const QueuePairState& qp) const noexcept;
  [[nodiscard]] Time probe_deadline(const QueuePairState& qp) const noexcept;

  /// A time that an input or an application call has named.
  [[nodiscard]] Time forward(Time now) noexcept { return latest_ = std::max(latest_, now); }

  // impl/receive.ipp
  void receive_one(Time now, const wire::RxPacket& packet) noexcept;

  EngineOptions options_;
  EngineStats stats_;
  Time latest_;  // that was named
  Random random_;
  TimingWheel timers_;
  reliability::PacketPool pool_;
  SendPool send_pool_;
  MemoryTable memory_;
  HeldTails held_tails_;
  ControlQueue control_;
  PeerList ready_peers_;
  ReviewList to_review_;
  std::vector<std::unique_ptr<QueuePairState>> qps_;  // by QPN index - kFirstUserQpn
  Ring<std::uint32_t> free_qps_;
  std::vector<std::unique_ptr<CompletionRing>> cqs_;
  std::vector<std::uint8_t> pds_;
  std::vector<std::unique_ptr<Peer>> peers_;
  std::unordered_map<std::uint64_t, PeerId> peer_by_source_;
  std::vector<EndpointRequest> requests_;
  std::uint16_t next_request_;
  Ring<CqId> signalled_;
  Ring<CqId> overrun_;
  Ring<Qpn> failed_;
  Ring<GuestProbe> guest_probes_;
  PlaneMask local_up_ = ~PlaneMask{0};
  PlaneMask last_free_ = ~PlaneMask{0};
  std::uint32_t qp_count_ = 0;
  std::uint32_t peer_count_ = 0;
  bool starved_ = false;  // a queue pair found the record pool empty
  bool overrun_pending_ = false;
};

}  // namespace mrc::inline v0_1::engine

#ifndef MRC_SEPARATE_COMPILATION
#include "mrc/engine/impl/control.ipp"
#include "mrc/engine/impl/endpoint.ipp"
#include "mrc/engine/impl/objects.ipp"
#include "mrc/engine/impl/post.ipp"
#include "mrc/engine/impl/receive.ipp"
#include "mrc/engine/impl/requester.ipp"
#include "mrc/engine/impl/responder.ipp"
#include "mrc/engine/impl/states.ipp"
#include "mrc/engine/impl/timers.ipp"
#include "mrc/engine/impl/transmit.ipp"
#endif
