// SPDX-License-Identifier: Apache-2.0
#include "mrc/core/containers.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <vector>

#include "mrc/core/random.hpp"
#include "mrc/core/types.hpp"

using mrc::CircularBitmap;

TEST_CASE("circular bitmap: rounds its size up") {
  CHECK(CircularBitmap(0).size() == 64);
  CHECK(CircularBitmap(65).size() == 128);
  CHECK(CircularBitmap(32'640).size() == 32'768);
}

TEST_CASE("circular bitmap: a PSN window over the 24-bit wrap") {
  CircularBitmap map(1024);
  const mrc::Psn base{0xFFFFF0};
  for (int i = 0; i < 100; i += 3) map.set((base + i).value());
  CHECK(map.test((base + 99).value()));
  CHECK_FALSE(map.test((base + 98).value()));
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
          map.clear_range(pos, count);
          for (std::size_t i = 0; i < n; ++i) model[(pos + i) % size] = false;
          break;
        default:  // so that long runs of set bits arise
          for (std::size_t i = 0; i < n / 2; ++i) {
            map.set(pos + i);
            model[(pos + i) % size] = true;
          }
      }
      std::size_t set = 0, clear = 0;
      while (set < n && !at(pos + set)) ++set;
      while (clear < n && at(pos + clear)) ++clear;
      std::uint64_t word = 0;
      for (std::size_t i = 0; i < 64; ++i) word |= std::uint64_t{at(pos + i)} << i;
      REQUIRE(map.test(pos) == at(pos));
      REQUIRE(map.find_next_set(pos, count) == set);
      REQUIRE(map.find_next_clear(pos, count) == clear);
      REQUIRE(map.extract(pos) == word);
    }
    map.clear_all();
    CHECK(map.find_next_set(0, size) == size);
  }
}
