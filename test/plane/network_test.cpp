// SPDX-License-Identifier: Apache-2.0
#include "mrc/net/address.hpp"

#include <doctest/doctest.h>

#include <string>

#include "support/errors.hpp"

using namespace mrc;
using namespace mrc::port;
using mrc::test::contains;
using mrc::test::error_of;

TEST_CASE("networks: which addresses they contain") {
  const auto in = [](const char* network, const char* ip) {
    return parse_network(network).contains(parse_ip(ip));
  };
  CHECK(in("10.0.0.0/8", "10.255.0.1"));
  CHECK_FALSE(in("10.0.0.0/8", "11.0.0.1"));
  CHECK(in("10.1.2.128/25", "10.1.2.129"));
  CHECK_FALSE(in("10.1.2.128/25", "10.1.2.127"));
  CHECK(in("10.1.2.3", "10.1.2.3"));
  CHECK_FALSE(in("10.1.2.3", "10.1.2.2"));
  CHECK(in("fd00::/16", "fd00:1::2"));
  CHECK_FALSE(in("fd00::/16", "fd01::2"));
  CHECK(in("2001:db8::7", "2001:db8::7"));
  CHECK(in("0.0.0.0/0", "192.0.2.1"));
  CHECK(in("::/0", "2001:db8::1"));
  CHECK_FALSE(in("0.0.0.0/0", "2001:db8::1"));
  CHECK_FALSE(in("::/0", "192.0.2.1"));  // although IPv4 addresses are kept in an IPv6 form
}

TEST_CASE("networks: a list, and texts that are none") {
  CHECK(parse_networks("").empty());
  CHECK(parse_networks("10.0.0.0/8,fd00::/16,192.0.2.7").size() == 3);
  for (const char* bad : {"10.0.0.0/33", "10.0.0.0/", "10.0.0.0/-1", "10.0.0.0/8x", "fd00::/129",
                          "10.0.0.1/8", "host", "10.0.0.0/8,", ",10.0.0.0/8", " 10.0.0.0/8"}) {
    CAPTURE(bad);
    CHECK_THROWS_AS((void)parse_networks(bad), Error);
  }
  CHECK(contains(error_of([] { (void)parse_networks("10.0.0.1/8"); }), "behind the prefix of 8"));
}
