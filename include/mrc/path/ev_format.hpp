// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>

#include "mrc/core/types.hpp"

namespace mrc::inline v0_1::path {

/// Entropy value formats: which packet fields carry the bits of an EV (mrc-1.0 §3.1, §3.2).

/// How EVs become packet fields. The values are the API's mode bits.
enum class EvMode : std::uint8_t {
  stev = 1,  ///< UDP source port and low 16 bits of the IPv6 flow label
  srv6 = 2,  ///< outer destination address, and one segment of an SRH if there is one
  udp = 4,   ///< UDP source port
};

/// The mode's bit in masks.
[[nodiscard]] constexpr std::uint32_t bit_of(EvMode mode) noexcept {
  return static_cast<std::uint32_t>(mode);
}

/// Which EVs ports can send; zeros if they have only paths of their own.
struct EvFormats {
  std::uint32_t modes = 0;      ///< values of EvMode, as bits
  std::uint32_t max_width = 0;  ///< bits of the longest EV
};

/// Widest address or port field that a mode can fill, in bits (mrc-1.0 §3.1).
[[nodiscard]] constexpr unsigned ev_max_width(EvMode mode, bool srh = false) noexcept {
  switch (mode) {
    case EvMode::udp:
      return 16;
    case EvMode::stev:
      return 32;
    case EvMode::srv6:
      return srh ? 256 : 128;
  }
  return 0;
}

/// An EV, or its expansion, as in the API: a bit string that starts at the most significant bit of
/// byte 0, zero-padded.
using EvValue = std::array<std::uint8_t, 32>;
/// Bits in an EvValue.
inline constexpr unsigned kEvBits = 256;

/// One field of a format.
struct FormatField {
  std::uint16_t width = 0;  ///< bits that the field has in the packet; 0: none

  /// Equal in width.
  friend bool operator==(const FormatField&, const FormatField&) = default;
};

/// One field of an EV: a constant whose bits under the mask are replaced by bits of the EV.
struct EvField {
  std::uint16_t width = 0;     ///< bits, 0 .. 64; 0: the field is nothing but a number in the list
  std::uint64_t init_val = 0;  ///< the constant
  std::uint64_t min_val = 0;   ///< smallest value of the EV's bits for this field (generation)
  std::uint64_t max_val = 0;   ///< largest value
  std::uint64_t mask = 0;      ///< 0: the field is constant

  /// Equal in every member.
  friend bool operator==(const EvField&, const EvField&) = default;
};

/// Bits [at, at + count) of a bit string as a number; count <= 64, at + count <= kEvBits.
[[nodiscard]] constexpr std::uint64_t get_bits(const EvValue& bits, unsigned at,
                                               unsigned count) noexcept {
  std::uint64_t v = 0;
  for (unsigned i = at; i < at + count; ++i) v = v << 1 | (bits[i / 8] >> (7 - i % 8) & 1u);
  return v;
}

/// Writes the low `count` bits of `v` to bits [at, at + count), which must be 0; count <= 64.
constexpr void put_bits(EvValue& bits, unsigned at, unsigned count, std::uint64_t v) noexcept {
  for (unsigned i = 0; i < count; ++i)
    if ((v >> (count - 1 - i) & 1) != 0)
      bits[(at + i) / 8] = static_cast<std::uint8_t>(bits[(at + i) / 8] | 0x80u >> (at + i) % 8);
}

/// The 32 bits that identify a path in feedback. UDP: the source port, so the first 16 bits of the
/// expanded value. STEV: its first 32 bits. SRv6, whose address is longer: the first 32 bits of the
/// unexpanded EV, also carried in the inner source port and flow label [O-17].
[[nodiscard]] constexpr Ev feedback_ev(EvMode mode, const EvValue& ev,
                                       const EvValue& expanded) noexcept {
  if (mode == EvMode::udp) return Ev{static_cast<std::uint32_t>(get_bits(expanded, 0, 16))};
  return Ev{static_cast<std::uint32_t>(get_bits(mode == EvMode::stev ? expanded : ev, 0, 32))};
}

}  // namespace mrc::inline v0_1::path
