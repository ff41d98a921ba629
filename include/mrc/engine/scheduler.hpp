// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "mrc/core/types.hpp"
#include "mrc/engine/context.hpp"
#include "mrc/engine/endpoint_service.hpp"
#include "mrc/engine/queue_pair.hpp"
#include "mrc/engine/queues.hpp"
#include "mrc/engine/requester.hpp"
#include "mrc/engine/responder.hpp"
#include "mrc/engine/send_window.hpp"
#include "mrc/wire/burst.hpp"
#include "mrc/wire/headers.hpp"
#include "mrc/wire/transport.hpp"

namespace mrc::inline v0_1::engine {

/// Sends control packets and probes: takes items out of the control queue, has the part that queued
/// an item write its header, and chooses the path (mrc-1.0 §3.6, [O-18]).
///
///     SACK, NACK, Transport ACK, NAK   a reverse path of the plane in which the trigger arrived
///     port status, endpoint response   the same
///     reliability probe                a path of the queue pair, like its data
///     EV probe                         the path to be probed, alone or several in one piece
class ControlSender {
 public:
  ControlSender(Context& context, Responder& responder, Requester& requester,
                EndpointService& endpoint)
      : ctx_(context), responder_(responder), requester_(requester), endpoint_(endpoint) {}

  /// Sends what is queued until the burst is full or an item has to wait for a port. An item
  /// without a path or whose target is gone is dropped: control packets may be lost.
  void send(Time now, PlaneMask free_planes, wire::TxBurst& burst) noexcept;

 private:
  /// Consecutive answers to one peer and plane take the same path, up to a burst: a SACK and the
  /// Transport ACK after it then cost the port one message.
  struct SharedPath {
    const Peer* peer = nullptr;
    Plane plane = 0;
    path::PathIndex path = path::kNoPath;
    std::uint32_t left = 0;  ///< packets that may still take it
  };

  [[nodiscard]] bool waits_for_port(const ControlItem& item, PlaneMask free_planes) noexcept;
  Peer* write(Time now, const ControlItem& item, wire::TxPacket& packet) noexcept;
  path::PathIndex choose_path(const ControlItem& item, Peer& peer, PlaneMask free_planes,
                              SharedPath& shared) noexcept;
  void count(ControlItem::Kind kind) noexcept;
  void complete_piece(const ControlItem& item, std::uint32_t padding,
                      wire::TxBurst& burst) noexcept;
  static void stamp(wire::TxPacket& packet, const wire::Tag& tag) noexcept;

  Context& ctx_;
  Responder& responder_;
  Requester& requester_;
  EndpointService& endpoint_;
};

/// The part of a message that one packet carries.
struct PacketSlice {
  std::uint32_t offset,  ///< of the payload in the message, bytes
      length;            ///< payload bytes
  std::uint32_t size;    ///< nominal size, as both sides count it (mrc-1.0 [C-15])
  std::uint8_t pad;      ///< zero bytes after the payload, to a multiple of 4
  bool first,            ///< first packet of the message
      last;              ///< last packet of the message
};

/// Packets of a message.
[[nodiscard]] constexpr std::uint32_t packets_of(std::uint32_t length, std::uint32_t mtu) noexcept {
  return std::max(1u, (length + mtu - 1) / mtu);
}

/// Packet `k` of a message. `timestamps`: data packets have a TSETH.
[[nodiscard]] inline PacketSlice slice_of(const SendWqe& w, std::uint32_t k, std::uint32_t mtu,
                                          bool timestamps) noexcept {
  PacketSlice s;
  s.offset = std::min(k * mtu, w.length);
  s.length = std::min(mtu, w.length - s.offset);
  s.pad = static_cast<std::uint8_t>((4 - s.length % 4) % 4);
  s.first = k == 0;
  s.last = k + 1 == w.packets;
  const bool immediate = w.with_immediate() && s.last;
  const auto headers = static_cast<std::uint32_t>(wire::write_header_size(timestamps, immediate));
  s.size = wire::kNominalOverhead + headers + s.length + s.pad + wire::kIcrcSize;
  return s;
}

/// A message with packets in the send window.
struct SentMessage {
  SendQueue* queue;        ///< the send queue, or that of responses
  std::uint32_t position;  ///< in it

  [[nodiscard]] SendWqe& wqe() const noexcept { return queue->at(position); }
};

/// The message that a packet in the send window belongs to. A search in logarithmic time, because
/// packet records do not name the message: only retransmissions and packets given up look it up.
[[nodiscard]] SentMessage message_of(QueuePairState& qp, Psn psn) noexcept;

/// Nominal size of an outstanding packet. Its record has it until the packet is sent again.
[[nodiscard]] inline std::uint32_t nominal_size(QueuePairState& qp, Psn psn,
                                                reliability::Packet packet,
                                                bool timestamps) noexcept {
  if (packet.first_try()) return packet.size();
  const SendWqe& w = message_of(qp, psn).wqe();
  return slice_of(w, static_cast<std::uint32_t>(psn - w.first), qp.mtu, timestamps).size;
}

/// What came of an attempt to send.
enum class SendStatus : std::uint8_t {
  sent,
  idle,       ///< the queue pair has nothing that its own windows admit
  blocked,    ///< the peer is blocked: congestion window full, or no path in the planes given
  starved,    ///< no packet record is free
  burst_full  ///< no room in the TxBurst
};

/// Sends data packets, one at a time: checks all windows (mrc-1.0 §2.4 MPR, §2.8 max_wimm, §6
/// congestion window, planes), chooses the path (§3.5) and writes the packet into a TxBurst.
class DataSender {
 public:
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

/// Decides what is sent next (mrc-1.0 §2.5, [O-26]): control packets first, then data, round robin
/// in two levels. Peers are served in rounds of one burst each (EngineOptions::burst packets). The
/// queue pairs of a peer are served round robin; each keeps being served until it has sent a
/// quantum of bytes (EngineOptions::quantum), has nothing to send, or starves. Datagrams of all
/// queue pairs together have a turn like a peer's in each round. Losses are reviewed before that,
/// so that retransmissions go out at once.
class Scheduler {
 public:
  Scheduler(Context& context, Requester& requester, ControlSender& control, DataSender& data)
      : ctx_(context), requester_(requester), control_(control), data_(data) {}

  /// `free_planes`: ports with room.
  void poll_transmit(Time now, PlaneMask free_planes, wire::TxBurst& burst) noexcept;

 private:
  SendStatus serve(Time now, Peer& peer, QueuePairState& qp, PlaneMask free_planes,
                   wire::TxBurst& burst) noexcept;
  SendStatus serve_burst(Time now, Peer& peer, QueuePairState& qp, PlaneMask free_planes,
                         wire::TxBurst& burst) noexcept;

  Context& ctx_;
  Requester& requester_;
  ControlSender& control_;
  DataSender& data_;
  std::size_t turns_of_peers_ = 0;       // until datagrams have theirs
  PlaneMask last_free_ = ~PlaneMask{0};  // free_planes of the last call
};

}  // namespace mrc::inline v0_1::engine
