// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <boost/intrusive/list.hpp>
#include <cstdint>
#include <optional>

#include "mrc/core/ring.hpp"
#include "mrc/core/timing_wheel.hpp"
#include "mrc/core/types.hpp"
#include "mrc/engine/placement.hpp"
#include "mrc/engine/send_queue.hpp"
#include "mrc/engine/stats.hpp"
#include "mrc/engine/types.hpp"
#include "mrc/path/path_set.hpp"
#include "mrc/reliability/packet_pool.hpp"
#include "mrc/reliability/receive_window.hpp"
#include "mrc/reliability/retry.hpp"
#include "mrc/reliability/send_window.hpp"
#include "mrc/reliability/wimm_table.hpp"

namespace mrc::inline v0_1::engine {

struct Peer;

namespace intrusive = boost::intrusive;

/// What a queue pair is created with.
struct QpInit {
  PdId pd{};
  CqId send_cq{};
  CqId receive_cq{};
  QpCapacity capacity{};
  QpAttributes attributes{};
  bool signal_all = false;
};

/// The requester's half of a queue pair (mrc-1.0 §2.5, Table 7-4).
struct Requester {
  Requester(const QpInit& init, SendPool& writes, reliability::PacketPool& packets)
      : queue(writes, init.capacity.send, init.capacity.send_sges, init.capacity.inline_bytes),
        window(packets, init.attributes.mpr * kMprUnit) {}

  SendQueue queue;
  reliability::SendWindow window;
  reliability::RetryCounter retries;
  reliability::RttEstimator rtt;
  path::Cursor cursor{};
  std::uint32_t next_packet = 0;  ///< of the message being sent
  std::uint32_t range = 0;        ///< MPR in packets: own, peer's and (dynamic) its present one
  std::uint32_t fixed_range = 0;  ///< the same without the dynamic part
  Msn next_msn;                   ///< for the next post
  Rqmsn next_rqmsn;
  std::uint16_t wimm_limit = 0;  ///< WriteImm in flight
  std::uint16_t wimm_in_flight = 0;
  std::uint32_t rcvd_bytes = 0;  ///< of the newest SACK, unit 256 B, modulo 2^24
  std::uint32_t turn = 0;        ///< bytes sent since its turn began, as the peer counts them
  std::uint64_t inflight = 0;    ///< this QP's share of the congestion context's inflight, bytes
  Time last_sent{};
  Time paused_until{};  ///< after a NACK for want of resources (mrc-1.0 §2.9)
  Time timer_start{};   ///< of the retransmission timer
  /// Newest place in the send order that is known to have arrived, by plane.
  std::array<std::uint32_t, kMaxPlanes> newest_report{};
  bool owed = false;         ///< a packet may go although the window or all planes are full
  std::uint32_t passed = 0;  ///< packets marked Missed::passed since the last look for losses
  Time loss_check = kNever;  ///< when to look for losses again, without a report
  std::uint16_t probe_id = 0;
  std::uint8_t probes = 0;     ///< sent since the last progress
  bool probe_pending = false;  ///< the newest probe is not answered
  Time probe_sent{};
  std::uint32_t probe_order = 0;  ///< its place in the send order
};

/// The responder's half (mrc-1.0 §2.5, Table 7-5).
struct Responder {
  explicit Responder(const QpInit& init)
      : window(init.attributes.mpr_dest * kMprUnit),
        wimms(init.attributes.max_wimm_dest),
        receives(init.capacity.receive) {}

  reliability::ReceiveWindow window;
  reliability::WimmTable wimms;
  Ring<std::uint64_t> receives;  ///< wr_ids
  HeldTails::List tails;
  std::uint64_t rcvd_bytes = 0;   ///< nominal, accepted packets only ([C-15])
  std::uint32_t since_sack = 0;   ///< bytes (mrc-1.0 §2.6)
  std::uint32_t newest_sack = 0;  ///< number of its newest queued SACK, to merge with
  std::uint32_t sacks_queued = 0;
  std::uint32_t messages = 0;  ///< finished so far; the newest one's MSN is messages - 1
  Psn last_end;                ///< PSN that ended it
  std::uint8_t mpr = 0;        ///< told in SACKs, 0: dynamic MPR is off
  bool ack_queued = false;     ///< a Transport ACK waits in the control queue
  std::optional<Psn> refused;  ///< the packet for which this queue pair went to ERR
  Time last_limited{};         ///< newest PSN_OOR_WINDOW, or answer given in ERR
};

/// What an engine's timers belong to.
struct EngineTimer : TimerNode {
  enum class Owner : std::uint8_t { queue_pair, peer };
  explicit EngineTimer(Owner o) noexcept : owner(o) {}
  const Owner owner;
};

/// A queue pair inside an engine.
struct QueuePairState : EngineTimer {
  QueuePairState(Qpn number, const QpInit& setup, SendPool& writes,
                 reliability::PacketPool& packets)
      : EngineTimer(Owner::queue_pair),
        qpn(number),
        init(setup),
        tx(setup, writes, packets),
        rx(setup) {}

  const Qpn qpn;
  const QpInit init;
  QpState state = QpState::reset;
  QpErrorCause cause = QpErrorCause::none;
  bool error_reported = false;
  bool starved = false;  ///< in its peer's list of those
  RemoteQp remote;
  Psn start_psn;          ///< first PSN that this side sends
  std::uint32_t mtu = 0;  ///< agreed payload bytes per packet; set at RTR
  Peer* peer = nullptr;
  using Hook = intrusive::list_member_hook<intrusive::link_mode<intrusive::auto_unlink>>;
  Hook ready_hook;   ///< in its peer's list of those with something to send
  Hook review_hook;  ///< in the engine's list of those to look through for losses
  Requester tx;
  Responder rx;
  QpStats stats;

  /// Own and heap bytes of this queue pair, with what it holds of the engine's pools at present.
  [[nodiscard]] std::size_t memory() const noexcept {
    return sizeof(*this) + tx.queue.memory() + tx.window.memory() + rx.window.memory() +
           rx.wimms.memory() + rx.receives.capacity() * sizeof(std::uint64_t);
  }
};

}  // namespace mrc::inline v0_1::engine
