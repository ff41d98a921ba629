// SPDX-License-Identifier: Apache-2.0
#include "mrc/core/containers.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <vector>

#include "mrc/core/random.hpp"

using mrc::Duration;
using mrc::kNever;
using mrc::Time;
using mrc::TimerNode;
using mrc::TimingWheel;
using namespace std::chrono_literals;

namespace timing_wheel_test {

// A clock origin as odd as that of a machine that has been up for a while.
constexpr Time kOrigin{Duration{123'456'789'012'345}};

std::size_t expire_count(TimingWheel& wheel, Time now) {
  std::size_t n = 0;
  wheel.expire(now, [&](TimerNode& node) {
    CHECK_FALSE(node.scheduled());
    CHECK(node.deadline() <= now);
    ++n;
  });
  return n;
}

TEST_CASE("timing wheel: fires exactly at the deadline, over all levels") {
  for (const Duration delay :
       {Duration{1}, Duration{999}, Duration{1us}, Duration{63us}, Duration{65us}, Duration{5ms},
        Duration{1s}, Duration{17s + 1ns}, Duration{3h}, Duration{2000h}}) {
    TimingWheel wheel(kOrigin);
    TimerNode node;
    wheel.schedule(node, kOrigin + delay);
    CHECK(wheel.size() == 1);
    CHECK(wheel.next_deadline() == kOrigin + delay);
    CHECK(expire_count(wheel, kOrigin + delay / 2 - 1ns) == 0);
    CHECK(expire_count(wheel, kOrigin + delay - 1ns) == 0);
    CHECK(wheel.next_deadline() == kOrigin + delay);
    CHECK(expire_count(wheel, kOrigin + delay) == 1);
    CHECK(wheel.size() == 0);
    CHECK(wheel.next_deadline() == kNever);
  }
}

TEST_CASE("timing wheel: kNever is a deadline that only the end of time reaches") {
  TimingWheel wheel(kOrigin);
  TimerNode node;
  wheel.schedule(node, kNever);
  CHECK(node.scheduled());
  CHECK(wheel.next_deadline() == kNever);
  CHECK(expire_count(wheel, kOrigin + 24h * 365 * 100) == 0);
  wheel.schedule(node, kOrigin + 24h * 365 * 100 + 1us);
  CHECK(expire_count(wheel, kOrigin + 24h * 365 * 100 + 1us) == 1);
}

TEST_CASE("timing wheel: a restarted timer does not fire at its old deadline") {
  TimingWheel wheel(kOrigin);
  TimerNode node;
  Time now = kOrigin;
  wheel.schedule(node, now + 100us);
  // A retransmission timer that is restarted every 10 us for 10 ms.
  for (int i = 0; i < 1000; ++i) {
    now += 10us;
    wheel.schedule(node, now + 100us);
    CHECK(wheel.next_deadline() <= now + 100us);
    CHECK(expire_count(wheel, now) == 0);
    // Being early is allowed, but each early answer must lead on.
    CHECK(wheel.next_deadline() > now);
  }
  CHECK(node.deadline() == now + 100us);
  CHECK(expire_count(wheel, now + 100us - 1ns) == 0);
  CHECK(wheel.next_deadline() == now + 100us);
  CHECK(expire_count(wheel, now + 100us) == 1);
}

TEST_CASE("timing wheel: callbacks may schedule and cancel anything") {
  TimingWheel wheel(kOrigin);
  std::array<TimerNode, 8> nodes;
  for (auto& node : nodes) wheel.schedule(node, kOrigin + 10us);
  int calls = 0;
  wheel.expire(kOrigin + 10us, [&](TimerNode& node) {
    ++calls;
    if (calls == 1) {
      wheel.schedule(node, kOrigin);  // itself, in the past: not again in this call
      for (auto& other : nodes) {
        if (&other == &node) continue;
        if (&other == &nodes[6] || &other == &nodes[7]) {
          wheel.schedule(other, kOrigin + 20us);  // is due, but moved away before its turn
        } else {
          wheel.cancel(other);
        }
      }
    }
  });
  CHECK(calls == 1);
  CHECK(wheel.size() == 3);
  CHECK(wheel.next_deadline() == kOrigin);
  CHECK(expire_count(wheel, kOrigin + 10us) == 1);
  CHECK(wheel.next_deadline() == kOrigin + 20us);
  CHECK(expire_count(wheel, kOrigin + 20us) == 2);
}

TEST_CASE("timing wheel: a node that goes out of existence with its wheel is unlinked") {
  TimerNode node;
  {
    TimingWheel wheel(kOrigin);
    wheel.schedule(node, kOrigin + 1s);
  }
  CHECK_FALSE(node.scheduled());
}

namespace {

// The same operations on the wheel and on a sorted map; compares after each step.
class Model {
 public:
  Model(std::uint64_t seed, Duration tick) : random_(seed), wheel_(kOrigin, tick), nodes_(200) {}

  void step() {
    switch (random_.below(10)) {
      case 0:
        cancel(pick());
        break;
      case 1:
      case 2:
      case 3:
        advance();
        break;
      default:
        schedule(pick(), now_ + delay());
    }
    REQUIRE(wheel_.size() == model_.size());
    const Time earliest = model_.empty() ? kNever : model_.begin()->first;
    REQUIRE(wheel_.next_deadline() <= earliest);
  }

  // Sleeping until next_deadline() each time fires everything, exactly on time.
  void drain() {
    std::size_t wakeups = 0;
    while (!model_.empty()) {
      REQUIRE(++wakeups < 5000);
      now_ = std::max(now_, wheel_.next_deadline());
      expire(false);
    }
    REQUIRE(wheel_.next_deadline() == kNever);
  }

 private:
  TimerNode& pick() { return nodes_[random_.below(static_cast<std::uint32_t>(nodes_.size()))]; }
  // Spread over all magnitudes up to 2^47 ns (39 h), sometimes in the past.
  Duration delay() {
    const Duration d{static_cast<Duration::rep>(random_.next() >> (17 + random_.below(47)))};
    return random_.chance(0.1) ? -d : d;
  }

  void schedule(TimerNode& node, Time deadline) {
    forget(node);
    wheel_.schedule(node, deadline);
    model_.emplace(deadline, &node);
    REQUIRE(node.deadline() == deadline);
  }
  void cancel(TimerNode& node) {
    forget(node);
    wheel_.cancel(node);
    REQUIRE_FALSE(node.scheduled());
  }
  void forget(TimerNode& node) {
    REQUIRE(node.scheduled() == (find(node) != model_.end()));
    if (const auto it = find(node); it != model_.end()) model_.erase(it);
  }
  std::multimap<Time, TimerNode*>::iterator find(const TimerNode& node) {
    return std::find_if(model_.begin(), model_.end(),
                        [&](const auto& entry) { return entry.second == &node; });
  }
  void advance() {
    now_ += random_.chance(0.5) ? Duration{random_.below(3000)} : std::max(delay(), Duration{0});
    expire(true);
  }
  void expire(bool meddle) {
    std::vector<TimerNode*> fired;
    wheel_.expire(now_, [&](TimerNode& node) {
      REQUIRE_FALSE(node.scheduled());
      const auto it = find(node);
      REQUIRE(it != model_.end());
      REQUIRE(it->first <= now_);
      model_.erase(it);
      if (!meddle) return;
      // What callbacks do goes to the future, so that afterwards nothing due may be left.
      if (random_.chance(0.2)) schedule(pick(), now_ + std::max(delay(), Duration{1}));
      if (random_.chance(0.1)) cancel(pick());
    });
    REQUIRE((model_.empty() || model_.begin()->first > now_));
    REQUIRE(wheel_.next_deadline() > now_);
  }

  mrc::Random random_;
  TimingWheel wheel_;
  std::vector<TimerNode> nodes_;
  std::multimap<Time, TimerNode*> model_;
  Time now_ = kOrigin;
};

}  // namespace

TEST_CASE("timing wheel: agrees with a sorted map") {
  for (std::uint64_t seed = 1; seed <= 6; ++seed) {
    CAPTURE(seed);
    // Coarse, usual and finest tick; the last puts many deadlines beyond the top level.
    const Duration tick = seed % 3 == 0 ? Duration{1ms} : seed % 3 == 1 ? Duration{1us} : 1ns;
    Model model(seed, tick);
    for (int i = 0; i < 10'000; ++i) model.step();
    model.drain();
  }
}

}  // namespace timing_wheel_test
