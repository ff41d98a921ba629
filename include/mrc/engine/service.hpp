// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "mrc/core/error.hpp"
#include "mrc/core/types.hpp"
#include "mrc/engine/memory.hpp"
#include "mrc/engine/verbs_types.hpp"
#include "mrc/wire/burst.hpp"

namespace mrc::inline v0_1::engine {

/// Unreliable datagrams, which a module brings (resolve/datagrams.hpp). Their queue pairs
/// share numbers, completion queues and memory with connected ones. Without the module each call
/// below is a branch.
class EngineService {
 public:
  /// What became of a turn.
  enum class Turn : std::uint8_t {
    taken,      ///< a queue pair has had its turn
    none,       ///< none has anything that could be sent
    burst_full  ///< the burst has no room
  };

  virtual ~EngineService() = default;

  // --- Inputs
  /// A datagram has arrived, whose iCRC is right and plain.
  virtual void on_datagram(const wire::RxPacket& packet) noexcept = 0;
  /// Packets of the newest burst that a port did not take; those of others are ignored.
  virtual void on_untransmitted(std::span<const wire::TxPacket> packets) noexcept = 0;
  /// A port no longer reads the payload of a request that is of no connected queue pair.
  virtual void on_released(const CopyTable::Request& request) noexcept = 0;
  /// Something that may have kept packets back has changed: a port, a plane, held copies.
  virtual void wake() noexcept = 0;

  // --- Outputs
  /// What on_untransmitted() has not named of the newest burst was sent: to be called before the
  /// next one is filled.
  virtual void settle() noexcept = 0;
  /// Adds up to EngineOptions::burst packets of the queue pair whose turn it is.
  [[nodiscard]] virtual Turn serve(PlaneMask free_planes, wire::TxBurst& burst) noexcept = 0;
  [[nodiscard]] virtual bool waiting() const noexcept = 0;  ///< a queue pair has packets to send
  /// There is something for poll_transmit(), were it only settle().
  [[nodiscard]] virtual bool has_output() const noexcept = 0;

  // --- Queue pairs: those that are not the service's are ignored
  [[nodiscard]] virtual std::uint32_t qp_count() const noexcept = 0;  ///< in any state
  [[nodiscard]] virtual bool uses_pd(PdId pd) noexcept = 0;           ///< any of them
  /// As Context::on_polled().
  virtual void on_polled(const Completion& c) noexcept = 0;
  /// As Engine::complete_send(). Errc::not_found.
  virtual Errc complete_send(const Completion& c) noexcept = 0;
  /// The qp_error event of that one was taken. Why it is in ERR.
  virtual QpErrorCause on_error_told(Qpn qpn) noexcept = 0;
  /// Memory is deregistered by force: those whose requests use it fail.
  virtual void withdraw(std::uint32_t key) noexcept = 0;
  /// Those whose completion queues were overrun fail.
  virtual void fail_overrun_queues() noexcept = 0;
};

}  // namespace mrc::inline v0_1::engine
