// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "mrc/core/types.hpp"
#include "mrc/wire/burst.hpp"
#include "mrc/wire/ip.hpp"
#include "mrc/wire/overhead.hpp"

namespace mrc::inline v0_1::wire {

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

}  // namespace mrc::inline v0_1::wire
