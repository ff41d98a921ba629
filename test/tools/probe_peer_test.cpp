// SPDX-License-Identifier: Apache-2.0
// Which peers `mrc_ctl probe --peer` means.
#include <doctest/doctest.h>

#include "mrc_ctl/probe.hpp"

using namespace mrc::ctl_tool;

TEST_CASE("probe: a peer is named by its number, or by one of its addresses") {
  const Json peer{{"number", 12}, {"addresses", "10.0.0.1:4791, [fd00::7]:4792"}};
  for (const char* name : {"", "12", "10.0.0.1", "10.0.0.1:4791", "fd00::7", "[fd00::7]:4792"}) {
    CAPTURE(name);
    CHECK(names_peer(name, peer));
  }
  for (const char* name : {"1", "10.0.0", "10.0.0.1:4792", "0.0.0.1", "fd00::", "10.0.0.1, "}) {
    CAPTURE(name);
    CHECK(!names_peer(name, peer));
  }
  CHECK(!names_peer("7", Json::object()));
  CHECK(!names_peer("7", Json{{"number", "x"}, {"addresses", 3}}));
}
