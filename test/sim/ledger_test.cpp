// SPDX-License-Identifier: Apache-2.0
// Every data packet that was sent again is explained by what became of an earlier copy.
#include "mrc/sim/network.hpp"

#include <doctest/doctest.h>

#include <memory>
#include <vector>

#include "clos_rig.hpp"
#include "mrc/sim/traffic/streams.hpp"

using namespace mrc;
using namespace mrc::sim;
using namespace std::chrono_literals;

namespace ledger_test {

struct FailureCase {
  const char* name;
  FaultKind kind;
  double value;
  PacketFate fate;
};

constexpr FailureCase kFailures[] = {
    {"a T1 that goes down", FaultKind::down, 0, PacketFate::link_down},
    {"a T1 that loses packets", FaultKind::loss, 0.01, PacketFate::loss_rate},
    {"a T1 that damages packets", FaultKind::corruption, 0.01, PacketFate::corrupted},
    {"a T1 that swallows all", FaultKind::black_hole, 0, PacketFate::loss_rate},
    {"a T1 that is slow", FaultKind::slow, 8, PacketFate::trimmed},
};

Scenario eight_hosts(bool roce) {
  Scenario s = mrc::test::clos_of_mrc(2, 8, 4, 4);
  s.fabric.queue.data_limit = 32 * 1024;
  if (roce) {
    s.transport = Scenario::Roce{};
    s.fabric.forwarding = Forwarding::udp;
  }
  s.traffic.push_back({"permutation", Time{}, [](const Fabric&) {
                         PermutationSettings p;
                         p.shift = 4;
                         p.stream.bytes = 256 * 1024;
                         p.stream.duration = 300us;
                         return std::make_unique<Permutation>(p);
                       }});
  s.end = Time{20ms};
  return s;
}

TEST_CASE("account: each retransmission is explained by the fate of an earlier copy") {
  for (const FailureCase& failure : kFailures) {
    CAPTURE(failure.name);
    Scenario scenario = eight_hosts(false);
    scenario.faults.add_for({Time{50us}, failure.kind, "p0t1-1", failure.value}, 150us);
    Simulation simulation(scenario);
    // At any time, while packets are under way, and when all have arrived.
    for (bool more = true; more;) {
      more = simulation.advance(10us);
      const Summary s = summarize(simulation);
      REQUIRE(s.accounted());
      CHECK(static_cast<std::int64_t>(s.hosts.retransmitted) ==
            static_cast<std::int64_t>(s.ledger.lost() + s.ledger.under_way() + s.hosts.duplicates) +
                s.refused() - s.missing());
    }
    const Summary s = summarize(simulation);
    REQUIRE(s.traffic[0].done);
    CHECK(s.ledger[failure.fate] > 0);
    CHECK(s.ledger.under_way() == 0);
    CHECK(s.missing() == 0);
    CHECK(s.refused() == 0);
    CHECK(s.hosts.retransmitted == s.ledger.lost() + s.hosts.duplicates);
  }
}

TEST_CASE("account: go-back-N refuses what is behind a gap") {
  Scenario scenario = eight_hosts(true);
  scenario.faults.add_for({Time{50us}, FaultKind::loss, "p0", 0.005}, 150us);
  const Summary s = mrc::test::result_of(scenario);
  REQUIRE(s.accounted());
  CHECK(s.ledger[PacketFate::loss_rate] > 0);
  CHECK(s.refused() > 0);
  CHECK(s.missing() == 0);
  CHECK(static_cast<std::int64_t>(s.hosts.retransmitted) ==
        static_cast<std::int64_t>(s.ledger.lost() + s.hosts.duplicates) + s.refused());
}

TEST_CASE("account: a host that hangs takes what was sent to it") {
  Scenario scenario = eight_hosts(false);
  scenario.faults.add({Time{50us}, FaultKind::kill, "h5", 0});
  scenario.end = Time{100us};
  const Summary s = mrc::test::result_of(scenario);
  CHECK(s.accounted());
  CHECK(s.ledger[PacketFate::dead_host] > 0);
  CHECK(s.missing() > 0);
}

}  // namespace ledger_test
