// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "mrc/core/error.hpp"
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
/// Largest number of fields in a format.
inline constexpr std::size_t kMaxFormatFields = 32;

/// A format profile: the mode and the widths of its fields, most significant first.
struct EvFormatProfile {
  EvMode mode = EvMode::udp;        ///< how EVs become packet fields
  bool srh = false;                 ///< SRv6 only: a second carrier of uSIDs in an SRH
  std::vector<FormatField> fields;  ///< most significant first
};

/// Validates a format profile: no_resources when it is wider than the mode can carry,
/// invalid_argument when it is contradictory or has no fields. A field of width 0 is legal: it
/// stands for nothing in the packet.
[[nodiscard]] inline Errc check(const EvFormatProfile& format) noexcept {
  if (format.srh && format.mode != EvMode::srv6) return Errc::invalid_argument;
  if (format.fields.empty()) return Errc::invalid_argument;
  if (format.fields.size() > kMaxFormatFields) return Errc::no_resources;
  unsigned sum = 0;
  for (const FormatField& field : format.fields) sum += field.width;
  return sum > ev_max_width(format.mode, format.srh) ? Errc::no_resources : Errc::ok;
}

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

/// Which half of a structured EV goes into the UDP source port [C-5]. Both ends must agree.
enum class StevOrder : std::uint8_t {
  low_to_source_port,   ///< EV = flow label bits 15:0 followed by the source port; the default
  high_to_source_port,  ///< source port = high half, flow label bits 15:0 = low half
};

/// The packet fields of a structured EV (mrc-1.0 §3.1). Flow label bits 19:16 are 0 [O-23].
struct StevFields {
  std::uint16_t source_port = 0;  ///< UDP source port
  std::uint16_t flow_label = 0;   ///< low 16 bits of the IPv6 flow label

  /// Equal in both fields.
  friend constexpr bool operator==(const StevFields&, const StevFields&) = default;
};

/// The packet fields of a structured EV.
[[nodiscard]] constexpr StevFields split_stev(
    Ev ev, StevOrder order = StevOrder::low_to_source_port) noexcept {
  const auto low = static_cast<std::uint16_t>(value(ev) & 0xFFFF);
  const auto high = static_cast<std::uint16_t>(value(ev) >> 16);
  return order == StevOrder::low_to_source_port ? StevFields{low, high} : StevFields{high, low};
}
/// The inverse of split_stev().
[[nodiscard]] constexpr Ev join_stev(StevFields fields,
                                     StevOrder order = StevOrder::low_to_source_port) noexcept {
  const std::uint32_t port = fields.source_port;
  const std::uint32_t label = fields.flow_label;
  return Ev{order == StevOrder::low_to_source_port ? label << 16 | port : port << 16 | label};
}

/// The 32 bits that identify a path in feedback. UDP: the source port, so the first 16 bits of the
/// expanded value. STEV: its first 32 bits. SRv6, whose address is longer: the first 32 bits of the
/// unexpanded EV, also carried in the inner source port and flow label [O-17].
[[nodiscard]] constexpr Ev feedback_ev(EvMode mode, const EvValue& ev,
                                       const EvValue& expanded) noexcept {
  if (mode == EvMode::udp) return Ev{static_cast<std::uint32_t>(get_bits(expanded, 0, 16))};
  return Ev{static_cast<std::uint32_t>(get_bits(mode == EvMode::stev ? expanded : ev, 0, 32))};
}

/// Field expansion: compact EV to packet fields and back (mrc-1.0 §3.3, §7.5). Set-up only.
///
/// Fields that all fit their places in the format are put there, right-justified. Where one is
/// wider than its place, the API only asks that the widths add up to the same: then the format's
/// places mean nothing, and the fields lie side by side from the first bit on.

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

/// Number of EV bits that the field uses.
[[nodiscard]] constexpr unsigned ev_bits(const EvField& field) noexcept {
  return static_cast<unsigned>(std::popcount(field.mask));
}

/// 2^bits - 1; bits: 0 .. 64.
[[nodiscard]] constexpr std::uint64_t low_mask(unsigned bits) noexcept {
  return bits >= 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << bits) - 1;
}

/// Spreads the low bits of `v` over the set bits of `mask`, lowest first.
[[nodiscard]] constexpr std::uint64_t deposit(std::uint64_t v, std::uint64_t mask) noexcept {
  std::uint64_t out = 0;
  for (; mask != 0; mask &= mask - 1, v >>= 1)
    if ((v & 1) != 0) out |= mask & (~mask + 1);
  return out;
}

/// The inverse of deposit(): gathers the bits under `mask` at the low end.
[[nodiscard]] constexpr std::uint64_t gather(std::uint64_t v, std::uint64_t mask) noexcept {
  std::uint64_t out = 0;
  for (unsigned i = 0; mask != 0; mask &= mask - 1, ++i)
    if ((v & mask & (~mask + 1)) != 0) out |= std::uint64_t{1} << i;
  return out;
}

/// Whether a field can be one of some EV, whatever the format: its values lie within its width, and
/// within the bits of its mask.
[[nodiscard]] constexpr bool consistent(const EvField& f) noexcept {
  const std::uint64_t inside = low_mask(f.width);
  return f.width <= 64 && (f.init_val & ~inside) == 0 && (f.mask & ~inside) == 0 &&
         f.min_val <= f.max_val && f.max_val <= low_mask(ev_bits(f));
}

/// Validates fields against their format by the rules of mrc-1.0 §3.3. no_resources stands for
/// E2BIG.
[[nodiscard]] Errc check(std::span<const EvField> fields, const EvFormatProfile& format) noexcept;

/// Expands an EV into the bits of its packet field. invalid_argument: the fields don't match the
/// format, or the EV has bits set that no field uses. no_resources: the format is too large.
[[nodiscard]] Result<EvValue> expand(const EvValue& ev, std::span<const EvField> fields,
                                     const EvFormatProfile& format) noexcept;

/// The inverse of expand(). not_found: these fields cannot produce the value.
[[nodiscard]] Result<EvValue> extract(const EvValue& expanded, std::span<const EvField> fields,
                                      const EvFormatProfile& format) noexcept;

/// Packs one value per field, each assigned to its mask's bits from the lowest up, into an EV.
/// invalid_argument: wrong number of values, or one that exceeds its mask. no_resources: more bits
/// than an EV has.
[[nodiscard]] Result<EvValue> pack(std::span<const std::uint64_t> values,
                                   std::span<const EvField> fields) noexcept;

}  // namespace mrc::inline v0_1::path
