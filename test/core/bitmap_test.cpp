// SPDX-License-Identifier: Apache-2.0
#include "mrc/core/containers.hpp"

#include <doctest/doctest.h>

#include <array>
#include <cstdint>
#include <vector>

#include "mrc/core/random.hpp"
#include "mrc/core/types.hpp"

using mrc::Bitmap;
using mrc::CircularBitmap;

TEST_CASE("bitmap: agrees with a vector of flags") {
  for (const std::size_t bits : {1u, 63u, 64u, 65u, 200u}) {
    mrc::Random random(bits);
    Bitmap map(bits);
    std::vector<bool> model(bits);
    CHECK(map.size() == bits);
    CHECK(map.find_first_set() == bits);
    CHECK(map.find_first_clear() == 0);
    for (int step = 0; step < 2000; ++step) {
      const std::size_t i = random.below(static_cast<std::uint32_t>(bits));
      const bool value = random.chance(step < 1000 ? 0.9 : 0.1);
      value ? map.set(i) : map.clear(i);
      model[i] = value;
      REQUIRE(map.test(i) == value);
      std::size_t set = i, clear = i, count = 0;
      while (set < bits && !model[set]) ++set;
      while (clear < bits && model[clear]) ++clear;
      for (const bool bit : model) count += bit;
      REQUIRE(map.find_first_set(i) == set);
      REQUIRE(map.find_first_clear(i) == clear);
      REQUIRE(map.count() == count);
    }
    CHECK(map.find_first_set(bits) == bits);
    CHECK(map.find_first_clear(bits + 100) == bits);
    map.clear_all();
    CHECK(map.count() == 0);
  }
}

TEST_CASE("bitmap: over the caller's memory") {
  std::array<std::uint64_t, 2> storage{0, 1};
  Bitmap map(storage, 100);
  CHECK(map.find_first_set() == 64);
  map.set(3);
  CHECK(storage[0] == 8);
}

TEST_CASE("circular bitmap: rounds its size up") {
  CHECK(CircularBitmap(0).size() == 64);
  CHECK(CircularBitmap(65).size() == 128);
  CHECK(CircularBitmap(32'640).size() == 32'768);
}

TEST_CASE("circular bitmap: a PSN window over the 24-bit wrap") {
  CircularBitmap map(1024);
  const mrc::Psn base{0xFFFFF0};
  for (int i = 0; i < 100; i += 3) map.set((base + i).value());
  CHECK(map.count() == 34);
  CHECK(map.test((base + 99).value()));
  CHECK_FALSE(map.test((base + 98).value()));
  CHECK(map.count_range(base.value(), 100) == 34);
  CHECK(map.extract(base.value()) == 0x9249249249249249u);
  CHECK(map.find_next_clear(base.value(), 1024) == 1);
  CHECK(map.find_next_set((base + 1).value(), 1024) == 2);
}

TEST_CASE("circular bitmap: agrees with a vector of flags") {
  for (const std::size_t size : {64u, 128u, 512u}) {
    mrc::Random random(size);
    CircularBitmap map(size);
    std::vector<bool> model(size);
    const auto at = [&](std::size_t pos) { return static_cast<bool>(model[pos % size]); };
    for (int step = 0; step < 4000; ++step) {
      // Positions far beyond the size, as PSNs are; counts beyond it are cut.
      const std::size_t pos = random.next() >> random.below(64);
      const std::size_t count = random.below(static_cast<std::uint32_t>(size + size / 4));
      const std::size_t n = std::min(count, size);
      switch (random.below(6)) {
        case 0:
          map.set(pos);
          model[pos % size] = true;
          break;
        case 1:
          map.clear(pos);
          model[pos % size] = false;
          break;
        case 2:
          REQUIRE(map.test_and_set(pos) == at(pos));
          model[pos % size] = true;
          break;
        case 3:
          map.clear_range(pos, count);
          for (std::size_t i = 0; i < n; ++i) model[(pos + i) % size] = false;
          break;
        case 4:
          if (random.chance(0.5)) break;
          map.set_range(pos, count);
          for (std::size_t i = 0; i < n; ++i) model[(pos + i) % size] = true;
          break;
        default:
          break;
      }
      std::size_t set = 0, clear = 0, in_range = 0;
      while (set < n && !at(pos + set)) ++set;
      while (clear < n && at(pos + clear)) ++clear;
      for (std::size_t i = 0; i < n; ++i) in_range += at(pos + i);
      std::uint64_t word = 0;
      for (std::size_t i = 0; i < 64; ++i) word |= std::uint64_t{at(pos + i)} << i;
      REQUIRE(map.test(pos) == at(pos));
      REQUIRE(map.find_next_set(pos, count) == set);
      REQUIRE(map.find_next_clear(pos, count) == clear);
      REQUIRE(map.count_range(pos, count) == in_range);
      REQUIRE(map.extract(pos) == word);
    }
    map.clear_all();
    CHECK(map.count() == 0);
  }
}
