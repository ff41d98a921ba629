// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <boost/intrusive/list.hpp>
#include <cstdint>
#include <optional>
#include <span>

#include "mrc/core/error.hpp"
#include "mrc/core/types.hpp"
#include "mrc/engine/context.hpp"
#include "mrc/engine/send_window.hpp"
#include "mrc/engine/verbs_types.hpp"
#include "mrc/wire/burst.hpp"
#include "mrc/wire/transport.hpp"

namespace mrc::inline v0_1::engine {

namespace detail {

/// A round-trip time, and the path that it was measured on if that is known.
struct RttSample {
  Duration rtt{};
  bool valid = false;
  path::PathIndex path = path::kNoPath;
};

/// Messages at the heads of both queues of a queue pair.
struct Ended {
  std::uint32_t requests = 0, responses = 0;  ///< how many
  Psn last;                                   ///< last PSN of the newest
  [[nodiscard]] bool any() const noexcept { return requests + responses > 0; }
};

}  // namespace detail

/// The requester half of queue pairs, without sending itself: takes posted requests, processes what
/// the responder answers (mrc-1.0 §2.7 to §2.9), and decides which packets are lost.
///
///     SACK            packets have arrived: records are freed, the round-trip time is sampled,
///                     path marks and congestion control are updated. Completes nothing.
///     NACK            a packet was trimmed or refused: it is given up, or the queue pair fails.
///     Transport ACK   messages are finished: completions, in posting order; or, as NAK, ERR.
///
/// Lost is what later SACKs (§2.9, [O-3]), a NACK or the retransmission timer (§2.10) say.
/// Reliability probes (§5) ask what has arrived. DataSender sends again what is marked lost in
/// RequesterState::window.
class Requester {
 public:
  Requester(Context& context, Teardown& teardown) : ctx_(context), teardown_(teardown) {}

  /// A queue pair moves to RTS: requests are numbered anew.
  static void start(QueuePairState& qp) noexcept;
  /// Its own limits have changed in the middle of a connection: timeout, retries, READs in flight.
  static void change_limits(QueuePairState& qp) noexcept;
  /// Its peer is known: sending begins, from the oldest request on.
  void attach(Time now, QueuePairState& qp) noexcept;

  /// Posts a request to a queue pair in RTS. Nothing is posted if it fails.
  Errc post(Time now, QueuePairState& qp, const SendRequest& request) noexcept;

  /// These are for a queue pair in RTS, or with RC in RTR. What does not fit its state is dropped
  /// and counted (DropStats::stale, implausible).
  void on_sack(Time now, QueuePairState& qp, const wire::RxPacket& packet) noexcept;
  /// UNEXP_EVENT moves the queue pair to ERR, as does a NAK in on_ack().
  void on_nack(Time now, QueuePairState& qp, const wire::RxPacket& packet) noexcept;
  void on_ack(Time now, QueuePairState& qp, const wire::RxPacket& packet) noexcept;

  [[nodiscard]] bool review_requested() const noexcept { return !to_review_.empty(); }
  /// Infers losses for all queue pairs with new SACKs. Call it when everything that has arrived by
  /// `now` was received: after a scheduling delay, SACKs of several planes are queued, and judging
  /// after the first would declare packets lost that the next one reports.
  void review(Time now) noexcept;
  /// Packets that a port did not send. They go back to "not sent" without a trace in congestion
  /// control. Control packets among them are simply lost.
  void on_untransmitted(Time now, std::span<const wire::TxPacket> packets) noexcept;
  void on_timer(Time now, QueuePairState& qp) noexcept;
  void write_probe(Time now, const ControlItem& item, QueuePairState& qp,
                   wire::TxPacket& packet) noexcept;

 private:
  struct LostPacket {
    path::PathIndex path = path::kNoPath;  ///< on which it was sent
    std::uint32_t size = 0;                ///< nominal size, bytes
    Time sent{};                           ///< when it was sent
  };

  Errc check_sges(const QueuePairState& qp, const SendRequest& request,
                  std::uint64_t& length) noexcept;
  void copy_sges(SendWqe& w, const SendRequest& request) noexcept;

  // SACKs
  detail::RttSample sample_rtt(Time now, QueuePairState& qp, const wire::SackPacket& sack) noexcept;
  detail::RttSample sample_probe(Time now, QueuePairState& qp,
                                 const wire::SackPacket& sack) noexcept;
  void apply_mark(Time now, QueuePairState& qp, const wire::SackPacket& sack,
                  path::PathIndex path) noexcept;
  void take_cack(Time now, QueuePairState& qp, Psn cack) noexcept;
  void take_sack_bits(Time now, QueuePairState& qp, Psn base, std::uint64_t bits,
                      bool shows_gaps) noexcept;
  void on_reported(Time now, QueuePairState& qp, Psn psn, reliability::Packet packet) noexcept;

  [[nodiscard]] bool on_refused(Time now, QueuePairState& qp, Psn psn) noexcept;
  void note_refused(QueuePairState& qp, Psn psn) noexcept;
  void on_receiver_not_ready(Time now, QueuePairState& qp, Psn psn, bool exact,
                             std::uint8_t timer) noexcept;
  void complete(Time now, QueuePairState& qp, const detail::Ended& ended) noexcept;
  void finish_reported(QueuePairState& qp) noexcept;
  void fail_by_nak(Time now, QueuePairState& qp, Psn psn, wire::Syndrome syndrome) noexcept;

  // Losses
  std::optional<LostPacket> give_up(QueuePairState& qp, Psn psn) noexcept;
  void infer_losses(Time now, QueuePairState& qp) noexcept;
  void on_retransmission_timeout(Time now, QueuePairState& qp) noexcept;
  [[nodiscard]] bool may_wait_to_run(Time now, QueuePairState& qp, Psn psn) const noexcept;
  bool take_retry(Time now, QueuePairState& qp, bool all_arrived) noexcept;
  void ask(Time now, QueuePairState& qp) noexcept;
  void send_probe(Time now, QueuePairState& qp) noexcept;

  Context& ctx_;
  Teardown& teardown_;
  intrusive::list<
      QueuePairState,
      intrusive::member_hook<QueuePairState, QueuePairState::Hook, &QueuePairState::review_hook>,
      intrusive::constant_time_size<false>>
      to_review_;
};

}  // namespace mrc::inline v0_1::engine
