// SPDX-License-Identifier: Apache-2.0
// Many threads on a device of several lanes. What matters most is what the thread sanitizer says.
#include <doctest/doctest.h>

#include <array>
#include <atomic>
#include <thread>
#include <vector>

#include "lanes_rig.hpp"

using namespace mrc;
using namespace mrc::test;

TEST_CASE("lanes: threads with queues of their own, while others open and close") {
  constexpr unsigned kThreads = 3, kRounds = 30;
  constexpr std::size_t kShare = 128 << 10;
  for (const unsigned lanes : {1u, kThreads}) {
    CAPTURE(lanes);
    LanePair pair(lanes_config(static_cast<std::uint16_t>(lanes)), kThreads * kShare);
    std::atomic<bool> stop{false};
    std::atomic<unsigned> bad{0};
    std::vector<std::jthread> threads;
    for (unsigned t = 0; t < kThreads; ++t)
      threads.emplace_back([&, t] {
        CompletionQueue cq = pair.a.device.create_cq(64);
        QueuePair from = in_lane(pair.a, t % lanes, cq),
                  to = in_lane(pair.b, (kThreads - 1 - t) % lanes, pair.b.cq);
        connect(from, to);
        std::array<Completion, 4> done;
        for (unsigned round = 0; round < kRounds; ++round) {
          if (post_copy(pair.a, from, pair.b, t * kShare, kShare, round) != Errc::ok) ++bad;
          std::size_t n = 0;
          const Time end = monotonic_now() + kPatience;
          while (n == 0 && monotonic_now() < end)
            n = round % 2 == 0 ? cq.poll(done) : cq.wait(done, 1s);
          if (n != 1 || done[0].status != WcStatus::success || done[0].wr_id != round ||
              done[0].qpn != from.qpn())
            ++bad;
        }
      });
    std::jthread opener([&] {
      std::vector<std::uint8_t> memory(4096);
      while (!stop) {
        const PdId pd = pair.a.device.alloc_pd();
        MemoryRegion region =
            pair.a.device.register_memory(memory.data(), memory.size(), Access::remote_write, pd);
        CompletionQueue cq = pair.a.device.create_cq(8);
        QpOptions options;
        options.send_cq = &cq;
        QueuePair qp = pair.a.device.create_qp(options);
        if (pair.a.device.dealloc_pd(pd) != Errc::in_use) ++bad;
        if (cq.close() != Errc::in_use) ++bad;
        if (qp.close() != Errc::ok || cq.close() != Errc::ok) ++bad;
        if (region.close() != Errc::ok || pair.a.device.dealloc_pd(pd) != Errc::ok) ++bad;
      }
    });
    std::jthread reader([&] {
      while (!stop) {
        if (pair.a.device.stats().lanes.size() != lanes) ++bad;
        (void)pair.b.device.progress();
        std::this_thread::sleep_for(200us);
      }
    });
    threads.clear();
    stop = true;
    opener.join();
    reader.join();
    CHECK(bad == 0);
    CHECK(pair.a.source == pair.b.target);
  }
}

TEST_CASE("lanes: threads that share a completion queue of one lane or several") {
  for (const std::uint16_t lanes : {1, 4}) {
    CAPTURE(lanes);
    LanePair pair(lanes_config(lanes), 1 << 20);
    constexpr std::size_t kWrites = 800;
    std::atomic<std::size_t> completed{0}, bad{0};
    std::vector<std::jthread> threads;
    const Time end = monotonic_now() + kPatience;
    for (unsigned i = 0; i < 3; ++i)
      threads.emplace_back([&, i] {
        std::array<Completion, 8> done;
        while (completed < kWrites && monotonic_now() < end) {
          const std::size_t n = i == 0 ? pair.a.cq.poll(done) : pair.a.cq.wait(done, 50ms);
          for (std::size_t k = 0; k < n; ++k) bad += done[k].status != WcStatus::success;
          completed += n;
        }
      });
    for (std::size_t posted = 0; posted < kWrites && monotonic_now() < end;) {
      const std::size_t i = posted % lanes;
      const Errc e = post_copy(pair.a, pair.a.qps[i], pair.b, i * 4096, 4096);
      if (e == Errc::ok) ++posted;
      if (e != Errc::ok) std::this_thread::yield();
      if (posted % 80 == 0) std::this_thread::sleep_for(2ms);  // those that wait fall asleep
    }
    threads.clear();
    CHECK(completed == kWrites);
    CHECK(bad == 0);
  }
}
