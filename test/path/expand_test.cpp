// SPDX-License-Identifier: Apache-2.0
#include "mrc/control/expand.hpp"

#include <doctest/doctest.h>

#include <set>

#include "mrc/core/random.hpp"
#include "mrc/wire/ip.hpp"

namespace mrc::path::expand_test {
namespace {

EvValue bytes(std::initializer_list<int> list) {
  EvValue v{};
  std::size_t i = 0;
  for (const int b : list) v[i++] = static_cast<std::uint8_t>(b);
  return v;
}

EvField field(unsigned width, std::uint64_t init, std::uint64_t mask) {
  return {static_cast<std::uint16_t>(width), init, 0,
          low_mask(static_cast<unsigned>(std::popcount(mask))), mask};
}

TEST_CASE("expand: worked example A of mrc-1.0 §3.3") {
  const std::vector<EvField> fields = {field(32, 0xFC000001, 0), field(16, 0x1000, 0x0F00),
                                       field(16, 0x2000, 0x0FFF), field(16, 0x3007, 0x0F00)};
  const EvFormatProfile format{EvMode::srv6, false, {{32}, {16}, {16}, {16}}};
  const EvValue ev = bytes({0x55, 0xA3, 0x50});
  const auto out = expand(ev, fields, format);
  REQUIRE(out.ok());
  const EvValue expected =
      bytes({0xFC, 0, 0, 1, 0x15, 0, 0x25, 0xA3, 0x35, 0x07, 0, 0, 0, 0, 0, 0});
  CHECK(out.value() == expected);
  const auto back = extract(expected, fields, format);
  REQUIRE(back.ok());
  CHECK(back.value() == ev);
  CHECK(feedback_ev(EvMode::srv6, ev, expected) == Ev{0x55A35000});  // [O-17]
  // One bit behind the 20 that the fields take.
  CHECK(expand(bytes({0x55, 0xA3, 0x58}), fields, format).error() == Errc::invalid_argument);
  EvValue last = ev;
  last[31] = 1;
  CHECK(expand(last, fields, format).error() == Errc::invalid_argument);
}

TEST_CASE("expand: worked example B, split mask") {
  const std::vector<EvField> fields = {field(16, 0x1000, 0x0F0F), field(16, 0x2000, 0x0F0F)};
  const EvFormatProfile format{EvMode::stev, false, {{16}, {16}}};
  const auto out = expand(bytes({0xAB, 0xCD}), fields, format);
  REQUIRE(out.ok());
  CHECK(out.value() == bytes({0x1A, 0x0B, 0x2C, 0x0D}));
  CHECK(feedback_ev(EvMode::stev, bytes({0xAB, 0xCD}), out.value()) == Ev{0x1A0B2C0D});
}

TEST_CASE("expand: worked example C, fields narrower than their format") {
  const std::vector<EvField> fields = {field(32, 0x42424242, 0), field(4, 0, 0xF), field(4, 0, 0xF),
                                       field(4, 0, 0xF), field(4, 0, 0xF)};
  const EvFormatProfile format{EvMode::srv6, false, {{32}, {16}, {16}, {16}, {16}}};
  const auto out = expand(bytes({0x5A, 0xC3}), fields, format);
  REQUIRE(out.ok());
  CHECK(out.value() == bytes({0x42, 0x42, 0x42, 0x42, 0, 5, 0, 0xA, 0, 0xC, 0, 3}));
}

TEST_CASE("expand: a full mask replaces init_val; 64-bit fields and two carriers work") {
  const EvFormatProfile format{EvMode::srv6, true, {{64}, {64}, {64}, {64}}};
  const std::vector<EvField> fields(4, field(64, 0x1234, ~std::uint64_t{0}));
  EvValue ev{};
  for (std::size_t i = 0; i < ev.size(); ++i) ev[i] = static_cast<std::uint8_t>(i * 37 + 1);
  const auto out = expand(ev, fields, format);
  REQUIRE(out.ok());
  CHECK(out.value() == ev);
}

TEST_CASE("expand: every check of mrc-1.0 §3.3") {
  const EvFormatProfile stev{EvMode::stev, false, {{16}, {16}}};
  const auto error = [](std::vector<EvField> fields, const EvFormatProfile& format) {
    return expand(EvValue{}, fields, format).error();
  };
  const EvField ok = field(16, 0, 0xFF);
  CHECK(error({ok, ok}, stev) == Errc::ok);
  CHECK(error({ok}, stev) == Errc::ok);
  CHECK(error({}, stev) == Errc::invalid_argument);
  CHECK(error({ok, ok, ok}, stev) == Errc::invalid_argument);
  // A field wider than its place: the widths must add up.
  CHECK(error({field(17, 0, 0)}, stev) == Errc::invalid_argument);
  CHECK(error({field(17, 0, 0), field(14, 0, 0)}, stev) == Errc::invalid_argument);
  CHECK(error({field(17, 0, 0), field(16, 0, 0)}, stev) == Errc::invalid_argument);
  CHECK(error({field(17, 0, 0), field(15, 0, 0)}, stev) == Errc::ok);
  CHECK(error({field(32, 0, 0)}, stev) == Errc::ok);
  CHECK(error({field(0, 0, 0)}, stev) == Errc::ok);
  CHECK(error({field(0, 1, 0)}, stev) == Errc::invalid_argument);
  CHECK(error({{0, 0, 0, 1, 0}}, stev) == Errc::invalid_argument);
  CHECK(error({field(65, 0, 0)}, {EvMode::srv6, false, {{128}}}) == Errc::invalid_argument);
  CHECK(error({field(8, 0x100, 0)}, stev) == Errc::invalid_argument);
  CHECK(error({field(8, 0, 0x100)}, stev) == Errc::invalid_argument);
  CHECK(error({{16, 0, 0, 16, 0x0F}}, stev) == Errc::invalid_argument);
  CHECK(error({{16, 0, 5, 4, 0x0F}}, stev) == Errc::invalid_argument);
  CHECK(error({{16, 0, 0, 1, 0}}, stev) == Errc::invalid_argument);
  CHECK(error({ok}, {EvMode::stev, false, {}}) == Errc::invalid_argument);
  CHECK(error({ok}, {EvMode::stev, false, {{16}, {0}}}) == Errc::ok);
  CHECK(error({ok}, {EvMode::stev, true, {{16}}}) == Errc::invalid_argument);
  // Larger than the packet field.
  CHECK(error({ok}, {EvMode::stev, false, {{16}, {16}, {1}}}) == Errc::no_resources);
  CHECK(error({ok}, {EvMode::udp, false, {{17}}}) == Errc::no_resources);
  CHECK(error({ok}, {EvMode::udp, false, {{16}}}) == Errc::ok);
  CHECK(error({ok}, {EvMode::srv6, false, {{129}}}) == Errc::no_resources);
  CHECK(error({ok}, {EvMode::srv6, true, {{129}}}) == Errc::ok);
  CHECK(error({ok}, {EvMode::srv6, true, {{257}}}) == Errc::no_resources);
  CHECK(error({ok}, {EvMode::srv6, true, std::vector<FormatField>(33, {1})}) == Errc::no_resources);
}

TEST_CASE("extract: a foreign value is not found") {
  const std::vector<EvField> fields = {field(16, 0x1000, 0x0F0F)};
  const EvFormatProfile format{EvMode::stev, false, {{16}}};
  CHECK(extract(bytes({0x1A, 0x0B}), fields, format).ok());
  CHECK(extract(bytes({0x2A, 0x0B}), fields, format).error() == Errc::not_found);
  CHECK(extract(bytes({0x1A, 0x1B}), fields, format).error() == Errc::not_found);
  CHECK(extract(bytes({0x1A, 0x0B, 1}), fields, format).error() == Errc::not_found);
}

TEST_CASE("deposit and gather") {
  CHECK(deposit(0xAB, 0x0F0F) == 0x0A0B);
  CHECK(gather(0x5A5B, 0x0F0F) == 0xAB);
  CHECK(deposit(~std::uint64_t{0}, ~std::uint64_t{0}) == ~std::uint64_t{0});
  CHECK(deposit(3, 0) == 0);
  CHECK(deposit(1, std::uint64_t{1} << 63) == std::uint64_t{1} << 63);
}

TEST_CASE("pack: values side by side, too large ones refused") {
  const std::vector<EvField> fields = {field(16, 0, 0xF), field(8, 0, 0), field(16, 0, 0xFFF)};
  const std::uint64_t good[] = {5, 0, 0xA3C};
  const auto ev = pack(good, fields);
  REQUIRE(ev.ok());
  CHECK(ev.value() == bytes({0x5A, 0x3C}));
  const std::uint64_t large[] = {16, 0, 0};
  CHECK(pack(large, fields).error() == Errc::invalid_argument);
  const std::uint64_t constant[] = {0, 1, 0};
  CHECK(pack(constant, fields).error() == Errc::invalid_argument);
  CHECK(pack(std::span(good).first(2), fields).error() == Errc::invalid_argument);
}

TEST_CASE("structured EVs: which half is the source port [C-5]") {
  using wire::EvFormat;
  const Ev ev{0x05A31234};
  CHECK(wire::to_wire(ev, EvFormat::stev) == wire::WireEntropy{0x1234, 0x05A3});
  CHECK(wire::to_wire(ev, EvFormat::stev_swapped) == wire::WireEntropy{0x05A3, 0x1234});
  for (const auto format : {EvFormat::stev, EvFormat::stev_swapped})
    CHECK(wire::from_wire(wire::to_wire(ev, format), format) == ev);
  CHECK(feedback_ev(EvMode::udp, {}, bytes({0xC1, 0x23})) == Ev{0xC123});
}

}  // namespace
}  // namespace mrc::path::expand_test
