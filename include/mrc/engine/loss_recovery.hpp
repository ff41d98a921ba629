// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <boost/intrusive/list.hpp>
#include <cstdint>
#include <optional>
#include <span>

#include "mrc/core/types.hpp"
#include "mrc/engine/context.hpp"
#include "mrc/engine/send_window.hpp"
#include "mrc/wire/burst.hpp"

namespace mrc::inline v0_1::engine {

/// Decides which outstanding packets of a requester are lost: by what later SACKs report
/// (mrc-1.0 §2.9, [O-3]), by NACK, by retransmission timeout (§2.10), or because a port could not
/// send them. Sends reliability probes (§5) to find out. If all packets have arrived and only a
/// Transport ACK is missing, every other probe gives way to a repeated packet (ask()).
///
/// Inputs: request_review() and give_up() from Requester, review() from Scheduler and Engine,
/// on_timer(), on_untransmitted(). Outputs: packets marked lost in RequesterState::window, which
/// DataSender sends again; congestion control and paths are informed; probes in the control queue.
/// Calls Teardown when the retry counter is exhausted.
class LossRecovery {
 public:
  /// The transmission of a packet that was given up.
  struct LostPacket {
    path::PathIndex path = path::kNoPath;  ///< on which it was sent
    std::uint32_t size = 0;                ///< nominal size, bytes
    Time sent{};                           ///< when it was sent
  };

  /// The arguments must outlive this object.
  LossRecovery(Context& context, Teardown& teardown) : ctx_(context), teardown_(teardown) {}

  /// A SACK arrived: review() is to look at this queue pair.
  void request_review(QueuePairState& qp) noexcept {
    if (!qp.review_hook.is_linked()) to_review_.push_back(qp);
  }
  /// True if review() has queue pairs to look at.
  [[nodiscard]] bool review_requested() const noexcept { return !to_review_.empty(); }
  /// Infers losses for all queue pairs with new SACKs. Call it when everything that has arrived by
  /// `now` was received: after a scheduling delay, SACKs of several planes are queued, and judging
  /// after the first would declare packets lost that the next one reports.
  void review(Time now) noexcept;

  /// Marks an outstanding packet lost. The caller informs congestion control, which subtracts the
  /// packet's size. Nothing if the packet is not outstanding.
  std::optional<LostPacket> give_up(QueuePairState& qp, Psn psn) noexcept;
  /// Packets that a port did not send. They go back to "not sent" without a trace in congestion
  /// control. Control packets among them are simply lost.
  void on_untransmitted(Time now, std::span<const wire::TxPacket> packets) noexcept;

  /// The queue pair's timer has expired.
  void on_timer(Time now, QueuePairState& qp) noexcept;
  /// The last usable plane of a peer is gone: the retransmission timers of its waiting queue pairs
  /// start.
  void on_unreachable(Time now, Peer& peer) noexcept;

  /// Writes the reliability probe of a control item.
  void write_probe(Time now, const ControlItem& item, QueuePairState& qp,
                   wire::TxPacket& packet) noexcept;

 private:
  using ReviewList = intrusive::list<
      QueuePairState,
      intrusive::member_hook<QueuePairState, QueuePairState::Hook, &QueuePairState::review_hook>,
      intrusive::constant_time_size<false>>;

  void infer_losses(Time now, QueuePairState& qp) noexcept;
  static void remove_from_flight(QueuePairState& qp, reliability::Packet packet,
                                 std::uint32_t size) noexcept;
  void on_retransmission_timeout(Time now, QueuePairState& qp) noexcept;
  [[nodiscard]] bool may_wait_to_run(Time now, QueuePairState& qp, Psn psn) const noexcept;
  bool take_retry(Time now, QueuePairState& qp, bool all_arrived) noexcept;
  void ask(Time now, QueuePairState& qp) noexcept;
  void send_probe(Time now, QueuePairState& qp) noexcept;

  Context& ctx_;
  Teardown& teardown_;
  ReviewList to_review_;
};

}  // namespace mrc::inline v0_1::engine
