// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "mrc/path/expand.hpp"

namespace mrc::inline v0_1::path {

MRC_SETUP Errc check(std::span<const EvField> fields, const EvFormatProfile& format) noexcept {
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

MRC_SETUP Result<EvValue> expand(const EvValue& ev, std::span<const EvField> fields,
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

MRC_SETUP Result<EvValue> extract(const EvValue& expanded, std::span<const EvField> fields,
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

MRC_SETUP Result<EvValue> pack(std::span<const std::uint64_t> values,
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
