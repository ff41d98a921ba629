// SPDX-License-Identifier: Apache-2.0
#include "mrc/plane/udp_kind.hpp"

#include <doctest/doctest.h>

#include "support/network.hpp"
#include "udp_rig.hpp"

using namespace mrc;
using namespace mrc::port;
using namespace mrc::port::test;

namespace udp_slot_test {

constexpr std::uint16_t kBase = 25791;

std::vector<LocalAddress> planes(unsigned count) {
  std::vector<LocalAddress> list;
  for (unsigned i = 1; i <= count; ++i)
    list.push_back({make_v4(127, 0, 0, static_cast<std::uint8_t>(i)), ""});
  return list;
}

TEST_CASE("two claims on one host get two slots, each on all planes") {
  const auto local = planes(4);
  SlotClaim first = claim_slot(local, kBase);
  SlotClaim second = claim_slot(local, kBase);
  CHECK(first.slot == 0);
  CHECK(second.slot == 1);
  REQUIRE(first.sockets.size() == 4);
  for (const Socket& s : first.sockets) CHECK(bound_port(s) == kBase);
  for (const Socket& s : second.sockets) CHECK(bound_port(s) == kBase + 1);
  first.sockets.clear();
  CHECK(claim_slot(local, kBase).slot == 0);
}

TEST_CASE("a slot that is taken on one plane only is skipped on all") {
  const auto local = planes(3);
  const SlotClaim last_plane = claim_slot(std::span(local).last(1), kBase);
  CHECK(last_plane.slot == 0);
  const SlotClaim all = claim_slot(local, kBase);
  CHECK(all.slot == 1);
  // What it had bound of slot 0 is free again.
  CHECK(claim_slot(std::span(local).first(2), kBase).slot == 0);
}

TEST_CASE("a wanted slot that is taken names address and port") {
  const auto local = planes(2);
  const SlotClaim held = claim_slot(std::span(local).last(1), kBase, std::uint8_t{7});
  try {
    (void)claim_slot(local, kBase, std::uint8_t{7});
    FAIL("claimed twice");
  } catch (const Error& error) {
    CHECK(error.code() == std::errc::address_in_use);
    CHECK(std::string(error.what()).find("slot 7") != std::string::npos);
    CHECK(std::string(error.what()).find("127.0.0.2:25798") != std::string::npos);
  }
  UdpPortOptions options = options_for(local[1]);
  options.base_port = kBase;
  options.slot = 7;
  CHECK_THROWS_WITH_AS(UdpPort{options}, doctest::Contains("127.0.0.2:25798 is in use"), Error);
}

TEST_CASE("a path's source port that is taken is named") {
  MRC_LOOPBACK_OR_SKIP(local, true);
  Socket holder = make_udp_socket(local);
  REQUIRE(try_bind(holder, SocketAddress(local.ip, 0)));
  UdpPortOptions options = options_for(local, 1);
  options.base_port = kBase;
  options.source_ports = {bound_port(holder)};
  const std::string text = "cannot send from 127.0.0.1:" + std::to_string(bound_port(holder));
  CHECK_THROWS_WITH_AS((void)open_port(options), doctest::Contains(text.c_str()), Error);
}

TEST_CASE("no free slot at all") {
  const auto local = planes(1);
  std::vector<SlotClaim> claims;
  for (unsigned i = 0; i < kSlots; ++i) claims.push_back(claim_slot(local, kBase));
  CHECK(claims.back().slot == 255);
  CHECK_THROWS_WITH_AS((void)claim_slot(local, kBase),
                       doctest::Contains("no slot from 0 to 255 is free"), Error);
  CHECK_THROWS_WITH_AS((void)claim_slot(local, kBase),
                       doctest::Contains("close others, or set another udp_port"), Error);
}

TEST_CASE("planes that share an address get ports of their own, for every slot") {
  const std::vector<LocalAddress> twice = {planes(1)[0], planes(1)[0]};
  const SlotClaim first = claim_slot(twice, kBase);
  const SlotClaim second = claim_slot(twice, kBase);
  CHECK(first.base_ports == std::vector<std::uint16_t>{kBase, kBase + kSlots});
  for (std::size_t i = 0; i < 2; ++i) {
    CHECK(bound_port(first.sockets[i]) == first.base_ports[i] + first.slot);
    CHECK(bound_port(second.sockets[i]) == second.base_ports[i] + second.slot);
  }
  CHECK(second.slot != first.slot);
  CHECK_THROWS_AS((void)claim_slot(twice, 65535 - kSlots), Error);
}

TEST_CASE("claims that make no sense") {
  const auto local = planes(1);
  CHECK_THROWS_AS((void)claim_slot({}, kBase), Error);
  CHECK_THROWS_AS((void)claim_slot(local, 65535), Error);
  const std::vector<LocalAddress> foreign = {{make_v4(192, 0, 2, 77), ""}};
  CHECK_THROWS_WITH_AS((void)claim_slot(foreign, kBase),
                       doctest::Contains("not an address of this host"), Error);
}

TEST_CASE("errors name a link-local address with its interface") {
  mrc::test::in_new_network([] {
    mrc::test::shell("ip link add a0 type veth peer name b0; ip link set b0 up; ip link set a0 up");
    const std::vector<LocalAddress> foreign = {parse_local_address("fe80::77%a0")};
    CHECK_THROWS_WITH_AS((void)claim_slot(foreign, kBase),
                         doctest::Contains("[fe80::77%a0]:25791 (not an address of this host)"),
                         Error);
    mrc::test::shell("ip addr add fe80::77/64 dev a0 nodad");
    const SlotClaim claim = claim_slot(foreign, kBase);
    CHECK_THROWS_WITH_AS((void)claim_slot(foreign, kBase, std::uint8_t{0}),
                         doctest::Contains("UDP port [fe80::77%a0]:25791 is in use"), Error);
  });
}

TEST_CASE("an IPv6 address that is tentative is waited for, for a while") {
  mrc::test::in_new_network([] {
    mrc::test::shell(
        "ip link add a0 type veth peer name b0; ip link set b0 up; ip link set a0 up; " +
        mrc::test::await_carrier("a0 b0") + "; ip addr add fd09::1/64 dev a0");
    const std::vector<LocalAddress> own = {parse_local_address("fd09::1")};
    CHECK(claim_slot(own, kBase).sockets.size() == 1);
    mrc::test::shell(
        "echo 100 >/proc/sys/net/ipv6/conf/a0/dad_transmits; ip addr add fd09::2/64 dev a0");
    const std::vector<LocalAddress> late = {parse_local_address("fd09::2")};
    CHECK_THROWS_WITH_AS((void)claim_slot(late, kBase), doctest::Contains("tentative"), Error);
    mrc::test::shell(
        "echo 1 >/proc/sys/net/ipv6/conf/a0/dad_transmits; ip addr add fd09::3/64 dev "
        "b0 nodad; ip addr add fd09::3/64 dev a0");
    const std::vector<LocalAddress> other = {parse_local_address("fd09::3%a0")};
    CHECK_THROWS_WITH_AS((void)claim_slot(other, kBase), doctest::Contains("another host"), Error);
  });
}

TEST_CASE("a socket that is not bound to the slot is refused") {
  const auto local = planes(1);
  SlotClaim claim = claim_slot(local, kBase, std::uint8_t{3});
  UdpPortOptions options = options_for(local[0]);
  options.base_port = kBase;
  options.slot = 4;
  CHECK_THROWS_WITH_AS(UdpPort(options, std::move(claim.sockets[0])), doctest::Contains("25795"),
                       Error);
}

TEST_CASE("the standard port: slot 0 has both numbers, slot 180 is left out [C-1]") {
  mrc::test::in_new_network([] {
    mrc::test::shell("ip link set lo up");
    const auto local = planes(2);
    std::vector<SlotClaim> claims;
    for (unsigned i = 0; i < kSlots - 1; ++i) claims.push_back(claim_slot(local));
    REQUIRE(claims[0].slot == 0);
    for (unsigned plane = 0; plane < 2; ++plane) {
      CHECK(bound_port(claims[0].sockets[plane]) == 4791);
      CHECK(bound_port(claims[0].second_sockets[plane]) == 4971);
      CHECK_FALSE(claims[1].second_sockets[plane].open());
    }
    CHECK(claims[179].slot == 179);
    CHECK(claims[180].slot == 181);
    CHECK(claims.back().slot == 255);
    for (const SlotClaim& claim : claims) CHECK(claim.notes.empty());
    CHECK_THROWS_WITH_AS((void)claim_slot(local, 4791, std::uint8_t{180}),
                         doctest::Contains("use another slot"), Error);
    claims.clear();
    CHECK(claim_slot(local, 4971).second_sockets.size() == 2);
    CHECK_FALSE(claim_slot(local, 4971).second_sockets[0].open());
  });
}

TEST_CASE("the standard port: planes on one address have it once") {
  mrc::test::in_new_network([] {
    mrc::test::shell("ip link set lo up");
    const SlotClaim claim = claim_slot(std::vector<LocalAddress>{planes(1)[0], planes(1)[0]});
    CHECK(bound_port(claim.second_sockets[0]) == 4971);
    CHECK_FALSE(claim.second_sockets[1].open());
  });
}

TEST_CASE(
    "the standard port in use by another kind of program: the next slot, and a line that says so") {
  mrc::test::in_new_network([] {
    mrc::test::shell("ip link set lo up");
    const auto local = planes(2);
    Socket stranger = make_udp_socket(local[1]);
    REQUIRE(try_bind(stranger, SocketAddress(local[1].ip, 4791)));
    const SlotClaim claim = claim_slot(local);
    CHECK(claim.slot == 1);
    REQUIRE(claim.notes.size() == 1);
    CHECK(claim.notes[0].find("127.0.0.2:4791 is in use") != std::string::npos);
    CHECK(claim.notes[0].find("Soft-RoCE") != std::string::npos);

    stranger = make_udp_socket(local[1]);
    REQUIRE(try_bind(stranger, SocketAddress(local[1].ip, 4971)));
    const SlotClaim without = claim_slot(local);
    CHECK(without.slot == 0);
    CHECK(without.second_sockets[0].open());
    CHECK_FALSE(without.second_sockets[1].open());
    REQUIRE(without.notes.size() == 1);
    CHECK(without.notes[0].find("127.0.0.2:4971 is in use") != std::string::npos);
  });
}

}  // namespace udp_slot_test
