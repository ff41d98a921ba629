// SPDX-License-Identifier: Apache-2.0
#include "mrc/engine/receive_window.hpp"

#include <doctest/doctest.h>

#include <vector>

#include "mrc/core/random.hpp"

using namespace mrc;
using namespace mrc::reliability;
using Insert = WimmTable::Insert;

TEST_CASE("wimm table: delivery in RQMSN order, each when everything before it is in") {
  WimmTable t(4);
  t.start();
  CHECK(t.insert(Rqmsn{1}, {Psn{20}, 11, 100, false}) == Insert::ok);
  CHECK(t.ready(Psn{100}) == nullptr);  // number 0 has not arrived
  CHECK(t.insert(Rqmsn{0}, {Psn{10}, 10, 200, false}) == Insert::ok);
  CHECK(t.ready(Psn{10}) == nullptr);  // a packet before it misses
  CHECK(t.pass(Psn{10}, Psn{10}, 1024));
  CHECK(t.ready(Psn{9}) == nullptr);  // the caller does not want it yet
  REQUIRE(t.ready(Psn{10}) != nullptr);
  CHECK(t.ready(Psn{10})->immediate == 10);
  CHECK(t.ready(Psn{10})->length == 200);
  t.pop();
  CHECK(t.next() == Rqmsn{1});
  CHECK(t.ready(Psn{25}) == nullptr);
  CHECK(t.pass(Psn{20}, Psn{20}, 1024));
  REQUIRE(t.ready(Psn{25}) != nullptr);
  CHECK(t.ready(Psn{25})->immediate == 11);
}

TEST_CASE("wimm table: more than the limit is an overflow, a number twice a conflict") {
  WimmTable t(2);
  t.start();
  CHECK(t.insert(Rqmsn{2}, {}) == Insert::overflow);
  CHECK(t.insert(Rqmsn{1}, {}) == Insert::ok);
  CHECK(t.insert(Rqmsn{1}, {}) == Insert::conflict);
  CHECK(t.insert(Rqmsn{0xFFFF}, {}) == Insert::conflict);  // long delivered
  CHECK(t.insert(Rqmsn{0}, {}) == Insert::ok);
  (void)t.pass(Psn{}, Psn{}, 1024);
  t.pop();
  CHECK(t.insert(Rqmsn{0}, {}) == Insert::conflict);
  CHECK(t.insert(Rqmsn{2}, {}) == Insert::ok);  // there is room again
}

TEST_CASE("wimm table: numbers and PSNs wrap; random order, every limit") {
  for (const std::uint32_t limit : {1u, 3u, 32u, 100u}) {
    WimmTable t(limit);
    t.start();
    Random random(limit);
    std::uint32_t inserted = 0, delivered = 0;
    const auto psn_of = [](std::uint32_t n) { return Psn{0xFFF000 + 2 * n}; };
    while (delivered < 150'000) {
      std::vector<std::uint32_t> batch;
      const std::uint32_t n = 1 + random.below(limit);
      for (std::uint32_t i = 0; i < n; ++i) batch.push_back(inserted++);
      random.shuffle(std::span(batch));
      for (const std::uint32_t i : batch)
        REQUIRE(t.insert(Rqmsn{i}, {psn_of(i), i, 0, false}) == Insert::ok);
      REQUIRE(t.ready(psn_of(inserted)) == nullptr);
      for (std::uint32_t i = delivered; i < inserted; ++i) {
        REQUIRE(t.pass(psn_of(i) - 1, psn_of(i) - 1, 1024));  // a plain write
        REQUIRE(t.pass(psn_of(i), psn_of(i), 1024));
      }
      REQUIRE(t.ready(psn_of(delivered) - 1) == nullptr);
      while (const WimmEntry* e = t.ready(psn_of(inserted))) {
        REQUIRE(e->immediate == delivered++);
        t.pop();
      }
      REQUIRE(delivered == inserted);
    }
  }
}

TEST_CASE("wimm table: starting again forgets what waits") {
  WimmTable t(8);
  t.start();
  CHECK(t.insert(Rqmsn{0}, {Psn{1}, 1, 1, false}) == Insert::ok);
  CHECK(t.insert(Rqmsn{3}, {Psn{9}, 1, 1, false}) == Insert::ok);
  CHECK(t.pass(Psn{1}, Psn{1}, 1024));
  t.pop();
  CHECK(t.insert(Rqmsn{1}, {Psn{2}, 1, 1, false}) == Insert::ok);
  CHECK(t.pass(Psn{2}, Psn{2}, 1024));
  t.start();
  CHECK(t.next() == Rqmsn{0});
  CHECK(t.ready(Psn{100}) == nullptr);
  CHECK(t.insert(Rqmsn{3}, {}) == Insert::ok);
}

TEST_CASE(
    "wimm table: lengths are measured by the packets, for messages of every kind in between") {
  WimmTable t(2);
  CHECK(t.insert(Rqmsn{1}, {Psn{20}, 11, 5, false}) == Insert::ok);
  CHECK(t.pass(Psn{0xFFFFF0}, Psn{0xFFFFFD}, 1024));  // a plain write; number 0 is not there yet
  CHECK(t.insert(Rqmsn{0}, {Psn{1}, 10, 100, false}) == Insert::ok);
  CHECK(t.pass(Psn{0xFFFFFE}, Psn{1}, 1024));
  CHECK(t.pass(Psn{2}, Psn{2}, 1024));  // a plain write
  CHECK(t.pass(Psn{3}, Psn{20}, 1024));
  REQUIRE(t.ready(Psn{20}) != nullptr);
  CHECK(t.ready(Psn{20})->length == 3 * 1024 + 100);
  t.pop();
  REQUIRE(t.ready(Psn{20}) != nullptr);
  CHECK(t.ready(Psn{20})->length == 17 * 1024 + 5);
  t.pop();
  CHECK(t.insert(Rqmsn{2}, {Psn{21}, 12, 7, false}) == Insert::ok);
  CHECK(t.pass(Psn{21}, Psn{21}, 1024));
  CHECK(t.ready(Psn{21})->length == 7);
}

TEST_CASE("wimm table: a message that is passed when it is not the next one is noticed at once") {
  const auto at = [](std::uint32_t psn) { return WimmEntry{Psn{psn}, 0, 8}; };
  const auto pass = [](WimmTable& t, std::uint32_t psn) {
    return t.pass(Psn{psn}, Psn{psn}, 1024);
  };
  for (const std::uint32_t limit : {2u, 70u}) {
    {
      WimmTable t(limit);
      CHECK(t.insert(Rqmsn{1}, at(5)) == Insert::ok);
      CHECK(pass(t, 4));
      CHECK_FALSE(pass(t, 5));  // there was no number 0
      CHECK(t.ready(Psn{5}) == nullptr);
    }
    {
      WimmTable t(limit);
      CHECK(t.insert(Rqmsn{0}, at(4)) == Insert::ok);
      CHECK(pass(t, 4));
      t.pop();
      CHECK(t.insert(Rqmsn{2}, at(7)) == Insert::ok);  // wraps around in the smaller table
      CHECK(pass(t, 6));
      CHECK_FALSE(pass(t, 7));
    }
    {
      WimmTable t(limit);
      CHECK(t.insert(Rqmsn{1}, at(5)) == Insert::ok);  // numbers in another order than PSNs
      CHECK(t.insert(Rqmsn{0}, at(6)) == Insert::ok);
      CHECK(pass(t, 5));
      CHECK_FALSE(pass(t, 6));
      REQUIRE(t.ready(Psn{6}) != nullptr);
      t.pop();
      CHECK(t.ready(Psn{6}) == nullptr);
    }
  }
}

TEST_CASE("wimm table: in any order of arrival the first message behind a gap is objected to") {
  struct Message {
    bool numbered, arrived;
    std::uint32_t number;
  };
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    const std::uint32_t limit = 2 + random.below(40), gap = random.below(60);
    std::vector<Message> messages;  // the i-th is one packet, PSN i
    for (std::uint32_t number = 0; messages.size() < 150;) {
      const bool numbered = random.chance(0.6);
      number += numbered && number == gap;
      messages.push_back({numbered, false, number});
      number += numbered;
    }
    WimmTable t(limit);
    std::uint32_t passed = 0;
    bool objected = false;
    while (!objected) {
      const std::uint32_t i = passed + random.below(12);
      Message& m = messages.at(i);
      if (m.arrived || (m.numbered && m.number - t.next().value() >= limit)) {
        while (t.ready(Psn{passed} - 1) != nullptr) t.pop();
        continue;
      }
      m.arrived = true;
      if (m.numbered) REQUIRE(t.insert(Rqmsn{m.number}, WimmEntry{Psn{i}}) == Insert::ok);
      for (; messages[passed].arrived && !objected; ++passed) {
        objected = messages[passed].numbered && messages[passed].number > gap;
        REQUIRE(t.pass(Psn{passed}, Psn{passed}, 1024) == !objected);
      }
    }
  }
}
