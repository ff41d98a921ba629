// SPDX-License-Identifier: Apache-2.0
// The last packets of a message are lost, and nothing is sent behind them: how soon that is found
// out, with messages that wait for each other. The retransmission timer should have no part in it.
#include <doctest/doctest.h>

#include <memory>
#include <utility>

#include "mrc/wire/transport.hpp"
#include "support/brief.hpp"
#include "support/steps.hpp"

using namespace mrc;
using namespace mrc::test;
using namespace std::chrono_literals;

namespace tail_loss_test {

constexpr Duration kRoundTrip = 200us;  // of all networks here, without queues

/// Two planes of eight paths with 5 Gb/s each.
EnginePair::Setup two_planes() {
  EnginePair::Setup s;
  s.planes = 2;
  s.paths = 8;
  s.delay = kRoundTrip / 2;
  s.gbps = 5;
  s.queue = 4 << 20;
  s.ecn_threshold = 1 << 20;
  s.options.burst = 16;
  s.options.trimming = false;
  s.options.cc.nscc.link_speed = 10'000'000'000;
  s.options.cc.nscc.base_rtt = s.options.cc.nscc.base_rtt_floor = kRoundTrip;
  s.options.cc.nscc.mtu = 1200;
  return s;
}

struct Outcome {
  Duration mean{}, tail{};  ///< of a step; the latter is exceeded by one percent
  std::uint64_t timeouts = 0, probes = 0;
  double spurious = 0;
};

/// Steps with losses in both directions. All must end well.
Outcome run(double loss, const StepsOptions& options, std::uint64_t seeds = 3) {
  Outcome o;
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    EnginePair pair(two_planes(), seed);
    pair.faults.loss = loss;
    mrc::test::Steps steps(pair, options);
    CHECK(steps.run(60s));
    o.mean += steps.mean() / static_cast<std::int64_t>(seeds);
    o.tail = std::max(o.tail, steps.quantile(0.99));
    o.spurious = std::max(o.spurious, steps.spurious());
    for (unsigned side = 0; side < 2; ++side) {
      o.timeouts += pair[side].stats().timeouts;
      o.probes += pair[side].stats().probes_sent;
    }
  }
  return o;
}

[[nodiscard]] bool is_last(const std::vector<std::uint8_t>& bytes) {
  const wire::Opcode opcode = wire::view_as<wire::Bth>(Bytes{bytes}).opcode();
  return wire::is_write(opcode) && wire::is_last(opcode);
}
[[nodiscard]] wire::Opcode opcode_of(const std::vector<std::uint8_t>& bytes) {
  return wire::view_as<wire::Bth>(Bytes{bytes}).opcode();
}

/// Messages of 4 KB, one by one, in which `swallows(side, bytes)` decides what is lost in the last
/// one; after some that make the round-trip time known. How long the last one took.
template <class F>
Duration last_step(F&& swallows, std::uint64_t* timeouts = nullptr) {
  EnginePair pair(two_planes(), 1);
  mrc::test::Steps steps(pair, {.steps = 20, .size = 4096, .depth = 1});
  pair.filter = [&](unsigned side, const wire::TxPacket&, const std::vector<std::uint8_t>& bytes) {
    return steps.posted() < 20 || !swallows(side, bytes);
  };
  CHECK(steps.run(1s));
  if (timeouts != nullptr) *timeouts = pair[0].stats().timeouts + pair[1].stats().timeouts;
  return steps.elapsed_since_last_post();
}

TEST_CASE("tail loss: where probes arrive and packets never do, the queue pair fails") {
  EnginePair pair(two_planes(), 1);
  mrc::test::Steps steps(pair,
                         {.steps = 1,
                          .size = 4096,
                          .attributes = {.mtu = 1024, .retry_linear = 7, .retry_exponential = 4}});
  pair.faults.largest = 512;
  CHECK_FALSE(steps.run(1s));  // the retries take 160 ms
  CHECK(pair[0].find_qp(steps.qpn(0))->cause == QpErrorCause::retry_exhausted);
  CHECK(pair[0].stats().probe_answers > 0);
}

TEST_CASE("tail loss: no timeouts with one percent lost in both directions") {
  const Outcome small = run(0.01, {.steps = 500, .size = 4096, .depth = 1});
  CHECK(small.timeouts == 0);
  CHECK(small.mean < 125us);
  CHECK(small.tail < 3 * kRoundTrip);

  const Outcome large = run(0.01, {.steps = 300, .size = 128 << 10, .depth = 1});
  CHECK(large.timeouts == 0);
  CHECK(large.mean < 500us);  // 216 us without loss; 72 % of the messages lose a packet
  CHECK(large.tail < 7 * kRoundTrip);
  CHECK(large.spurious < 0.001);

  if (kBrief) return;
  const Outcome deep = run(0.01, {.steps = 200, .size = 512 << 10, .depth = 8}, 2);
  CHECK(deep.timeouts == 0);
  CHECK(deep.mean < 3900us);  // 3,650 us without loss
  CHECK(deep.spurious < 0.001);
}

TEST_CASE("tail loss: no timeouts with five percent lost in both directions") {
  const Outcome small = run(0.05, {.steps = 500, .size = 4096, .depth = 1});
  CHECK(small.timeouts == 0);
  CHECK(small.mean < 190us);
  CHECK(small.tail < 5 * kRoundTrip);

  const Outcome large = run(0.05, {.steps = 300, .size = 128 << 10, .depth = 1});
  CHECK(large.timeouts == 0);
  CHECK(large.mean < 900us);
  CHECK(large.spurious < 0.005);
}

TEST_CASE("tail loss: the last packet comes back after a probe, its answer and half a round trip") {
  std::uint64_t timeouts = 0;
  bool once = true;
  // The first copy of the last packet. A probe after 1.25 round trips, its answer after one more;
  // the packet is taken for lost at the age of two, the answer is later.
  const Duration lost = last_step(
      [&](unsigned side, const auto& bytes) {
        return side == 0 && is_last(bytes) && std::exchange(once, false);
      },
      &timeouts);
  CHECK(timeouts == 0);
  CHECK(lost <= 4 * kRoundTrip);

  // The answer to the probe as well: the next one comes after 1.25 round trips more.
  once = true;
  unsigned probes = 0;
  const Duration twice = last_step(
      [&](unsigned side, const auto& bytes) {
        if (side == 0 && opcode_of(bytes) == wire::Opcode::probe) return probes++ == 0;
        return side == 0 && is_last(bytes) && std::exchange(once, false);
      },
      &timeouts);
  CHECK(timeouts == 0);
  CHECK(twice - lost == kRoundTrip * 5 / 4);

  // Three probes: the time doubles, to 1.25 + 1.25 + 2.5 + 5 round trips.
  once = true;
  probes = 0;
  const Duration often = last_step(
      [&](unsigned side, const auto& bytes) {
        if (side == 0 && opcode_of(bytes) == wire::Opcode::probe) return probes++ < 3;
        return side == 0 && is_last(bytes) && std::exchange(once, false);
      },
      &timeouts);
  CHECK(timeouts == 0);
  CHECK(often - lost == kRoundTrip * 35 / 4);
}

TEST_CASE("tail loss: a lost Transport ACK, with its SACK or alone, comes with the next probe") {
  std::uint64_t timeouts = 0;
  for (const bool with_sack : {false, true}) {
    bool once = true, sack = with_sack;
    const Duration t = last_step(
        [&](unsigned side, const auto& bytes) {
          if (side != 1) return false;
          if (opcode_of(bytes) == wire::Opcode::acknowledge) return std::exchange(once, false);
          return opcode_of(bytes) == wire::Opcode::sack && std::exchange(sack, false);
        },
        &timeouts);
    CHECK(timeouts == 0);
    CHECK(t <= 3 * kRoundTrip);
  }
}

TEST_CASE("tail loss: little is sent again because paths differ in delay, nothing without loss") {
  // 400 us between the fastest and the slowest of 256 paths, on top of 100.
  EnginePair::Setup setup = two_planes();
  setup.paths = 128;
  setup.options.burst = 4;
  for (const double loss : {0.0, 0.01}) {
    EnginePair pair(setup, 1);
    pair.faults.skew = 2 * kRoundTrip;
    pair.faults.loss = loss;
    mrc::test::Steps steps(pair, {.steps = 300, .size = 128 << 10, .depth = 2});
    CHECK(steps.run(60s));
    CHECK(pair[0].stats().timeouts == 0);
    CHECK(steps.spurious() < 0.012);  // of what is sent behind the gap that a lost packet leaves
    if (loss == 0) CHECK(pair[0].stats().tx_retransmits == 0);
  }
}

TEST_CASE("tail loss: a receiver that is not scheduled is asked, not flooded") {
  EnginePair pair(two_planes(), 1);
  mrc::test::Steps steps(pair, {.steps = 400, .size = 128 << 10, .depth = 2});
  Time next = pair.now() + 5ms;
  unsigned stalls = 0;
  steps.between = [&] {  // half of the time
    if (pair.now() < next) return;
    pair.stall(1, pair.now() + 10ms);
    next = pair.now() + 20ms;
    ++stalls;
  };
  CHECK(steps.run(60s));
  REQUIRE(stalls >= 5);
  const EngineStats& stats = pair[0].stats();
  // Each stall of 10 ms lets the timer of 4.2 ms expire twice. All else that is sent during it are
  // a probe with each expiry, and five after what was sent last.
  CHECK(stats.timeouts <= 2 * stalls);
  CHECK(stats.probes_sent <= 20 * stalls);
  CHECK(stats.tx_retransmits <= 10 * stalls);
}

TEST_CASE("tail loss: a dead network gets five probes of each queue pair, and the timer's") {
  EnginePair pair(two_planes(), 1);
  std::vector<std::unique_ptr<mrc::test::Steps>> all;
  for (unsigned i = 0; i < 50; ++i)
    all.push_back(std::make_unique<mrc::test::Steps>(pair, StepsOptions{.steps = 1, .size = 4096}));
  pair.faults.black_holes = 0b11;
  for (auto& steps : all) CHECK_FALSE(steps->run(Duration{0}));  // posts, and gets nowhere
  pair.run_for(4ms);                                             // less than the timer's
  CHECK(pair[0].stats().timeouts == 0);
  CHECK(pair[0].stats().probes_sent <= 50 * 5);
  CHECK(pair[0].stats().probes_sent >= 50 * 4);
  pair.faults.black_holes = 0;
  for (auto& steps : all) CHECK(steps->run(1s));
}

}  // namespace tail_loss_test
