// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <boost/intrusive/list.hpp>
#include <cstdint>
#include <span>

#include "mrc/core/error.hpp"
#include "mrc/core/linkage.hpp"
#include "mrc/core/types.hpp"
#include "mrc/engine/context.hpp"
#include "mrc/resolve/datagrams.hpp"
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
class MRC_LOCAL DatagramService final : public EngineService {
 public:
  /// Both must outlive this object.
  DatagramService(Context& context, Teardown& teardown) : ctx_(context), teardown_(teardown) {}
  /// Discards everything posted, without completions.
  ~DatagramService() override;
  DatagramService(const DatagramService&) = delete;
  DatagramService& operator=(const DatagramService&) = delete;

  /// Queue pairs, and where they send to.
  [[nodiscard]] DatagramTables& tables() noexcept { return tables_; }

  /// Posts a datagram to a device; needs RTS. Nothing is posted when it fails.
  Errc post(DatagramState& qp, const DatagramRequest& request, DestinationId to) noexcept;
  /// Posts a receive request; needs INIT, RTR or RTS.
  Errc post_receive(DatagramState& qp, const ReceiveRequest& request) noexcept;

  /// Moves a queue pair to ERR: everything posted is flushed. Does nothing in ERR.
  void fail(DatagramState& qp, QpErrorCause cause) noexcept;
  /// Discards everything posted, without completions.
  void clear(DatagramState& qp) noexcept;

  void on_datagram(const wire::RxPacket& packet) noexcept override;
  void on_untransmitted(std::span<const wire::TxPacket> packets) noexcept override;
  void on_released(const CopyTable::Request& request) noexcept override;
  void wake() noexcept override { ready_.splice(ready_.end(), blocked_); }
  void settle() noexcept override;
  [[nodiscard]] Turn serve(PlaneMask free_planes, wire::TxBurst& burst) noexcept override;
  [[nodiscard]] bool waiting() const noexcept override { return !ready_.empty(); }
  [[nodiscard]] bool has_output() const noexcept override { return waiting() || !given_.empty(); }
  [[nodiscard]] std::uint32_t qp_count() const noexcept override { return tables_.qp_count(); }
  [[nodiscard]] bool uses_pd(PdId pd) noexcept override;
  void on_polled(const Completion& c) noexcept override;
  Errc complete_send(const Completion& c) noexcept override;
  QpErrorCause on_error_told(Qpn qpn) noexcept override;
  void withdraw(std::uint32_t key) noexcept override;
  void fail_overrun_queues() noexcept override;

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
  void retire(DatagramState& qp) noexcept;
  void release_memory(DatagramState& qp, std::uint32_t position) noexcept;
  bool complete_receive(DatagramState& qp, ReceiveQueue& receives, const Completion& c) noexcept;
  Errc flush_posted(DatagramState& qp, const DatagramRequest& request, DestinationId to) noexcept;

  Context& ctx_;
  Teardown& teardown_;
  DatagramTables tables_{ctx_.objects};
  List<&DatagramState::ready_hook> ready_;    ///< with datagrams to send, in service order
  List<&DatagramState::ready_hook> blocked_;  ///< the oldest one finds no room, until wake()
  List<&DatagramState::given_hook> given_;    ///< with datagrams in the newest burst
};

}  // namespace mrc::inline v0_1::engine
