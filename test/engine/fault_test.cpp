// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "support/traffic.hpp"

using namespace mrc;
using namespace mrc::test;
using namespace std::chrono_literals;

namespace {

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

}  // namespace

TEST_CASE("seeded faults: every byte once, in order, nothing lost, and done when they end") {
  for (std::uint64_t seed = 1; seed <= 150; ++seed) {
    INFO("seed ", seed);
    Random r(seed);
    EnginePair::Setup setup;
    setup.planes = 1 + r.below(4);
    setup.paths = 1 + r.below(8);
    setup.options.burst = 1 + r.below(8);
    setup.trimming_switch = r.chance(0.5);
    EnginePair pair(setup, seed);
    TrafficOptions o;
    o.queue_pairs = 1 + r.below(4);
    o.messages = 40;
    o.max_size = r.chance(0.5) ? 2'000 : 60'000;
    o.both = r.chance(0.5);
    o.relaxed = r.chance(0.5);
    o.attributes.mtu = 256u << r.below(5);
    o.attributes.mpr = static_cast<std::uint8_t>(1 + r.below(32));
    o.attributes.max_wimm = static_cast<std::uint16_t>(1 + r.below(16));
    o.attributes.retry_exponential = 25;
    o.attributes.dynamic_mpr = r.chance(0.5);
    Traffic traffic(pair, o, seed);
    pair.faults = random_faults(r);
    (void)traffic.run(50ms);
    pair.faults = {};
    REQUIRE(traffic.run(5s));
    traffic.check();
  }
}
