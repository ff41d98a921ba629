// SPDX-License-Identifier: Apache-2.0
#include "mrc_perf/reach.hpp"

#include <doctest/doctest.h>

#include <string>

using mrc::perf::Side;
using mrc::perf::side_from_json;
using mrc::perf::translation;
using nlohmann::json;

namespace reach_test {

Side side(const char* own, const char* remote, bool heard) {
  return {heard, false, true, mrc::port::parse_ip(own), mrc::port::parse_ip(remote)};
}

TEST_CASE("mrc_perf: addresses that are translated are told where packets do not arrive") {
  const std::string begin = "addresses are translated between the hosts (NAT): ";
  const std::string end = "; planes need addresses that are routed as they are";
  Side here = side("10.1.0.2", "10.2.0.2", false), there = side("10.2.0.2", "10.2.0.1", false);
  CHECK(translation(here, there) ==
        begin + "this host is 10.1.0.2 and is seen there as 10.2.0.1" + end);
  CHECK(translation(there, here) ==
        begin + "the other host is 10.1.0.2 and is seen here as 10.2.0.1" + end);
  here.heard = true;
  CHECK_FALSE(translation(here, there).empty());
  there.heard = true;
  CHECK(translation(here, there).empty());
  here.heard = false;
  here.plane = false;  // of TCP, which has a network of its own
  CHECK(translation(here, there).empty());

  here = side("10.1.0.2", "10.2.0.2", false), there = side("10.2.0.2", "10.1.0.2", true);
  CHECK(translation(here, there).empty());
  here.bad_icrc = true;
  CHECK(translation(here, there) ==
        begin + "packets of MRC arrive here with a wrong iCRC, which covers addresses" + end);
  CHECK(translation(there, here) ==
        begin + "packets of MRC arrive there with a wrong iCRC, which covers addresses" + end);
  here.heard = true;
  CHECK(translation(here, there).empty());
}

TEST_CASE("mrc_perf: what the peer says of its side is read back, and anything else is unknown") {
  Side told = side("10.1.0.2", "fd00::1", false);
  told.bad_icrc = true;
  CHECK(to_json(side_from_json(to_json(told))) == to_json(told));
  const json unknown = to_json(Side{});
  for (const char* text : {"null", "7", "[]", "{}", R"({"own":7,"heard":[],"remote":"x"})"})
    CHECK(to_json(side_from_json(json::parse(text))) == unknown);
}

}  // namespace reach_test
