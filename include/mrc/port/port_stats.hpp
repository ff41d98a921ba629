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
  /// packet at all (port/udp_filter.hpp), which the kernel counts together.
  std::uint64_t rx_overrun = 0;
};

}  // namespace mrc::inline v0_1::port
