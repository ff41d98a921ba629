// SPDX-License-Identifier: Apache-2.0
// Random programs of all of RC's operations on two engines under faults: completions, their order
// and memory have to be those of a model that executes each request at once and in order.
// MRC_TEST_SEEDS sets how many seeds are run, MRC_TEST_FIRST_SEED the first; a seed repeats its run
// exactly.
#include <doctest/doctest.h>

#include <string>

#include "engine/rc_model/run.hpp"
#include "support/random_faults.hpp"

using namespace mrc;
using namespace mrc::test;
using namespace std::chrono_literals;

namespace rc_model_test {

/// What the packets of a program go through.
enum class Weather { calm, faults, outages, odd_ports };

struct ModelRun {
  std::string failure;  ///< empty: none
  std::uint64_t retransmits = 0, timeouts = 0;
};

ModelRun run_model(std::uint64_t seed, Weather weather, const rc::ProgramOptions& options = {},
                   const Faults* faults = nullptr) {
  Random r(seed * 4 + static_cast<unsigned>(weather));
  EnginePair::Setup setup = random_setup(r);
  setup.rc = true;
  if (weather == Weather::odd_ports) {
    setup.habits.holds = r.chance(0.7);
    setup.habits.places = !setup.habits.holds || r.chance(0.7);
    setup.habits.longest_hold = Duration{r.below(100'000)};
    setup.habits.longest_announce = Duration{r.below(50'000)};
    if (r.chance(0.2)) setup.options.held_copies = 4;
  }
  EnginePair pair(setup, seed);
  const rc::Program program = rc::make_program(options, r);
  rc::ProgramRun run(pair, program, r.next());
  ModelRun out;
  try {
    if (weather != Weather::calm) pair.faults = random_faults(r);
    if (faults != nullptr) pair.faults = *faults;
    bool done = false;
    if (weather == Weather::outages)
      for (unsigned i = 0; i < 30 && !done; ++i) {
        outage(pair, setup, r);
        done = run.run(Duration{r.below(1'500'000)});
      }
    if (!done && weather != Weather::calm) done = run.run(50ms);
    mend(pair, setup);
    rc::expect(done || run.run(2s),
               [&] { return "not done 2 s after all faults have ended\n" + run.text(); });
    run.check();
  } catch (const rc::Mismatch& e) {
    out.failure = e.what();
  }
  for (unsigned side = 0; side < 2; ++side) {
    out.retransmits += pair[side].stats().tx_retransmits;
    out.timeouts += pair[side].stats().timeouts;
  }
  return out;
}

void check_seeds(std::uint64_t usual, Weather weather, const rc::ProgramOptions& options = {}) {
  std::uint64_t retransmits = 0;
  for (std::uint64_t seed = first_seed(); seed < first_seed() + seeds(usual); ++seed) {
    const ModelRun run = run_model(seed, weather, options);
    INFO("seed ", seed, "; replay: MRC_TEST_SEEDS=1 MRC_TEST_FIRST_SEED=", seed);
    CHECK_MESSAGE(run.failure.empty(), run.failure);
    retransmits += run.retransmits;
  }
  if (weather != Weather::calm && seeds(usual) >= usual) CHECK(retransmits > 10 * usual);
}

TEST_CASE("RC model: without faults") {
  check_seeds(100, Weather::calm);
}
TEST_CASE("RC model: seeded faults") {
  check_seeds(200, Weather::faults);
}
TEST_CASE("RC model: seeded outages of ports, planes and paths") {
  check_seeds(100, Weather::outages);
}
TEST_CASE("RC model: ports that read payload late and place it by themselves") {
  check_seeds(100, Weather::odd_ports);
}
TEST_CASE("RC model: wrong requests in both directions") {
  check_seeds(100, Weather::faults,
              {.connections = 3, .ops = 20, .max_size = 4096, .wrong = 1, .both = true});
}
TEST_CASE("RC model: wrong requests in every connection") {
  check_seeds(200, Weather::faults, {.connections = 3, .ops = 20, .max_size = 4096, .wrong = 1});
}

}  // namespace rc_model_test
