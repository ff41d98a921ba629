// SPDX-License-Identifier: Apache-2.0
// The promise that memory does not change behind a completion, with a NIC that places payload:
// random traffic, losses, delays and resets. MRC_TEST_SEEDS sets how many seeds are run; a seed
// repeats its run exactly.
#include "uc_model.hpp"

#include <doctest/doctest.h>

#include <cstdlib>

using namespace mrc;
using namespace mrc::port;
using namespace mrc::port::test;
using namespace std::chrono_literals;

namespace uc_model_test {

std::uint64_t seeds(std::uint64_t usual) {
  const char* text = std::getenv("MRC_TEST_SEEDS");
  return text != nullptr ? std::strtoull(text, nullptr, 10) : usual;
}

/// All complete, in time, and nothing was written afterwards.
void check_run(UcModel& model) {
  const bool done = model.run(10s);
  CAPTURE(model.options().seed);
  CHECK(done);
  CHECK(model.after_completion == 0);
  CHECK(model.wrong == 0);
  CHECK(model.late_writes == 0);
  CHECK_FALSE(model.receiver().broken());
  CHECK(model.receiver().stats().late_writes == 0);
  CHECK(model.receiver().stats().malformed == 0);
  CHECK(model.receiver().stats().joined > 0);
  CHECK(model.unsettled > 0);
}

void check_run(const UcModelOptions& options) {
  UcModel model(options);
  check_run(model);
}

TEST_CASE("UC model: nothing is written behind a completion, and all messages complete") {
  for (std::uint64_t seed = 1; seed <= seeds(8); ++seed)
    for (const bool markers : {true, false})
      check_run({.seed = seed, .markers = markers, .drain = seed % 2 == 0});
}

TEST_CASE("UC model: the same with heavy losses on either network") {
  for (std::uint64_t seed = 1; seed <= seeds(4); ++seed) {
    check_run({.seed = seed, .messages = 300, .uc_loss = 0.5, .ud_loss = 0.02});
    check_run({.seed = seed, .messages = 300, .uc_loss = 0.02, .ud_loss = 0.5});
    check_run({.seed = seed, .messages = 300, .uc_loss = 0.3, .ud_loss = 0.3, .markers = false});
  }
}

TEST_CASE("UC model: the same where packets are mostly sent twice, and paths often stall") {
  for (std::uint64_t seed = 1; seed <= seeds(4); ++seed)
    check_run({.seed = seed, .messages = 500, .spurious = 0.8, .stall = 0.01});
}

TEST_CASE("UC model: the same where paths are reset all the time, with packets on their way") {
  for (std::uint64_t seed = 1; seed <= seeds(2); ++seed) {
    const UcModelOptions options{.seed = seed,
                                 .messages = 5000,
                                 .spurious = 0.3,
                                 .stall = 0.01,
                                 .sender = {.paths = 1},
                                 .receiver = {.paths = 1, .reset_after = 50us}};
    UcModel model(options);
    check_run(model);
    CHECK(model.receiver().stats().resets > 128);  // half of all epochs
  }
}

TEST_CASE("UC model: the same where nothing has room: tables, rings, unsettled packets") {
  for (std::uint64_t seed = 1; seed <= seeds(4); ++seed) {
    UcModelOptions options{.seed = seed, .messages = 500, .spurious = 0.3};
    options.sender = {.paths = 4, .capacity = 64u >> seed % 4 * 2, .protect = seed % 2 * 1ms};
    options.receiver = {.paths = 4, .ring = 8, .waits = 12};
    UcModel model(options);
    check_run(model);
    CHECK(model.barriers > 0);
    CHECK(model.receiver().stats().no_room > 0);
    if (seed % 2 == 1) {
      CHECK(model.sender().stats().refused > 0);
    }
  }
}

TEST_CASE("UC model: the same with little on each path, and no memory of what went where") {
  for (std::uint64_t seed = 1; seed <= seeds(4); ++seed) {
    UcModel model({.seed = seed,
                   .qps = 1,
                   .spurious = 0.3,
                   .stall = 0.02,
                   .markers = seed % 2 == 0,
                   .sender = {.paths = 64, .capacity = 1, .protect = 0ms},
                   .receiver = {.paths = 64}});
    check_run(model);
    CHECK(model.barriers > model.retransmissions / 2);
  }
}

TEST_CASE("UC model: without the rule memory does change behind completions") {
  std::uint64_t changes = 0;
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    UcModel model({.seed = seed, .spurious = 0.3, .obey = false});
    REQUIRE(model.run(10s));
    changes += model.after_completion;
  }
  CHECK(changes > 0);
}

TEST_CASE("UC model: paths that break their promise are found, and late writes counted exactly") {
  const struct { double duplicate, overtaken; } kinds[] = {{0.01, 0}, {0, 0.01}, {0.02, 0.02}};
  std::uint64_t changes = 0;
  for (std::uint64_t seed = 1; seed <= seeds(4); ++seed)
    for (const auto& kind : kinds) {
      CAPTURE(seed);
      CAPTURE(kind.duplicate);
      CAPTURE(kind.overtaken);
      UcModel model({.seed = seed,
                     .messages = 500,
                     .uc_duplicate = kind.duplicate,
                     .uc_overtaken = kind.overtaken});
      REQUIRE(model.run(10s));
      CHECK(model.wrong == 0);
      CHECK(model.receiver().broken());
      CHECK(model.late_writes > 0);
      CHECK(model.receiver().stats().late_writes == model.late_writes);
      CHECK(model.uncounted == 0);  // what changed behind a completion is among them
      changes += model.after_completion;
    }
  CHECK(changes > 0);
}

TEST_CASE("UC model: markers settle packets sooner than resets") {
  Duration mean[2]{};
  for (const bool markers : {false, true}) {  // many paths, little on each
    UcModel model({.qps = 1,
                   .uc_loss = 0.01,
                   .ud_loss = 0.01,
                   .stall = 0,
                   .markers = markers,
                   .sender = {.paths = 64},
                   .receiver = {.paths = 64}});
    REQUIRE(model.run(10s));
    REQUIRE(model.unsettled > 0);
    mean[markers] = model.settling / static_cast<Duration::rep>(model.unsettled);
  }
  CHECK(mean[1] < mean[0] / 10);
}

}  // namespace uc_model_test
