// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <boost/intrusive/list.hpp>
#include <cstdint>
#include <span>

#include "mrc/core/error.hpp"
#include "mrc/core/types.hpp"
#include "mrc/engine/context.hpp"
#include "mrc/engine/datagram_tables.hpp"
#include "mrc/engine/teardown.hpp"
#include "mrc/wire/burst.hpp"

namespace mrc::inline v0_1::engine {

/// Unreliable datagrams, in and out (RoCEv2's UD, beside MRC): one packet for each message, no
/// acknowledgement, no window, nothing but a port's room to pace them. Nothing that arrives changes
/// the state of a connection, and nothing is allocated for it.
///
/// A datagram's request is complete when a port has taken it and no longer reads its payload. Which
/// packets a port has not taken, on_untransmitted() says before the next burst is filled; settle()
/// takes the others as sent. Datagrams that are handed back go out later, possibly behind newer
/// ones: UD promises no order.
class DatagramService {
 public:
  /// What became of a turn.
  enum class Turn : std::uint8_t {
    taken,      ///< a queue pair has had its turn
    none,       ///< none has anything that could be sent
    burst_full  ///< the burst has no room
  };

  /// Both must outlive this object.
  DatagramService(Context& context, Teardown& teardown) : ctx_(context), teardown_(teardown) {}

  /// Posts a datagram to a device; needs RTS. Nothing is posted when it fails.
  Errc post(DatagramState& qp, const DatagramRequest& request, DestinationId to) noexcept;
  /// Posts a receive request; needs INIT, RTR or RTS.
  Errc post_receive(DatagramState& qp, const ReceiveRequest& request) noexcept;

  /// A datagram has arrived, whose iCRC is right and plain.
  void on_datagram(const wire::RxPacket& packet) noexcept;
  /// Packets of the newest burst that a port did not take; those that are no datagrams are ignored.
  void on_untransmitted(std::span<const wire::TxPacket> packets) noexcept;
  /// What else the newest burst had was sent: to be called before the next one is filled.
  void settle() noexcept;
  /// Something that may have kept datagrams back has changed: a port, a plane, held copies.
  void wake() noexcept { ready_.splice(ready_.end(), blocked_); }

  /// Adds up to EngineOptions::burst datagrams of the queue pair whose turn it is.
  [[nodiscard]] Turn serve(PlaneMask free_planes, wire::TxBurst& burst) noexcept;
  /// A queue pair has datagrams to send.
  [[nodiscard]] bool waiting() const noexcept { return !ready_.empty(); }
  /// There is something for poll_transmit(), were it only settle().
  [[nodiscard]] bool has_output() const noexcept { return waiting() || !given_.empty(); }

 private:
  template <DatagramState::Hook DatagramState::*hook>
  using List = intrusive::list<DatagramState,
                               intrusive::member_hook<DatagramState, DatagramState::Hook, hook>,
                               intrusive::constant_time_size<false>>;

  [[nodiscard]] Errc check(const DatagramState& qp, const DatagramRequest& request,
                           std::uint32_t& length) noexcept;
  [[nodiscard]] std::uint8_t marking(std::uint8_t traffic_class) const noexcept;
  [[nodiscard]] bool send(DatagramState& qp, std::uint32_t position, PlaneMask free_planes,
                          wire::TxBurst& burst) noexcept;
  void emit(DatagramState& qp, std::uint32_t position, PeerId peer, const path::PathSpec& path,
            wire::TxBurst& burst) noexcept;
  void add_payload(DatagramState& qp, std::uint32_t position, wire::TxBurst& burst) noexcept;
  void note_given(DatagramState& qp, std::uint32_t position) noexcept;

  Context& ctx_;
  Teardown& teardown_;
  List<&DatagramState::ready_hook> ready_;    ///< with datagrams to send, in service order
  List<&DatagramState::ready_hook> blocked_;  ///< the oldest one finds no room, until wake()
  List<&DatagramState::given_hook> given_;    ///< with datagrams in the newest burst
};

}  // namespace mrc::inline v0_1::engine
