// SPDX-License-Identifier: Apache-2.0
#include "mrc/core/types.hpp"

#include <doctest/doctest.h>

using mrc::agreed_mtu;
using mrc::fitting_mtu;

TEST_CASE("MTU: multiples of 128 from 256 to 32,768") {
  for (const std::uint32_t good : {256u, 384u, 1024u, 1408u, 3968u, 32'640u, 32'768u})
    CHECK(mrc::is_mtu(good));
  for (const std::uint32_t bad : {0u, 128u, 255u, 257u, 1400u, 1500u, 32'896u, 65'536u})
    CHECK_FALSE(mrc::is_mtu(bad));
}

TEST_CASE("MTU: the smaller of both, a power of two unless both take multiples") {
  CHECK(agreed_mtu(1408, 4096, true) == 1408);
  CHECK(agreed_mtu(4096, 1408, true) == 1408);
  CHECK(agreed_mtu(1408, 4096, false) == 1024);
  CHECK(agreed_mtu(8192, 4096, false) == 4096);
  CHECK(agreed_mtu(1408, 1024, false) == 1024);
  CHECK(agreed_mtu(384, 4096, false) == 256);
  CHECK(agreed_mtu(4096, 0, true) == 0);
}

TEST_CASE("MTU: what MRC itself has is a power of two up to 4,096") {
  CHECK(mrc::mrc_mtu(256) == 256);
  CHECK(mrc::mrc_mtu(384) == 256);
  CHECK(mrc::mrc_mtu(4096) == 4096);
  CHECK(mrc::mrc_mtu(4224) == 4096);
  CHECK(mrc::mrc_mtu(32'768) == 4096);
  CHECK(mrc::mrc_mtu(0) == 0);
}

TEST_CASE("MTU: the largest that fits a packet") {
  CHECK(fitting_mtu(4096, 1452, 44) == 1408);  // Ethernet's 1,500 bytes over IPv6, exactly
  CHECK(fitting_mtu(4096, 1451, 44) == 1280);
  CHECK(fitting_mtu(4096, 1472, 44) == 1408);  // over IPv4
  CHECK(fitting_mtu(1024, 1472, 44) == 1024);  // not more than wanted
  CHECK(fitting_mtu(4096, 300, 44) == 256);
  CHECK(fitting_mtu(4096, 299, 44) == 0);
  CHECK(fitting_mtu(4096, 20, 44) == 0);
}
