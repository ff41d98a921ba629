// SPDX-License-Identifier: Apache-2.0
#include "probe/trains.hpp"

#include <doctest/doctest.h>

#include <chrono>

using namespace mrc;
using namespace mrc::probe;
using namespace std::chrono_literals;

namespace trains_test {

constexpr TrainOptions kFour{4, 100ms, 1000};

/// Sends a train at `at`; its first packet's number.
std::uint16_t send_train(Trains& trains, Time at, std::size_t path) {
  std::uint16_t first = 0;
  for (unsigned i = 0; i < 4; ++i) {
    const auto probe = trains.poll(at);
    REQUIRE(probe.has_value());
    CHECK(probe->path == path);
    if (i == 0) first = probe->id;
  }
  CHECK_FALSE(trains.poll(at).has_value());
  return first;
}

TEST_CASE("trains: one after the other, each all at once, at the rate of its answers") {
  Trains trains(kFour, 65'534);  // numbers wrap
  trains.ask(0);
  trains.ask(2);
  Time now = Time(1s);
  CHECK(trains.next_event() <= now);
  const std::uint16_t id = send_train(trains, now, 0);
  for (unsigned i = 0; i < 4; ++i) {
    now += 2ms;
    const auto number = static_cast<std::uint16_t>(id + i);
    REQUIRE(trains.find(number) != nullptr);
    trains.on_answer(now, number);
    CHECK(trains.find(number) == nullptr);  // each once
  }
  REQUIRE(trains.results().size() == 3);
  CHECK(trains.results()[0].best() == doctest::Approx(500));  // four in 8 ms
  CHECK_FALSE(trains.done());
  // Four packets in 4 ms, as the rate has it: the next one may leave now.
  const std::uint16_t other = send_train(trains, now, 2);
  CHECK(trains.find(id) == nullptr);
  for (unsigned i = 0; i < 4; ++i)
    trains.on_answer(now + 1us, static_cast<std::uint16_t>(other + i));
  CHECK(trains.done());
  CHECK(trains.next_event() == kNever);
  CHECK(trains.sent() == 8);
}

TEST_CASE("trains: the rate is kept, whatever a train takes") {
  Trains trains(kFour);
  trains.ask(0);
  trains.ask(0);
  const Time start = Time(1s);
  const std::uint16_t id = send_train(trains, start, 0);
  for (unsigned i = 0; i < 4; ++i)
    trains.on_answer(start + 10us, static_cast<std::uint16_t>(id + i));
  CHECK_FALSE(trains.poll(start + 3999us).has_value());
  CHECK(trains.next_event() == start + 4ms);
  CHECK(trains.poll(start + 4ms).has_value());
}

TEST_CASE("trains: what does not come back ends a train; of half of it the rate still counts") {
  Trains trains(kFour);
  for (unsigned i = 0; i < 2; ++i) trains.ask(0);
  Time now = Time(1s);
  std::uint16_t id = send_train(trains, now, 0);
  trains.on_answer(now + 5ms, id);
  trains.on_answer(now + 10ms, static_cast<std::uint16_t>(id + 3));
  CHECK(trains.next_event() == now + 110ms);
  trains.on_time(now + 109ms);
  CHECK_FALSE(trains.poll(now + 109ms).has_value());
  trains.on_time(now + 110ms);
  CHECK(trains.results()[0].trains == 1);
  CHECK(trains.results()[0].best() == doctest::Approx(200));  // the wait for others aside

  now += 110ms;
  id = send_train(trains, now, 0);
  trains.on_answer(now + 1ms, id);
  trains.on_time(now + 101ms);
  CHECK(trains.done());
  CHECK(trains.results()[0].trains == 2);
  CHECK(trains.results()[0].rates.size() == 1);
}

}  // namespace trains_test
