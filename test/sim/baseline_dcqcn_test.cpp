// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cstdint>

#include "mrc/core/types.hpp"
#include "mrc/sim/baseline/dcqcn.hpp"

using namespace mrc;
using namespace mrc::sim::baseline;

namespace baseline_dcqcn_test {

constexpr std::uint64_t kMega = 1'000'000, kGiga = 1'000'000'000;

constexpr Time at(double us) {
  return Time{Duration{static_cast<std::int64_t>(us * 1000)}};
}

/// The network of the paper.
DcqcnOptions paper() {
  return {.line_rate = 40 * kGiga};
}

TEST_CASE("dcqcn: a flow starts at line rate, and the first CNP halves it") {
  DcqcnReactionPoint rp(paper());
  CHECK(rp.rate() == 40 * kGiga);
  CHECK_FALSE(rp.limited());
  CHECK(rp.next_deadline() == kNever);
  CHECK(rp.alpha(at(1000)) == 1.0);
  rp.on_cnp(at(1000));
  CHECK(rp.rate() == 20 * kGiga);
  CHECK(rp.target_rate() == 40 * kGiga);
  CHECK(rp.next_deadline() == at(1055));
  CHECK(rp.alpha(at(1000)) == 1.0);  // (1 - g) * 1 + g
}

TEST_CASE("dcqcn: alpha decays by 1/256 per period without a CNP, and cuts get smaller with it") {
  DcqcnReactionPoint rp(paper());
  rp.on_cnp(at(0));
  CHECK(rp.alpha(at(54.9)) == 1.0);
  CHECK(rp.alpha(at(55)) == doctest::Approx(255.0 / 256).epsilon(1e-8));
  CHECK(rp.alpha(at(110)) == doctest::Approx(255.0 * 255 / 65536).epsilon(1e-8));
  // 256 periods: (1 - 1/256)^256 = 0.3671.
  CHECK(rp.alpha(at(256 * 55)) == doctest::Approx(0.3671598).epsilon(1e-6));
  rp.on_cnp(at(256 * 55));
  CHECK(rp.target_rate() == 40 * kGiga);  // long since back, although nobody asked
  CHECK(static_cast<double>(rp.rate()) ==
        doctest::Approx(40e9 * (1 - 0.3671598 / 2)).epsilon(1e-6));
  CHECK(rp.alpha(at(256 * 55)) == doctest::Approx(0.3671598 * 255 / 256 + 1.0 / 256).epsilon(1e-6));
  DcqcnReactionPoint late(paper());  // the same when nobody asks in between
  late.on_cnp(at(0));
  late.on_cnp(at(256 * 55));
  CHECK(late.rate() == rp.rate());
  CHECK(rp.alpha(at(1e9)) == 0.0);  // a long silence ends, in time and in steps
}

TEST_CASE("dcqcn: recovery halves the distance five times, then the target rises") {
  DcqcnReactionPoint rp(paper());
  rp.on_cnp(at(0));
  rp.on_cnp(at(50));
  CHECK(rp.rate() == 10 * kGiga);
  CHECK(rp.target_rate() == 20 * kGiga);
  const std::uint64_t expected[] = {15'000, 17'500, 18'750, 19'375};
  for (int i = 0; i < 4; ++i) {
    rp.advance(at(50 + 55 * (i + 1) - 0.1));
    if (i > 0) CHECK(rp.rate() == expected[i - 1] * kMega);
    CHECK(rp.next_deadline() == at(50 + 55 * (i + 1)));
    rp.advance(at(50 + 55 * (i + 1)));
    CHECK(rp.rate() == expected[i] * kMega);
    CHECK(rp.target_rate() == 20 * kGiga);
  }
  rp.advance(at(50 + 55 * 5));
  CHECK(rp.rate() == 19'687'500'000);
  CHECK(rp.target_rate() == 20 * kGiga);
  rp.advance(at(50 + 55 * 6));  // additive increase: 40 Mb/s
  CHECK(rp.target_rate() == 20'040 * kMega);
  CHECK(rp.rate() == 19'863'750'000);
  rp.on_cnp(at(400));  // and all over
  CHECK(rp.target_rate() == 19'863'750'000);
  rp.advance(at(400 + 55 * 5));
  CHECK(rp.target_rate() == 19'863'750'000);
}

TEST_CASE("dcqcn: the byte counter counts too, and both together make the increase hyper") {
  DcqcnOptions options = paper();
  options.byte_counter = 1000;
  DcqcnReactionPoint rp(options);
  rp.on_send(5000, at(0));  // nothing to count for at line rate
  CHECK(rp.rate() == 40 * kGiga);
  rp.on_cnp(at(0));
  rp.on_cnp(at(0));
  rp.on_send(999, at(1));
  CHECK(rp.rate() == 10 * kGiga);
  rp.on_send(1, at(1));
  CHECK(rp.rate() == 15 * kGiga);
  rp.on_send(4000, at(2));  // several at once: five in all
  CHECK(rp.rate() == 19'687'500'000);
  rp.on_send(1000, at(3));
  CHECK(rp.target_rate() == 20'040 * kMega);
  rp.advance(at(55 * 5));  // timer 1 .. 5, byte counter 6: additive
  CHECK(rp.target_rate() == 20'240 * kMega);
  rp.advance(at(55 * 6));  // both 6: hyper, first step
  CHECK(rp.target_rate() == 20'640 * kMega);
  rp.on_send(1000, at(55 * 7));  // 7 and 6: still the first; 7 and 7: second
  CHECK(rp.target_rate() == 21'840 * kMega);
  rp.on_send(999, at(55 * 7));
  rp.on_cnp(at(55 * 7));  // all counts start anew
  const std::uint64_t cut = rp.rate();
  rp.on_send(999, at(55 * 7));
  CHECK(rp.rate() == cut);
  rp.on_send(1, at(55 * 7));
  CHECK(rp.rate() == (cut + rp.target_rate()) / 2);
}

TEST_CASE("dcqcn: the rate stays between the least rate and the line, where the limiter ends") {
  DcqcnReactionPoint rp(paper());
  for (int i = 0; i < 100; ++i) rp.on_cnp(at(i));
  CHECK(rp.rate() == 40 * kMega);
  Time now = at(100);
  unsigned steps = 0;
  std::uint64_t before = rp.rate();
  while (rp.next_deadline() != kNever) {
    now = rp.next_deadline();
    rp.advance(now);
    REQUIRE(rp.rate() >= before);
    REQUIRE(rp.rate() <= 40 * kGiga);
    before = rp.rate();
    REQUIRE(++steps < 2000);
  }
  CHECK(rp.rate() == 40 * kGiga);
  CHECK_FALSE(rp.limited());
  CHECK(steps > 900);  // by steps of 40 Mb/s, since no bytes were sent
}

TEST_CASE("dcqcn: bad options are refused") {
  const DcqcnOptions bad[] = {{.line_rate = 0},
                              {.line_rate = std::uint64_t{1} << 60},
                              {.line_rate = 40 * kGiga, .min_rate = 40 * kGiga + 1},
                              {.line_rate = 40 * kGiga, .hyper_increase = 40 * kGiga + 1},
                              {.gain_shift = 0},
                              {.gain_shift = 21},
                              {.alpha_period = Duration{0}},
                              {.increase_period = Duration{-1}},
                              {.byte_counter = 0}};
  for (const DcqcnOptions& options : bad) CHECK_THROWS_AS(DcqcnReactionPoint{options}, Error);
}

}  // namespace baseline_dcqcn_test
