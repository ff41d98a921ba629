// SPDX-License-Identifier: Apache-2.0
#include "probe/sweep.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <map>

using namespace std::chrono_literals;
using namespace mrc;
using namespace mrc::probe;

namespace sweep_test {

/// A network in virtual time. Each path has a round trip of its own; a negative one answers never.
struct Virtual {
  Sweep& sweep;
  Time now{1s};
  std::map<std::size_t, Duration> rtt{};
  std::multimap<Time, std::uint16_t> answers{};
  std::vector<Sweep::Probe> sent{};

  void run() {
    while (!sweep.done()) {
      while (const auto probe = sweep.poll(now)) {
        CHECK(probe->sent == now);
        CHECK(sweep.find(probe->id) != nullptr);
        sent.push_back(*probe);
        if (rtt[probe->path] >= 0ns) answers.insert({now + rtt[probe->path], probe->id});
      }
      Time next = sweep.next_event();
      if (!answers.empty()) next = std::min(next, answers.begin()->first);
      REQUIRE(next != kNever);
      now = std::max(now, next);
      for (; !answers.empty() && answers.begin()->first <= now; answers.erase(answers.begin()))
        if (sweep.find(answers.begin()->second) != nullptr)
          sweep.on_answer(now, answers.begin()->second);
      sweep.on_time(now);
    }
  }
};

TEST_CASE("sweep: every path gets its tries, and one probe under way") {
  Sweep sweep({10ms, 1e6});
  Virtual network{sweep};
  for (std::size_t path = 0; path < 50; ++path) {
    sweep.ask(path, 3);
    network.rtt[path] = (path + 1) * 10us;
  }
  network.run();
  CHECK(network.sent.size() == 150);
  for (std::size_t path = 0; path < 50; ++path) {
    const PathResult& r = sweep.results()[path];
    CHECK(r.tries == 3);
    CHECK(r.answered == 3);
    CHECK(r.lost() == 0);
    CHECK(r.rtts == std::vector<Duration>(3, (path + 1) * 10us));
  }
  Time last{};
  for (const Sweep::Probe& probe : network.sent) {
    if (probe.path != 49) continue;
    CHECK(probe.sent - last >= 500us);
    last = probe.sent;
  }
}

TEST_CASE("sweep: tries without an answer end with the timeout, all paths at once") {
  Sweep sweep({10ms, 1e6});
  Virtual network{sweep};
  for (std::size_t path = 0; path < 100; ++path) {
    sweep.ask(path, 3);
    network.rtt[path] = path == 7 ? 50us : -1ns;
  }
  network.run();
  CHECK(network.now - Time{1s} < 31ms);
  CHECK(sweep.results()[7].answered == 3);
  CHECK(sweep.results()[8].answered == 0);
  CHECK(sweep.results()[8].lost() == 3);
}

TEST_CASE("sweep: the rate holds over all paths, and a stop is made up for in part") {
  Sweep sweep({10ms, 1000});
  Virtual network{sweep};
  for (std::size_t path = 0; path < 100; ++path) sweep.ask(path, 1);
  network.run();
  for (std::size_t i = 10; i < network.sent.size(); ++i)
    CHECK(network.sent[i].sent - network.sent[i - 10].sent >= 7ms);
  CHECK(network.now - Time{1s} >= 96ms);

  Sweep late({10ms, 1000});
  for (std::size_t path = 0; path < 100; ++path) late.ask(path, 1);
  CHECK(late.poll(Time{1s}));
  unsigned burst = 0;
  while (late.poll(Time{2s})) ++burst;
  CHECK(burst >= 1);
  CHECK(burst <= 3);
}

TEST_CASE("sweep: a late answer counts, once") {
  Sweep sweep({10ms, 1e6}, 65'535);
  sweep.ask(0, 2);
  const auto first = sweep.poll(Time{1s});
  REQUIRE(first);
  CHECK(first->id == 65'535);
  CHECK(sweep.next_event() == Time{1s + 10ms});
  sweep.on_time(Time{1s + 10ms});
  const auto second = sweep.poll(Time{1s + 10ms});
  REQUIRE(second);
  CHECK(second->id == 0);
  sweep.on_answer(Time{1s + 12ms}, first->id);
  CHECK(sweep.find(first->id) == nullptr);
  sweep.on_answer(Time{1s + 13ms}, second->id);
  CHECK(sweep.done());
  CHECK(sweep.next_event() != Time{});
  CHECK(sweep.results()[0].tries == 2);
  CHECK(sweep.results()[0].lost() == 0);
  CHECK(sweep.results()[0].rtts == std::vector<Duration>{12ms, 3ms});
}

TEST_CASE("sweep: no more probes are under way than there are numbers") {
  Sweep sweep({1s, 1e9});
  for (std::size_t path = 0; path < 70'000; ++path) sweep.ask(path, 1);
  unsigned sent = 0;
  for (Time now{1s}; now < Time{1s + 100ms}; now += 1us)
    while (sweep.poll(now)) ++sent;
  CHECK(sent == 65'536);
  CHECK(sweep.next_event() == Time{2s});
  sweep.on_time(Time{3s});
  while (sweep.poll(Time{3s})) ++sent;
  CHECK(sent > 65'536);
}

TEST_CASE("sweep: more can be asked for while it runs") {
  Sweep sweep({10ms, 1e6});
  Virtual network{sweep};
  sweep.ask(0, 1);
  network.rtt = {{0, 20us}, {3, 30us}};
  CHECK(sweep.poll(network.now));
  sweep.ask(0, 2);
  sweep.ask(3, 1);
  sweep.ask(4, 0);
  sweep.on_answer(network.now + 20us, 0);
  network.run();
  CHECK(sweep.results()[0].tries == 3);
  CHECK(sweep.results()[1].tries == 0);
  CHECK(sweep.results()[3].tries == 1);
  CHECK(sweep.done());
}

}  // namespace sweep_test
