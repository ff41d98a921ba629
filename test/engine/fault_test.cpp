// SPDX-License-Identifier: Apache-2.0
// Two engines under seeded schedules of every kind of fault. Traffic checks that each byte is
// placed exactly once before its completion, that completions come in order and that none is lost.
// MRC_TEST_SEEDS sets how many seeds are run; a seed repeats its run exactly.
#include <doctest/doctest.h>

#include <cstdlib>
#include <set>

#include "support/traffic.hpp"

using namespace mrc;
using namespace mrc::test;
using namespace std::chrono_literals;

namespace {

[[nodiscard]] std::uint64_t seeds(std::uint64_t usual) {
  const char* text = std::getenv("MRC_TEST_SEEDS");
  return text != nullptr ? std::strtoull(text, nullptr, 10) : usual;
}
[[nodiscard]] std::uint64_t first_seed() {
  const char* text = std::getenv("MRC_TEST_FIRST_SEED");
  return text != nullptr ? std::strtoull(text, nullptr, 10) : 1;
}

/// A seed's network: each kind of fault is off in about half of the seeds.
Faults random_faults(Random& r) {
  const auto maybe = [&](double most) {
    return r.chance(0.5) ? 0.0 : most * static_cast<double>(r.below(1000)) / 1000;
  };
  Faults f;
  f.loss = maybe(0.2);
  f.duplicate = maybe(0.2);
  f.reorder = maybe(0.5);
  f.corrupt = maybe(0.1);
  f.trim = maybe(0.2);
  f.ecn = maybe(0.3);
  f.jitter = r.chance(0.5) ? Duration{0} : Duration{r.below(200'000) + 1};
  return f;
}

EnginePair::Setup random_setup(Random& r) {
  EnginePair::Setup s;
  s.planes = 1 + r.below(4);
  s.paths = 1 + r.below(8);
  s.gbps = r.chance(0.3) ? 5 : 100;
  s.queue = r.chance(0.3) ? 32 * 1024 : 512 * 1024;
  s.trimming_switch = r.chance(0.5);
  s.plane_window = r.chance(0.3) ? 64 * 1024 : 0;
  s.options.burst = 1 + r.below(8);
  s.options.timestamps = !r.chance(0.1);
  s.options.deferred_stores = r.chance(0.2) ? 4 : 4096;
  s.options.control_queue = r.chance(0.1) ? 16 : 4096;
  s.options.max_outstanding = r.chance(0.2) ? 512 : 65'536;
  s.options.cc.algorithm = static_cast<cc::Algorithm>(r.below(3));
  if (!s.options.timestamps && s.options.cc.algorithm == cc::Algorithm::nscc)
    s.options.cc.algorithm = cc::Algorithm::fixed;
  s.options.paths.active = static_cast<std::uint16_t>(r.chance(0.3) ? s.planes : 0);
  return s;
}

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

/// Something that breaks or is mended.
void outage(EnginePair& pair, const EnginePair::Setup& setup, Random& r) {
  const auto plane = static_cast<Plane>(r.below(setup.planes));
  switch (r.below(5)) {
    case 0:
    case 1:
      return pair.set_port(r.below(2), plane, r.chance(0.5));
    case 2:
      pair.faults.black_holes ^= plane_bit(plane);
      return;
    case 3:
      pair.faults.dead_paths.insert(0x1000 * (plane + 1u) + r.below(setup.paths));
      return;
    default:
      pair.faults.dead_paths.clear();
      return;
  }
}
void mend(EnginePair& pair, const EnginePair::Setup& setup) {
  pair.faults = {};
  for (unsigned side = 0; side < 2; ++side)
    for (unsigned p = 0; p < setup.planes; ++p) pair.set_port(side, static_cast<Plane>(p), true);
}

}  // namespace

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

TEST_CASE("seeded outages: ports, planes and paths go and come at random times") {
  for (std::uint64_t seed = first_seed(); seed < first_seed() + seeds(60); ++seed) {
    INFO("seed ", seed);
    Random r(seed ^ 0x5EED);
    const EnginePair::Setup setup = random_setup(r);
    EnginePair pair(setup, seed);
    TrafficOptions o = random_traffic(r);
    o.messages = 150;
    o.max_size = 20'000;
    Traffic traffic(pair, o, seed);
    if (r.chance(0.5)) pair.faults = random_faults(r);
    bool done = false;
    for (unsigned i = 0; i < 30 && !done; ++i) {
      outage(pair, setup, r);
      done = traffic.run(Duration{r.below(1'500'000)});
    }
    mend(pair, setup);
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
