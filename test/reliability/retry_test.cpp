// SPDX-License-Identifier: Apache-2.0
#include "mrc/engine/send_window.hpp"

#include <doctest/doctest.h>

#include <vector>

using namespace mrc;
using namespace mrc::reliability;
using namespace std::chrono_literals;

TEST_CASE("retry: the table of T(n)") {
  CHECK(timeout_value(0) == 1'024ns);
  CHECK(timeout_value(1) == 2'048ns);
  CHECK(timeout_value(7) == 131'072ns);
  CHECK(timeout_value(8) == 262'144ns);
  CHECK(timeout_value(14) == 16'777'216ns);
  CHECK(timeout_value(20) == 1'073'741'824ns);
  CHECK(timeout_value(24) == 17'179'869'184ns);
  CHECK(timeout_value(25) == timeout_value(24));
  CHECK(timeout_value(1000) == timeout_value(24));
}

namespace retry_test {

/// The waits of a counter until it is exhausted, in units of T.
std::vector<std::int64_t> waits(unsigned n, unsigned linear, unsigned exponential,
                                std::size_t most = 100) {
  RetryCounter c(n, linear, exponential);
  std::vector<std::int64_t> w;
  do w.push_back(c.timeout(Duration{0}) / timeout_value(n));
  while (c.take() && w.size() < most);
  return w;
}

using Waits = std::vector<std::int64_t>;

TEST_CASE("retry: linear retries wait as long as the first time, exponential ones double") {
  CHECK(waits(8, 0, 0) == Waits{1});
  CHECK(waits(8, 3, 0) == Waits{1, 1, 1, 1});
  CHECK(waits(8, 0, 4) == Waits{1, 2, 4, 8, 16});
  CHECK(waits(8, 2, 3) == Waits{1, 1, 1, 2, 4, 8});
}

TEST_CASE("retry: doubling ends at T(24)") {
  CHECK(waits(22, 0, 5) == Waits{1, 2, 4, 4, 4, 4});
  CHECK(waits(24, 1, 2) == Waits{1, 1, 1, 1});
}

TEST_CASE("retry: 25 exponential retries are for ever") {
  const Waits w = waits(20, 7, kRetryForever, 10'000);
  CHECK(w.size() == 10'000);
  CHECK(w[7] == 1);
  CHECK(w[8] == 2);
  CHECK(w.back() == 16);  // T(24)
  CHECK(waits(20, 7, 24).size() == 1 + 7 + 24);
}

TEST_CASE("retry: progress gives all retries back") {
  RetryCounter c(4, 1, 1);
  CHECK(c.take());
  CHECK(c.take());
  CHECK(c.used() == 2);
  CHECK(c.timeout(Duration{0}) == 2 * timeout_value(4));
  c.reset();
  CHECK(c.used() == 0);
  CHECK(c.timeout(Duration{0}) == timeout_value(4));
  CHECK(c.take());
  CHECK(c.take());
  CHECK_FALSE(c.take());
  CHECK_FALSE(c.take());
}

TEST_CASE("retry: never shorter than the floor, and longer when T is") {
  RetryCounter c(0, 0, 10);
  CHECK(c.timeout(24us) == 24us);
  for (int i = 0; i < 5; ++i) CHECK(c.take());
  CHECK(c.timeout(24us) == 32'768ns);
}

TEST_CASE("round-trip estimate: follows, and its bound covers the variation") {
  RttEstimator e;
  CHECK(e.bound() == Duration{0});
  e.sample(100us);
  CHECK(e.smoothed() == 100us);
  CHECK(e.bound() == 300us);
  for (int i = 0; i < 200; ++i) e.sample(100us);
  CHECK(e.smoothed() == 100us);
  CHECK(e.bound() == 125us);  // a quarter over the latest, whatever the variation
  for (int i = 0; i < 200; ++i) e.sample(i % 2 == 0 ? 50us : 150us);
  CHECK(e.smoothed() > 90us);
  CHECK(e.smoothed() < 110us);
  CHECK(e.bound() > 200us);
  e.sample(2ms);
  CHECK(e.bound() >= 2500us);  // a stall counts at once
}

TEST_CASE("round-trip estimate: the usual and the likely one are not led astray by a stall") {
  RttEstimator e;
  CHECK(e.usual() == Duration{0});
  CHECK(e.likely() == Duration{0});
  e.sample(100us);
  CHECK(e.usual() == 200us);  // four variations would be 200 us more
  CHECK(e.likely() == 200us);
  for (int i = 0; i < 200; ++i) e.sample(100us);
  CHECK(e.usual() < 101us);
  CHECK(e.likely() < 101us);
  e.sample(10ms);
  CHECK(e.smoothed() < 1400us);
  CHECK(e.usual() == 2 * e.smoothed());
  CHECK(e.bound() > 10ms);
  CHECK(e.recent() == 12'500us);
}

TEST_CASE("retry: an answered probe restores the retries, and a missing ACK has its own limit") {
  RetryCounter c(20, 1, 1);  // 1.07 s
  CHECK(c.take());
  CHECK(c.take());
  CHECK_FALSE(c.take_answered());
  c.on_answer();
  CHECK(c.take_answered());
  CHECK_FALSE(c.take_answered());  // since the last call
  for (unsigned i = 0; i < RetryCounter::kMostUnacknowledged; ++i) {
    CHECK(c.take_unacknowledged(Duration{0}));
    CHECK(c.used() == 0);
    CHECK(c.timeout(Duration{0}) == timeout_value(20));
  }
  CHECK_FALSE(c.take_unacknowledged(Duration{0}));
  CHECK(c.answers() == 1);
  c.reset();
  CHECK(c.answers() == 0);
  CHECK(c.take_unacknowledged(Duration{0}));

  RetryCounter quick(0, 7, 10);  // a million expirations take 10 s with a floor of 10 us
  unsigned taken = 0;
  while (quick.take_unacknowledged(10us)) ++taken;
  CHECK(taken == 1'000'000);
  RetryCounter forever(20, 7, kRetryForever);
  for (unsigned i = 0; i < 1000; ++i) CHECK(forever.take_unacknowledged(Duration{0}));
}

TEST_CASE("retry: refusals use retries up, but don't make the timer longer") {
  RetryCounter c(8, 1, 3);
  CHECK(c.take_refused());
  CHECK(c.take_refused());
  CHECK(c.take_refused());
  CHECK(c.used() == 3);
  CHECK(c.expired() == 0);
  CHECK(c.timeout(Duration{0}) == timeout_value(8));
  CHECK(c.take());
  CHECK_FALSE(c.take());
  CHECK_FALSE(c.take_refused());
  RetryCounter forever(8, 0, kRetryForever);
  for (int i = 0; i < 1000; ++i) CHECK(forever.take_refused());
  CHECK(forever.timeout(Duration{0}) == timeout_value(8));
}

TEST_CASE("retry: doubling can end early, and the time until the counters are exhausted") {
  RetryCounter c(12, 1, 10, 14);
  std::vector<std::int64_t> waits;
  do waits.push_back(c.timeout(Duration{0}) / timeout_value(12));
  while (c.take());
  CHECK(waits == Waits{1, 1, 2, 4, 4, 4, 4, 4, 4, 4, 4, 4});
  CHECK(give_up_time({12, 1, 10, 14}, Duration{0}) == (1 + 1 + 2 + 9 * 4) * timeout_value(12));
  CHECK(give_up_time({12, 7, 11}, Duration{0}) == 4102 * timeout_value(12));
  CHECK(give_up_time({0, 2, 0}, 1ms) == 3ms);
  // A limit below T does not shorten T.
  CHECK(RetryCounter(12, 0, 3, 2).timeout(Duration{0}) == timeout_value(12));
}

}  // namespace retry_test
