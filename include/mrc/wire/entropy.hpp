// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "mrc/core/types.hpp"

namespace mrc::inline v0_1::wire {

/// How the 32 bits of an EV are carried in a packet's own headers (mrc-1.0 §3.1). With SRv6 the
/// path is in the outer destination address; its EV is still carried in the inner headers in one of
/// these forms, so that it can be reflected ([O-17]).
enum class EvFormat : std::uint8_t {
  udp,           ///< UDP source port = low 16 bits; the upper half is 0
  stev,          ///< flow label [15:0] = high half, source port = low half ([C-5])
  stev_swapped,  ///< source port = high half, flow label [15:0] = low half
};

/// The fields of a packet that carry an EV.
struct WireEntropy {
  std::uint16_t source_port = 0;  ///< UDP source port
  std::uint32_t flow_label = 0;   ///< 20 bit; bits 19:16 are 0 ([O-23])

  /// Equal in both fields.
  friend constexpr bool operator==(const WireEntropy&, const WireEntropy&) = default;
};

/// The header fields for an EV. The caller ignores the flow label on IPv4, which has none.
[[nodiscard]] constexpr WireEntropy to_wire(Ev ev, EvFormat format) noexcept {
  const auto low = static_cast<std::uint16_t>(value(ev));
  const auto high = static_cast<std::uint16_t>(value(ev) >> 16);
  switch (format) {
    case EvFormat::udp:
      break;
    case EvFormat::stev:
      return {low, high};
    case EvFormat::stev_swapped:
      return {high, low};
  }
  return {low, 0};
}

/// The EV that the receiver of a packet reflects. Bits that the packet does not carry are 0; pass
/// flow label 0 for IPv4 ([O-29]). Bits 19:16 of the flow label are ignored.
[[nodiscard]] constexpr Ev from_wire(WireEntropy fields, EvFormat format) noexcept {
  const std::uint32_t label = fields.flow_label & 0xFFFF;
  const std::uint32_t port = fields.source_port;
  switch (format) {
    case EvFormat::udp:
      break;
    case EvFormat::stev:
      return Ev{(label << 16) | port};
    case EvFormat::stev_swapped:
      return Ev{(port << 16) | label};
  }
  return Ev{port};
}

}  // namespace mrc::inline v0_1::wire
