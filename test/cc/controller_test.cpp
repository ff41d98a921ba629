// SPDX-License-Identifier: Apache-2.0
#include "mrc/cc/controller.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <limits>

using namespace mrc::cc;
using namespace std::chrono_literals;
using mrc::Time;

namespace controller_test {

Options options(Algorithm a, std::uint64_t window = 0) {
  Options o;
  o.algorithm = a;
  o.fixed_window = window;
  return o;
}

SackSample bad_news(std::uint32_t newly) {
  SackSample s;
  s.newly = newly;
  s.rtt = 500us;
  s.has_rtt = true;
  s.ecn = true;
  s.rcv_cwnd_pen = 127;
  return s;
}

TEST_CASE("controller: names of the algorithms") {
  for (const Algorithm a : {Algorithm::nscc, Algorithm::fixed, Algorithm::none}) {
    CHECK(parse_algorithm(to_string(a)) == a);
    CHECK(Controller(options(a)).algorithm() == a);
  }
  CHECK(parse_algorithm("nscc") == Algorithm::nscc);
  CHECK_FALSE(parse_algorithm("cubic").has_value());
  CHECK_FALSE(parse_algorithm("").has_value());
}

TEST_CASE("controller: every algorithm keeps the account and the base round trip") {
  for (const Algorithm a : {Algorithm::nscc, Algorithm::fixed, Algorithm::none}) {
    CAPTURE(to_string(a));
    Controller cc(options(a));
    for (int i = 0; i < 7; ++i) cc.on_send(4180, Time{});
    cc.on_nack(4180, true, Time{});
    cc.on_loss(4180, Time{});
    cc.on_timeout(4180, 1, Time{});
    cc.on_forget(4180);
    CHECK(cc.inflight() == 3 * 4180);
    SackSample s;
    s.newly = 4352;
    s.rtt = 7us;
    cc.on_sack(s);
    CHECK(cc.inflight() == 3 * 4180 - 4352);
    CHECK(cc.base_rtt() == 12us);
    s.has_rtt = true;
    cc.on_sack(s);
    CHECK(cc.base_rtt() == 7us);
    CHECK(cc.target_qdelay() == 12us);
    CHECK(cc.inflight() == 3 * 4180 - 2 * 4352);
    for (int i = 0; i < 10; ++i) cc.on_forget(std::numeric_limits<std::uint32_t>::max());
    CHECK(cc.inflight() == Inflight::kLowest);
  }
}

TEST_CASE("controller: nscc takes a hint and reacts to congestion, the others don't") {
  Controller nscc(options(Algorithm::nscc));
  Controller fixed(options(Algorithm::fixed, 100'000));
  Controller none(options(Algorithm::none));
  for (Controller* cc : {&nscc, &fixed, &none}) cc->on_hint(5);
  CHECK(nscc.window() == 45'000);
  for (Controller* cc : {&nscc, &fixed, &none}) {
    cc->on_send(90'000, Time{});
    cc->on_sack(bad_news(4096));
    cc->on_timeout(4096, 2, Time{});
  }
  CHECK(nscc.window() == 4096);
  CHECK(fixed.window() == 100'000);
  CHECK(none.window() == std::numeric_limits<std::uint64_t>::max());
  REQUIRE(nscc.nscc() != nullptr);
  CHECK(nscc.nscc()->window() == 4096);
  CHECK(fixed.nscc() == nullptr);
}

TEST_CASE("controller: the fixed window limits") {
  Controller cc(options(Algorithm::fixed, 20'000));
  CHECK(cc.window() == 20'000);
  CHECK(cc.can_send(100'000));
  cc.on_send(12'000, Time{});
  CHECK_FALSE(cc.wants_ack());
  CHECK(cc.can_send(8000));
  CHECK_FALSE(cc.can_send(8001));
  cc.on_send(4000, Time{});
  CHECK(cc.wants_ack());
  CHECK(Controller(options(Algorithm::fixed, 10'000)).wants_ack());
  CHECK(Controller(options(Algorithm::fixed)).window() == 225'000);

  Options below = options(Algorithm::fixed, 20'000);
  below.nscc.send_while_below = true;
  Controller other(below);
  other.on_send(19'999, Time{});
  CHECK(other.can_send(4096));
  other.on_send(1, Time{});
  CHECK_FALSE(other.can_send(1));
}

TEST_CASE("controller: none never limits") {
  Controller cc(options(Algorithm::none));
  for (int i = 0; i < 1000; ++i) cc.on_send(1u << 31, Time{});
  CHECK(cc.can_send(1u << 31));
  CHECK_FALSE(cc.wants_ack());
}

TEST_CASE("controller: bad options are refused whatever the algorithm") {
  for (const Algorithm a : {Algorithm::nscc, Algorithm::fixed, Algorithm::none}) {
    Options o = options(a);
    o.nscc.link_speed = 1;
    CHECK_THROWS_AS(Controller{o}, mrc::Error);
  }
  CHECK_THROWS_AS(Controller(options(Algorithm::fixed, 100)), mrc::Error);
}

TEST_CASE("controller: stays small") {
  MESSAGE("sizeof(Controller) = " << sizeof(Controller));
  CHECK(sizeof(Controller) <= 384);
}

}  // namespace controller_test
