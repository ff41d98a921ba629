// SPDX-License-Identifier: Apache-2.0
#include "mrc/core/containers.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <utility>

#include "mrc/core/random.hpp"

using mrc::Ring;

TEST_CASE("ring: capacity is exactly what was asked for") {
  for (const std::size_t capacity : {1u, 2u, 3u, 5u, 8u, 1000u}) {
    Ring<int> ring(capacity);
    CHECK(ring.capacity() == capacity);
    for (std::size_t i = 0; i < capacity; ++i) {
      CHECK_FALSE(ring.full());
      REQUIRE(ring.push_back(static_cast<int>(i)));
    }
    CHECK(ring.full());
    CHECK_FALSE(ring.push_back(-1));
    CHECK(ring.size() == capacity);
    CHECK(ring.front() == 0);
    CHECK(ring[capacity - 1] == static_cast<int>(capacity) - 1);
  }
}

TEST_CASE("ring: of capacity 0 is empty and full") {
  Ring<int> ring(0);
  CHECK(ring.empty());
  CHECK(ring.full());
  CHECK_FALSE(ring.push_back(1));
}

TEST_CASE("ring: behaves as a bounded deque") {
  mrc::Random random(7);
  Ring<std::uint64_t> ring(13);
  std::deque<std::uint64_t> model;
  for (int step = 0; step < 20'000; ++step) {
    switch (random.below(6)) {
      case 0:
      case 1:
      case 2: {
        const std::uint64_t value = random.next();
        REQUIRE(ring.push_back(value) == (model.size() < 13));
        if (model.size() < 13) model.push_back(value);
        break;
      }
      case 3: {
        std::uint64_t value = 0;
        REQUIRE(ring.pop(value) == !model.empty());
        if (model.empty()) break;
        REQUIRE(value == model.front());
        model.pop_front();
        break;
      }
      default:
        if (!model.empty()) {
          REQUIRE(ring.front() == model.front());
          ring.pop_front();
          model.pop_front();
        }
    }
    REQUIRE(ring.size() == model.size());
    REQUIRE(ring.empty() == model.empty());
    for (std::size_t i = 0; i < model.size(); ++i) REQUIRE(std::as_const(ring)[i] == model[i]);
  }
}

TEST_CASE("ring: moves take the elements along") {
  Ring<std::unique_ptr<int>> ring(4);
  REQUIRE(ring.push_back(std::make_unique<int>(1)));
  REQUIRE(ring.push_back(std::make_unique<int>(2)));
  Ring<std::unique_ptr<int>> other(std::move(ring));
  CHECK(*other[0] == 1);
  CHECK(*other[1] == 2);
  ring = std::move(other);
  CHECK(ring.size() == 2);
  CHECK(*ring.front() == 1);
}
