// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstdlib>

#include "support/engine_pair.hpp"

/// Seeded schedules of every kind of fault for an EnginePair, and how many seeds a test runs.
namespace mrc::test {

/// Seeds to run: `usual`, unless MRC_TEST_SEEDS says otherwise.
[[nodiscard]] inline std::uint64_t seeds(std::uint64_t usual) {
  const char* text = std::getenv("MRC_TEST_SEEDS");
  return text != nullptr ? std::strtoull(text, nullptr, 10) : usual;
}
/// The first of them: MRC_TEST_FIRST_SEED, or 1.
[[nodiscard]] inline std::uint64_t first_seed() {
  const char* text = std::getenv("MRC_TEST_FIRST_SEED");
  return text != nullptr ? std::strtoull(text, nullptr, 10) : 1;
}

/// A seed's network: each kind of fault is off in about half of the seeds.
[[nodiscard]] inline Faults random_faults(Random& r) {
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

/// A random pair of engines and its planes.
[[nodiscard]] inline EnginePair::Setup random_setup(Random& r) {
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
  s.options.ack_delay = r.chance(0.5) ? std::chrono::microseconds(200) : Duration{};
  s.options.peers_stop = s.options.ack_delay > Duration{};  // as devices on sockets have both
  return s;
}

/// Something that breaks or is mended.
inline void outage(EnginePair& pair, const EnginePair::Setup& setup, Random& r) {
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
/// Ends all faults.
inline void mend(EnginePair& pair, const EnginePair::Setup& setup) {
  pair.faults = {};
  for (unsigned side = 0; side < 2; ++side)
    for (unsigned p = 0; p < setup.planes; ++p) pair.set_port(side, static_cast<Plane>(p), true);
}

}  // namespace mrc::test
