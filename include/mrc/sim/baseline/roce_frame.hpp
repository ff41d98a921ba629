// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "mrc/core/types.hpp"
#include "mrc/sim/baseline/roce_wire.hpp"
#include "mrc/wire/ip.hpp"
#include "mrc/wire/packet.hpp"

/// RoCEv2 packets from their IP header on, so that simulated switches hash, mark and forward by
/// real header fields.
namespace mrc::inline v0_1::sim::baseline {

/// The UDP source port of a queue pair, which alone distinguishes a host's flows to the same peer:
/// ECMP picks the path by it. A hash of both QPNs over the dynamic ports, 49152 .. 65535, as
/// drivers do. Both directions of a connection may use the same port.
[[nodiscard]] constexpr std::uint16_t roce_source_port(Qpn local, Qpn remote) noexcept {
  std::uint64_t x = std::uint64_t{value(local)} << 24 | value(remote);
  x *= 0x9E3779B97F4A7C15u;
  x ^= x >> 32;
  x *= 0xD6E8FEB86659FD93u;
  return static_cast<std::uint16_t>(0xC000 | (x >> 50));
}

/// Bytes of a whole packet, IP header to iCRC.
[[nodiscard]] constexpr std::size_t roce_packet_size(const wire::Envelope& e,
                                                     const RoceHeader& h) noexcept {
  return e.size() + roce_transport_size(h.opcode, h.payload);
}

/// Writes envelope, BTH and extension headers of a packet whose payload, pad and iCRC are not
/// carried; the lengths in the headers include them. (With payload: build_roce(), then
/// wire::build_packet().) Returns the bytes written, or 0 for the reasons of wire::build_envelope()
/// and build_roce().
[[nodiscard]] inline std::size_t build_roce_headers(MutableBytes out, const wire::Envelope& e,
                                                    const RoceHeader& h) noexcept {
  const std::size_t envelope =
      wire::build_envelope(out, e, roce_transport_size(h.opcode, h.payload));
  if (envelope == 0) return 0;
  const std::size_t transport = build_roce(out.subspan(envelope), h);
  return transport == 0 ? 0 : envelope + transport;
}

/// A parsed packet.
struct RoceFrame {
  RoceHeader header;              ///< transport headers
  wire::IpAddress source{};       ///< IPv4: mapped
  wire::IpAddress destination{};  ///< IPv4: mapped
  std::uint16_t source_port = 0;  ///< UDP source port
  Ecn ecn = Ecn::not_ect;         ///< of the IP header
  std::size_t size = 0;           ///< of the whole packet by its IP length, carried or not
};

/// Parses a packet that starts with its IP header (IPv4, or IPv6 without extension headers) and is
/// carried at least up to its last extension header. Safe on any input; `out` is valid only when
/// the result is none.
[[nodiscard]] RoceError parse_roce_frame(Bytes l3, RoceFrame& out) noexcept;

}  // namespace mrc::inline v0_1::sim::baseline
