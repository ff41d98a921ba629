// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstdint>
#include <span>

#include "mrc/core/error.hpp"
#include "mrc/path/format.hpp"

/// Field expansion: compact EV to packet fields and back (mrc-1.0 §3.3). Set-up only.
namespace mrc::inline v0_1::path {

/// One field of an EV: a constant whose bits under the mask are replaced by bits of the EV.
struct EvField {
  std::uint16_t width = 0;     ///< bits, 1 .. 64
  std::uint64_t init_val = 0;  ///< the constant
  std::uint64_t min_val = 0;   ///< smallest value of the EV's bits for this field (generation)
  std::uint64_t max_val = 0;   ///< largest value
  std::uint64_t mask = 0;      ///< 0: the field is constant
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

/// Validates fields against their format by the rules of mrc-1.0 §3.3. no_resources stands for
/// E2BIG.
[[nodiscard]] inline Errc check(std::span<const EvField> fields,
                                const EvFormatProfile& format) noexcept {
  if (const Errc e = check(format); e != Errc::ok) return e;
  if (fields.empty() || fields.size() > format.fields.size()) return Errc::invalid_argument;
  unsigned bits = 0;
  for (std::size_t i = 0; i < fields.size(); ++i) {
    const EvField& f = fields[i];
    if (f.width == 0 || f.width > 64 || f.width > format.fields[i].width)
      return Errc::invalid_argument;
    const std::uint64_t inside = low_mask(f.width);
    if ((f.init_val & ~inside) != 0 || (f.mask & ~inside) != 0) return Errc::invalid_argument;
    if (f.min_val > f.max_val || f.max_val > low_mask(ev_bits(f))) return Errc::invalid_argument;
    bits += ev_bits(f);
  }
  return bits > kEvBits ? Errc::no_resources : Errc::ok;
}

/// Expands an EV into the bits of its packet field. invalid_argument: the fields don't match the
/// format, or the EV has bits set that no field uses. no_resources: the format is too large.
[[nodiscard]] inline Result<EvValue> expand(const EvValue& ev, std::span<const EvField> fields,
                                            const EvFormatProfile& format) noexcept {
  if (const Errc e = check(fields, format); e != Errc::ok) return e;
  EvValue out{};
  unsigned src = 0;
  unsigned dst = 0;
  for (std::size_t i = 0; i < fields.size(); ++i) {
    const EvField& f = fields[i];
    const std::uint64_t bits = get_bits(ev, src, ev_bits(f));
    src += ev_bits(f);
    dst += format.fields[i].width;  // right-justified in its room
    put_bits(out, dst - f.width, f.width, (f.init_val & ~f.mask) | deposit(bits, f.mask));
  }
  for (; src < kEvBits; ++src)
    if (get_bits(ev, src, 1) != 0) return Errc::invalid_argument;
  return out;
}

/// The inverse of expand(). not_found: these fields cannot produce the value.
[[nodiscard]] inline Result<EvValue> extract(const EvValue& expanded,
                                             std::span<const EvField> fields,
                                             const EvFormatProfile& format) noexcept {
  if (const Errc e = check(fields, format); e != Errc::ok) return e;
  EvValue ev{};
  unsigned src = 0;
  unsigned dst = 0;
  for (std::size_t i = 0; i < fields.size(); ++i) {
    const EvField& f = fields[i];
    src += format.fields[i].width;
    put_bits(ev, dst, ev_bits(f), gather(get_bits(expanded, src - f.width, f.width), f.mask));
    dst += ev_bits(f);
  }
  // The bits that extraction ignored (constants, padding) must match too.
  const Result<EvValue> again = expand(ev, fields, format);
  if (!again.ok() || again.value() != expanded) return Errc::not_found;
  return ev;
}

/// Packs one value per field, each assigned to its mask's bits from the lowest up, into an EV.
/// invalid_argument: wrong number of values, or one that exceeds its mask.
[[nodiscard]] inline Result<EvValue> pack(std::span<const std::uint64_t> values,
                                          std::span<const EvField> fields) noexcept {
  if (values.size() != fields.size()) return Errc::invalid_argument;
  EvValue ev{};
  unsigned at = 0;
  for (std::size_t i = 0; i < fields.size(); ++i) {
    const unsigned n = ev_bits(fields[i]);
    if (values[i] > low_mask(n)) return Errc::invalid_argument;
    if (at + n > kEvBits) return Errc::no_resources;
    put_bits(ev, at, n, values[i]);
    at += n;
  }
  return ev;
}

}  // namespace mrc::inline v0_1::path
