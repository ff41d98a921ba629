// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

/// UD messages between verbs ports. Behind the 40 bytes that a device puts in front (GRH): a check,
/// then the transport packet from BTH to its pad. The immediate says what the message is, how long
/// the packet's header is and which path it has taken. The check is that of the transport header
/// alone (CRC-32), plus the check seed of the connection: the device's own iCRC covers the payload,
/// which the CPU need not touch.
namespace mrc::inline v0_1::port {

/// What a UD message holds; top 8 bits of its immediate.
enum class UdKind : std::uint8_t {
  packet = 0,          ///< check, packet
  headers = 1,         ///< headers of packets whose payload the device places (uc_message.hpp)
  retransmission = 2,  ///< origins (uc_message.hpp), check, packet
};

/// The immediate of a UD message.
struct UdImmediate {
  UdKind kind = UdKind::packet;    ///< what the message holds
  std::uint8_t header_length = 0;  ///< bytes of the transport header that the check covers
  std::uint16_t path = 0;          ///< number of the sender's path, its EV

  /// As it is sent, in host byte order.
  [[nodiscard]] constexpr std::uint32_t bits() const noexcept {
    return static_cast<std::uint32_t>(kind) << 24 | std::uint32_t{header_length} << 16 | path;
  }
  /// From what was received; any bits are safe, `kind` can be a value without a name.
  [[nodiscard]] static constexpr UdImmediate of(std::uint32_t bits) noexcept {
    return {static_cast<UdKind>(bits >> 24), static_cast<std::uint8_t>(bits >> 16),
            static_cast<std::uint16_t>(bits)};
  }
};

inline constexpr std::size_t kUdCheckSize = 4;      ///< bytes of the check, big endian
inline constexpr std::size_t kUdMaxMessage = 4096;  ///< largest UD message of any device, bytes

}  // namespace mrc::inline v0_1::port
