// SPDX-License-Identifier: Apache-2.0
#include "mrc/net/address.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "mrc/net/interface.hpp"

using namespace mrc;
using namespace mrc::port;

TEST_CASE("socket address: there and back, of both IP versions and no other") {
  for (const char* text : {"10.1.2.3:4791", "[fd00::5]:65535"}) {
    CAPTURE(text);
    const PeerAddress peer = parse_address(text);
    const SocketAddress address(peer.ip, peer.udp_port);
    CHECK(address.port() == peer.udp_port);
    CHECK(address.peer() == peer);
    const SocketAddress copy(&address.any);
    CHECK(copy.length == address.length);
    CHECK(copy.peer() == peer);
    CHECK(ip_of(&address.any) == peer.ip);
  }
  CHECK_FALSE(ip_of(nullptr));
  const SocketAddress none;
  CHECK_FALSE(ip_of(&none.any));
}

TEST_CASE("addresses are read and written in their usual forms") {
  CHECK(parse_ip("127.0.0.1") == make_v4(127, 0, 0, 1));
  CHECK(parse_ip("::ffff:10.1.2.3") == make_v4(10, 1, 2, 3));
  CHECK(format_ip(parse_ip("2001:db8::1")) == "2001:db8::1");
  CHECK(format_ip(parse_ip("::ffff:10.1.2.3")) == "10.1.2.3");

  CHECK(parse_address("127.0.0.1") == PeerAddress{make_v4(127, 0, 0, 1), 4791});
  CHECK(parse_address("127.0.0.1:5000") == PeerAddress{make_v4(127, 0, 0, 1), 5000});
  CHECK(parse_address("::1", 77) == PeerAddress{parse_ip("::1"), 77});
  CHECK(parse_address("[::1]") == PeerAddress{parse_ip("::1"), 4791});
  CHECK(parse_address("[2001:db8::2]:4971") == PeerAddress{parse_ip("2001:db8::2"), 4971});
  for (const char* text : {"192.0.2.1:4791", "[2001:db8::2]:4971"})
    CHECK(format_address(parse_address(text)) == text);
  CHECK(parse_address("[fe80::1%eth0]:4791") == PeerAddress{parse_ip("fe80::1"), 4791});
}

TEST_CASE("bad addresses are named") {
  for (const char* text :
       {"", ":", "1.2.3", "1.2.3.4.5", "1.2.3.4:", "1.2.3.4:0", "1.2.3.4:65536", "1.2.3.4:5x",
        "[::1", "[::1]4791", "[::1]:", "host", "::1::2", "[]:1", "::1%lo",
        "0000:0000:0000:0000:0000:0000:0000:0000:0000:0000:0000:0000:0000"}) {
    CAPTURE(text);
    CHECK_THROWS_WITH_AS((void)parse_address(text),
                         doctest::Contains("address '" + doctest::String(text) + "'"), Error);
  }
}

TEST_CASE("local addresses can name an interface") {
  CHECK(parse_local_address("::1") == LocalAddress{parse_ip("::1"), ""});
  CHECK(parse_local_address("fe80::1%eth0") == LocalAddress{parse_ip("fe80::1"), "eth0"});
  CHECK(parse_local_address("eth0") == LocalAddress{{}, "eth0"});
  CHECK(format_local(parse_local_address("fe80::1%eth0")) == "fe80::1%eth0");
  CHECK(format_local(parse_local_address("fe80::1%eth0"), 4791) == "[fe80::1%eth0]:4791");
  CHECK(format_local({parse_ip("fd00::1"), "eth0"}, 4791) == "[fd00::1]:4791");
  CHECK(format_local({parse_ip("10.0.0.1"), ""}, 4791) == "10.0.0.1:4791");
  CHECK_THROWS_AS((void)parse_local_address("fe80::1"), Error);
  CHECK_THROWS_AS((void)parse_local_address("fe80::1%"), Error);
  CHECK_THROWS_AS((void)parse_local_address("a-name-that-is-too-long"), Error);

  CHECK(resolve(parse_local_address("lo")).ip == make_v4(127, 0, 0, 1));
  CHECK_THROWS_WITH_AS((void)resolve(parse_local_address("nosuch0")),
                       doctest::Contains("nosuch0 does not exist"), Error);
  CHECK_THROWS_AS((void)resolve(parse_local_address("0.0.0.0")), Error);
  CHECK_THROWS_AS((void)resolve(parse_local_address("::")), Error);
}

TEST_CASE("kinds of addresses") {
  CHECK(is_v4(make_v4(1, 2, 3, 4)));
  CHECK_FALSE(is_v4(parse_ip("2001:db8::1")));
  CHECK(is_unspecified(parse_ip("::")));
  CHECK(is_unspecified(parse_ip("0.0.0.0")));
  CHECK_FALSE(is_unspecified(parse_ip("::1")));
  CHECK(is_loopback(parse_ip("::1")));
  CHECK(is_loopback(parse_ip("127.8.8.8")));
  CHECK_FALSE(is_loopback(parse_ip("::2")));
  CHECK_FALSE(is_loopback(parse_ip("128.0.0.1")));
  CHECK(is_link_local(parse_ip("fe80::1")));
  CHECK_FALSE(is_link_local(parse_ip("fec0::1")));
}

TEST_CASE("source tags tell hosts apart and are never 0") {
  std::set<std::uint64_t> tags;
  for (unsigned i = 0; i < 65536; ++i)
    tags.insert(source_tag(
        make_v4(10, 0, static_cast<std::uint8_t>(i >> 8), static_cast<std::uint8_t>(i))));
  IpAddress v6 = parse_ip("2001:db8::");
  for (unsigned i = 0; i < 65536; ++i) {
    v6[6] = static_cast<std::uint8_t>(i >> 8);
    v6[7] = static_cast<std::uint8_t>(i);
    tags.insert(source_tag(v6));
  }
  CHECK(tags.size() == 2 * 65536);
  CHECK(tags.count(0) == 0);
  CHECK(source_tag({}) != 0);
}

TEST_CASE("the addresses of this machine") {
  const std::vector<IpAddress> local = local_addresses();
  CHECK(std::find(local.begin(), local.end(), make_v4(127, 0, 0, 1)) != local.end());
  CHECK(prefix_length(make_v4(127, 0, 0, 1)) == 96 + 8);
  CHECK(prefix_length(make_v4(127, 0, 0, 77)) == 96 + 8);  // listed nowhere
  CHECK(prefix_length(make_v4(192, 0, 2, 99)) == 128);     // of another machine
}
