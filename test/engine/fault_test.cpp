// SPDX-License-Identifier: Apache-2.0
// Two engines under seeded schedules of every kind of fault. Traffic checks that each byte is
// placed exactly once before its completion, that completions come in order and that none is lost.
// MRC_TEST_SEEDS sets how many seeds are run; a seed repeats its run exactly.
#include <doctest/doctest.h>

#include <set>

#include "support/random_faults.hpp"
#include "support/traffic.hpp"

using namespace mrc;
using namespace mrc::test;
using namespace std::chrono_literals;

namespace fault_test {

TrafficOptions random_traffic(Random& r) {
  TrafficOptions o;
  o.queue_pairs = 1 + r.below(4);
  o.messages = 40;
  o.max_size = r.chance(0.5) ? 2'000 : 60'000;
  o.both = r.chance(0.5);
  o.relaxed = r.chance(0.5);
  o.near_wrap = r.chance(0.3) ? 100 : 1u << 24;
  constexpr std::uint32_t kMtus[] = {256, 384, 512, 1024, 1408, 2048, 3968, 4096};
  o.attributes.mtu = kMtus[r.below(8)];
  o.attributes.mpr = static_cast<std::uint8_t>(1 + r.below(32));
  o.attributes.mpr_dest = static_cast<std::uint8_t>(1 + r.below(32));
  o.attributes.max_wimm = static_cast<std::uint16_t>(1 + r.below(16));
  o.attributes.max_wimm_dest = static_cast<std::uint16_t>(1 + r.below(16));
  o.attributes.timeout = static_cast<std::uint8_t>(6 + r.below(7));
  o.attributes.retry_exponential = 25;
  o.attributes.dynamic_mpr = r.chance(0.5);
  o.attributes.trim_nack = r.chance(0.8);
  return o;
}

TEST_CASE("seeded faults: every byte once, in order, nothing lost, and done when they end") {
  for (std::uint64_t seed = first_seed(); seed < first_seed() + seeds(100); ++seed) {
    INFO("seed ", seed);
    Random r(seed);
    const EnginePair::Setup setup = random_setup(r);
    EnginePair pair(setup, seed);
    Traffic traffic(pair, random_traffic(r), seed);
    pair.faults = random_faults(r);
    (void)traffic.run(50ms);
    pair.faults = {};
    REQUIRE(traffic.run(1s));
    traffic.check();
  }
}

TEST_CASE("seeded faults: ports that read payload late and place it by themselves") {
  std::uint64_t placed = 0;
  for (std::uint64_t seed = first_seed(); seed < first_seed() + seeds(100); ++seed) {
    INFO("seed ", seed);
    Random r(seed ^ 0xF0F0);
    EnginePair::Setup setup = random_setup(r);
    setup.habits.holds = r.chance(0.7);
    setup.habits.places = !setup.habits.holds || r.chance(0.7);
    setup.habits.longest_hold = Duration{r.below(100'000)};
    setup.habits.longest_announce = Duration{r.below(50'000)};
    if (r.chance(0.2)) setup.options.held_copies = 4;
    EnginePair pair(setup, seed);
    TrafficOptions o = random_traffic(r);
    o.relaxed = r.chance(0.8);
    Traffic traffic(pair, o, seed);
    pair.faults = random_faults(r);
    for (unsigned i = 0; i < 5; ++i) {
      (void)traffic.run(10ms);
      if (r.chance(0.3)) outage(pair, setup, r);
    }
    mend(pair, setup);
    REQUIRE(traffic.run(1s));
    traffic.check();
    for (unsigned side = 0; side < 2; ++side) {
      CHECK(pair.held(side) == 0);
      placed += pair.placed(side);
    }
  }
  CHECK(placed > 0);
}

TEST_CASE("losses with room for one message end to hold back: everything arrives in its time") {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    INFO("seed ", seed);
    EnginePair::Setup setup;
    setup.planes = 1;
    setup.delay = 2us;
    setup.options.deferred_stores = 1;
    // Refused packets go out again more often than silence is long enough for a probe.
    setup.options.cc.nscc.base_rtt_floor = setup.options.cc.nscc.base_rtt;
    EnginePair pair(setup, seed);
    TrafficOptions o;
    o.messages = 400;
    o.max_size = 500;
    o.relaxed = false;
    o.capacity.send = o.capacity.receive = 256;  // more than the window takes
    o.attributes.mpr = 1;
    o.attributes.timeout = 16;            // out of the way
    o.attributes.retry_exponential = 25;  // to be refused over and over is no failure
    Traffic traffic(pair, o, seed);
    pair.faults.loss = 0.02;
    REQUIRE(traffic.run(3ms));
    pair.faults = {};
    traffic.check();
  }
}

TEST_CASE("a burst loss wider than a SACK comes back together, not a packet for each timeout") {
  for (const std::uint32_t burst : {500u, 700u}) {
    INFO("burst ", burst);
    EnginePair::Setup setup;
    setup.gbps = 400;
    setup.options.cc.algorithm = cc::Algorithm::none;
    EnginePair pair(setup, 1);
    TrafficOptions o;
    o.messages = 400;  // more than the window takes, so that probes come later than the timer
    o.capacity.send = o.capacity.receive = 256;
    o.attributes.mpr = o.attributes.mpr_dest = 8;
    o.attributes.timeout = 0;  // two base round trips
    std::set<std::uint32_t> seen;
    std::uint64_t lost = 0;
    pair.filter = [&](unsigned side, const wire::TxPacket&, const auto& bytes) {
      const auto& bth = wire::view_as<wire::Bth>(bytes);
      if (side != 0 || !wire::is_write(bth.opcode()) || !seen.insert(bth.psn().value()).second)
        return true;
      const bool hit = seen.size() > 50 && seen.size() <= 50 + burst;
      lost += hit;
      return !hit;
    };
    Traffic traffic(pair, o, 1);
    REQUIRE(traffic.run(2ms));
    CHECK(lost == burst);
    CHECK(pair[0].stats().timeouts <= 20);
    traffic.check();
  }
}

}  // namespace fault_test
