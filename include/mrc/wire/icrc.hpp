// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "mrc/core/types.hpp"
#include "mrc/wire/burst.hpp"
#include "mrc/wire/headers.hpp"
#include "mrc/wire/ip.hpp"

namespace mrc::inline v0_1::wire {

/// The CRC-32 of Ethernet, the polynomial of the iCRC (mrc-1.0 §1.12). Start with 0; pass a result
/// as `crc` to continue over more bytes. Any thread.

/// The fastest kernel that this processor has, chosen by the first call.
[[nodiscard]] std::uint32_t crc32(std::uint32_t crc, Bytes bytes) noexcept;

/// Portable kernel, eight bytes per step.
[[nodiscard]] std::uint32_t crc32_portable(std::uint32_t crc, Bytes bytes) noexcept;

/// What computes the CRC, as crc32() does.
using Crc32Function = std::uint32_t(std::uint32_t crc, Bytes bytes) noexcept;

/// One way to compute the CRC, for tests and benchmarks; all give the same result.
struct Crc32Kernel {
  const char* name;         ///< after the instructions that it is made of
  Crc32Function* function;  ///< to call only if `supported`
  bool supported;           ///< by this processor
};

/// The kernels of this architecture, the fastest first, the portable one last.
[[nodiscard]] std::span<const Crc32Kernel> crc32_kernels() noexcept;

/// The invariant CRC of RoCEv2 and MRC (mrc-1.0 §1.12): a CRC-32 of the packet from the IP header
/// nearest to UDP on, with traffic class, flow label and hop limit masked.

/// The masked image before BTH: 8 bytes of ones, IP header, UDP header. Prepared once per pair of
/// addresses, patched per packet. A plain value; one thread at a time.
struct IcrcPrefix {
  /// Bytes of ones before the IP header.
  static constexpr std::size_t kOnes = 8;
  static constexpr std::size_t kMaxIpHeader = 60;  ///< IPv4 with options

  /// The bytes to run the CRC over.
  std::array<std::uint8_t, kOnes + kMaxIpHeader + sizeof(Udp)> image{};
  std::uint8_t length = 0;  ///< bytes of `image` in use

  /// Both addresses are IPv6, or mapped IPv4. IPv4 images assume identification 0 and DF, since a
  /// socket can see neither.
  [[nodiscard]] static IcrcPrefix make(const IpAddress& source, const IpAddress& destination,
                                       std::uint16_t udp_destination_port) noexcept;
  /// From a packet: needs no patch(). `ip`: with options, 20 .. 60 bytes, or 40 of IPv6.
  [[nodiscard]] static IcrcPrefix of_packet(Bytes ip, const Udp& udp) noexcept;

  /// Sets what differs per packet. `udp_length`: from the UDP header to the iCRC.
  void patch(std::uint16_t udp_source_port, std::uint16_t udp_length) noexcept {
    std::uint8_t* udp = image.data() + length - sizeof(Udp);
    put16(udp + offsetof(Udp, source_port), udp_source_port);
    put16(udp + offsetof(Udp, length), udp_length);
    std::uint8_t* ip = image.data() + kOnes;
    if ((ip[0] >> 4) == 6)
      put16(ip + offsetof(Ipv6, payload_length), udp_length);
    else
      put16(ip + offsetof(Ipv4, total_length),
            static_cast<std::uint16_t>(udp_length + length - kOnes - sizeof(Udp)));
  }

 private:
  static void put16(std::uint8_t* at, std::uint16_t value) noexcept {
    const Be16 be = value;
    std::memcpy(at, &be, sizeof be);
  }
};

namespace detail {

/// CRC over prefix and `head`: a BTH, whose variant byte is masked, and what follows, at most
/// kMaxTransportHeader bytes.
[[nodiscard]] inline std::uint32_t icrc_head(const IcrcPrefix& prefix, Bytes head) noexcept {
  std::uint8_t buffer[sizeof(IcrcPrefix::image) + kMaxTransportHeader];
  std::memcpy(buffer, prefix.image.data(), sizeof(IcrcPrefix::image));
  std::memcpy(buffer + prefix.length, head.data(), head.size());
  buffer[prefix.length + offsetof(Bth, variant_reserved)] = 0xFF;
  return crc32(0, {buffer, prefix.length + head.size()});
}

}  // namespace detail

/// iCRC of a packet to be sent. `header`: BTH .. last extension header, at most kMaxTransportHeader
/// bytes; `pad`: 0..3 zero bytes after the payload. `prefix` has been patched.
[[nodiscard]] inline std::uint32_t icrc(const IcrcPrefix& prefix, Bytes header,
                                        std::span<const TxSge> payload, unsigned pad) noexcept {
  assert(header.size() >= sizeof(Bth) && header.size() <= kMaxTransportHeader && pad <= 3);
  std::uint32_t crc = detail::icrc_head(prefix, header);
  for (const TxSge& sge : payload) crc = crc32(crc, {sge.data, sge.length});
  static constexpr std::uint8_t kZeros[3] = {};
  if (pad != 0) crc = crc32(crc, {kZeros, pad & 3u});
  return crc;
}

/// iCRC of a contiguous packet: BTH .. payload and pad, at least a BTH.
[[nodiscard]] inline std::uint32_t icrc(const IcrcPrefix& prefix, Bytes whole) noexcept {
  assert(whole.size() >= sizeof(Bth));
  const std::size_t head = whole.size() < kMaxTransportHeader ? whole.size() : kMaxTransportHeader;
  const std::uint32_t crc = detail::icrc_head(prefix, whole.first(head));
  return head == whole.size() ? crc : crc32(crc, whole.subspan(head));
}

/// Covers the first kMaxTransportHeader bytes alone: all headers, and as much of the payload and
/// pad as is left. An extension between OpenMRC peers of one host (Bth::head_check()).
[[nodiscard]] inline std::uint32_t icrc_of_head(const IcrcPrefix& prefix, Bytes header,
                                                std::span<const TxSge> payload,
                                                unsigned pad) noexcept {
  assert(header.size() >= sizeof(Bth) && header.size() <= kMaxTransportHeader && pad <= 3);
  std::uint8_t head[kMaxTransportHeader] = {};
  std::memcpy(head, header.data(), header.size());
  std::size_t used = header.size();
  for (const TxSge& sge : payload) {
    const std::size_t n = std::min<std::size_t>(sge.length, kMaxTransportHeader - used);
    if (n == 0) continue;
    std::memcpy(head + used, sge.data, n);
    used += n;
  }
  used = std::min(used + pad, kMaxTransportHeader);  // behind the payload are zeros
  return detail::icrc_head(prefix, {head, used});
}

/// The same of a contiguous packet: BTH .. payload and pad, at least a BTH.
[[nodiscard]] inline std::uint32_t icrc_of_head(const IcrcPrefix& prefix, Bytes whole) noexcept {
  assert(whole.size() >= sizeof(Bth));
  return detail::icrc_head(prefix, whole.first(std::min(whole.size(), kMaxTransportHeader)));
}

/// The iCRC follows payload and pad, least significant byte first.
inline void store_icrc(std::uint8_t* at, std::uint32_t icrc) noexcept {
  for (std::size_t i = 0; i < kIcrcSize; ++i) at[i] = static_cast<std::uint8_t>(icrc >> (8 * i));
}
/// Reads the 4 bytes that store_icrc() writes.
[[nodiscard]] inline std::uint32_t load_icrc(const std::uint8_t* at) noexcept {
  return load_little(at);
}

}  // namespace mrc::inline v0_1::wire
