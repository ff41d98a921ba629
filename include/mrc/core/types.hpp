// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

#include "mrc/core/serial.hpp"
#include "mrc/core/time.hpp"

namespace mrc::inline v0_1 {

/// Packet sequence number, 24 bit: one per data packet (mrc-1.0 §2.2).
using Psn = Serial<struct PsnTag, 24>;
/// Message number on the send queue, 16 bit (mrc-1.0 §2.2).
using Msn = Serial<struct MsnTag, 16>;
/// Receive-queue message number, 16 bit: counts WriteImm messages only (mrc-1.0 §2.2).
using Rqmsn = Serial<struct RqmsnTag, 16>;

/// Queue pair number, 24 bit. The top 8 bits are the slot of its lane on its host.
enum class Qpn : std::uint32_t {};
/// QPNs 0 and 1 are reserved for management, 2 is the endpoint (requests and responses, mrc-1.0
/// §1.3).
inline constexpr Qpn kEndpointQpn{2};
/// Lowest QPN of a queue pair; the smaller ones are reserved.
inline constexpr std::uint32_t kFirstUserQpn = 3;

/// Entropy value: the 32 bits that identify a path in feedback (mrc-1.0 §3.1).
enum class Ev : std::uint32_t {};

/// The number itself.
[[nodiscard]] constexpr std::uint32_t value(Qpn qpn) noexcept {
  return static_cast<std::uint32_t>(qpn);
}
/// The number itself.
[[nodiscard]] constexpr std::uint32_t value(Ev ev) noexcept {
  return static_cast<std::uint32_t>(ev);
}
/// The process slot of a QPN, its top 8 bits: identifies the owning process on a host.
[[nodiscard]] constexpr std::uint8_t slot_of(Qpn qpn) noexcept {
  return static_cast<std::uint8_t>(value(qpn) >> 16);
}

/// Index of a plane, which is the index of a NIC port: 0 .. kMaxPlanes-1. (The MRC API counts
/// ports from 1; the wire's port status mask has bit 0 for our plane 0, mrc-1.0 [O-19].)
using Plane = std::uint8_t;
/// Largest number of planes (bits of a PlaneMask).
inline constexpr unsigned kMaxPlanes = 32;
/// Most lanes of a device (Config::lanes).
inline constexpr unsigned kMaxLanes = 64;
/// One bit per plane.
using PlaneMask = std::uint32_t;
/// The mask with only this plane's bit set.
[[nodiscard]] constexpr PlaneMask plane_bit(Plane plane) noexcept {
  return PlaneMask{1} << plane;
}

/// The lowest of these planes, after `n` lower ones were left out, cyclically; 0 if there are none.
[[nodiscard]] constexpr PlaneMask nth_plane(PlaneMask planes, unsigned n) noexcept {
  if (planes == 0) return 0;
  for (n %= static_cast<unsigned>(std::popcount(planes)); n > 0; --n) planes &= planes - 1;
  return planes & (~planes + 1);
}

/// Index of a peer (a remote device) in an engine and in its ports' address tables.
enum class PeerId : std::uint32_t {};
/// The index itself.
[[nodiscard]] constexpr std::uint32_t value(PeerId peer) noexcept {
  return static_cast<std::uint32_t>(peer);
}

/// Read-only bytes.
using Bytes = std::span<const std::uint8_t>;
/// Writable bytes.
using MutableBytes = std::span<std::uint8_t>;

/// ECN field of an IP header, the low two bits of ToS / traffic class.
enum class Ecn : std::uint8_t { not_ect = 0, ect1 = 1, ect0 = 2, ce = 3 };

}  // namespace mrc::inline v0_1
