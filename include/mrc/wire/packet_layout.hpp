// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "mrc/core/types.hpp"
#include "mrc/wire/overhead.hpp"

/// Offsets of the headers of a whole layer 3 packet (mrc-1.0 §1.1).
namespace mrc::inline v0_1::wire {

/// Why a packet is not usable. Suitable as an index for counters (count_ of them).
enum class PacketError : std::uint8_t {
  none = 0,
  too_short,        ///< ends within the IP, routing or UDP header
  bad_ip_version,   ///< neither 4 nor 6, or not 6 inside IPv6
  bad_ip_length,    ///< an IP length that contradicts the packet or the header around it
  bad_ip_checksum,  ///< of an IPv4 header
  fragment,         ///< MRC packets are never fragmented
  bad_srh,          ///< a routing header that is malformed or no SRH
  not_udp,          ///< payload other than UDP
  foreign_port,     ///< UDP, but to a port other than MRC's
  bad_udp_length,   ///< UDP length that is not the IP payload's, or without room for BTH and iCRC
  bad_icrc,
  bad_transport,  ///< see ParsedPacket::transport_error
  count_,
};

/// Short English text for an error; static storage.
[[nodiscard]] constexpr const char* to_string(PacketError e) noexcept {
  switch (e) {
    case PacketError::none:
      return "none";
    case PacketError::too_short:
      return "too short";
    case PacketError::bad_ip_version:
      return "bad IP version";
    case PacketError::bad_ip_length:
      return "bad IP length";
    case PacketError::bad_ip_checksum:
      return "bad IPv4 header checksum";
    case PacketError::fragment:
      return "IP fragment";
    case PacketError::bad_srh:
      return "bad segment routing header";
    case PacketError::not_udp:
      return "not UDP";
    case PacketError::foreign_port:
      return "foreign UDP port";
    case PacketError::bad_udp_length:
      return "bad UDP length";
    case PacketError::bad_icrc:
      return "bad iCRC";
    case PacketError::bad_transport:
      return "bad transport header";
    case PacketError::count_:
      break;
  }
  return "unknown packet error";
}

/// Offsets from the packet's first byte. All headers named here lie inside the packet.
struct PacketLayout {
  std::size_t ip = 0;   ///< IP header nearest to UDP
  std::size_t udp = 0;  ///< UDP header; the IP header ends here
  std::size_t end = 0;  ///< end by the outermost IP length; what follows is link padding
  Encapsulation encapsulation = Encapsulation::none;  ///< outer headers
  std::uint8_t ip_version = 0;                        ///< of the header at `ip`
  std::uint8_t outer_tos = 0;  ///< ToS or traffic class of the outermost header
  /// The inner IP length exceeds what the outer one leaves: a switch has trimmed the packet and
  /// adjusted the outer header only.
  bool inner_cut = false;
};

/// Finds the headers of a packet that starts with its outermost IP header. Safe on any input; `out`
/// is valid if the result is none. The contents of the UDP header are not checked.
[[nodiscard]] PacketError locate(Bytes l3, PacketLayout& out) noexcept;

}  // namespace mrc::inline v0_1::wire
