// SPDX-License-Identifier: Apache-2.0
#include "mrc/core/types.hpp"

#include <doctest/doctest.h>

#include "mrc/core/random.hpp"

using mrc::Msn;
using mrc::Psn;

TEST_CASE("serial: takes the low bits") {
  CHECK(Psn{0x1234567}.value() == 0x234567);
  CHECK(Msn{0x12345}.value() == 0x2345);
}

TEST_CASE("serial: steps over the wrap in both directions") {
  Psn psn{0xFFFFFF};
  ++psn;
  CHECK(psn == Psn{0});
  CHECK(psn - 1 == Psn{0xFFFFFF});
  CHECK(Psn{0xFFFFF0} + 0x20 == Psn{0x10});
  CHECK(Psn{0x10} + -0x20 == Psn{0xFFFFF0});
  CHECK(Msn{0xFFFF} + 1 == Msn{0});
}

TEST_CASE("serial: distances are signed and within half the range") {
  CHECK(Psn{5} - Psn{0xFFFFFB} == 10);
  CHECK(Psn{0xFFFFFB} - Psn{5} == -10);
  CHECK(Psn{0x7FFFFF} - Psn{0} == 0x7FFFFF);
  CHECK(Psn{0x800000} - Psn{0} == -0x800000);
  CHECK(Msn{0x8000} - Msn{0} == -0x8000);
}

TEST_CASE("serial: order within half the range") {
  CHECK(Psn{0xFFFFFF}.before(Psn{0}));
  CHECK(Psn{0}.after(Psn{0xFFFFFF}));
  CHECK_FALSE(Psn{7}.before(Psn{7}));
  CHECK_FALSE(Psn{7}.after(Psn{7}));
}

TEST_CASE("serial: a step and the distance it makes agree everywhere") {
  mrc::Random random(1);
  for (int i = 0; i < 10'000; ++i) {
    const Psn a{static_cast<std::uint32_t>(random.next())};
    const auto step = static_cast<std::int32_t>(random.below(0xFFFFFF)) - 0x7FFFFF;
    const Psn b = a + step;
    REQUIRE(b - a == step);
    REQUIRE(b - step == a);
    REQUIRE(a.before(b) == (step > 0));
    REQUIRE(a.after(b) == (step < 0));
  }
}
