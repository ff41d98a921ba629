// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "mrc/control/expand.hpp"

namespace mrc::inline v0_1::path {
namespace detail {

/// Whether every field fits its place in the format. There are no more fields than places.
bool fit_places(std::span<const EvField> fields, const EvFormatProfile& format) noexcept {
  for (std::size_t i = 0; i < fields.size(); ++i)
    if (fields[i].width > format.fields[i].width) return false;
  return true;
}

/// Whether the widths of the fields and those of their places add up to the same.
bool fill_format(std::span<const EvField> fields, const EvFormatProfile& format) noexcept {
  unsigned used = 0;
  unsigned room = 0;
  for (const EvField& field : fields) used += field.width;
  for (const FormatField& field : format.fields) room += field.width;
  return used == room;
}

/// Calls fn(field, position of its first EV bit, position of its first bit in the packet) for each.
/// The fields have passed check().
template <class F>
void for_each_field(std::span<const EvField> fields, const EvFormatProfile& format, F&& fn) {
  const bool in_places = fit_places(fields, format);
  unsigned ev = 0;
  unsigned end = 0;
  for (std::size_t i = 0; i < fields.size(); ++i) {
    end += in_places ? format.fields[i].width : fields[i].width;
    fn(fields[i], ev, end - fields[i].width);
    ev += ev_bits(fields[i]);
  }
}

}  // namespace detail

Errc check(std::span<const EvField> fields, const EvFormatProfile& format) noexcept {
  if (const Errc e = check(format); e != Errc::ok) return e;
  if (fields.empty() || fields.size() > format.fields.size()) return Errc::invalid_argument;
  unsigned bits = 0;
  for (const EvField& f : fields) {
    if (!consistent(f)) return Errc::invalid_argument;
    bits += ev_bits(f);
  }
  if (!detail::fit_places(fields, format) && !detail::fill_format(fields, format))
    return Errc::invalid_argument;
  return bits > kEvBits ? Errc::no_resources : Errc::ok;
}

Result<EvValue> expand(const EvValue& ev, std::span<const EvField> fields,
                       const EvFormatProfile& format) noexcept {
  if (const Errc e = check(fields, format); e != Errc::ok) return e;
  EvValue out{};
  unsigned used = 0;
  detail::for_each_field(fields, format, [&](const EvField& f, unsigned src, unsigned dst) {
    const std::uint64_t bits = get_bits(ev, src, ev_bits(f));
    used = src + ev_bits(f);
    put_bits(out, dst, f.width, (f.init_val & ~f.mask) | deposit(bits, f.mask));
  });
  for (; used < kEvBits; ++used)
    if (get_bits(ev, used, 1) != 0) return Errc::invalid_argument;
  return out;
}

Result<EvValue> extract(const EvValue& expanded, std::span<const EvField> fields,
                        const EvFormatProfile& format) noexcept {
  if (const Errc e = check(fields, format); e != Errc::ok) return e;
  EvValue ev{};
  detail::for_each_field(fields, format, [&](const EvField& f, unsigned at, unsigned place) {
    put_bits(ev, at, ev_bits(f), gather(get_bits(expanded, place, f.width), f.mask));
  });
  // The bits that extraction ignored (constants, padding) must match too.
  const Result<EvValue> again = expand(ev, fields, format);
  if (!again.ok() || again.value() != expanded) return Errc::not_found;
  return ev;
}

Result<EvValue> pack(std::span<const std::uint64_t> values,
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
