// SPDX-License-Identifier: Apache-2.0
// When a poll that found completions stays to receive: only while that pays off.
#include "mrc/host/progress.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <cstdint>

using namespace mrc;
using namespace std::chrono_literals;

namespace poll_ahead_test {

/// A program that polls, leaves with completions, and watches memory until data has come.
struct Watcher {
  explicit Watcher(Duration limit) : ahead(limit) {}

  detail::PollAhead ahead;
  std::uint64_t data = 0;
  Time now{};

  /// Data comes while the program is away for `away`; then it polls again, and leaves.
  void watch(Duration away) {
    ahead.program_leaves(data, now);
    ++data;
    now += away;
    come();
    ahead.program_leaves(data, now);
  }
  void come() {
    ahead.program_came(data, [this] { return now; });
  }
  /// How often it would stay in vain before it gives up.
  int stays_in_vain() {
    int stays = 0;
    for (; ahead.should_stay(data) && stays < 100; ++stays) ahead.stayed(false);
    return stays;
  }
};

TEST_CASE("PollAhead: a poll stays once the program was seen to watch memory") {
  Watcher program(50us);
  CHECK_FALSE(program.ahead.should_stay(0));
  for (int i = 0; i < 2; ++i) program.watch(30us);
  CHECK_FALSE(program.ahead.should_stay(program.data));
  program.watch(30us);
  CHECK(program.ahead.should_stay(program.data));
}

TEST_CASE("PollAhead: not if the program has yet to see what came") {
  Watcher program(50us);
  for (int i = 0; i < 20; ++i) program.watch(30us);
  CHECK(program.ahead.should_stay(program.data));
  CHECK_FALSE(program.ahead.should_stay(program.data + 1));
}

TEST_CASE("PollAhead: a program that computes for long between polls gains nothing by it") {
  Watcher program(50us);
  for (int i = 0; i < 100; ++i) program.watch(10ms);
  CHECK_FALSE(program.ahead.should_stay(program.data));
}

TEST_CASE("PollAhead: a program to which nothing comes is never held up") {
  Watcher program(50us);
  for (int i = 0; i < 100; ++i) {
    program.ahead.program_leaves(program.data, program.now);
    program.now += 30us;
    program.come();
    CHECK_FALSE(program.ahead.should_stay(program.data));
  }
}

TEST_CASE("PollAhead: what came between two polls without a pause counts once") {
  Watcher program(50us);
  program.ahead.program_leaves(0, program.now);
  program.data = 1;
  for (int i = 0; i < 20; ++i) program.come();
  CHECK_FALSE(program.ahead.should_stay(0));
}

TEST_CASE("PollAhead: gives up after a few stays in vain, however long it paid off before") {
  Watcher program(50us);
  for (int i = 0; i < 1000; ++i) program.ahead.stayed(true);
  CHECK(program.ahead.should_stay(program.data));
  const int stays = program.stays_in_vain();
  CHECK(stays >= 1);
  CHECK(stays <= 3);
  // One message that was waited for in time is not enough to begin again.
  program.watch(30us);
  CHECK_FALSE(program.ahead.should_stay(program.data));
}

TEST_CASE("PollAhead: a limit of 0 turns it off") {
  Watcher program(0us);
  CHECK_FALSE(program.ahead.enabled());
  for (int i = 0; i < 20; ++i) program.watch(30us);
  CHECK_FALSE(program.ahead.should_stay(program.data));
}

TEST_CASE("PollAhead: an answer is expected of a program that watches memory, until it is late") {
  Watcher program(50us);
  CHECK_FALSE(program.ahead.expects_answer(1));
  for (int i = 0; i < 20; ++i) program.watch(30us);
  CHECK_FALSE(program.ahead.expects_answer(program.data));
  for (int i = 0; i < 3; ++i) {  // it computes for long before it comes back
    ++program.data;
    CHECK(program.ahead.expects_answer(program.data));
    program.ahead.program_leaves(program.data, program.now);
    program.now += 1ms;
    program.come();
  }
  CHECK_FALSE(program.ahead.expects_answer(program.data + 1));
}

}  // namespace poll_ahead_test
