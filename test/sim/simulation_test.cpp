// SPDX-License-Identifier: Apache-2.0
#include "mrc/sim/simulation.hpp"

#include <doctest/doctest.h>

#include <memory>

#include "mrc/sim/traffic/collective.hpp"
#include "mrc/sim/traffic/streams.hpp"

using namespace mrc;
using namespace mrc::sim;
using namespace std::chrono_literals;

namespace simulation_test {

Traffic permutation(std::uint64_t count, Time start = Time{}) {
  return {"permutation", start, [count](const Fabric&) {
            PermutationSettings s;
            s.stream.bytes = 64 * 1024;
            s.stream.count = count;
            s.stream.depth = 8;
            return std::make_unique<Permutation>(s);
          }};
}

Scenario small_run(std::uint64_t count = 8) {
  Scenario s;
  s.fabric.planes = 2;
  s.fabric.hosts = 8;
  s.fabric.hosts_per_t0 = 4;
  s.fabric.t1s = 4;
  MrcCluster::Settings mrc;
  mrc.host.engine.cc.nscc.link_speed = 200'000'000'000;
  s.transport = mrc;
  s.traffic.push_back(permutation(count));
  s.end = Time{5ms};
  return s;
}

Scenario roce(std::uint64_t count = 8) {
  Scenario s = small_run(count);
  s.transport = Scenario::Roce{};
  s.fabric.forwarding = Forwarding::udp;
  s.fabric.queue.overflow = Overflow::drop;
  return s;
}

TEST_CASE("a simulation is the same run in whatever pieces it is run") {
  for (Scenario (*scenario)(std::uint64_t) : {small_run, roce}) {
    Simulation whole(scenario(8));
    whole.run();
    REQUIRE(whole.traffic_done());
    CHECK(whole.network().now() < whole.scenario().end);
    CHECK(whole.messages().delivered() == 64);
    for (const Duration piece : {Duration{37}, Duration{1000}, Duration{9001}}) {
      Simulation pieces(scenario(8));
      while (pieces.advance(piece)) {
      }
      CHECK(pieces.network().digest() == whole.network().digest());
      CHECK(pieces.network().events() == whole.network().events());
    }
    Scenario other = scenario(8);
    other.seed = 2;
    Simulation seed_2(other);
    seed_2.run();
    CHECK(seed_2.network().digest() != whole.network().digest());
  }
}

TEST_CASE("a simulation's patterns share the cluster, and each is told of its own flows") {
  for (Scenario s : {small_run(), roce()}) {
    s.traffic.push_back({"all-to-all", Time{20us}, [](const Fabric&) {
                           AllToAllSettings a;
                           a.collective.bytes = 256 * 1024;
                           return std::make_unique<AllToAll>(a);
                         }});
    Simulation simulation(s);
    simulation.run();
    REQUIRE(simulation.traffic_done());
    const Summary sum = summarize(simulation);
    CHECK(sum.delivered == 64 + 8 * 7);
    CHECK(sum.messages == sum.delivered);
    REQUIRE(sum.traffic.size() == 2);
    CHECK(sum.traffic[1].started == Time{20us});
    CHECK(sum.traffic[1].iterations == 1);
    CHECK(sum.traffic[1].bus_bandwidth > 0);
    CHECK(sum.flows.size() == 8 + 8 * 7);
    std::uint64_t received = 0;
    for (unsigned h = 0; h < 8; ++h) received += simulation.cluster().received_bytes(h);
    CHECK(received == sum.delivered_bytes);
  }
}

TEST_CASE("a simulation measures goodput from warm-up to its end") {
  Scenario s = small_run(0);
  s.warm_up = Time{100us};
  s.end = Time{400us};
  Simulation simulation(s);
  simulation.run();
  const Summary sum = summarize(simulation);
  CHECK(sum.measured == 300us);
  CHECK_FALSE(simulation.traffic_done());
  // Between them the line rate and not much below it; nothing of before counts.
  CHECK(sum.host_max < 200);
  CHECK(sum.host_min > 150);
  std::uint64_t before = 0;
  for (unsigned h = 0; h < 8; ++h) before += simulation.received_before(h);
  CHECK(before > 0);
  // A run that ends within its warm-up has measured nothing.
  Simulation cut(s);
  cut.advance(50us);
  CHECK(summarize(cut).goodput == 0);
}

TEST_CASE("a simulation draws bad cables by its seed") {
  Scenario s = small_run();
  s.bad_cables = {0.25, 1, true};  // of 2 x 2 x 4 cables
  Simulation simulation(s);
  CHECK(simulation.faults().faults().size() == 4);
  for (const Fault& f : simulation.faults().faults())
    CHECK(simulation.fabric().find(f.target).size() == 2);
  CHECK(Simulation(s).faults().text() == simulation.faults().text());
  s.seed = 2;
  CHECK(Simulation(s).faults().text() != simulation.faults().text());
  s.bad_cables = {1, 0.01, false};
  const Simulation up(s);
  CHECK(up.faults().faults().size() == 16);
  CHECK(up.fabric().find(up.faults().faults()[0].target).size() == 1);
}

TEST_CASE("a simulation plans faults for hosts of either transport") {
  for (Scenario s : {small_run(200), roce(200)}) {
    s.faults.add({Time{30us}, FaultKind::kill, "h3", 0});
    s.end = Time{200us};
    Simulation simulation(s);
    simulation.run();
    const std::uint64_t then = simulation.cluster().received_bytes(3);
    CHECK(then < 200u * 64 * 1024);
    CHECK_FALSE(simulation.traffic_done());
  }
  Scenario bad = small_run();
  bad.faults.add({Time{30us}, FaultKind::down, "t7.0.0", 0});
  CHECK_THROWS_AS(Simulation{bad}, Error);
  bad = small_run();
  bad.traffic.clear();
  CHECK_THROWS_AS(Simulation{bad}, Error);
}

}  // namespace simulation_test
