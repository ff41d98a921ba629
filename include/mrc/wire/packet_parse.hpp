// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "mrc/core/types.hpp"
#include "mrc/wire/dscp.hpp"
#include "mrc/wire/entropy.hpp"
#include "mrc/wire/ip.hpp"
#include "mrc/wire/overhead.hpp"
#include "mrc/wire/packet_layout.hpp"
#include "mrc/wire/transport.hpp"

namespace mrc::inline v0_1::wire {

/// What a receiver accepts. A plain value.
struct ParseOptions {
  DscpMap dscp{};  ///< to recognize trimmed packets
  /// Accepted UDP destination ports.
  std::array<std::uint16_t, 2> udp_ports{kUdpPort, kUdpPortAlternative};
  bool check_icrc = true;  ///< false: the caller, or the device, checks it
};

/// Result of the iCRC check of a received packet.
enum class IcrcState : std::uint8_t {
  ok,
  bad,
  absent,     ///< cut off with the payload (trimmed packet)
  unchecked,  ///< check_icrc is off
};

/// The fields of a received packet. Points into the bytes that were parsed.
struct ParsedPacket {
  Bytes transport;          ///< BTH .. payload and pad; of a trimmed packet, the part that is left
  IpAddress source{};       ///< of the IP header nearest to UDP, IPv4 mapped
  IpAddress destination{};  ///< likewise
  std::uint32_t flow_label = 0;           ///< of the IP header nearest to UDP; 0 on IPv4
  std::uint16_t source_port = 0;          ///< UDP source port, host byte order
  std::uint16_t destination_port = 0;     ///< UDP destination port, host byte order
  std::uint16_t udp_length = 0;           ///< of the UDP header: the length before trimming
  std::uint8_t ip_version = 0;            ///< of the IP header nearest to UDP
  std::uint8_t outer_dscp = 0;            ///< of the outermost header, which switches change
  Ecn outer_ecn = Ecn::not_ect;           ///< likewise
  Trim trim = Trim::none;                 ///< whether a switch trimmed it, by outer_dscp
  IcrcState icrc = IcrcState::unchecked;  ///< result of the iCRC check
  std::uint32_t check = 0;                ///< iCRC in the packet minus the computed one
  Encapsulation encapsulation = Encapsulation::none;  ///< outer headers
  ParseError transport_error = ParseError::none;      ///< the reason for PacketError::bad_transport

  /// The header fields that carry the EV.
  [[nodiscard]] WireEntropy entropy() const noexcept { return {source_port, flow_label}; }
};

/// Parses a packet that starts with its outermost IP header: steps 1 to 5 of mrc-1.0 §2.13. Safe on
/// any input. After an error, `out` has the fields read before it, for diagnosis only. A packet
/// with the DSCP of trimmed packets may end within its headers and has no iCRC; use view_trimmed().
/// The UDP checksum is ignored.
[[nodiscard]] PacketError parse_packet(Bytes l3, const ParseOptions& options,
                                       ParsedPacket& out) noexcept;

}  // namespace mrc::inline v0_1::wire
