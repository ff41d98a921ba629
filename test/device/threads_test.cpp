// SPDX-License-Identifier: Apache-2.0
// Many threads on one device. What matters most is what the thread sanitizer says of it.
#include <doctest/doctest.h>
#include <poll.h>
#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <span>
#include <thread>
#include <vector>

#include "device_rig.hpp"
#include "mrc/stats_json.hpp"

using namespace mrc;
using namespace mrc::test;

namespace threads_test {

constexpr std::size_t kPiece = 8 << 10;

TEST_CASE("one thread posts, one polls, one waits, one reads statistics, one changes faults") {
  Pair pair(test_config("loopback:2"), 2 << 20);
  const std::size_t writes = pair.a.source.size() / kPiece;
  std::atomic<std::size_t> completed{0}, bad{0};
  std::atomic<bool> stop{false};
  const auto finished = [&] { return completed.load() == writes || stop.load(); };
  const auto take = [&](std::span<const Completion> done) {
    for (const Completion& c : done) bad += c.status != WcStatus::success;
    completed += done.size();
  };
  std::vector<std::jthread> threads;
  threads.emplace_back([&] {
    for (std::size_t i = 0; i < writes && !stop;) {
      const Errc e = post_copy(pair.a, pair.a.qps[0], pair.b, i * kPiece, kPiece, i);
      if (e == Errc::ok) ++i;
      if (e != Errc::ok) std::this_thread::yield();
      if (e != Errc::ok && e != Errc::queue_full) stop = true;
    }
  });
  threads.emplace_back([&] {
    std::array<Completion, 8> done;
    while (!finished()) {
      take({done.data(), pair.a.cq.poll(done)});
      std::this_thread::sleep_for(100us);
    }
  });
  threads.emplace_back([&] {
    std::array<Completion, 8> done;
    while (!finished()) take({done.data(), pair.a.cq.wait(done, 1ms)});
  });
  threads.emplace_back([&] {
    std::uint64_t last = 0;
    while (!finished()) {
      const DeviceStats stats = pair.a.device.stats();
      if (stats.engine.tx_data < last) ++bad;
      last = stats.engine.tx_data;
      if (to_json(stats).empty() || pair.a.device.paths(pair.a.qps[0]).size() != 8) ++bad;
      if (pair.a.qps[0].state() != QpState::rts || !pair.a.qps[0].error_text().empty()) ++bad;
      (void)pair.b.qps[0].stats();
      std::this_thread::sleep_for(200us);
    }
  });
  threads.emplace_back([&] {
    for (int i = 0; !finished(); ++i) {
      pair.b.device.set_faults(i % 2 == 0 ? "loss=0.02,reorder=0.02" : "");
      std::this_thread::sleep_for(2ms);
    }
  });
  (void)eventually(finished);
  stop = true;
  for (auto& thread : threads) thread.join();
  CHECK(completed == writes);
  CHECK(bad == 0);
  CHECK(pair.a.source == pair.b.target);
}

TEST_CASE("objects are made and closed while others transfer") {
  Pair pair(test_config("loopback:2"), 1 << 20);
  std::atomic<bool> stop{false};
  std::atomic<std::size_t> rounds{0};
  const Time end = monotonic_now() + kPatience;
  std::vector<std::jthread> threads;
  for (std::uint64_t t = 0; t < 2; ++t) {
    threads.emplace_back([&] {
      std::vector<std::uint8_t> memory(4096);
      while (!stop && monotonic_now() < end) {
        auto cq = pair.a.device.create_cq(8);
        auto other_cq = pair.b.device.create_cq(8);
        auto region = pair.a.device.register_memory(std::span(memory), Access::none);
        QpOptions options;
        options.send_cq = &cq;
        auto qp = pair.a.device.create_qp(options);
        options.send_cq = &other_cq;
        auto other = pair.b.device.create_qp(options);
        connect(qp, other);
        const Sge sge{memory.data(), 4096, region.lkey()};
        SendRequest request;
        request.sges = {&sge, 1};  // to nowhere: both sides fail, and both are closed
        if (qp.post_send(request) == Errc::ok) ++rounds;
        (void)qp.to_error();
        (void)qp.reset();
      }
    });
  }
  pair.copy_all();
  while (rounds < 20 && monotonic_now() < end) pair.copy_all();
  stop = true;
  for (auto& thread : threads) thread.join();
  CHECK(rounds >= 20);
  CHECK(pair.a.device.stats().qps == 1);
  CHECK(pair.a.device.stats().cqs == 1);
}

TEST_CASE("devices open and close beside one another") {
  std::atomic<int> good{0};
  std::vector<std::jthread> threads;
  for (std::uint64_t t = 0; t < 3; ++t) {
    threads.emplace_back([&good, t] {
      for (std::uint64_t i = 0; i < 3; ++i) {
        Side side(test_config("loopback:2", 100 * t + i), 4096);
        side.qps.reserve(2);
        connect(side.add_qp(), side.add_qp());
        if (post_copy(side, side.qps[0], side, 0, 4096) != Errc::ok) return;
        Completion done;
        if (side.cq.wait({&done, 1}, kPatience) == 1 && side.source == side.target) ++good;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  CHECK(good == 9);
}

TEST_CASE(
    "a thread that waits takes no event from one that arms the queue and polls its descriptor") {
  Pair pair(test_config("loopback:2"), 64 << 10);
  std::atomic<bool> stop{false};
  std::atomic<std::size_t> completed{0};
  std::jthread waiter([&] {
    std::array<Completion, 8> done;
    while (!stop) completed += pair.a.cq.wait(done, 50ms);
  });
  constexpr std::size_t kRounds = 400;
  std::size_t events = 0;
  while (events < kRounds) {
    REQUIRE(pair.a.cq.arm() == Errc::ok);
    REQUIRE(post_copy(pair.a, pair.a.qps[0], pair.b, 0, 64) == Errc::ok);
    pollfd ready{pair.a.cq.fd(), POLLIN, 0};
    const auto patience = static_cast<int>(std::chrono::milliseconds(kPatience).count());
    if (::poll(&ready, 1, patience) != 1) break;
    std::uint64_t count = 0;
    REQUIRE(::read(ready.fd, &count, sizeof count) == sizeof count);
    CHECK(count == 1);
    ++events;
    REQUIRE(eventually([&] { return completed == events; }));
  }
  stop = true;
  CHECK(events == kRounds);
}

TEST_CASE("a thread that waits wakes up also if there is no descriptor left to wake it") {
  const auto waits = [](Pair& pair) {
    std::size_t got = 0;
    std::thread waiter([&] {
      std::array<Completion, 1> done;
      got = pair.a.cq.wait(done, kPatience);
    });
    std::this_thread::sleep_for(20ms);  // most often it sleeps by then
    const Errc posted = post_copy(pair.a, pair.a.qps[0], pair.b, 0, 64);
    waiter.join();
    return posted == Errc::ok && got == 1;
  };
  Pair with(test_config("loopback:2"), 64 << 10);
  Pair without(test_config("loopback:2"), 64 << 10);
  CHECK(waits(with));  // first: a sanitizer's own first look at a type takes descriptors
  const auto files = open_files();
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &before) == 0);
  const UniqueFd lowest(::dup(0));
  const rlimit none{static_cast<rlim_t>(lowest.fd()), before.rlim_max};
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &none) == 0);
  const bool no_more = ::dup(0) < 0;
  const bool woken = waits(without);
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &before) == 0);
  CHECK(no_more);
  CHECK(woken);
  CHECK(open_files() == files + 1);  // with `lowest`
}

}  // namespace threads_test
