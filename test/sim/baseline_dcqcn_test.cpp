// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstdint>

#include "mrc/core/random.hpp"
#include "mrc/core/types.hpp"
#include "mrc/sim/baseline/dcqcn.hpp"

using namespace mrc;
using namespace mrc::sim::baseline;

namespace {

constexpr std::uint64_t kMega = 1'000'000, kGiga = 1'000'000'000;

constexpr Time at(double us) {
  return Time{Duration{static_cast<std::int64_t>(us * 1000)}};
}

/// The network of the paper.
DcqcnOptions paper() {
  return {.line_rate = 40 * kGiga};
}

}  // namespace

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
  rp.advance(at(256 * 55));
  CHECK(rp.rate() == 40 * kGiga);  // long since back
  rp.on_cnp(at(256 * 55));
  CHECK(static_cast<double>(rp.rate()) ==
        doctest::Approx(40e9 * (1 - 0.3671598 / 2)).epsilon(1e-6));
  CHECK(rp.alpha(at(256 * 55)) == doctest::Approx(0.3671598 * 255 / 256 + 1.0 / 256).epsilon(1e-6));
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
  rp.advance(at(55 * 7));  // 7 and 6: still the first
  CHECK(rp.target_rate() == 21'040 * kMega);
  rp.on_send(1000, at(55 * 7));  // 7 and 7: second
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

TEST_CASE("dcqcn: catching up late gives what serving every timer gives") {
  DcqcnReactionPoint eager(paper()), lazy(paper());
  Random random(5);
  std::int64_t us = 0;
  for (int i = 0; i < 200; ++i) {
    const std::int64_t wait = random.below(2000);
    for (std::int64_t k = 0; k < wait; ++k) {
      eager.advance(at(static_cast<double>(us + k)));
      static_cast<void>(eager.alpha(at(static_cast<double>(us + k))));
    }
    us += wait;
    eager.on_cnp(at(static_cast<double>(us)));
    lazy.on_cnp(at(static_cast<double>(us)));
    CHECK(eager.rate() == lazy.rate());
    CHECK(eager.target_rate() == lazy.target_rate());
  }
}

TEST_CASE("dcqcn: two flows that start unequal share a bottleneck evenly and use it") {
  // A fluid queue in steps of 1 us, marked as in the paper.
  constexpr double kLine = 40e9, kMin = 5e3, kMax = 200e3, kPmax = 0.01;
  std::array<DcqcnReactionPoint, 2> flow{DcqcnReactionPoint(paper()), DcqcnReactionPoint(paper())};
  std::array<DcqcnNotificationPoint, 2> np;
  std::array<double, 2> credit{}, sum{};
  Random random(1);
  double queue = 0, sent = 0;
  for (int i = 0; i < 3; ++i) flow[1].on_cnp(at(0));  // 40 against 5 Gb/s
  CHECK(flow[1].rate() == 5 * kGiga);
  constexpr int kEnd = 400'000;  // us
  for (int us = 0; us < kEnd; ++us) {
    const double marking = queue > kMax   ? 1.0
                           : queue > kMin ? kPmax * (queue - kMin) / (kMax - kMin)
                                          : 0.0;
    for (std::size_t f = 0; f < 2; ++f) {
      const double bytes = static_cast<double>(flow[f].rate()) / 8e6;
      queue += bytes;
      flow[f].on_send(static_cast<std::uint32_t>(bytes), at(us));
      bool marked = false;
      for (credit[f] += bytes; credit[f] >= 1024; credit[f] -= 1024)
        marked = random.chance(marking) || marked;
      if (np[f].on_packet(at(us), marked)) flow[f].on_cnp(at(us));
      if (us >= kEnd / 2) sum[f] += bytes;
    }
    const double served = std::min(queue, kLine / 8e6);
    queue -= served;
    if (us >= kEnd / 2) sent += served;
  }
  const double capacity = kLine / 8e6 * kEnd / 2;
  CHECK(sent / capacity > 0.9);
  CHECK(sum[0] / (sum[0] + sum[1]) == doctest::Approx(0.5).epsilon(0.1));
}

TEST_CASE("dcqcn: a notification point answers marks at its pace") {
  DcqcnNotificationPoint np;
  CHECK_FALSE(np.on_packet(at(0), false));
  CHECK(np.on_packet(at(10), true));
  int cnps = 0;
  for (int us = 11; us < 1010; ++us) cnps += np.on_packet(at(us), true);
  CHECK(cnps == 19);  // at 60, 110, .. 960
  CHECK_FALSE(np.on_packet(at(5000), false));
  CHECK(np.on_packet(at(5001), true));
}

TEST_CASE("dcqcn: bad options are refused") {
  const auto refused = [](auto change) {
    DcqcnOptions o = paper();
    change(o);
    CHECK_THROWS_AS(DcqcnReactionPoint{o}, Error);
  };
  refused([](DcqcnOptions& o) { o.line_rate = 0; });
  refused([](DcqcnOptions& o) { o.line_rate = std::uint64_t{1} << 60; });
  refused([](DcqcnOptions& o) { o.min_rate = o.line_rate + 1; });
  refused([](DcqcnOptions& o) { o.hyper_increase = o.line_rate + 1; });
  refused([](DcqcnOptions& o) { o.gain_shift = 0; });
  refused([](DcqcnOptions& o) { o.gain_shift = 21; });
  refused([](DcqcnOptions& o) { o.alpha_period = Duration{0}; });
  refused([](DcqcnOptions& o) { o.increase_period = Duration{-1}; });
  refused([](DcqcnOptions& o) { o.byte_counter = 0; });
}
