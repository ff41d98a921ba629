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
    CHECK(ring.push_slot() == nullptr);
    CHECK(ring.size() == capacity);
    CHECK(ring.front() == 0);
    CHECK(ring.back() == static_cast<int>(capacity) - 1);
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
    switch (random.below(8)) {
      case 0:
      case 1:
      case 2: {
        const std::uint64_t value = random.next();
        REQUIRE(ring.push_back(value) == (model.size() < 13));
        if (model.size() < 13) model.push_back(value);
        break;
      }
      case 3:
        if (auto* slot = ring.push_slot()) {
          *slot = static_cast<std::uint64_t>(step);
          model.push_back(static_cast<std::uint64_t>(step));
        } else {
          REQUIRE(model.size() == 13);
        }
        break;
      case 4:
        if (!model.empty()) {
          ring.pop_back();
          model.pop_back();
        }
        break;
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
    if (!model.empty()) REQUIRE(ring.back() == model.back());
  }
  ring.clear();
  CHECK(ring.empty());
}

TEST_CASE("ring: moves take the elements along and leave an empty ring") {
  Ring<std::unique_ptr<int>> ring(4);
  REQUIRE(ring.push_back(std::make_unique<int>(1)));
  REQUIRE(ring.push_back(std::make_unique<int>(2)));
  Ring<std::unique_ptr<int>> other(std::move(ring));
  CHECK(*other[0] == 1);
  CHECK(*other[1] == 2);
  CHECK(ring.empty());  // NOLINT(bugprone-use-after-move)
  CHECK_FALSE(ring.push_back(nullptr));
  ring = std::move(other);
  CHECK(ring.size() == 2);
  CHECK(*ring.front() == 1);
}
