// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "nccl/conformance/traffic.hpp"

using namespace nccl_conformance;

namespace {

/// Random traffic in both directions of two ranks.
void exchange(int version, const Plan& plan) {
  Job job(version);
  Connection there(job, 0, 1);
  Connection back(job, 1, 0);
  run(job, {&there, &back}, plan);
}

}  // namespace

TEST_CASE("Nothing is lost where packets are: 1 % on each of four planes") {
  const Environment environment{{"MRC_PLANES", "loopback:4"}, {"MRC_FAULTS", "loss=0.01"}};
  for (const int version : few_versions()) {
    CAPTURE(version);
    exchange(version, {.seed = 21, .groups = scaled(100), .depth = 8, .most_bytes = 60'000});
  }
}

TEST_CASE("Packets that come late, twice or broken do no harm") {
  const Environment environment{
      {"MRC_PLANES", "loopback:4"},
      {"MRC_FAULTS", "reorder=0.05;duplicate=0.02;corrupt=0.01;plane=2,jitter=200us"}};
  for (const int version : few_versions()) {
    CAPTURE(version);
    exchange(version, {.seed = 22, .groups = scaled(100), .depth = 8, .most_bytes = 60'000});
  }
}

TEST_CASE("A plane that goes down and returns is not noticed by traffic") {
  const Environment environment{{"MRC_PLANES", "loopback:4"},
                                {"MRC_FAULTS", "plane=1,down@100ms-400ms"}};
  for (const int version : few_versions()) {
    CAPTURE(version);
    Job job(version);
    Connection there(job, 0, 1);
    Connection back(job, 1, 0);
    std::uint64_t seed = 23;
    for_a_while(std::chrono::milliseconds(600), [&] {
      run(job, {&there, &back}, {.seed = ++seed, .groups = 20, .depth = 8, .most_bytes = 60'000});
      return false;
    });
  }
}
