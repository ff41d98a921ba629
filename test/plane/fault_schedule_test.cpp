// SPDX-License-Identifier: Apache-2.0
#include "mrc/faults/schedule.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <string>

#include "mrc/core/error.hpp"

using namespace mrc;
using namespace mrc::port;
using namespace std::chrono_literals;

TEST_CASE("a schedule has windows of time") {
  const auto s = FaultSchedule::parse("plane=1,down@2s-4s");
  CHECK(s.active_at(0s).empty());
  CHECK(s.active_at(2s - 1ns).empty());
  REQUIRE(s.active_at(2s).size() == 1);
  CHECK(s.active_at(2s)[0].target == FaultTarget{Plane{1}, std::nullopt});
  CHECK(s.active_at(2s)[0].spec.down);
  CHECK(s.active_at(4s - 1ns).size() == 1);
  CHECK(s.active_at(4s).empty());

  CHECK(s.next_change(0s) == 2s);
  CHECK(s.next_change(2s) == 4s);
  CHECK(s.next_change(4s) == Duration::max());
  CHECK(s.port_fault(3s, 1).down);
  CHECK_FALSE(s.port_fault(3s, 0).any());
}

TEST_CASE("all items and units are understood") {
  const auto s = FaultSchedule::parse(
      " loss=0.001 ; plane=0,path=3,blackhole@1s- ;plane=2,delay=1ms,jitter=200us@500ms-2s;"
      "duplicate=0.25,reorder=1,corrupt=1e-3,ecn=0,trim=0.5,trim_last_hop=0.125@0s-1.5s;"
      "plane=31,delay=250ns;");
  CHECK(s.port_fault(10s, 7).loss == 0.001);
  CHECK(s.path_fault(1s, 0, 3).black_hole);
  CHECK(s.path_fault(1h, 0, 3).black_hole);
  CHECK_FALSE(s.path_fault(1s, 0, 2).any());
  CHECK_FALSE(s.path_fault(1s, 1, 3).any());
  CHECK_FALSE(s.port_fault(1s, 0).black_hole);
  CHECK(s.port_fault(500ms, 2).delay == 1ms);
  CHECK(s.port_fault(500ms, 2).jitter == 200us);
  CHECK(s.port_fault(3s, 31).delay == 250ns);
  const FaultSpec early = s.port_fault(0s, 9);
  CHECK(early.duplicate == 0.25);
  CHECK(early.reorder == 1);
  CHECK(early.corrupt == 1e-3);
  CHECK(early.trim == 0.5);
  CHECK(early.trim_last_hop == 0.125);
  CHECK(s.port_fault(1500ms, 9) == s.port_fault(10s, 9));
  CHECK(s.next_change(600ms) == 1s);
  CHECK(s.next_change(1s) == 1500ms);
}

TEST_CASE("entries that overlap add up") {
  const auto s = FaultSchedule::parse("loss=0.5;loss=0.5,delay=1ms;plane=3,delay=2ms,down");
  CHECK(s.active_at(0s).size() == 2);  // the two without a target are one
  CHECK(s.port_fault(0s, 0).loss == doctest::Approx(0.75));
  CHECK(s.port_fault(0s, 0).delay == 1ms);
  CHECK(s.port_fault(0s, 3).delay == 3ms);
  CHECK(s.port_fault(0s, 3).down);
}

TEST_CASE("no text and rates of 0 are no faults") {
  CHECK(FaultSchedule::parse("").empty());
  CHECK(FaultSchedule::parse(" ; ;").empty());
  CHECK_FALSE(FaultSchedule::parse("loss=0").port_fault(0s, 0).any());
  CHECK(FaultSchedule::parse("").next_change(0s) == Duration::max());
}

TEST_CASE("errors name the item, what is wrong and what is allowed") {
  struct Case {
    const char* text;
    const char* item;
    const char* why;
  };
  const Case cases[] = {
      {"plane=1,loss=2", "'loss=2'", "from 0 to 1"},
      {"loss=-0.1", "'loss=-0.1'", "from 0 to 1"},
      {"loss=nan", "'loss=nan'", "from 0 to 1"},
      {"loss=0.1%", "'loss=0.1%'", "from 0 to 1"},
      {"loss=", "'loss='", "from 0 to 1"},
      {"loss", "'loss'", "allowed are"},
      {"down=1", "'down=1'", "allowed are"},
      {"lose=0.1", "'lose=0.1'", "allowed are plane=N"},
      {"loss=0.1,,down", "''", "allowed are"},
      {"plane=32,down", "'plane=32'", "from 0 to 31"},
      {"plane=-1,down", "'plane=-1'", "from 0 to 31"},
      {"path=65536,down", "'path=65536'", "from 0 to 65535"},
      {"delay=5", "'delay=5'", "ns, us, ms or s"},
      {"delay=5m", "'delay=5m'", "ns, us, ms or s"},
      {"delay=-5ms", "'delay=-5ms'", "ns, us, ms or s"},
      {"delay=inf s", "'delay=inf s'", "ns, us, ms or s"},
      {"delay=61s", "'delay=61s'", "up to 60 s"},
      {"down@2s", "'2s'", "FROM-TO"},
      {"down@4s-2s", "'4s-2s'", "end after it starts"},
      {"down@2s-2s", "'2s-2s'", "end after it starts"},
      {"down@-2s", "'-2s'", "ns, us, ms or s"},
      {"down@1s-2s@3s-4s", "'1s-2s@3s-4s'", "a time must be"},
      {"plane=1", "'plane=1'", "not what goes wrong"},
      {"plane=1@1s-2s", "'plane=1'", "not what goes wrong"},
  };
  for (const Case& c : cases) {
    CAPTURE(c.text);
    CHECK_THROWS_WITH_AS((void)FaultSchedule::parse(c.text), doctest::Contains(c.item), Error);
    CHECK_THROWS_WITH_AS((void)FaultSchedule::parse(c.text), doctest::Contains(c.why), Error);
  }
}
