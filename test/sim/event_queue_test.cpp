// SPDX-License-Identifier: Apache-2.0
#include "mrc/sim/event_queue.hpp"

#include <doctest/doctest.h>

#include <map>

#include "mrc/core/random.hpp"

using namespace mrc;
using namespace mrc::sim;

TEST_CASE("event queue: in order of time, then of posting, near and far, against a model") {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    INFO("seed ", seed);
    Random r(seed);
    EventQueue q;
    std::multimap<std::int64_t, std::uint32_t> model;  // keeps the order of insertion
    std::uint32_t number = 0;
    std::int64_t now = 0;
    for (int step = 0; step < 20'000; ++step) {
      const bool post = model.empty() || r.chance(step % 2000 < 1000 ? 0.7 : 0.3);
      if (post) {
        // Distances on both sides of the wheel's span, many of them equal.
        const std::uint32_t kind = r.below(4);
        const std::int64_t distance = kind == 0   ? r.below(3)
                                      : kind == 1 ? 8190 + r.below(4)
                                      : kind == 2 ? r.below(20'000)
                                                  : r.below(3'000'000);
        q.post(Time{Duration{now + distance}}, EventKind::call, number, number ^ 7);
        model.emplace(now + distance, number++);
      } else {
        const auto first = model.begin();
        REQUIRE(q.next() == Time{Duration{first->first}});
        const Event e = *q.pop();
        REQUIRE(e.when == Time{Duration{first->first}});
        REQUIRE(e.target == first->second);
        REQUIRE(e.argument == (first->second ^ 7));
        now = first->first;
        CHECK(q.now() == e.when);
        model.erase(first);
      }
      REQUIRE(q.size() == model.size());
    }
  }
}

TEST_CASE("event queue: time can pass without events, and what was far comes near in order") {
  EventQueue q;
  CHECK(q.next() == kNever);
  q.post(Time{Duration{10'000}}, EventKind::call, 1);
  q.pass_to(Time{Duration{9'000}});
  q.post(Time{Duration{10'000}}, EventKind::call, 2);
  CHECK(q.pop()->target == 1);
  CHECK(q.pop()->target == 2);
  CHECK(q.empty());
  q.pass_to(Time{Duration{5'000}});  // never back
  CHECK(q.now() == Time{Duration{10'000}});
}
