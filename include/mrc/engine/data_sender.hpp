// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "mrc/core/types.hpp"
#include "mrc/engine/context.hpp"
#include "mrc/engine/message_layout.hpp"
#include "mrc/wire/burst.hpp"
#include "mrc/wire/transport.hpp"

namespace mrc::inline v0_1::engine {

/// What came of an attempt to send.
enum class SendStatus : std::uint8_t {
  sent,
  idle,       ///< the queue pair has nothing that its own windows admit
  blocked,    ///< the peer is blocked: congestion window full, or no path in the planes given
  starved,    ///< no packet record is free
  burst_full  ///< no room in the TxBurst
};

/// Sends data packets, one at a time: a retransmission or the next packet of the send queue. Checks
/// all windows (mrc-1.0 §2.4 MPR, §2.8 max_wimm, §6 congestion window, planes), chooses the path
/// (§3.5), enters the packet into all accounts and writes it into a TxBurst.
///
/// Input: calls from Scheduler. State: RequesterState::window and queue. Calls no other part.
class DataSender {
 public:
  /// `context` must outlive this object.
  explicit DataSender(Context& context) : ctx_(context) {}

  /// Has the burst room for any packet of `qp`, in parts if it may need them? A burst that is too
  /// small for that even when it is empty takes packets whole.
  [[nodiscard]] static bool has_room(const Peer& peer, const QueuePairState& qp,
                                     const wire::TxBurst& burst) noexcept {
    const std::uint32_t parts = peer.narrow == 0 ? 1 : wire::parts_of(qp.mtu);
    return burst.room() > 0 && burst.sge_room() > qp.tx.most_sges + parts - 1 &&
           (parts <= burst.room() || burst.empty());
  }

  /// Sends one packet of `qp`: the oldest lost one if there is one, else the next new one.
  /// `planes`: those that may be used. `path`: the path of the burst, kNoPath before its first
  /// packet; new packets follow on it, retransmissions choose their own.
  SendStatus send(Time now, Peer& peer, QueuePairState& qp, PlaneMask planes, path::PathIndex& path,
                  wire::TxBurst& burst) noexcept;

 private:
  /// What a packet that is sent is.
  enum class Copy : std::uint8_t {
    first,    ///< the first transmission
    again,    ///< a retransmission of a lost packet
    refused,  ///< of one that the peer has refused: a NACK answers it if it is refused again
    repeat    ///< of one that has arrived, see repeat_last()
  };

  [[nodiscard]] static Psn next_lost(QueuePairState& qp) noexcept;
  [[nodiscard]] static SendQueue* next_queue(QueuePairState& qp) noexcept;
  SendStatus send_again(Time now, Peer& peer, QueuePairState& qp, Psn psn, PlaneMask planes,
                        wire::TxBurst& burst) noexcept;
  SendStatus send_new(Time now, Peer& peer, QueuePairState& qp, PlaneMask planes,
                      path::PathIndex& path, wire::TxBurst& burst) noexcept;
  SendStatus repeat_last(Time now, Peer& peer, QueuePairState& qp, PlaneMask planes,
                         wire::TxBurst& burst) noexcept;
  static PlaneMask planes_for_new(const Peer& peer, PlaneMask planes) noexcept;
  static path::PathIndex path_for_repeat(Peer& peer, QueuePairState& qp, PlaneMask planes,
                                         path::PathIndex avoid) noexcept;
  static void charge(Time now, Peer& peer, QueuePairState& qp, std::uint32_t size,
                     path::PathIndex path) noexcept;
  [[nodiscard]] bool may_be_acknowledged_late(const QueuePairState& qp,
                                              const SendWqe& w) const noexcept;
  void emit(Time now, Peer& peer, QueuePairState& qp, const SentMessage& message, SendWqe& w,
            const PacketSlice& slice, Psn psn, Copy copy, path::PathIndex path,
            wire::TxBurst& burst) noexcept;
  static void add_payload(SendWqe& w, std::uint32_t offset, std::uint32_t length,
                          wire::TxBurst& burst) noexcept;
  void put(Peer& peer, QueuePairState& qp, const SentMessage& message, SendWqe& w,
           const wire::WriteHeader& h, const path::PathSpec& spec, std::uint32_t offset,
           std::uint32_t length, wire::TxBurst& burst) noexcept;
  void emit_parts(Peer& peer, QueuePairState& qp, const SentMessage& message, SendWqe& w,
                  const wire::WriteHeader& h, const path::PathSpec& spec, const PacketSlice& slice,
                  wire::TxBurst& burst) noexcept;

  Context& ctx_;
};

}  // namespace mrc::inline v0_1::engine
