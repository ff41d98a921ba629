// SPDX-License-Identifier: Apache-2.0
// An all-to-all in which every host sends to all others at once fits into the switches' queues.
#include "mrc/sim/traffic/collective.hpp"

#include <doctest/doctest.h>

#include <memory>

#include "clos_rig.hpp"

using namespace mrc;
using namespace mrc::sim;
using namespace std::chrono_literals;

namespace all_to_all_test {

constexpr unsigned kRanks = 24;

Summary all_at_once() {
  Scenario s = mrc::test::clos_of_mrc(4, kRanks, 8, 8);
  s.traffic.push_back({"all-to-all", Time{}, [](const Fabric&) {
                         AllToAllSettings a;
                         a.collective.bytes = 12 << 20;
                         a.peers = kRanks - 1;
                         return std::make_unique<AllToAll>(a);
                       }});
  s.end = Time{5ms};
  return mrc::test::result_of(s);
}

TEST_CASE("all-to-all: few packets are trimmed, though each host sends to all others at once") {
  const Summary s = all_at_once();
  REQUIRE(s.traffic[0].done);
  CHECK(s.hosts.data_packets == kRanks * (kRanks - 1) * ((12 << 20) / kRanks / 4096));
  MESSAGE(s.links.trimmed, " of ", s.hosts.data_packets, " packets trimmed, done after ",
          s.end.time_since_epoch() / 1us, " us");
  // Nearly every second one was while each destination had a window that fills the host's link.
  CHECK(s.links.trimmed * 10 < s.hosts.data_packets);
  CHECK(s.hosts.timeouts == 0);
}

}  // namespace all_to_all_test
