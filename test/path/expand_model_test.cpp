// SPDX-License-Identifier: Apache-2.0
// Random format profiles and fields against a model of the expansion that shares no code with it:
// strings of the characters 0 and 1.
#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "mrc/control/expand.hpp"
#include "mrc/core/random.hpp"

namespace mrc::path::expand_model_test {
namespace {

using Bits = std::string;

Bits number(std::uint64_t v, unsigned width) {
  Bits bits(width, '0');
  for (unsigned i = 0; i < width && i < 64; ++i)
    if (v >> i & 1) bits[width - 1 - i] = '1';
  return bits;
}
EvValue to_value(const Bits& bits) {
  EvValue v{};
  for (std::size_t i = 0; i < bits.size(); ++i)
    if (bits[i] == '1') v[i / 8] = static_cast<std::uint8_t>(v[i / 8] | 128 >> i % 8);
  return v;
}
Bits to_bits(const EvValue& v) {
  Bits bits;
  for (const std::uint8_t byte : v) bits += number(byte, 8);
  return bits;
}

struct Case {
  EvFormatProfile format;
  std::vector<EvField> fields;
};

/// What mrc-1.0 §3.3 says of the case: E2BIG, EINVAL or nothing.
Errc model_check(const Case& c) {
  unsigned room = 0, used = 0, ev = 0;
  bool wide = false;
  for (const FormatField& f : c.format.fields) room += f.width;
  const unsigned most = c.format.mode == EvMode::udp    ? 16
                        : c.format.mode == EvMode::stev ? 32
                        : c.format.srh                  ? 256
                                                        : 128;
  if (c.format.srh && c.format.mode != EvMode::srv6) return Errc::invalid_argument;
  if (room > most) return Errc::no_resources;
  if (c.fields.size() > c.format.fields.size()) return Errc::invalid_argument;
  for (std::size_t i = 0; i < c.fields.size(); ++i) {
    const EvField& f = c.fields[i];
    const Bits mask = number(f.mask, 64);
    unsigned ones = 0;
    for (unsigned b = 0; b < 64; ++b) ones += mask[b] == '1';
    // Nothing may be set to the left of the field's width.
    if (mask.substr(0, 64 - f.width).find('1') != Bits::npos) return Errc::invalid_argument;
    if (number(f.init_val, 64).substr(0, 64 - f.width).find('1') != Bits::npos)
      return Errc::invalid_argument;
    if (number(f.max_val, 64).substr(0, 64 - ones).find('1') != Bits::npos)
      return Errc::invalid_argument;
    if (f.min_val > f.max_val) return Errc::invalid_argument;
    used += f.width;
    ev += ones;
    wide = wide || f.width > c.format.fields[i].width;
  }
  if (wide && used != room) return Errc::invalid_argument;
  return ev > 256 ? Errc::no_resources : Errc::ok;
}

/// The header's wording: from the highest bit of each mask down, bits are taken from the top of the
/// EV.
Bits model_expand(const Case& c, const Bits& ev) {
  bool wide = false;
  for (std::size_t i = 0; i < c.fields.size(); ++i)
    wide = wide || c.fields[i].width > c.format.fields[i].width;
  Bits out;
  std::size_t taken = 0;
  for (std::size_t i = 0; i < c.fields.size(); ++i) {
    const EvField& f = c.fields[i];
    Bits v = number(f.init_val, f.width);
    const Bits mask = number(f.mask, f.width);
    for (std::size_t b = 0; b < v.size(); ++b)
      if (mask[b] == '1') v[b] = ev[taken++];
    if (!wide) out += Bits(c.format.fields[i].width - f.width, '0');
    out += v;
  }
  return out + Bits(256 - out.size(), '0');
}

unsigned ones(std::uint64_t v) {
  unsigned n = 0;
  for (; v != 0; v >>= 1) n += v & 1;
  return n;
}

/// Mostly legal, sometimes with one thing wrong.
Case random_case(Random& random) {
  Case c;
  constexpr EvMode kModes[] = {EvMode::udp, EvMode::stev, EvMode::srv6};
  c.format.mode = kModes[random.below(3)];
  c.format.srh = c.format.mode == EvMode::srv6 && random.below(2) == 0;
  unsigned left = ev_max_width(c.format.mode, c.format.srh) + (random.below(20) == 0);
  const unsigned places = 1 + random.below(10);
  for (unsigned i = 0; i < places; ++i) {
    const unsigned width =
        random.below(5) == 0 ? 0 : random.below(std::min(left, i == 0 ? 64u : 40u) + 1);
    left -= width;
    c.format.fields.push_back({static_cast<std::uint16_t>(width)});
  }
  const unsigned count = random.below(8) == 0 ? 1 + random.below(places + 1) : places;
  for (unsigned i = 0; i < count; ++i) {
    const unsigned place = i < places ? c.format.fields[i].width : 8;
    EvField f;
    f.width = static_cast<std::uint16_t>(random.below(2) == 0 ? place : random.below(place + 1));
    c.fields.push_back(f);
  }
  if (random.below(3) == 0 && count == places) {  // as wide as the format, but otherwise divided
    for (unsigned i = 0; i < count; ++i) c.fields[i].width = c.format.fields[i].width;
    for (unsigned n = 0; n < 8; ++n) {
      EvField &from = c.fields[random.below(count)], &to = c.fields[random.below(count)];
      const unsigned moved = random.below(from.width + 1u);
      if (to.width + moved > 64 || &from == &to) continue;
      from.width = static_cast<std::uint16_t>(from.width - moved);
      to.width = static_cast<std::uint16_t>(to.width + moved);
    }
  }
  for (EvField& f : c.fields) {
    const std::uint64_t inside = low_mask(f.width);
    f.mask = random.below(3) == 0 ? 0 : random.next() & inside;
    if (random.below(3) == 0) f.mask &= random.next();
    f.init_val = random.next() & inside;
    f.max_val = random.next() & low_mask(ones(f.mask));
    f.min_val = f.max_val == 0 ? 0 : random.next() % f.max_val;
  }
  EvField& victim = c.fields[random.below(static_cast<std::uint32_t>(c.fields.size()))];
  switch (random.below(24)) {
    case 0:
      victim.max_val += 1 + random.below(2);
      break;
    case 1:
      victim.min_val = victim.max_val + 1;
      break;
    case 2:
      if (victim.width < 64) victim.mask |= std::uint64_t{1} << victim.width;
      break;
    case 3:
      if (victim.width < 64) victim.init_val |= std::uint64_t{1} << victim.width;
      break;
    case 4:
      victim.width = static_cast<std::uint16_t>(std::min(64, victim.width + 1));
      break;
    default:
      break;
  }
  return c;
}

TEST_CASE("expand: 5,000 random profiles agree with a model of bit strings") {
  Random random(2026);
  unsigned legal = 0, refused = 0, wide = 0, empty = 0;
  for (int round = 0; round < 5000; ++round) {
    CAPTURE(round);
    const Case c = random_case(random);
    const Errc expected = model_check(c);
    REQUIRE(check(c.fields, c.format) == expected);
    if (expected != Errc::ok) {
      ++refused;
      CHECK(expand(EvValue{}, c.fields, c.format).error() == expected);
      continue;
    }
    ++legal;
    std::size_t bits = 0;
    bool wider = false;
    for (std::size_t i = 0; i < c.fields.size(); ++i) {
      bits += ones(c.fields[i].mask);
      empty += c.fields[i].width == 0;
      wider = wider || c.fields[i].width > c.format.fields[i].width;
    }
    wide += wider;
    Bits ev;
    for (std::size_t i = 0; i < bits; ++i) ev += random.below(2) == 0 ? '0' : '1';
    const auto out = expand(to_value(ev), c.fields, c.format);
    REQUIRE(out.ok());
    REQUIRE(to_bits(out.value()) == model_expand(c, ev));
    const auto back = extract(out.value(), c.fields, c.format);
    REQUIRE(back.ok());
    CHECK(to_bits(back.value()).substr(0, bits) == ev);
    if (bits < 256) {  // bits that no field uses must be 0
      Bits more = ev + Bits(256 - bits, '0');
      more[bits + random.below(static_cast<std::uint32_t>(256 - bits))] = '1';
      CHECK(expand(to_value(more), c.fields, c.format).error() == Errc::invalid_argument);
    }
  }
  // All kinds were there.
  CHECK((legal > 3000 && refused > 300 && wide > 300 && empty > 1000));
}

}  // namespace
}  // namespace mrc::path::expand_model_test
