// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include "mrc/core/error.hpp"
#include "mrc/core/types.hpp"
#include "mrc/engine/context.hpp"
#include "mrc/engine/loss_recovery.hpp"
#include "mrc/engine/verbs_types.hpp"
#include "mrc/wire/burst.hpp"
#include "mrc/wire/transport.hpp"

namespace mrc::inline v0_1::engine {

/// The requester half of queue pairs, without sending itself: takes posted requests, and processes
/// what the responder answers (mrc-1.0 §2.7 to §2.9).
///
///     SACK            packets have arrived: records are freed, the round-trip time is sampled,
///                     path marks and congestion control are updated. Completes nothing.
///     NACK            a packet was trimmed or refused: it is given up, or the queue pair fails.
///     Transport ACK   messages are finished: completions, in posting order; or, as NAK, ERR.
///
/// State: RequesterState of each queue pair. Inputs: post(), on_sack(), on_nack(), on_ack().
/// Outputs: completions; queue pairs in the ready queue. Calls LossRecovery (packets given up,
/// loss review after SACKs) and Teardown (fatal answers).
class Requester {
 public:
  /// The arguments must outlive this object.
  Requester(Context& context, LossRecovery& loss, Teardown& teardown)
      : ctx_(context), loss_(loss), teardown_(teardown) {}

  /// A queue pair moves to RTS: requests are numbered anew.
  static void start(QueuePairState& qp) noexcept;
  /// Its window becomes larger, while it is empty. Throws std::bad_alloc.
  static void grow(QueuePairState& qp, std::uint8_t mpr);
  /// Its own limits have changed in the middle of a connection: timeout, retries, READs in flight.
  static void change_limits(QueuePairState& qp) noexcept;
  /// The payload of its packets changes, while none is under way.
  static void set_mtu(QueuePairState& qp, std::uint32_t mtu) noexcept;
  /// Its peer is known: sending begins, from the oldest request on.
  void attach(Time now, QueuePairState& qp) noexcept;

  /// Posts a request to a queue pair in RTS. Nothing is posted if it fails.
  Errc post(Time now, QueuePairState& qp, const SendRequest& request) noexcept;

  /// A SACK for a queue pair in RTS, or with RC in RTR. If it does not fit the queue pair's state,
  /// it is dropped and counted (DropStats::stale, implausible).
  void on_sack(Time now, QueuePairState& qp, const wire::RxPacket& packet) noexcept;
  /// A NACK, under the same conditions. UNEXP_EVENT moves the queue pair to ERR.
  void on_nack(Time now, QueuePairState& qp, const wire::RxPacket& packet) noexcept;
  /// A Transport ACK, under the same conditions. A NAK moves the queue pair to ERR.
  void on_ack(Time now, QueuePairState& qp, const wire::RxPacket& packet) noexcept;

  /// A part of the response to a READ or an atomic has arrived: the peer is at work.
  static void on_response(Time now, QueuePairState& qp) noexcept;
  /// The response to the oldest READ or atomic, ReadTable::oldest(), is whole.
  void on_answered(Time now, QueuePairState& qp) noexcept;

 private:
  /// A round-trip time, and the path that it was measured on if that is known.
  struct RttSample {
    Duration rtt{};
    bool valid = false;
    path::PathIndex path = path::kNoPath;
  };

  /// Messages at the heads of both queues.
  struct Ended {
    std::uint32_t requests = 0, responses = 0;  ///< how many
    Psn last;                                   ///< last PSN of the newest
    [[nodiscard]] bool any() const noexcept { return requests + responses > 0; }
  };

  static void start_rc(QueuePairState& qp) noexcept;
  [[nodiscard]] static Errc check_offered(const QueuePairState& qp, SendOpcode opcode) noexcept;
  Errc check_sges(const QueuePairState& qp, const SendRequest& request,
                  std::uint64_t& length) noexcept;
  void copy_sges(SendWqe& w, const SendRequest& request) noexcept;
  static void make_operation(SendWqe& w, const SendRequest& request) noexcept;

  // SACKs
  RttSample sample_rtt(Time now, QueuePairState& qp, const wire::SackPacket& sack) noexcept;
  RttSample sample_probe(Time now, QueuePairState& qp, const wire::SackPacket& sack) noexcept;
  static bool timed_by_psn(Time now, RequesterState& tx, const wire::SackPacket& sack, Psn trigger,
                           reliability::Packet sent) noexcept;
  void apply_mark(Time now, QueuePairState& qp, const wire::SackPacket& sack,
                  path::PathIndex path) noexcept;
  void take_cack(Time now, QueuePairState& qp, Psn cack) noexcept;
  [[nodiscard]] static bool overtaken(const QueuePairState& qp,
                                      const wire::SackPacket& sack) noexcept;
  void take_sack_bits(Time now, QueuePairState& qp, Psn base, std::uint64_t bits,
                      bool shows_gaps) noexcept;
  static void note_missing(QueuePairState& qp, Psn psn) noexcept;
  void on_reported(Time now, QueuePairState& qp, Psn psn, reliability::Packet packet) noexcept;
  static void feed_congestion(Time now, QueuePairState& qp, const wire::SackPacket& sack,
                              const RttSample& sample, bool overtaken) noexcept;

  [[nodiscard]] bool on_refused(Time now, QueuePairState& qp, Psn psn) noexcept;
  void note_refused(QueuePairState& qp, Psn psn) noexcept;
  void on_receiver_not_ready(Time now, QueuePairState& qp, Psn psn, bool exact,
                             std::uint8_t timer) noexcept;
  [[nodiscard]] static const SendWqe& oldest_unfinished(QueuePairState& qp) noexcept;
  [[nodiscard]] static const SendWqe& oldest_waiting(QueuePairState& qp) noexcept;
  [[nodiscard]] static Ended ended_by(QueuePairState& qp, Psn psn) noexcept;
  void complete(Time now, QueuePairState& qp, const Ended& ended) noexcept;
  void finish_reported(QueuePairState& qp) noexcept;
  static void finish_rc(QueuePairState& qp, const Ended& ended) noexcept;
  void fail_by_nak(Time now, QueuePairState& qp, Psn psn, wire::Syndrome syndrome) noexcept;
  [[nodiscard]] static std::optional<std::uint32_t> position_of(QueuePairState& qp,
                                                                Psn psn) noexcept;

  Context& ctx_;
  LossRecovery& loss_;
  Teardown& teardown_;
};

}  // namespace mrc::inline v0_1::engine
