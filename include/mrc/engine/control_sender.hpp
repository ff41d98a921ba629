// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "mrc/core/types.hpp"
#include "mrc/engine/context.hpp"
#include "mrc/engine/endpoint_service.hpp"
#include "mrc/engine/loss_recovery.hpp"
#include "mrc/engine/responder.hpp"
#include "mrc/wire/burst.hpp"

namespace mrc::inline v0_1::engine {

/// Sends control packets and probes: takes items out of the control queue, has the part that queued
/// an item write its header, and chooses the path (mrc-1.0 §3.6, [O-18]).
///
///     SACK, NACK, Transport ACK, NAK   a reverse path of the plane in which the trigger arrived
///     port status, endpoint response   the same
///     reliability probe                a path of the queue pair, like its data
///     EV probe                         the path to be probed, alone or several in one piece
///
/// Input: Context::control. Output: packets in a TxBurst. Calls Responder, LossRecovery and
/// EndpointService to write headers.
class ControlSender {
 public:
  /// The arguments must outlive this object.
  ControlSender(Context& context, Responder& responder, LossRecovery& loss,
                EndpointService& endpoint)
      : ctx_(context), responder_(responder), loss_(loss), endpoint_(endpoint) {}

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
  void repeat(const wire::TxPacket& packet, std::uint32_t padding, wire::TxBurst& burst) noexcept;
  static void stamp(wire::TxPacket& packet, const wire::Tag& tag) noexcept;

  Context& ctx_;
  Responder& responder_;
  LossRecovery& loss_;
  EndpointService& endpoint_;
};

}  // namespace mrc::inline v0_1::engine
