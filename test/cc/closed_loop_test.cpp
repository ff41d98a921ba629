// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cstdint>

#include "bottleneck.hpp"

using namespace std::chrono_literals;
using mrc::Time;
using mrc::cc::NsccOptions;
using mrc::test::Bottleneck;
using mrc::test::BottleneckOptions;

namespace closed_loop_test {

constexpr Time at(mrc::Duration t) {
  return Time{} + t;
}

NsccOptions nscc(bool trimming = false) {
  NsccOptions o;  // 100 Gb/s, 12 us
  o.mtu = Bottleneck::kPacket;
  o.trimming = trimming;
  return o;
}

// Queue that stands for the delay aimed at, in bytes.
double target_queue(Bottleneck& b, const BottleneckOptions& o) {
  return static_cast<double>(b.nscc(0).target_qdelay().count()) * o.bytes_per_ns;
}

// What happens when 16 senders that know of each other, or not, start at once.
struct Start {
  Bottleneck::Statistics early;  // of the first two round trips
  double share = 0;              // of the link that was used in 100 us
};
Start start_together(const BottleneckOptions& o, bool hinted) {
  Bottleneck b(o, nscc(o.trimming), 16);
  for (std::size_t i = 0; i < 16; ++i) {
    if (hinted) b.nscc(i).on_hint(16);
    b.start(i);
  }
  b.run_until(at(30us));
  Start result{b.statistics};
  b.run_until(at(100us));
  for (std::size_t i = 0; i < 16; ++i) result.share += b.share(i);
  return result;
}

// Mean queue of 64 senders in a network that neither marks nor trims.
double unmarked_queue(bool disable_qa) {
  BottleneckOptions o;
  o.mark_from = 1e9;
  o.mark_all = 2e9;
  o.capacity = 1e9;
  NsccOptions n = nscc();
  n.disable_qa = disable_qa;
  Bottleneck b(o, n, 64);
  for (std::size_t i = 0; i < 64; ++i) b.start(i);
  b.run_until(at(2ms));
  b.reset_statistics();
  b.run_until(at(10ms));
  return b.statistics.mean_queue();
}

TEST_CASE("nscc in a loop: alone it fills the link without a queue") {
  Bottleneck b({}, nscc(), 1);
  b.start(0);
  b.run_until(at(100us));
  b.reset_statistics();
  b.run_until(at(1ms));
  CHECK(b.share(0) > 0.99);
  CHECK(b.statistics.queue_max < 2 * Bottleneck::kPacket);
}

TEST_CASE("nscc in a loop: a newcomer of one packet gets its half, the queue stays near target") {
  for (const bool trimming : {false, true}) {
    for (std::uint64_t seed = 1; seed <= 4; ++seed) {
      CAPTURE(trimming);
      CAPTURE(seed);
      BottleneckOptions o;
      o.seed = seed;
      Bottleneck b(o, nscc(trimming), 2);
      b.start(0);
      b.run_until(at(1ms));
      b.nscc(1).on_timeout(0, 2, at(1ms));
      REQUIRE(b.nscc(1).window() == Bottleneck::kPacket);
      b.start(1);
      b.run_until(at(5ms));
      b.reset_statistics();
      b.run_until(at(15ms));
      CHECK(b.share(0) > 0.4);
      CHECK(b.share(1) > 0.4);
      CHECK(b.share(0) + b.share(1) > 0.98);
      CHECK(b.statistics.mean_queue() > 0.5 * target_queue(b, o));
      CHECK(b.statistics.mean_queue() < 1.25 * target_queue(b, o));
      CHECK(b.statistics.lost == 0);
      // And gives it back when it leaves.
      b.stop(0);
      b.run_until(at(16ms));
      b.reset_statistics();
      b.run_until(at(17ms));
      CHECK(b.share(1) > 0.98);
    }
  }
}

TEST_CASE("nscc in a loop: 16 senders at once, with a queue that trims") {
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    CAPTURE(seed);
    BottleneckOptions o;
    o.trimming = true;
    o.capacity = 200e3;
    o.seed = seed;
    Bottleneck b(o, nscc(true), 16);
    for (std::size_t i = 0; i < 16; ++i) b.start(i);
    b.run_until(at(3ms));
    CHECK(b.statistics.trimmed > 0);
    b.reset_statistics();
    b.run_until(at(13ms));
    double total = 0;
    for (std::size_t i = 0; i < 16; ++i) {
      CHECK(b.share(i) > 0.6 / 16);
      CHECK(b.share(i) < 1.5 / 16);
      total += b.share(i);
    }
    CHECK(total > 0.98);
    CHECK(b.statistics.trimmed * 1000 < b.statistics.packets);
    CHECK(b.statistics.mean_queue() < 1.25 * target_queue(b, o));
  }
}

TEST_CASE("nscc in a loop: 16 senders that know of each other start without filling the queue") {
  for (const bool trimming : {false, true}) {
    CAPTURE(trimming);
    BottleneckOptions o;
    o.trimming = trimming;
    const Start blind = start_together(o, false), hinted = start_together(o, true);
    CAPTURE(blind.early.queue_max);
    CAPTURE(hinted.early.queue_max);
    CHECK((trimming ? blind.early.trimmed : blind.early.lost) > 500);
    CHECK(hinted.early.trimmed == 0);
    CHECK(hinted.early.lost == 0);
    CHECK(hinted.early.marked * 2 < blind.early.marked);
    CHECK(hinted.early.queue_max * 2 < blind.early.queue_max);
    CHECK(hinted.share > 0.99 * blind.share);  // and the link is as busy
  }
}

TEST_CASE("nscc in a loop: a hint that is wrong costs a lone sender a few round trips") {
  Bottleneck b({}, nscc(), 1);
  b.nscc(0).on_hint(64);
  REQUIRE(b.nscc(0).window() * 12 < b.nscc(0).max_window());
  b.start(0);
  b.run_until(at(12us * 30));
  b.reset_statistics();
  b.run_until(at(1ms));
  CHECK(b.share(0) > 0.99);
}

TEST_CASE("nscc in a loop: quick adapt bounds the queue where nothing is marked") {
  CHECK(unmarked_queue(false) * 5 < unmarked_queue(true));
}

TEST_CASE(
    "nscc in a loop: packets lost for other reasons cost bandwidth neither much nor unfairly") {
  for (const double loss : {0.001, 0.01}) {
    for (std::uint64_t seed = 1; seed <= 4; ++seed) {
      CAPTURE(loss);
      CAPTURE(seed);
      BottleneckOptions o;
      o.random_loss = loss;
      o.seed = seed;
      Bottleneck b(o, nscc(), 2);
      b.start(0);
      b.start(1);
      b.run_until(at(5ms));
      b.reset_statistics();
      b.run_until(at(20ms));
      CHECK(b.statistics.lost > 0);
      CHECK(b.share(0) > 0.3);
      CHECK(b.share(1) > 0.3);
      CHECK(b.share(0) + b.share(1) > 0.97);
      CHECK(b.statistics.mean_queue() < 1.25 * target_queue(b, o));
    }
  }
}

TEST_CASE("nscc in a loop: an account corrected by losses never blocks a sender for good") {
  BottleneckOptions o;
  o.random_loss = 0.3;
  Bottleneck b(o, nscc(), 1);
  b.start(0);
  for (int ms = 1; ms <= 5; ++ms) {
    b.reset_statistics();
    b.run_until(at(ms * 1ms));
    CHECK(b.share(0) > 0.005);
    CHECK(b.nscc(0).window() >= Bottleneck::kPacket);
  }
}

}  // namespace closed_loop_test
