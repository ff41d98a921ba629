// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "mrc/core/error.hpp"
#include "mrc/path/ev_format.hpp"

namespace mrc::inline v0_1::path {

/// Field expansion: compact EV to packet fields and back (mrc-1.0 §3.3, §7.5). Set-up only.
///
/// Fields that all fit their places in the format are put there, right-justified. Where one is
/// wider than its place, the API only asks that the widths add up to the same: then the format's
/// places mean nothing, and the fields lie side by side from the first bit on.

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
