// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace mrc::inline v0_1::wire {

/// Why a responder refuses a data packet (mrc-1.0 §1.13). The requester's reaction: §2.9.
enum class NackReason : std::uint8_t {
  trimmed = 0x01,           ///< a switch cut the payload: the path is congested
  trimmed_last_hop = 0x02,  ///< cut at the last hop: the receiver is congested, not the path
  no_bitmap = 0x06,         ///< no tracking state for the PSN
  no_pkt_buffer = 0x07,     ///< no packet buffer
  no_resource = 0x0A,       ///< another resource is exhausted
  psn_oor_window = 0x0B,    ///< PSN above the responder's window
  unexp_event = 0x19,       ///< fatal: the requester's QP goes to error
  /// No receive is posted for the message: it waits. OpenMRC's own, between peers that have agreed
  /// on it (docs/extensions.md); vendor_info has the time to wait, as in RC's RNR NAK.
  receiver_not_ready = 0x80,
};

/// Whether a value, possibly from the wire, is one of the enumerators.
[[nodiscard]] constexpr bool is_known(NackReason reason) noexcept {
  switch (reason) {
    case NackReason::trimmed:
    case NackReason::trimmed_last_hop:
    case NackReason::no_bitmap:
    case NackReason::no_pkt_buffer:
    case NackReason::no_resource:
    case NackReason::psn_oor_window:
    case NackReason::unexp_event:
    case NackReason::receiver_not_ready:
      return true;
  }
  return false;
}

/// The packet was trimmed: retransmit at once, without counting a retry.
[[nodiscard]] constexpr bool is_trim(NackReason reason) noexcept {
  return reason == NackReason::trimmed || reason == NackReason::trimmed_last_hop;
}

/// Short English text for a reason; static storage.
[[nodiscard]] constexpr const char* to_string(NackReason reason) noexcept {
  switch (reason) {
    case NackReason::trimmed:
      return "TRIMMED";
    case NackReason::trimmed_last_hop:
      return "TRIMMED_LASTHOP";
    case NackReason::no_bitmap:
      return "NO_BITMAP";
    case NackReason::no_pkt_buffer:
      return "NO_PKT_BUFFER";
    case NackReason::no_resource:
      return "NO_RESOURCE";
    case NackReason::psn_oor_window:
      return "PSN_OOR_WINDOW";
    case NackReason::unexp_event:
      return "UNEXP_EVENT";
    case NackReason::receiver_not_ready:
      return "RECEIVER_NOT_READY";
  }
  return "unknown NACK reason";
}

}  // namespace mrc::inline v0_1::wire
