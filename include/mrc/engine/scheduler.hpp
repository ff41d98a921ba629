// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "mrc/core/types.hpp"
#include "mrc/engine/context.hpp"
#include "mrc/engine/control_sender.hpp"
#include "mrc/engine/data_sender.hpp"
#include "mrc/engine/datagram_service.hpp"
#include "mrc/engine/loss_recovery.hpp"
#include "mrc/wire/burst.hpp"

namespace mrc::inline v0_1::engine {

/// Decides what is sent next (mrc-1.0 §2.5, [O-26]): control packets first, then data, round robin
/// in two levels. Peers are served in rounds of one burst each (EngineOptions::burst packets). The
/// queue pairs of a peer are served round robin; each keeps being served until it has sent a
/// quantum of bytes (EngineOptions::quantum), has nothing to send, or starves. Datagrams of all
/// queue pairs together have a turn like a peer's in each round.
///
/// Inputs: Context::ready, filled by the other parts; Context::control. Output: packets in a
/// TxBurst. Calls LossRecovery (losses are reviewed first, so that retransmissions go out at once),
/// ControlSender, DataSender and DatagramService.
class Scheduler {
 public:
  /// The arguments must outlive this object.
  Scheduler(Context& context, LossRecovery& loss, ControlSender& control, DataSender& data,
            DatagramService& datagrams)
      : ctx_(context), loss_(loss), control_(control), data_(data), datagrams_(datagrams) {}

  /// Appends packets until the burst is full or nothing may be sent. `free_planes`: ports with
  /// room.
  void poll_transmit(Time now, PlaneMask free_planes, wire::TxBurst& burst) noexcept;

 private:
  SendStatus serve(Time now, Peer& peer, QueuePairState& qp, PlaneMask free_planes,
                   wire::TxBurst& burst) noexcept;
  SendStatus serve_burst(Time now, Peer& peer, QueuePairState& qp, PlaneMask free_planes,
                         wire::TxBurst& burst) noexcept;

  Context& ctx_;
  LossRecovery& loss_;
  ControlSender& control_;
  DataSender& data_;
  DatagramService& datagrams_;
  std::size_t turns_of_peers_ = 0;       // until datagrams have theirs
  PlaneMask last_free_ = ~PlaneMask{0};  // free_planes of the last call
};

}  // namespace mrc::inline v0_1::engine
