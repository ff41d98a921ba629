// SPDX-License-Identifier: Apache-2.0
#include "mrc/core/random.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <numeric>
#include <span>

using mrc::Random;

TEST_CASE("random: a seed gives one sequence, other seeds give others") {
  Random a(42), b(42), c(43);
  bool differs = false;
  for (int i = 0; i < 100; ++i) {
    const std::uint64_t x = a.next();
    REQUIRE(x == b.next());
    differs = differs || x != c.next();
  }
  CHECK(differs);
}

TEST_CASE("random: the first numbers of seed 0 never change") {
  // Recorded results: schedules that tests and users keep by seed must mean the same for ever.
  Random r(0);
  CHECK(r.next() == 0x99EC5F36CB75F2B4u);
  CHECK(r.next() == 0xBF6E1F784956452Au);
}

TEST_CASE("random: below is within its bound and even") {
  Random r(5);
  std::array<int, 10> hits{};
  for (int i = 0; i < 100'000; ++i) {
    const std::uint32_t v = r.below(10);
    REQUIRE(v < 10);
    ++hits[v];
  }
  for (const int n : hits) CHECK(std::abs(n - 10'000) < 500);
  CHECK(r.below(1) == 0);
}

TEST_CASE("random: chance") {
  Random r(6);
  int hits = 0;
  for (int i = 0; i < 100'000; ++i) {
    REQUIRE_FALSE(r.chance(0.0));
    REQUIRE(r.chance(1.0));
    hits += r.chance(0.25);
  }
  CHECK(std::abs(hits - 25'000) < 700);
}

TEST_CASE("random: shuffle permutes, and puts everything everywhere") {
  Random r(8);
  std::array<std::array<int, 5>, 5> seen{};
  for (int round = 0; round < 5000; ++round) {
    std::array<int, 5> items{};
    std::iota(items.begin(), items.end(), 0);
    r.shuffle(std::span<int>(items));
    for (std::size_t i = 0; i < 5; ++i) ++seen[i][static_cast<std::size_t>(items[i])];
    std::sort(items.begin(), items.end());
    for (int i = 0; i < 5; ++i) REQUIRE(items[static_cast<std::size_t>(i)] == i);
  }
  for (const auto& place : seen) {
    for (const int n : place) CHECK(std::abs(n - 1000) < 200);
  }
}
