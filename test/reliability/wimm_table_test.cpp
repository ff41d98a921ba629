// SPDX-License-Identifier: Apache-2.0
#include "mrc/reliability/wimm_table.hpp"

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
  CHECK(t.ready(Psn{9}) == nullptr);  // a packet before it misses
  REQUIRE(t.ready(Psn{10}) != nullptr);
  CHECK(t.ready(Psn{10})->immediate == 10);
  CHECK(t.ready(Psn{10})->length == 200);
  t.pop();
  CHECK(t.next() == Rqmsn{1});
  CHECK(t.ready(Psn{19}) == nullptr);
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
  t.pop();
  t.start();
  CHECK(t.next() == Rqmsn{0});
  CHECK(t.ready(Psn{100}) == nullptr);
  CHECK(t.insert(Rqmsn{3}, {}) == Insert::ok);
}

TEST_CASE(
    "wimm table: lengths are measured by the packets, for messages of every kind in between") {
  WimmTable t(2);
  CHECK(t.insert(Rqmsn{1}, {Psn{20}, 11, 5, false}) == Insert::ok);
  t.measure(Psn{0xFFFFF0}, Psn{0xFFFFFD}, 1024);  // a plain write; number 0 is not there yet
  CHECK(t.insert(Rqmsn{0}, {Psn{1}, 10, 100, false}) == Insert::ok);
  t.measure(Psn{0xFFFFFE}, Psn{1}, 1024);
  t.measure(Psn{2}, Psn{2}, 1024);  // a plain write
  t.measure(Psn{3}, Psn{20}, 1024);
  t.measure(Psn{3}, Psn{20}, 1024);  // all are measured
  REQUIRE(t.ready(Psn{20}) != nullptr);
  CHECK(t.ready(Psn{20})->length == 3 * 1024 + 100);
  t.pop();
  REQUIRE(t.ready(Psn{20}) != nullptr);
  CHECK(t.ready(Psn{20})->length == 17 * 1024 + 5);
  t.pop();
  CHECK(t.insert(Rqmsn{2}, {Psn{21}, 12, 7, false}) == Insert::ok);
  t.measure(Psn{21}, Psn{21}, 1024);
  CHECK(t.ready(Psn{21})->length == 7);
}
