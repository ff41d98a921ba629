// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>

namespace mrc::inline v0_1 {

/// A sequence number of `Bits` bits that wraps around: `a.before(b)` holds when b is ahead of a by
/// 1 .. 2^(Bits-1)-1 steps. No operator<: such an order is not total.
template <class Tag, unsigned Bits>
class Serial {
  static_assert(Bits >= 8 && Bits <= 31);

 public:
  static constexpr std::uint32_t kMask = (std::uint32_t{1} << Bits) - 1;

  constexpr Serial() noexcept = default;
  /// Takes the low `Bits` bits of `value`.
  constexpr explicit Serial(std::uint32_t value) noexcept : value_(value & kMask) {}

  /// The number, 0 .. 2^Bits - 1.
  [[nodiscard]] constexpr std::uint32_t value() const noexcept { return value_; }

  friend constexpr bool operator==(Serial, Serial) noexcept = default;

  // Modulo 2^Bits.
  constexpr Serial& operator++() noexcept {
    value_ = (value_ + 1) & kMask;
    return *this;
  }
  friend constexpr Serial operator+(Serial a, std::int32_t n) noexcept {
    return Serial{a.value_ + static_cast<std::uint32_t>(n)};
  }
  friend constexpr Serial operator-(Serial a, std::int32_t n) noexcept {
    return Serial{a.value_ - static_cast<std::uint32_t>(n)};
  }
  /// Signed distance from b to a, in [-2^(Bits-1), 2^(Bits-1)).
  friend constexpr std::int32_t operator-(Serial a, Serial b) noexcept {
    return static_cast<std::int32_t>((a.value_ - b.value_) << (32 - Bits)) >> (32 - Bits);
  }
  /// Whether `other` is ahead of this.
  [[nodiscard]] constexpr bool before(Serial other) const noexcept { return other - *this > 0; }
  /// Whether this is ahead of `other`.
  [[nodiscard]] constexpr bool after(Serial other) const noexcept { return *this - other > 0; }

 private:
  std::uint32_t value_ = 0;
};

/// A span of time in nanoseconds, signed.
using Duration = std::chrono::nanoseconds;

/// The clock of time points. Without now(): the engine takes the time as an argument,
/// CLOCK_MONOTONIC with real ports and virtual time in the simulator.
struct Clock {
  // As std::chrono requires of a clock.
  using duration = Duration;
  using rep = duration::rep;
  using period = duration::period;
  using time_point = std::chrono::time_point<Clock, duration>;
  static constexpr bool is_steady = true;
};

/// A point in time, in nanoseconds since an origin that the caller chooses.
using Time = Clock::time_point;

/// The deadline of a timer that is not running.
inline constexpr Time kNever = Time::max();

/// Real time for programs and ports (CLOCK_MONOTONIC). Not called by the engine.
[[nodiscard]] inline Time monotonic_now() noexcept {
  return Time{
      std::chrono::duration_cast<Duration>(std::chrono::steady_clock::now().time_since_epoch())};
}

/// Packet sequence number, 24 bit: one per data packet (mrc-1.0 §2.2).
using Psn = Serial<struct PsnTag, 24>;
/// Message number on the send queue, 16 bit (mrc-1.0 §2.2).
using Msn = Serial<struct MsnTag, 16>;
/// Receive-queue message number, 16 bit: counts WriteImm messages only (mrc-1.0 §2.2).
using Rqmsn = Serial<struct RqmsnTag, 16>;

/// Queue pair number, 24 bit. The top 8 bits are the slot of its lane on its host.
enum class Qpn : std::uint32_t {};
/// The endpoint (requests and responses, mrc-1.0 §1.3). QPNs 0 and 1 are reserved for management.
inline constexpr Qpn kEndpointQpn{2};
/// Lowest QPN of a queue pair; the smaller ones are reserved.
inline constexpr std::uint32_t kFirstUserQpn = 3;

/// Entropy value: the 32 bits that identify a path in feedback (mrc-1.0 §3.1).
enum class Ev : std::uint32_t {};

/// The number itself.
[[nodiscard]] constexpr std::uint32_t value(Qpn qpn) noexcept {
  return static_cast<std::uint32_t>(qpn);
}
/// As above.
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

using Bytes = std::span<const std::uint8_t>;   ///< bytes to read
using MutableBytes = std::span<std::uint8_t>;  ///< bytes to write

/// ECN field of an IP header, the low two bits of ToS / traffic class.
enum class Ecn : std::uint8_t { not_ect = 0, ect1 = 1, ect0 = 2, ce = 3 };

/// Access rights of a memory region; a set of bits. Local reads are always allowed; remote_write
/// implies local_write.
enum class Access : std::uint8_t {
  none = 0,
  local_write = 1,
  remote_write = 2,
  /// Bytes may become visible in any order. Without it, the last bytes of a message become visible
  /// after all others, for programs that poll the last byte instead of a completion.
  relaxed_ordering = 4,
  /// For programs that poll flags between the data, as NCCL's LL and LL128 do. Aligned lines of 128
  /// bytes may become visible in any order, but those of one packet in ascending order. Within a
  /// line, aligned words of 8 bytes become visible whole and in ascending order: who sees a word
  /// (by an acquire load) sees what is before it in the line. That holds for lines, or parts, that
  /// lie in one packet: for all of a message whose first byte is aligned to 128, since packets are
  /// multiples of 128 bytes. The last bytes of a message are as the others. Stronger than
  /// relaxed_ordering, which has no effect beside it.
  line_ordering = 8,
  remote_read = 16,    ///< peers may READ
  remote_atomic = 32,  ///< peers may execute atomics; implies local_write
};
/// Both sets of rights together.
[[nodiscard]] constexpr Access operator|(Access a, Access b) noexcept {
  return static_cast<Access>(static_cast<unsigned>(a) | static_cast<unsigned>(b));
}
/// All that peers can be allowed.
inline constexpr Access kPeerRights =
    Access::remote_write | Access::remote_read | Access::remote_atomic;
/// True if `set` holds all rights of `right`.
[[nodiscard]] constexpr bool has(Access set, Access right) noexcept {
  return (static_cast<unsigned>(set) & static_cast<unsigned>(right)) ==
         static_cast<unsigned>(right);
}

/// The rights that registering memory with `access` gives: remote_write and remote_atomic add
/// local_write, and line_ordering removes relaxed_ordering.
[[nodiscard]] constexpr Access in_force(Access access) noexcept {
  auto bits = static_cast<unsigned>(access);
  if (has(access, Access::remote_write) || has(access, Access::remote_atomic))
    bits |= static_cast<unsigned>(Access::local_write);
  if (has(access, Access::line_ordering)) bits &= ~static_cast<unsigned>(Access::relaxed_ordering);
  return static_cast<Access>(bits);
}

/// MTU: the payload bytes of all packets of a message but its last. A multiple of this, so that a
/// message that is aligned to it has no line of 128 bytes in two packets (Access::line_ordering).
inline constexpr std::uint32_t kMtuUnit = 128;
/// Smallest MTU, of MRC too.
inline constexpr std::uint32_t kSmallestMtu = 256;
/// Largest MTU between OpenMRC peers.
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

namespace detail {

/// Adds the counters of `more` to those of `sum`: structs of nothing but std::uint64_t.
template <class Counters>
void add_counters(Counters& sum, const Counters& more) noexcept {
  using Array = std::array<std::uint64_t, sizeof(Counters) / sizeof(std::uint64_t)>;
  static_assert(sizeof(Array) == sizeof(Counters));
  auto a = std::bit_cast<Array>(sum);
  const auto b = std::bit_cast<Array>(more);
  for (std::size_t i = 0; i < a.size(); ++i) a[i] += b[i];
  sum = std::bit_cast<Counters>(a);
}

}  // namespace detail

}  // namespace mrc::inline v0_1
