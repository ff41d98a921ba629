// SPDX-License-Identifier: Apache-2.0
// TCP on hosts that have one IP version only, but for their loopback addresses.
#include <doctest/doctest.h>

#include <chrono>
#include <string>

#include "mrc/exchange.hpp"
#include "support/errors.hpp"
#include "support/network.hpp"

using namespace mrc;
using namespace mrc::test;
using namespace std::chrono_literals;

TEST_CASE("TCP: ::1 is reached on a host whose other addresses are all IPv4") {
  in_new_network([] {
    shell("ip link set lo up && ip address add 10.9.9.1/24 dev lo");
    TcpListener listener(0, "::1");
    CHECK(TcpChannel::connect("::1", listener.port(), 5s).fd() >= 0);
  });
}

TEST_CASE("TCP: a host that can't be reached is named with the cause") {
  in_new_network([] {
    const std::string why = error_of([] { (void)TcpChannel::connect("192.0.2.1", 1, 100ms); });
    CHECK(contains(why, "192.0.2.1"));
    CHECK(contains(why, "unreachable"));
  });
}
