// SPDX-License-Identifier: Apache-2.0
// What two processes say of planes that do not fit.
#include "nccl_plugin/rules/plane_match.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "nccl/settings_rig.hpp"
#include "nccl_plugin/setup/handle.hpp"

using mrc::test::any_contains;
using mrc::test::contains;
using mrc::test::net_interface;
using mrc_nccl::match_planes;
using mrc_nccl::PlaneMatch;
using mrc_nccl::PlaneOffer;
using mrc_nccl::PlaneSide;

namespace plane_match_test {

/// "eth2 10.0.0.1/24", or without a prefix where the subnet is not known.
PlaneOffer offer(const std::string& text, std::uint32_t mtu = 1500) {
  const auto space = text.find(' '), slash = text.find('/');
  PlaneOffer plane;
  plane.interface = text.substr(0, space);
  plane.ip = mrc::port::parse_ip(text.substr(space + 1, slash - space - 1));
  plane.mtu = mtu;
  if (slash == std::string::npos) return plane;
  const int bits = std::stoi(text.substr(slash + 1));
  plane.prefix_bits = static_cast<std::uint8_t>(bits + (mrc::port::is_v4(plane.ip) ? 96 : 0));
  return plane;
}

PlaneSide side(const std::string& name, const std::vector<std::string>& planes) {
  PlaneSide made{name, {}, 1024};
  for (const std::string& plane : planes) made.planes.push_back(offer(plane));
  return made;
}

PlaneMatch match(const std::vector<std::string>& mine, const std::vector<std::string>& theirs) {
  return match_planes(side("here", mine), side("host7", theirs));
}

const std::string kRemedy = "name the same interfaces in the same order on all hosts";

TEST_CASE("plane match: planes that fit get no line") {
  const auto fits = [](const std::vector<std::string>& mine,
                       const std::vector<std::string>& theirs) {
    const PlaneMatch found = match(mine, theirs);
    CAPTURE(found.error);
    CHECK(found.error.empty());
    for (const std::string& warning : found.warnings) FAIL_CHECK(warning);
  };
  fits({"p0 10.0.0.1/24", "p1 10.0.1.1/24"}, {"p0 10.0.0.2/24", "p1 10.0.1.2/24"});
  // Names may differ, and be swapped, where subnets are right.
  fits({"p0 10.0.0.1/24", "p1 10.0.1.1/24"}, {"eth4 10.0.0.2/24", "eth5 10.0.1.2/24"});
  fits({"p0 10.0.0.1/24", "p1 10.0.1.1/24"}, {"p1 10.0.0.2/24", "p0 10.0.1.2/24"});
  // One subnet for all planes.
  fits({"p0 10.0.0.1/16", "p1 10.0.1.1/16"}, {"p0 10.0.0.2/16", "p1 10.0.1.2/16"});
  fits({"lo 127.0.0.1/8", "lo 127.0.0.2/8"}, {"lo 127.0.0.1/8", "lo 127.0.0.2/8"});
  // Routers between them.
  fits({"p0 10.0.0.1/31", "p1 10.0.1.1/31"}, {"p0 10.9.0.1/31", "p1 10.9.1.1/31"});
  fits({"p0 fd00:1::1", "p1 fd00:2::1"}, {"p0 fd00:1::2", "p1 fd00:2::2"});
  // A NIC per plane, and NCCL connects different ones.
  fits({"p0 10.0.0.1/24"}, {"p1 10.0.1.2/24"});
}

TEST_CASE("plane match: another number of planes is said, and how many carry traffic") {
  const PlaneMatch found =
      match({"p0 10.0.0.1/24", "p1 10.0.1.1/24", "p2 10.0.2.1/24", "p3 10.0.3.1/24"},
            {"p0 10.0.0.2/24", "p1 10.0.1.2/24"});
  CHECK(found.error.empty());
  REQUIRE(found.warnings.size() == 1);
  CHECK(found.warnings[0] ==
        "4 planes here (p0 10.0.0.1/24, p1 10.0.1.1/24, p2 10.0.2.1/24, p3 10.0.3.1/24) and 2 at "
        "host7 (p0 10.0.0.2/24, p1 10.0.1.2/24): 2 of 4 carry traffic between them; " +
            kRemedy + " (NCCL_SOCKET_IFNAME or MRC_PLANES), and set MRC_NCCL_MERGE alike");
}

TEST_CASE("plane match: another order is an error where no plane is left, else a warning") {
  const PlaneMatch swapped =
      match({"p0 10.0.0.1/24", "p1 10.0.1.1/24"}, {"p1 10.0.1.2/24", "p0 10.0.0.2/24"});
  CHECK(swapped.error ==
        "planes are in another order: plane 0 is p0 10.0.0.1/24 here and p1 10.0.1.2/24 at host7, "
        "the subnet of plane 1 here: no plane fits; " +
            kRemedy + " (NCCL_SOCKET_IFNAME or MRC_PLANES)");
  const PlaneMatch some = match({"p0 10.0.0.1/24", "p1 10.0.1.1/24", "p2 10.0.2.1/24"},
                                {"p0 10.0.0.2/24", "p2 10.0.2.2/24", "p1 10.0.1.2/24"});
  CHECK(some.error.empty());
  REQUIRE(some.warnings.size() == 1);
  CHECK(contains(some.warnings[0], "plane 1 is p1 10.0.1.1/24 here and p2 10.0.2.2/24 at host7"));
  CHECK(contains(some.warnings[0], "no traffic can be expected of planes 1, 2"));
  // A plane that the other side has not: it is the peer's subnets that tell.
  const PlaneMatch missing = match({"p1 10.0.1.1/24"}, {"p0 10.0.0.2/24", "p1 10.0.1.2/24"});
  CHECK(contains(missing.error,
                 "plane 0 is p1 10.0.1.1/24 here and p0 10.0.0.2/24 at host7, the "
                 "subnet of plane 1 there"));
  // IPv6, and a prefix that does not end with a byte.
  CHECK_FALSE(match({"p0 fd00:0:0:10::1/60", "p1 fd00:0:0:20::1/60"},
                    {"p1 fd00:0:0:2f::2/60", "p0 fd00:0:0:1f::2/60"})
                  .error.empty());
}

TEST_CASE("plane match: where subnets say nothing, names do") {
  const PlaneMatch found = match({"p0 10.0.0.1", "p1 10.0.1.1"}, {"p1 10.9.0.1", "p0 10.9.1.1"});
  CHECK(found.error.empty());
  REQUIRE(found.warnings.size() == 1);
  CHECK(contains(found.warnings[0], "interfaces are in another order: plane 0 is p0 10.0.0.1"));
  CHECK(contains(found.warnings[0], kRemedy));
  CHECK(match({"p0 10.0.0.1", "p1 10.0.1.1"}, {"eth0 10.9.0.1", "p0 10.9.1.1"}).warnings.empty());
}

TEST_CASE("plane match: another IP version") {
  const PlaneMatch none = match({"p0 10.0.0.1/24"}, {"p0 fd00::2/64"});
  CHECK(contains(none.error,
                 "plane 0 is p0 10.0.0.1/24 here and p0 fd00::2/64 at host7, of "
                 "another IP version: no plane fits; set NCCL_SOCKET_FAMILY alike"));
  const PlaneMatch some =
      match({"p0 10.0.0.1/24", "p1 10.0.1.1/24"}, {"p0 10.0.0.2/24", "p1 fd00::2/64"});
  CHECK(some.error.empty());
  CHECK(any_contains(some.warnings, "no traffic can be expected of plane 1"));
}

TEST_CASE("plane match: packets that are smaller than they could be") {
  PlaneSide mine = side("here", {"p0 10.0.0.1/24", "p1 10.0.1.1/24"});
  PlaneSide theirs = side("host7", {"p0 10.0.0.2/24", "p1 10.0.1.2/24"});
  theirs.planes[1].mtu = 9000;
  CHECK(match_planes(mine, theirs).warnings.empty());  // the smaller one counts anyway
  mine.packet_bytes = 4096;
  mine.planes[0].mtu = theirs.planes[0].mtu = 9000;
  mine.planes[1].mtu = 9000;
  theirs.planes[1].mtu = 1500;
  const auto warnings = match_planes(mine, theirs).warnings;
  REQUIRE(warnings.size() == 1);
  CHECK(warnings[0] ==
        "packets carry 1024 bytes and not 4096: the MTU of plane 1 is 9000 here (p1 10.0.1.1/24) "
        "and 1500 at host7 (p1 10.0.1.2/24); give all interfaces of a plane the same MTU");
  theirs.planes[1].mtu = 9000;
  CHECK(
      contains(match_planes(mine, theirs).warnings.at(0), "4096 here, 1024 at host7; set MRC_MTU"));
}

TEST_CASE("plane match: what interfaces tell of planes") {
  auto lo = net_interface("lo", {"127.0.0.1"});
  lo.prefix_bits = {104};
  auto eth = net_interface("eth2", {"10.0.0.1", "fd00::1"});
  eth.prefix_bits = {120, 64};
  eth.mtu = 9000;
  const auto offers =
      mrc_nccl::plane_offers({mrc::port::parse_ip("fd00::1"), mrc::port::parse_ip("127.0.0.3"),
                              mrc::port::parse_ip("192.0.2.1")},
                             {lo, eth});
  REQUIRE(offers.size() == 3);
  // The loopback interface's MTU means nothing to packets of a routed address on it.
  lo.mtu = 65536, lo.link = false;
  lo.addresses.push_back(mrc::port::parse_ip("10.7.0.1"));
  lo.prefix_bits.push_back(128);
  const auto routed = mrc_nccl::plane_offers({mrc::port::parse_ip("10.7.0.1")}, {lo, eth});
  CHECK(routed.at(0) == PlaneOffer{"lo", mrc::port::parse_ip("10.7.0.1"), 128, 0});
  CHECK(offers[0] == PlaneOffer{"eth2", mrc::port::parse_ip("fd00::1"), 64, 9000});
  CHECK(offers[1] == PlaneOffer{"lo", mrc::port::parse_ip("127.0.0.3"), 104, 0});
  CHECK(offers[2] == PlaneOffer{"", mrc::port::parse_ip("192.0.2.1"), 0, 0});
  // The real ones have all of it.
  for (const auto& facts : mrc_nccl::read_interfaces()) {
    CHECK(facts.mtu > 0);
    CHECK(facts.prefix_bits.size() == facts.addresses.size());
    if (facts.loopback && !facts.addresses.empty() && mrc::port::is_v4(facts.addresses[0]))
      CHECK(facts.prefix_bits[0] == 104);
  }
}

TEST_CASE("handle: one of an older version is refused, and why") {
  mrc_nccl::Handle handle;
  handle.addresses = 1;
  handle.version = 3;
  alignas(8) char bytes[nccl_abi::kHandleBytes];
  handle.write(bytes);
  CHECK_FALSE(mrc_nccl::Handle::read(bytes));
  CHECK(mrc_nccl::Handle::complaint(bytes) ==
        "the handle to connect to has version 3 of this plugin's set-up, and this process speaks "
        "version 5: use the same OpenMRC on all ranks");
}

}  // namespace plane_match_test
