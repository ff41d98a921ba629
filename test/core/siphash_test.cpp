// SPDX-License-Identifier: Apache-2.0
#include "mrc/core/random.hpp"

#include <doctest/doctest.h>

#include <numeric>
#include <vector>

TEST_CASE("siphash: the test vectors of its authors") {
  // Key 00 01 .. 0f; input i is 00 01 .. i-1.
  const mrc::SipKey key{0x0706050403020100u, 0x0F0E0D0C0B0A0908u};
  std::vector<std::uint8_t> input(64);
  std::iota(input.begin(), input.end(), std::uint8_t{0});
  const std::span<const std::uint8_t> all(input);
  CHECK(mrc::siphash(key, all.first(0)) == 0x726FDB47DD0E0E31u);
  CHECK(mrc::siphash(key, all.first(1)) == 0x74F839C593DC67FDu);
  CHECK(mrc::siphash(key, all.first(7)) == 0xAB0200F58B01D137u);
  CHECK(mrc::siphash(key, all.first(8)) == 0x93F5F5799A932462u);
  CHECK(mrc::siphash(key, all.first(15)) == 0xA129CA6149BE45E5u);
  CHECK(mrc::siphash(key, all.first(63)) == 0x958A324CEB064572u);
}
