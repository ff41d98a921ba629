// SPDX-License-Identifier: Apache-2.0
// A part of the soak that scripts/soak runs at length, and a proof that its checks can fail.
// MRC_TEST_SEEDS sets how many seeds are run.
#include "mrc_sim/soak/run.hpp"

#include <doctest/doctest.h>

#include <cstdlib>

#include "support/errors.hpp"

using namespace mrc;
using namespace mrc::sim;
using namespace mrc::soak;
using mrc::test::contains;

namespace soak_test {

[[nodiscard]] std::uint64_t seeds(std::uint64_t usual) {
  const char* text = std::getenv("MRC_TEST_SEEDS");
  return text != nullptr ? std::strtoull(text, nullptr, 10) : usual;
}

/// The failure that a deliberate mistake leads to, in the first of some seeds where it is made.
std::string found(SoakSabotage sabotage) {
  SoakOptions options;
  options.sabotage = sabotage;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const SoakResult result = run_soak_seed(seed, options);
    if (!result.passed()) return result.failure;
  }
  return "not found";
}

TEST_CASE("soak: seeded fabrics, faults and traffic") {
  unsigned faults = 0, killed = 0, broken = 0, retransmitted = 0, trimmed = 0, dropped = 0;
  const std::uint64_t count = seeds(150);
  for (std::uint64_t seed = 1; seed <= count; ++seed) {
    const SoakResult r = run_soak_seed(seed);
    INFO("seed ", seed, "; replay: scripts/soak --seed ", seed);
    INFO(r.scenario);
    CHECK_MESSAGE(r.passed(), r.failure);
    faults += r.faults > 0;
    killed += r.killed > 0;
    broken += r.failed_qps > 0;
    retransmitted += r.retransmits > 0;
    trimmed += r.trimmed > 0;
    dropped += r.dropped > 0;
  }
  if (count < 150) return;
  // The seeds have to be worth it.
  CHECK(faults > count / 2);
  CHECK(retransmitted > count / 2);
  CHECK(killed > count / 20);
  CHECK(dropped > count / 20);
  CHECK(trimmed > count / 40);
  CHECK(broken > 0);
}

TEST_CASE("soak: a seed gives the same run each time") {
  std::uint64_t last = 0;
  for (const std::uint64_t seed : {3, 50, 77}) {
    const SoakResult a = run_soak_seed(seed), b = run_soak_seed(seed);
    CHECK(a.digest == b.digest);
    CHECK(a.events == b.events);
    CHECK(a.packets == b.packets);
    CHECK(a.scenario == b.scenario);
    CHECK(a.digest != last);
    last = a.digest;
  }
}

TEST_CASE("soak: deliberate mistakes are found") {
  CHECK(found(SoakSabotage::none) == "not found");
  CHECK(contains(found(SoakSabotage::flip_bit), "is wrong"));
  CHECK(contains(found(SoakSabotage::write_again), "was written again after the completion"));
  CHECK(contains(found(SoakSabotage::write_outside), "a write outside of all messages"));
  CHECK(contains(found(SoakSabotage::lose_completion), "its completion is missing"));
  CHECK(contains(found(SoakSabotage::repeat_completion), "out of order or repeated"));
  CHECK(contains(found(SoakSabotage::swap_immediate), "received with immediate"));
  CHECK(contains(found(SoakSabotage::keep_packet), "1 packets under way"));
  const std::string stuck = found(SoakSabotage::cut_wires);
  CHECK((contains(stuck, "after faults and posting ended") || contains(stuck, "failed at")));
}

TEST_CASE("soak: a run that goes on for too long is ended") {
  SoakOptions options;
  options.max_events = 1000;
  const SoakResult r = run_soak_seed(3, options);
  CHECK(contains(r.failure, "no end after"));
  CHECK_FALSE(r.after_faults.has_value());
}

TEST_CASE("soak: a packet that is refused over and over holds up no older one") {
  for (const std::uint64_t seed : {951734917016, 971000003252, 972000019833}) {
    const SoakResult r = run_soak_seed(seed);
    CHECK_MESSAGE(r.passed(), r.failure);
    CHECK(r.after_faults.has_value());
  }
}

}  // namespace soak_test
