// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace mrc::inline v0_1::port {

/// Counters of one port. System calls are counted too: packets per call is the batch size.
struct PortStats {
  std::uint64_t tx_packets = 0;    ///< packets sent
  std::uint64_t tx_bytes = 0;      ///< their bytes, BTH .. iCRC
  std::uint64_t tx_calls = 0;      ///< system calls that sent
  std::uint64_t tx_busy = 0;       ///< packets that the kernel did not take (socket buffer full)
  std::uint64_t tx_errors = 0;     ///< packets refused for another reason (no route, port down)
  std::uint64_t rx_packets = 0;    ///< packets handed to the engine
  std::uint64_t rx_bytes = 0;      ///< their bytes, BTH .. iCRC
  std::uint64_t rx_calls = 0;      ///< system calls that received
  std::uint64_t rx_foreign = 0;    ///< MRC, but for another address than the port's
  std::uint64_t rx_malformed = 0;  ///< too short for BTH and iCRC, or cut by the buffer's size
  /// Dropped by the kernel because the receive buffer was full; on UDP sockets also what is no MRC
  /// packet at all (plane/udp/udp_filter.hpp), which the kernel counts together.
  std::uint64_t rx_overrun = 0;

  // Of ports whose devices place payload by themselves (verbs):
  std::uint64_t tx_placed = 0;     ///< packets sent for the peer's device to place
  std::uint64_t rx_placed = 0;     ///< packets whose payload the own device has placed
  std::uint64_t tx_markers = 0;    ///< empty writes, so that retransmissions are soon settled
  std::uint64_t rx_unsettled = 0;  ///< retransmissions while an earlier copy could still be written
  std::uint64_t path_resets = 0;   ///< receiving paths that were replaced to settle them
  std::uint64_t late_writes = 0;   ///< by paths that duplicated or reordered: memory may be wrong
  std::uint64_t peers_refused = 0;  ///< peers moved to UD for such paths
};

}  // namespace mrc::inline v0_1::port
