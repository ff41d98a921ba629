// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "mrc/core/error.hpp"
#include "mrc/core/types.hpp"
#include "mrc/engine/context.hpp"
#include "mrc/engine/verbs_types.hpp"
#include "mrc/wire/burst.hpp"
#include "mrc/wire/transport.hpp"

namespace mrc::inline v0_1::engine {

/// The responder half of queue pairs: places data packets in memory and answers them (mrc-1.0 §2.3,
/// §2.6 to §2.8).
///
///     data packet     checked, placed and marked received, in any order; SACK, Transport ACK,
///                     NACK or NAK as needed; receives completed in RQMSN order; READs and atomics
///                     executed in order, their responses given to the requester half to be sent
///     trimmed packet  NACK, and no other effect (§1.12)
///     probe           SACK and the newest Transport ACK (§5)
///
/// Answers wait in the control queue; ControlSender has them written here, from the state at that
/// time.
class Responder {
 public:
  Responder(Context& context, Teardown& teardown) : ctx_(context), teardown_(teardown) {}

  /// A queue pair moves to RTR: its responder state begins anew.
  void start(QueuePairState& qp) noexcept;

  void on_data(Time now, QueuePairState& qp, const wire::RxPacket& packet) noexcept;
  /// There is room for further responses: executes READs and atomics that wait for it, and
  /// completes the receives behind them. `plane`: for a NAK.
  void resume(Time now, QueuePairState& qp, Plane plane) noexcept;
  /// Port of `plane`: it no longer writes payload of the packet `psn`, which it had reported
  /// unsettled, to memory.
  void on_settled(Time now, QueuePairState& qp, Plane plane, Psn psn) noexcept;
  void on_probe(Time now, QueuePairState& qp, const wire::RxPacket& packet) noexcept;
  /// The timer of a queue pair has expired: sends a Transport ACK that has waited long enough.
  void on_timer(Time now, QueuePairState& qp) noexcept;
  /// A trimmed packet. Nothing protects its header, so all of it is checked here.
  void on_trimmed(Time now, const wire::RxPacket& packet) noexcept;
  /// A data packet or probe for a queue pair in ERR ([O-21]).
  void answer_in_error(Time now, QueuePairState& qp, const wire::RxPacket& packet,
                       Psn psn) noexcept;

  /// Writes the header for a control item of kind sack, probe_sack, nack, ack or nak.
  void write_answer(const ControlItem& item, QueuePairState& qp, wire::TxPacket& packet) noexcept;

 private:
  // SEND, READ and atomics
  // True: the packet is placed and counts as received. False: it does not count, and was answered
  // if it had to be.
  bool take_operation(Time now, QueuePairState& qp, const wire::RxPacket& packet,
                      const wire::WriteView& w, std::size_t length) noexcept;
  bool take_send(Time now, QueuePairState& qp, const wire::RxPacket& packet,
                 const wire::WriteView& w) noexcept;
  bool take_request(Time now, QueuePairState& qp, const wire::RxPacket& packet,
                    const wire::WriteView& w) noexcept;
  bool take_response(Time now, QueuePairState& qp, const wire::RxPacket& packet,
                     const wire::WriteView& w) noexcept;
  [[nodiscard]] QpErrorCause check_request(const QueuePairState& qp, const PeerRequest& request,
                                           std::size_t payload) noexcept;
  bool refuse_in_turn(Time now, QueuePairState& qp, const wire::RxPacket& packet, Psn psn,
                      QpErrorCause cause) noexcept;
  [[nodiscard]] bool has_receive(QueuePairState& qp, std::uint32_t ahead) noexcept;
  bool ask_to_wait(Time now, QueuePairState& qp, const wire::RxPacket& packet,
                   const wire::WriteView& w) noexcept;
  bool ask_to_repeat(Time now, QueuePairState& qp, const wire::RxPacket& packet,
                     const wire::WriteView& w) noexcept;
  void respond(QueuePairState& qp, const PeerRequest& request, RequestNumber number) noexcept;
  bool execute(Time now, QueuePairState& qp, Plane plane) noexcept;
  [[nodiscard]] bool finish_operations(Time now, QueuePairState& qp, Plane plane) noexcept;

  void on_not_fresh(Time now, QueuePairState& qp, const wire::RxPacket& packet,
                    const wire::WriteView& w, bool beyond) noexcept;
  bool take_write(Time now, QueuePairState& qp, const wire::RxPacket& packet,
                  const wire::WriteView& w, std::size_t length, bool end) noexcept;
  [[nodiscard]] QpErrorCause check_write(const QueuePairState& qp, const wire::WriteView& w,
                                         std::size_t length, const MemoryEntry** region) noexcept;
  void place(QueuePairState& qp, const wire::WriteView& w, const MemoryEntry* region,
             bool in_order) noexcept;
  [[nodiscard]] bool advance(Time now, QueuePairState& qp, const wire::RxPacket& packet, Psn psn,
                             const reliability::ReceiveWindow::Advance& advance,
                             std::optional<Psn> misnumbered) noexcept;
  void write_deferred(QueuePairState& qp) noexcept;
  QpErrorCause deliver(QueuePairState& qp) noexcept;
  void refuse(Time now, QueuePairState& qp, const wire::RxPacket& packet, Psn psn,
              QpErrorCause cause) noexcept;

  // Answers (scheduler.inl)
  void queue_sack(QueuePairState& qp, const wire::RxPacket& packet, Psn psn,
                  std::uint16_t timestamp) noexcept;
  void queue_nack(Time now, QueuePairState& qp, const wire::RxPacket& packet, Psn psn,
                  std::uint16_t timestamp, wire::NackReason reason) noexcept;
  [[nodiscard]] bool may_wait(const QueuePairState& qp) const noexcept;
  [[nodiscard]] static bool may_answer_again(Time now, QueuePairState& qp) noexcept;
  [[nodiscard]] std::uint8_t announced_mpr(const ResponderState& rx) const noexcept;
  void write_sack(const ControlItem& item, QueuePairState& qp, wire::TxPacket& packet) noexcept;
  void write_nack(const ControlItem& item, QueuePairState& qp, wire::TxPacket& packet) noexcept;
  void write_ack(const ControlItem& item, QueuePairState& qp, wire::TxPacket& packet) noexcept;

  Context& ctx_;
  Teardown& teardown_;
};

}  // namespace mrc::inline v0_1::engine
