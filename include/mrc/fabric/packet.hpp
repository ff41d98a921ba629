// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

#include "mrc/core/types.hpp"
#include "mrc/wire/burst.hpp"
#include "mrc/wire/headers.hpp"
#include "mrc/wire/ip.hpp"
#include "mrc/wire/transport.hpp"

namespace mrc::inline v0_1::wire {

/// Lengths in bytes of everything in a packet except its payload. A data packet (mrc-1.0 §1.1,
/// §1.2, §4.3):
///
///     Ethernet header                 14   kEthernetHeader; kEthernetLink with FCS, preamble, gap
///     outer IPv6 header               40 \  if encapsulated
///     segment routing header      8 + 16 |  with Encapsulation::srh
///     IPv6 or IPv4 header       40 or 20 |  envelope_size(), which the port adds
///     UDP header                       8 /
///     BTH                             12 \  transport packet (wire::TxPacket) from here on
///     METH                             4 |
///     TSETH                            4 |  with a timestamp
///     RETH                            16 |
///     ImmDt                            4 /  with immediate data; write_header_size()
///     payload
///     pad                           0..3    kMaxPad
///     iCRC                             4    kIcrcSize

/// The headers in front of the IP header that is nearest to UDP (mrc-1.0 §1.1, §4.3).
enum class Encapsulation : std::uint8_t {
  none,          ///< IPv4 or IPv6, UDP
  ipv6_in_ipv6,  ///< outer IPv6 (uSIDs in its destination), IPv6, UDP
  srh,           ///< outer IPv6, segment routing header, IPv6, UDP
};

/// Ethernet header, without VLAN tag.
inline constexpr std::size_t kEthernetHeader = 14;
/// What a frame occupies on a link besides its IP packet: header, FCS 4, preamble 8, gap 12.
inline constexpr std::size_t kEthernetLink = kEthernetHeader + 4 + 8 + 12;

/// Protocol numbers of what an outer IPv6 header is followed by.
inline constexpr std::uint8_t kNextIpv6 = 41;     ///< an encapsulated IPv6 packet
inline constexpr std::uint8_t kNextRouting = 43;  ///< a routing header

/// Segment routing header, without its segments (16 bytes each, last segment first).
struct Srh {
  std::uint8_t next_header = 0;  ///< protocol number
  std::uint8_t ext_length = 0;   ///< in 8-byte units, without the first unit; two per segment
  std::uint8_t routing_type = kRoutingType;  ///< kRoutingType
  std::uint8_t segments_left = 0;            ///< segments still to visit
  std::uint8_t last_entry = 0;               ///< index of the last segment
  std::uint8_t flags = 0;                    ///< sent 0
  Be16 tag;                                  ///< sent 0

  /// routing_type of an SRH.
  static constexpr std::uint8_t kRoutingType = 4;

  /// Bytes of header, segments and TLVs.
  [[nodiscard]] constexpr std::size_t total_length() const noexcept {
    return 8u * (ext_length + std::size_t{1});
  }
};

static_assert(sizeof(Srh) == 8 && alignof(Srh) == 1 && std::is_trivially_copyable_v<Srh>);
static_assert(offsetof(Srh, next_header) == 0 && offsetof(Srh, ext_length) == 1);
static_assert(offsetof(Srh, routing_type) == 2 && offsetof(Srh, segments_left) == 3);
static_assert(offsetof(Srh, last_entry) == 4 && offsetof(Srh, flags) == 5);
static_assert(offsetof(Srh, tag) == 6);

/// Segment routing header with one segment, the most that MRC needs (mrc-1.0 §4.3).
inline constexpr std::size_t kSrhSize = sizeof(Srh) + sizeof(IpAddress);

/// From the outermost IP header to the UDP header, both included. IPv4 is never encapsulated.
[[nodiscard]] constexpr std::size_t envelope_size(bool ipv4, Encapsulation e) noexcept {
  if (e == Encapsulation::none) return envelope_size(ipv4);
  return sizeof(Ipv6) + (e == Encapsulation::srh ? kSrhSize : 0) + envelope_size(ipv4);
}
/// Largest envelope_size().
inline constexpr std::size_t kMaxEnvelope = envelope_size(false, Encapsulation::srh);
static_assert(kEthernetLink == 38 && kMaxEnvelope == 112);
// Parts of packets pass in every encapsulation.
static_assert(kMaxPart + kMaxEnvelope <= 1280);

/// Sets the DSCP; keeps ECN and flow label.
constexpr void set_dscp(Ipv6& ip, std::uint8_t dscp) noexcept {
  ip.set_first_word(make_tos(dscp, ip.ecn()), ip.flow_label());
}
/// Sets the DSCP; keeps ECN. Does not update the checksum.
constexpr void set_dscp(Ipv4& ip, std::uint8_t dscp) noexcept {
  ip.tos = make_tos(dscp, ip.ecn());
}

/// Whole layer 3 packets, outermost IP header to iCRC: locate headers, parse, build, trim.

/// The contents of all headers before BTH: addresses, path, class. A plain value.
struct Envelope {
  IpAddress source{};                         ///< both IPv6, or both mapped IPv4
  IpAddress destination{};                    ///< likewise
  std::uint16_t source_port = 0;              ///< UDP source port
  std::uint16_t destination_port = kUdpPort;  ///< UDP destination port
  std::uint32_t flow_label = 0;  ///< 20 bit; of the IP header nearest to UDP; not on IPv4
  std::uint8_t hop_limit = kDefaultHopLimit;          ///< of all IP headers
  std::uint8_t dscp = 0;                              ///< 6 bit; inside and outside
  Ecn ecn = Ecn::not_ect;                             ///< inside and outside
  Encapsulation encapsulation = Encapsulation::none;  ///< with IPv6 only (mrc-1.0 §1.1)
  IpAddress outer_source{};                           ///< the NIC's address
  IpAddress outer_destination{};                      ///< the first uSID carrier: the path
  IpAddress segment{};                                ///< Encapsulation::srh: the second carrier
  std::uint32_t outer_flow_label = 0;                 ///< flow label of the outer header, 20 bit

  /// Whether the packet is IPv4.
  [[nodiscard]] constexpr bool is_ipv4() const noexcept { return is_mapped_ipv4(destination); }

  /// Bytes before BTH.
  [[nodiscard]] constexpr std::size_t size() const noexcept {
    return envelope_size(is_ipv4(), encapsulation);
  }
};

/// Writes the headers before BTH for a transport packet of `transport_length` bytes, iCRC included.
/// UDP checksum 0; on IPv4 identification 0 and DF. Returns their size, or 0 when `out` is too
/// small, the packet would exceed 65,535 bytes, or the addresses don't fit together (IPv4 with
/// encapsulation, or mixed with IPv6).
[[nodiscard]] std::size_t build_envelope(MutableBytes out, const Envelope& e,
                                         std::size_t transport_length) noexcept;

/// Writes a whole packet: envelope, `header` (BTH .. last extension header), payload, `pad` zero
/// bytes (0..3), iCRC plus `check_seed`. Returns its length, or 0 for the reasons of
/// build_envelope(), a header without complete BTH, or too much pad. Copies the payload; ports that
/// avoid the copy use build_envelope() and icrc().
[[nodiscard]] std::size_t build_packet(MutableBytes out, const Envelope& e, Bytes header,
                                       std::span<const TxSge> payload, unsigned pad,
                                       std::uint32_t check_seed = 0) noexcept;

/// Offsets of the headers of a whole layer 3 packet (mrc-1.0 §1.1).

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

/// Bytes from the UDP header on that a trimming switch should keep: UDP, BTH, METH, TSETH, so that
/// a NACK can echo the timestamp (mrc-1.0 §1.12).
inline constexpr std::size_t kTrimKeep = sizeof(Udp) + sizeof(Bth) + sizeof(Meth) + sizeof(Tseth);
/// The least that a receiver can use: UDP and BTH.
inline constexpr std::size_t kTrimKeepMin = sizeof(Udp) + sizeof(Bth);

/// Trims a data packet as a switch with a full queue does (mrc-1.0 §1.12): keeps `keep` bytes from
/// the UDP header on (at least kTrimKeepMin), adjusts the inner and outer IP lengths, sets the
/// outermost DSCP and updates the IPv4 checksum. The UDP length is unchanged. Returns the new
/// length, at most the old one, or 0 if locate() rejects the packet, which is then unchanged.
[[nodiscard]] std::size_t trim_packet(MutableBytes packet, std::size_t keep,
                                      std::uint8_t dscp) noexcept;

}  // namespace mrc::inline v0_1::wire
