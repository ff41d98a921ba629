// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <type_traits>

#include "mrc/core/types.hpp"

namespace mrc::inline v0_1::wire {

namespace detail {

template <class T>
[[nodiscard]] constexpr T swap_bytes(T value) noexcept {
  if constexpr (sizeof(T) == 2) return static_cast<T>(__builtin_bswap16(value));
  if constexpr (sizeof(T) == 4) return static_cast<T>(__builtin_bswap32(value));
  if constexpr (sizeof(T) == 8) return static_cast<T>(__builtin_bswap64(value));
}

}  // namespace detail

/// An unsigned integer of N bytes as in a packet: most significant byte first, no alignment.
/// Converts to and from T, whose upper bits it loses. Headers of these overlay received bytes.
template <class T, std::size_t N = sizeof(T)>
class BigEndian {
  static_assert(std::is_unsigned_v<T> && N >= 2 && N <= sizeof(T));
  /// Whole machine words take one load and a byte swap, others go byte by byte.
  static constexpr bool kWord = N == sizeof(T);

 public:
  constexpr BigEndian() noexcept = default;
  /// Stores `value`, most significant byte first.
  constexpr BigEndian(T value) noexcept { store(value); }  // NOLINT(google-explicit-constructor)
  /// The host value.
  constexpr operator T() const noexcept { return load(); }  // NOLINT(google-explicit-constructor)

  [[nodiscard]] constexpr T value() const noexcept { return load(); }

 private:
  [[nodiscard]] constexpr T load() const noexcept {
    if (kWord && !std::is_constant_evaluated()) {
      T raw = 0;
      std::memcpy(&raw, bytes_, N);
      return to_or_from_big(raw);
    }
    T result = 0;
    for (std::size_t i = 0; i < N; ++i) result = static_cast<T>((result << 8) | bytes_[i]);
    return result;
  }

  constexpr void store(T value) noexcept {
    if (kWord && !std::is_constant_evaluated()) {
      const T raw = to_or_from_big(value);
      std::memcpy(bytes_, &raw, N);
      return;
    }
    for (std::size_t i = 0; i < N; ++i)
      bytes_[i] = static_cast<std::uint8_t>(value >> (8 * (N - 1 - i)));
  }

  [[nodiscard]] static constexpr T to_or_from_big(T value) noexcept {
    return std::endian::native == std::endian::little ? detail::swap_bytes(value) : value;
  }

  std::uint8_t bytes_[N] = {};
};

/// 16 bits on the wire.
using Be16 = BigEndian<std::uint16_t>;
/// 24 bits on the wire.
using Be24 = BigEndian<std::uint32_t, 3>;
/// 32 bits on the wire.
using Be32 = BigEndian<std::uint32_t>;
/// 64 bits on the wire.
using Be64 = BigEndian<std::uint64_t>;

static_assert(sizeof(Be16) == 2 && sizeof(Be24) == 3 && sizeof(Be32) == 4 && sizeof(Be64) == 8);
static_assert(alignof(Be16) == 1 && alignof(Be24) == 1 && alignof(Be32) == 1 && alignof(Be64) == 1);
static_assert(std::is_trivially_copyable_v<Be24> && std::is_trivially_copyable_v<Be64>);

/// The little-endian 32-bit number at `p`.
[[nodiscard]] constexpr std::uint32_t load_little(const std::uint8_t* p) noexcept {
  return static_cast<std::uint32_t>(p[0]) | static_cast<std::uint32_t>(p[1]) << 8 |
         static_cast<std::uint32_t>(p[2]) << 16 | static_cast<std::uint32_t>(p[3]) << 24;
}

/// IPv4, IPv6, UDP and segment routing headers in wire format (mrc-1.0 §1.1, §1.2, §4.3).

/// An IPv6 address, or an IPv4 address mapped into one (::ffff:a.b.c.d).
using IpAddress = std::array<std::uint8_t, 16>;

/// An Ethernet address.
using MacAddress = std::array<std::uint8_t, 6>;

/// Protocol number of UDP.
inline constexpr std::uint8_t kNextUdp = 17;
/// Destination port of MRC (mrc-1.0 [C-1]).
inline constexpr std::uint16_t kUdpPort = 4791;
/// Also accepted: some copies of the specification print this port (mrc-1.0 [C-1]).
inline constexpr std::uint16_t kUdpPortAlternative = 4971;
/// Hop limit or TTL of packets that are sent.
inline constexpr std::uint8_t kDefaultHopLimit = 64;

/// The ToS or traffic class of a DSCP (6 bit) and an ECN field.
[[nodiscard]] constexpr std::uint8_t make_tos(std::uint8_t dscp, Ecn ecn) noexcept {
  return static_cast<std::uint8_t>(((dscp & 0x3F) << 2) | static_cast<std::uint8_t>(ecn));
}
/// Upper 6 bits of a ToS or traffic class.
[[nodiscard]] constexpr std::uint8_t dscp_of(std::uint8_t tos) noexcept {
  return static_cast<std::uint8_t>(tos >> 2);
}
/// Low 2 bits of a ToS or traffic class.
[[nodiscard]] constexpr Ecn ecn_of(std::uint8_t tos) noexcept {
  return static_cast<Ecn>(tos & 3);
}

/// An IPv4 address in network byte order.
using Ipv4Address = std::array<std::uint8_t, 4>;

/// The IPv4-mapped IPv6 address.
[[nodiscard]] constexpr IpAddress map_ipv4(const Ipv4Address& v4) noexcept {
  return {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF, v4[0], v4[1], v4[2], v4[3]};
}
/// The IPv4 address of a mapped one; the last four bytes of any other.
[[nodiscard]] constexpr Ipv4Address unmap_ipv4(const IpAddress& a) noexcept {
  return {a[12], a[13], a[14], a[15]};
}
/// Whether the address is in ::ffff:0:0/96.
[[nodiscard]] constexpr bool is_mapped_ipv4(const IpAddress& a) noexcept {
  return map_ipv4(unmap_ipv4(a)) == a;
}

/// IPv6 header.
struct Ipv6 {
  Be32 version_tc_label = 0x60000000u;  ///< version 31:28, traffic class 27:20, flow label 19:0
  Be16 payload_length;                  ///< bytes after this header
  std::uint8_t next_header = 0;         ///< protocol number
  std::uint8_t hop_limit = 0;           ///< hops left
  IpAddress source{};                   ///< sender
  IpAddress destination{};              ///< receiver, or the next uSID carrier

  /// 6 in a well-formed header.
  [[nodiscard]] constexpr std::uint8_t version() const noexcept {
    return static_cast<std::uint8_t>(version_tc_label >> 28);
  }
  [[nodiscard]] constexpr std::uint8_t traffic_class() const noexcept {
    return static_cast<std::uint8_t>(version_tc_label >> 20);
  }
  [[nodiscard]] constexpr std::uint8_t dscp() const noexcept { return dscp_of(traffic_class()); }
  [[nodiscard]] constexpr Ecn ecn() const noexcept { return ecn_of(traffic_class()); }
  [[nodiscard]] constexpr std::uint32_t flow_label() const noexcept {
    return version_tc_label & 0xFFFFFu;
  }
  /// Sets version 6, traffic class and the low 20 bits of the flow label.
  constexpr void set_first_word(std::uint8_t traffic_class, std::uint32_t flow_label) noexcept {
    version_tc_label = 0x60000000u | std::uint32_t{traffic_class} << 20 | (flow_label & 0xFFFFFu);
  }
};

/// IPv4 header without options.
struct Ipv4 {
  std::uint8_t version_ihl = 0x45;  ///< version 7:4, header length in 4-byte words 3:0
  std::uint8_t tos = 0;             ///< DSCP and ECN
  Be16 total_length;                ///< header and payload, in bytes
  Be16 identification;              ///< of the datagram, for fragments
  Be16 flags_fragment;              ///< DF 14, MF 13, fragment offset 12:0
  std::uint8_t ttl = 0;             ///< hops left
  std::uint8_t protocol = 0;        ///< protocol number
  Be16 checksum;                    ///< see ipv4_checksum()
  Ipv4Address source{};             ///< sender
  Ipv4Address destination{};        ///< receiver

  /// DF in flags_fragment.
  static constexpr std::uint16_t kDontFragment = 0x4000;
  /// MF and offset: any of these bits set marks a fragment.
  static constexpr std::uint16_t kFragmentMask = 0x3FFF;

  /// 4 in a well-formed header.
  [[nodiscard]] constexpr std::uint8_t version() const noexcept {
    return static_cast<std::uint8_t>(version_ihl >> 4);
  }
  /// Header length in bytes, options included: 0 .. 60; below 20 the header is malformed.
  [[nodiscard]] constexpr std::size_t header_length() const noexcept {
    return (version_ihl & 0x0Fu) * 4u;
  }
  [[nodiscard]] constexpr std::uint8_t dscp() const noexcept { return dscp_of(tos); }
  /// ECN field.
  [[nodiscard]] constexpr Ecn ecn() const noexcept { return ecn_of(tos); }
};

/// Internet checksum over an IPv4 header (an even number of bytes). With the checksum field zero
/// the result is the value for that field; over a correct header it is 0.
[[nodiscard]] inline std::uint16_t ipv4_checksum(Bytes header) noexcept {
  std::uint32_t sum = 0;
  for (std::size_t i = 0; i + 1 < header.size(); i += 2)
    sum += static_cast<std::uint32_t>(header[i]) << 8 | header[i + 1];
  while ((sum >> 16) != 0) sum = (sum & 0xFFFF) + (sum >> 16);
  return static_cast<std::uint16_t>(~sum);
}

/// UDP header. The checksum may be 0 with IPv6 as well, and is not verified on receipt.
struct Udp {
  Be16 source_port;       ///< carries EV bits (mrc-1.0 §3.1)
  Be16 destination_port;  ///< kUdpPort for MRC
  Be16 length;            ///< this header and its payload; unchanged when a packet is trimmed
  Be16 checksum;          ///< 0, or as set by the kernel; ignored on receipt
};

static_assert(sizeof(Ipv6) == 40 && sizeof(Ipv4) == 20 && sizeof(Udp) == 8);
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

/// Bytes in front of each datagram in the receiver's memory, in the place of InfiniBand's global
/// route header (GRH): they tell of the IP header, as in RoCEv2.
inline constexpr std::size_t kGrhSize = 40;

/// Where a packet came from and how, read from the IP header nearest to UDP.
struct Origin {
  IpAddress source{};              ///< sender; IPv4 mapped
  IpAddress destination{};         ///< receiver; likewise
  std::uint32_t flow_label = 0;    ///< 20 bit; 0 on IPv4
  std::uint8_t traffic_class = 0;  ///< DSCP and ECN
  std::uint8_t hop_limit = 0;      ///< hops left; 0: the port can't see it
};

/// Reads these 40 bytes: an IPv6 header, or 20 bytes and an IPv4 header, known by its checksum
/// since the 20 bytes may hold anything; nothing if neither.
[[nodiscard]] inline std::optional<Origin> read_grh(Bytes grh) noexcept {
  if (grh.size() < kGrhSize) return std::nullopt;
  Ipv4 v4;
  std::memcpy(&v4, grh.data() + kGrhSize - sizeof v4, sizeof v4);
  if (v4.version() == 4 && v4.header_length() == sizeof v4 &&
      ipv4_checksum(grh.subspan(kGrhSize - sizeof v4, sizeof v4)) == 0)
    return Origin{map_ipv4(v4.source), map_ipv4(v4.destination), 0, v4.tos, v4.ttl};
  Ipv6 v6;
  std::memcpy(&v6, grh.data(), sizeof v6);
  if (v6.version() != 6) return std::nullopt;
  return Origin{v6.source, v6.destination, v6.flow_label(), v6.traffic_class(), v6.hop_limit};
}

}  // namespace mrc::inline v0_1::wire
