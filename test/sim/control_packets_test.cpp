// SPDX-License-Identifier: Apache-2.0
// How many control packets a fabric carries, by kind, and how many an idle host sends.
#include <doctest/doctest.h>

#include <algorithm>
#include <memory>

#include "clos_rig.hpp"
#include "mrc/sim/simulation.hpp"
#include "mrc/sim/traffic/collective.hpp"
#include "mrc/sim/traffic/streams.hpp"

using namespace mrc;
using namespace mrc::sim;
using namespace std::chrono_literals;

namespace control_packets_test {

/// An all-to-all of 16 KiB messages, four packets each.
Summary all_to_all(unsigned hosts) {
  Scenario s = mrc::test::clos_of_mrc(4, hosts, 8, 8);
  std::get<MrcCluster::Settings>(s.transport).host.engine.max_outstanding = 4096;
  s.samples.reset();
  s.traffic.push_back({"all_to_all", Time{}, [hosts](const Fabric&) {
                         AllToAllSettings a;
                         a.collective.bytes = std::uint64_t{hosts} * 16 * 1024;
                         return std::make_unique<AllToAll>(a);
                       }});
  s.end = Time{50ms};
  Simulation simulation(s);
  simulation.run();
  CHECK(simulation.traffic_done());
  return summarize(simulation);
}

double per_flow(const Summary& s) {
  return static_cast<double>(s.hosts.control_packets) / static_cast<double>(s.flows.size());
}

// 256 hosts would need 1.9 GB; they have 3.2 per flow, where 16 have 14.2.
TEST_CASE("control packets: per flow no more with 64 hosts than with 16, and counted by kind") {
  const Summary few = all_to_all(16), many = all_to_all(64);
  for (const Summary* s : {&few, &many}) {
    const ControlStats& c = s->hosts.control;
    CHECK(s->hosts.data_packets == 4 * s->flows.size());
    CHECK(c.sacks + c.probe_sacks + c.nacks + c.acks + c.probes + c.ev_probes + c.port_updates +
              c.endpoint_answers ==
          s->hosts.control_packets);
    CHECK(c.acks >= s->flows.size());
    CAPTURE(c.sacks);
    CAPTURE(c.acks);
    CAPTURE(c.probes);
    CAPTURE(c.probe_sacks);
    CAPTURE(c.ev_probes);
    CAPTURE(c.endpoint_answers);
    CHECK(per_flow(*s) < 16);
  }
  CHECK(per_flow(many) <= per_flow(few));
}

/// Host 0 is connected to `peers` others in two planes of eight paths, and so is each of them to
/// it. Messages go both ways once, then nothing.
struct Star {
  explicit Star(unsigned peers) : simulation(scenario(peers)) {}
  static Scenario scenario(unsigned peers) {
    Scenario s = mrc::test::clos_of_mrc(2, peers + 1, 32, 8);
    auto& host = std::get<MrcCluster::Settings>(s.transport).host;
    host.engine.max_outstanding = 1024;
    host.engine.control_queue = 1024;
    s.samples.reset();
    for (const bool from_star : {true, false})
      s.traffic.push_back({"once", Time{}, [peers, from_star](const Fabric&) {
                             StreamSettings one;
                             one.bytes = 4096;
                             one.count = 1;
                             auto made = std::make_unique<Streams>(one);
                             for (unsigned h = 1; h <= peers; ++h)
                               made->add(from_star ? HostPair{0, h} : HostPair{h, 0}, 2us * h);
                             return made;
                           }});
    // Keeps the simulation going.
    s.traffic.push_back({"last", Time{99s}, [](const Fabric&) {
                           auto made = std::make_unique<Streams>(StreamSettings{.count = 1});
                           made->add({1, 2}, 0us);
                           return made;
                         }});
    s.end = Time{100s};
    return s;
  }
  [[nodiscard]] std::uint64_t sent() {
    const EngineStats& s = simulation.mrc()->host(0).engine().stats();
    return s.tx_control + s.tx_data + s.tx_retransmits;
  }
  /// The most packets that host 0 sends in one of so many seconds.
  std::uint64_t most_in(unsigned seconds) {
    std::uint64_t most = 0;
    for (unsigned i = 0; i < seconds; ++i) {
      const std::uint64_t before = sent();
      (void)simulation.advance(1s);
      most = std::max(most, sent() - before);
    }
    return most;
  }

  Simulation simulation;
};

TEST_CASE("control packets: an idle host with 1,000 peers of 16 paths sends under 1,000 a second") {
  Star star(1000);
  (void)star.simulation.advance(200ms);
  CHECK(star.simulation.messages().delivered() == 2000);
  CHECK(star.most_in(5) < 1000);
  // A T1 is dead: a path of sixteen to each peer. Both sides probe theirs.
  Network& network = star.simulation.network();
  const Time now = network.now();
  for (const LinkId link : star.simulation.fabric().find("p0t1-3")) network.set_loss(link, 1);
  for (unsigned h = 0; h <= 1000; ++h) {
    MrcHost& host = star.simulation.mrc()->host(h);
    for (unsigned other = h == 0 ? 1 : 0; other <= (h == 0 ? 1000 : 0); ++other)
      (void)host.engine().change_paths(now, host.peer(other), [now](path::PathSet& paths) {
        for (path::PathIndex i = 0; i < paths.size(); ++i)
          if (paths[i].plane == 0 && paths[i].port_path == 3) paths.on_timeout(i, now);
      });
    host.work();
  }
  CHECK(star.most_in(10) < 1000);
  CHECK(star.simulation.mrc()->host(0).engine().stats().ev_probes_sent > 1000);
}

}  // namespace control_packets_test
