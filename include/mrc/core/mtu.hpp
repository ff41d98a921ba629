// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

/// Sizes of packets: the payload bytes of all packets of a message but its last.
namespace mrc::inline v0_1 {

/// Every MTU is a multiple of this: so a message whose buffer is aligned to it never has a line of
/// 128 bytes in two packets (Access::line_ordering).
inline constexpr std::uint32_t kMtuUnit = 128;
/// Smallest MTU, of MRC too.
inline constexpr std::uint32_t kSmallestMtu = 256;
/// Largest MTU between OpenMRC peers; MRC's is 4,096.
inline constexpr std::uint32_t kLargestMtu = 32'768;

/// Largest MTU of MRC (mrc-1.0 §2.3).
inline constexpr std::uint32_t kLargestMrcMtu = 4096;

/// What option `mtu` means by `auto` on UDP planes whose interfaces carry it, as loopback does: two
/// packets with their headers fill what one system call sends.
inline constexpr std::uint32_t kLargestUdpMtu = 32'640;

/// The largest MTU up to `bytes` that MRC itself has.
[[nodiscard]] constexpr std::uint32_t mrc_mtu(std::uint32_t bytes) noexcept {
  return std::bit_floor(std::min(bytes, kLargestMrcMtu));
}

/// True if OpenMRC peers may agree on packets of that size.
[[nodiscard]] constexpr bool is_mtu(std::uint32_t bytes) noexcept {
  return bytes >= kSmallestMtu && bytes <= kLargestMtu && bytes % kMtuUnit == 0;
}

/// What two sides agree on: the smaller of both, and the power of two below it unless both take
/// `multiples` of kMtuUnit. MRC has powers of two only (mrc-1.0 §2.3). 0 if one of them is 0.
[[nodiscard]] constexpr std::uint32_t agreed_mtu(std::uint32_t a, std::uint32_t b,
                                                 bool multiples) noexcept {
  const std::uint32_t smaller = std::min(a, b);
  return multiples ? smaller : std::bit_floor(smaller);
}

/// The largest MTU up to `wanted` whose packets fit into `room` bytes, of which `overhead` are not
/// payload; 0 if none does.
[[nodiscard]] constexpr std::uint32_t fitting_mtu(std::uint32_t wanted, std::uint32_t room,
                                                  std::uint32_t overhead) noexcept {
  const std::uint32_t payload = room - std::min(room, overhead);
  const std::uint32_t mtu = std::min(wanted, payload / kMtuUnit * kMtuUnit);
  return mtu < kSmallestMtu ? 0 : mtu;
}

}  // namespace mrc::inline v0_1
