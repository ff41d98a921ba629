// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "mrc/wire/burst.hpp"

namespace mrc::inline v0_1::wire {

/// The DSCP values (6 bit) of a fabric's packet classes (mrc-1.0 §1.14). They are the operator's
/// choice and must agree on all hosts and switches.
struct DscpMap {
  std::uint8_t no_trim = 0;            ///< data that must not be trimmed
  std::uint8_t trimmable = 4;          ///< data and reliability probes
  std::uint8_t trimmable_retx = 8;     ///< retransmissions
  std::uint8_t trimmed = 12;           ///< set by a switch that trims
  std::uint8_t trimmed_last_hop = 16;  ///< set by the switch before the receiver that trims
  std::uint8_t control = 46;           ///< SACK, NACK, Transport ACK, endpoint responses

  /// Equal in all classes.
  friend constexpr bool operator==(const DscpMap&, const DscpMap&) = default;

  /// All values fit in 6 bits, and neither value for trimmed packets is used for a class that hosts
  /// send. The two may be equal (trimmed_last_hop is optional; then all trimmed packets count as
  /// trimmed on the path), and so may the classes that hosts send.
  [[nodiscard]] constexpr bool valid() const noexcept {
    for (const std::uint8_t sent : {no_trim, trimmable, trimmable_retx, control})
      if (sent > 63 || sent == trimmed || sent == trimmed_last_hop) return false;
    return trimmed <= 63 && trimmed_last_hop <= 63;
  }

  /// Whether a received packet with this DSCP was trimmed.
  [[nodiscard]] constexpr Trim classify(std::uint8_t dscp) const noexcept {
    if (dscp == trimmed) return Trim::trimmed;
    if (dscp == trimmed_last_hop) return Trim::trimmed_last_hop;
    return Trim::none;
  }
};

}  // namespace mrc::inline v0_1::wire
