// SPDX-License-Identifier: Apache-2.0
#include "mrc/version.hpp"

#include <doctest/doctest.h>

#include <cstdio>
#include <string>

TEST_CASE("version: number, text and the library that runs agree") {
  int major = -1, minor = -1, patch = -1;
  REQUIRE(std::sscanf(MRC_VERSION_STRING, "%d.%d.%d", &major, &minor, &patch) == 3);
  CHECK(MRC_VERSION == major * 10000 + minor * 100 + patch);
  CHECK(mrc::version() == MRC_VERSION);
  CHECK(mrc::version_string() == std::string(MRC_VERSION_STRING));
}
