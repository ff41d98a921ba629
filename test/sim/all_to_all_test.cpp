// SPDX-License-Identifier: Apache-2.0
// An all-to-all in which every host sends to all others at once fits into the switches' queues.
#include "mrc/sim/traffic/all_to_all.hpp"

#include <doctest/doctest.h>

#include <memory>

#include "mrc/sim/simulation.hpp"
#include "mrc/sim/summary.hpp"

using namespace mrc;
using namespace mrc::sim;
using namespace std::chrono_literals;

namespace {

constexpr unsigned kRanks = 24;

Summary all_at_once() {
  Scenario s;
  s.fabric.planes = 4;
  s.fabric.hosts = kRanks;
  s.fabric.hosts_per_t0 = 8;
  s.fabric.t1s = 8;
  MrcCluster::Settings mrc;
  mrc.host.engine.cc.nscc.link_speed = 400'000'000'000;
  mrc.host.engine.cc.nscc.trimming = true;
  s.transport = mrc;
  s.traffic.push_back({"all-to-all", Time{}, [](const Fabric&) {
                         AllToAllSettings a;
                         a.collective.bytes = 12 << 20;
                         a.peers = kRanks - 1;
                         return std::make_unique<AllToAll>(a);
                       }});
  s.end = Time{5ms};
  Simulation simulation(s);
  simulation.run();
  return summarize(simulation);
}

}  // namespace

TEST_CASE("all-to-all: few packets are trimmed, though each host sends to all others at once") {
  const Summary s = all_at_once();
  REQUIRE(s.traffic[0].done);
  CHECK(s.hosts.data_packets == kRanks * (kRanks - 1) * ((12 << 20) / kRanks / 4096));
  MESSAGE(s.links.trimmed, " of ", s.hosts.data_packets, " packets trimmed, done after ",
          s.end.time_since_epoch() / 1us, " us");
  // Every second one was while each destination had a window that fills the host's link.
  CHECK(s.links.trimmed * 10 < s.hosts.data_packets);
  CHECK(s.hosts.timeouts == 0);
}
