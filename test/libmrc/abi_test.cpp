// SPDX-License-Identifier: Apache-2.0
// Structures and numbers as programs have them compiled in: checked by the compiler, here for
// C++20.
#include "abi.h"
#include "libmrc/mrc_rig.hpp"

TEST_CASE("what libmrc says of its versions") {
  std::uint32_t current = 0, oldest = 1, vendor = 0, vendor_oldest = 1;
  mrc_query_version(&current, &oldest, &vendor, &vendor_oldest);
  CHECK(current == MRC_API_CURRENT_VERSION);
  CHECK(oldest == 0);
  CHECK(vendor == MRC_VENDOR_API_CURRENT_VERSION);
  CHECK(vendor_oldest == 0);
  mrc_ctl_query_version(&current, &oldest, &vendor, &vendor_oldest);
  CHECK(current == MRC_CTL_API_CURRENT_VERSION);
  mrc_query_version(nullptr, nullptr, nullptr, nullptr);
  mrc_ctl_query_version(nullptr, nullptr, nullptr, nullptr);
}
