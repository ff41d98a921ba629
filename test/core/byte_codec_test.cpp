// SPDX-License-Identifier: Apache-2.0
#include "mrc/core/value_text.hpp"

#include <doctest/doctest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

using mrc::ByteReader;
using mrc::ByteWriter;

namespace byte_codec_test {

const std::array<std::uint8_t, 3> kThree{7, 8, 9};

std::vector<std::uint8_t> written() {
  std::vector<std::uint8_t> out{0xEE};  // what is there stays
  ByteWriter(out).u8(0x1FF).u16(0x0102).u32(0x03040506).u64(0x0708090A0B0C0D0E);
  ByteWriter(out).bytes(kThree).bytes(std::string("ab"));
  return out;
}

TEST_CASE("byte codec: most significant byte first, without gaps") {
  CHECK(written() == std::vector<std::uint8_t>{0xEE, 0xFF, 1,  2,  3,  4, 5, 6, 7,   8,  9,
                                               10,   11,   12, 13, 14, 7, 8, 9, 'a', 'b'});
}

TEST_CASE("byte codec: what is written is read again") {
  const auto bytes = written();
  ByteReader in(mrc::Bytes(bytes).subspan(1));
  CHECK(in.u8() == 0xFF);
  CHECK(in.u16() == 0x0102);
  CHECK(in.u32() == 0x03040506);
  CHECK(in.u64() == 0x0708090A0B0C0D0E);
  CHECK(in.array<3>() == kThree);
  CHECK_FALSE(in.done());
  CHECK(in.left() == 2);
  CHECK(in.bytes(2).data() == &bytes[bytes.size() - 2]);
  CHECK(in.done());
}

TEST_CASE("byte codec: of a number or bytes that are cut short nothing is read") {
  const std::vector<std::uint8_t> bytes{1, 2, 3};
  const auto expect_nothing = [&](auto take, auto nothing) {
    ByteReader in(bytes);
    CHECK(in.u8() == 1);
    CHECK(take(in) == nothing);
    CHECK(in.missing());
    CHECK(in.u8() == 0);  // not the byte that was there
    CHECK(in.left() == 0);
    CHECK_FALSE(in.done());
  };
  expect_nothing([](ByteReader& in) { return in.u32(); }, 0u);
  expect_nothing([](ByteReader& in) { return in.u64(); }, 0u);
  expect_nothing([](ByteReader& in) { return in.array<3>(); }, std::array<std::uint8_t, 3>{});
  expect_nothing([](ByteReader& in) { return in.bytes(~std::size_t{0}).size(); }, 0u);
}

}  // namespace byte_codec_test
