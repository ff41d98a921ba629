// SPDX-License-Identifier: Apache-2.0
// Who makes progress: the polling application, the waiting one, or the helper thread.
#include <doctest/doctest.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <thread>

#include "device_rig.hpp"

using namespace mrc;
using namespace mrc::test;

namespace progress_test {

/// CPU time of all threads of this process.
Duration cpu_time() {
  timespec t{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return std::chrono::seconds(t.tv_sec) + std::chrono::nanoseconds(t.tv_nsec);
}

/// Waits on the queue in a thread of its own.
class Waiter {
 public:
  explicit Waiter(CompletionQueue& cq, Duration timeout = kPatience)
      : thread_([this, &cq, timeout] {
          count_ = cq.wait(done_, timeout);
          time_ = monotonic_now() - start_;
        }) {
    std::this_thread::sleep_for(20ms);  // it sleeps deeply now
  }
  std::size_t join() {
    thread_.join();
    return count_;
  }
  [[nodiscard]] Duration time() const { return time_; }
  [[nodiscard]] const Completion& first() const { return done_[0]; }

 private:
  Time start_ = monotonic_now();
  std::array<Completion, 16> done_;
  std::size_t count_ = 0;
  Duration time_{};
  std::jthread thread_;
};

/// Less than the patience of a test by far: the wait was ended, it did not run out.
constexpr Duration kEnded = kPatience / 3;

TEST_CASE("progress: after a pause one round takes all that waits in the sockets") {
  Config config = test_config("loopback:1");
  config.cc = cc::Algorithm::none;
  config.expert.burst = 1;  // each packet is a datagram, on a path of its own
  config.timeout = 24;
  Config still = Pair::other(config);
  still.helper = false;
  Pair pair(config, still);
  constexpr unsigned kPackets = 100;  // one reading takes 16
  for (unsigned i = 0; i < kPackets; ++i)
    REQUIRE(post_copy(pair.a, pair.a.qps[0], pair.b, i * 64, 64) == Errc::ok);
  CHECK(eventually([&] { return pair.a.device.stats().engine.tx_data == kPackets; }));
  CHECK(pair.b.device.stats().engine.rx_data == 0);
  std::this_thread::sleep_for(2ms);
  (void)pair.b.device.progress();
  CHECK(pair.b.device.stats().engine.rx_data == kPackets);
}

TEST_CASE("wait: runs out") {
  Pair pair;
  Completion done;
  for (const Duration timeout : {Duration{-5s}, Duration{0}, Duration{50ms}}) {
    const Time start = monotonic_now();
    CHECK(pair.a.cq.wait({&done, 1}, timeout) == 0);
    CHECK(monotonic_now() - start >= timeout);
    CHECK(monotonic_now() - start < kEnded);
  }
}

TEST_CASE("wait: sleeps without using the CPU") {
  Pair pair;
  Waiter waiter(pair.a.cq, 500ms);
  const Duration before = cpu_time();
  CHECK(waiter.join() == 0);
  CHECK(waiter.time() >= 500ms);
  CHECK(cpu_time() - before < 250ms);
}

TEST_CASE("wait: ended by what another thread posts") {
  for (const bool spin : {false, true}) {
    CAPTURE(spin);
    Config config = test_config();
    config.expert.spin = spin ? Duration{1s} : Duration{0};
    Pair pair(config);
    Waiter waiter(pair.a.cq);
    REQUIRE(post_copy(pair.a, pair.a.qps[0], pair.b, 0, 100, 42) == Errc::ok);
    CHECK(waiter.join() == 1);
    CHECK(waiter.first().wr_id == 42);
    CHECK(waiter.time() < kEnded);
  }
}

TEST_CASE("wait: the thread that sleeps there sends again what was lost") {
  // What was sent before the loss began has been answered: nothing else wakes the waiter.
  for (const bool helper : {true, false}) {
    CAPTURE(helper);
    Config config = test_config();
    config.helper = helper;
    Pair pair(config);
    if (helper) pair.copy_all();
    pair.b.device.set_faults("blackhole");
    Waiter waiter(pair.a.cq);
    REQUIRE(post_copy(pair.a, pair.a.qps[0], pair.b, 0, 100, 1) == Errc::ok);
    REQUIRE(post_copy(pair.a, pair.a.qps[0], pair.b, 0, 100, 2) == Errc::ok);
    CHECK(eventually([&] { return pair.a.device.stats().engine.tx_retransmits > 0; }));
    pair.b.device.set_faults("");
    // Without helpers this thread has to see to the peer.
    if (!helper)
      CHECK(eventually([&] {
        (void)pair.b.device.progress();
        return pair.a.qps[0].stats().writes_completed == 2;
      }));
    CHECK(waiter.join() > 0);
    CHECK(waiter.time() < kEnded);
  }
}

TEST_CASE("wait: ended by completions that no packet brings") {
  SUBCASE("the queue pair is moved to ERR") {
    Pair pair;
    REQUIRE(pair.a.qps[0].post_receive(9) == Errc::ok);
    Waiter waiter(pair.a.cq);
    CHECK(pair.a.qps[0].to_error() == Errc::ok);
    CHECK(waiter.join() == 1);
    CHECK(waiter.first().status == WcStatus::wr_flush_err);
    CHECK(waiter.time() < kEnded);
  }
  SUBCASE("memory is withdrawn") {
    Config config = test_config();
    config.timeout = 24;  // nothing is sent again for 17 s
    Pair pair(config);
    pair.b.device.set_faults("blackhole");
    REQUIRE(post_copy(pair.a, pair.a.qps[0], pair.b, 0, 100) == Errc::ok);
    Waiter waiter(pair.a.cq);
    pair.a.source_region = MemoryRegion();
    CHECK(waiter.join() == 1);
    CHECK(waiter.first().status == WcStatus::loc_prot_err);
    CHECK(waiter.time() < kEnded);
  }
}

TEST_CASE("a passive side does nothing at all") {
  Pair pair(test_config("loopback:2"), 8 << 20);
  const auto before = pair.b.device.stats();
  pair.copy_all();  // only this side's queue is waited on
  CHECK(pair.b.device.stats().helper_rounds > before.helper_rounds);
}

TEST_CASE("a program may poll the last byte of a message, whoever writes it") {
  Pair pair(test_config("loopback:4"));
  std::size_t offset = 0;
  for (const std::size_t size : {1u, 2u, 3u, 7u, 8u, 12u, 20u, 100u, 4096u, 4097u, 100'000u}) {
    CAPTURE(size);
    std::uint8_t& last = pair.a.source[offset + size - 1];
    if (last == 0) last = 1;
    REQUIRE(post_copy(pair.a, pair.a.qps[0], pair.b, offset, size) == Errc::ok);
    // The thread sanitizer would complain if what is read below were not ordered by this.
    const std::atomic_ref<std::uint8_t> polled(pair.b.target[offset + size - 1]);
    CHECK(eventually([&] { return polled.load(std::memory_order_acquire) == last; }));
    CHECK(std::memcmp(&pair.a.source[offset], &pair.b.target[offset], size) == 0);
    CHECK(pair.a.await_one().status == WcStatus::success);
    offset += size + offset % 3;  // also odd places
  }
}

TEST_CASE("without a helper nothing moves between polls") {
  Config config = test_config();
  config.helper = false;
  Pair pair(config);
  REQUIRE(post_copy(pair.a, pair.a.qps[0], pair.b, 0, 100'000) == Errc::ok);
  std::this_thread::sleep_for(50ms);
  CHECK(pair.b.qps[0].stats().rx_packets == 0);
  CHECK(pair.b.device.stats().helper_rounds == 0);
  // Each side has to be called.
  Completion done;
  CHECK(eventually([&] {
    (void)pair.b.device.progress();
    return pair.a.cq.poll({&done, 1}) == 1;
  }));
  CHECK(done.status == WcStatus::success);
  CHECK(std::equal(pair.b.target.begin(), pair.b.target.begin() + 100'000, pair.a.source.begin()));
}

TEST_CASE("arm: the queue's descriptor works with epoll") {
  Pair pair;
  const int epoll = epoll_create1(EPOLL_CLOEXEC);
  epoll_event event{};
  event.events = EPOLLIN;
  REQUIRE(epoll_ctl(epoll, EPOLL_CTL_ADD, pair.a.cq.fd(), &event) == 0);
  const auto fires = [&](int ms) { return epoll_wait(epoll, &event, 1, ms) == 1; };
  const auto clear = [&] {
    std::uint64_t count = 0;
    CHECK(::read(pair.a.cq.fd(), &count, sizeof count) == sizeof count);
  };
  Completion done;
  for (std::uint64_t round = 0; round < 5; ++round) {
    CAPTURE(round);
    CHECK_FALSE(fires(0));
    CHECK(pair.a.cq.arm() == Errc::ok);
    CHECK(pair.a.cq.poll({&done, 1}) == 0);
    CHECK_FALSE(fires(0));
    REQUIRE(post_copy(pair.a, pair.a.qps[0], pair.b, 0, 100'000, round) == Errc::ok);
    CHECK(fires(30'000));  // the helper brings it
    clear();
    REQUIRE(pair.a.cq.poll({&done, 1}) == 1);
    CHECK(done.wr_id == round);
    // Once is once: without arming there is no second event.
    REQUIRE(post_copy(pair.a, pair.a.qps[0], pair.b, 0, 100) == Errc::ok);
    CHECK(eventually([&] { return pair.a.qps[0].stats().writes_completed == 2 * round + 2; }));
    CHECK_FALSE(fires(5));
    REQUIRE(pair.a.cq.poll({&done, 1}) == 1);
  }
  // Also for completions that no packet brings.
  CHECK(pair.a.cq.arm() == Errc::ok);
  REQUIRE(pair.a.qps[0].post_receive(1) == Errc::ok);
  CHECK(pair.a.qps[0].to_error() == Errc::ok);
  CHECK(fires(30'000));
  ::close(epoll);
}

TEST_CASE("an idle device rests") {
  Pair pair;
  pair.copy_all();
  const auto rounds = [&] {
    return pair.a.device.stats().helper_rounds + pair.b.device.stats().helper_rounds;
  };
  // What is under way comes to its end: late acknowledgements, probes, the look after a busy time.
  // Then nothing happens at all, not even a timer.
  Duration cpu{};
  CHECK(eventually([&] {
    const auto before = rounds();
    cpu = cpu_time();
    std::this_thread::sleep_for(500ms);
    cpu = cpu_time() - cpu;
    return rounds() == before;
  }));
  CHECK(cpu < 100ms);
  // And is there at once when something comes.
  REQUIRE(post_copy(pair.a, pair.a.qps[0], pair.b, 0, 100) == Errc::ok);
  CHECK(pair.a.await_one().status == WcStatus::success);
}

/// Device b polls until a packet is there, and not again.
void poll_for_one(Pair& pair) {
  REQUIRE(post_copy(pair.a, pair.a.qps[0], pair.b, 0, 100) == Errc::ok);
  CHECK(eventually([&] { return pair.b.qps[0].stats().rx_packets > 0; },
                   [&] { (void)pair.b.device.progress(); }));
  CHECK(std::equal(&pair.a.source[0], &pair.a.source[100], &pair.b.target[0]));
}
std::uint64_t answers(const Device& device) {
  const auto stats = device.stats().engine;
  return stats.sacks_sent + stats.acks_sent;
}

TEST_CASE("a polling program has its message before the answer to it is sent") {
  Config config = test_config("loopback:1");
  config.helper = false;
  Pair pair(config, 4096);
  poll_for_one(pair);
  CHECK(answers(pair.b.device) == 0);
  SUBCASE("the next call is for that") {
    CHECK(pair.b.device.progress());
  }
  SUBCASE("a reply takes it along") {
    REQUIRE(post_copy(pair.b, pair.b.qps[0], pair.a, 0, 100) == Errc::ok);
  }
  SUBCASE("so does a reset") {
    CHECK(pair.b.qps[0].reset() == Errc::ok);
  }
  SUBCASE("a poll between arming and sleeping sends it") {
    CHECK(pair.b.cq.arm() == Errc::ok);
    CHECK(pair.b.cq.poll({}) == 0);
  }
  SUBCASE("a wait sends it, too") {
    CHECK(pair.b.cq.wait({}, Duration{0}) == 0);
  }
  CHECK(answers(pair.b.device) == 2);
}

TEST_CASE("a poll that finds completions sends what is left before the program works on them") {
  Config config = test_config("loopback:1");
  config.helper = false;
  Pair pair(config, 4096);
  REQUIRE(post_copy(pair.b, pair.b.qps[0], pair.a, 0, 100) == Errc::ok);
  CHECK(eventually([&] { return answers(pair.a.device) >= 2; },
                   [&] { (void)pair.a.device.progress(); }));
  poll_for_one(pair);  // that brings b a completion, and a message to answer
  CHECK(answers(pair.b.device) == 0);
  Completion done;
  CHECK(pair.b.cq.poll({&done, 1}) == 1);
  CHECK(answers(pair.b.device) == 2);
}

TEST_CASE("a wait sleeps although no plane is up") {
  Pair pair(test_config("loopback:1"));
  pair.a.device.set_faults("down");
  REQUIRE(post_copy(pair.a, pair.a.qps[0], pair.b, 0, 100) == Errc::ok);
  const Duration before = cpu_time();
  Completion done;
  CHECK(pair.a.cq.wait({&done, 1}, 300ms) == 0);
  CHECK(cpu_time() - before < 150ms);
  pair.a.device.set_faults("");
  CHECK(pair.a.await_one().status == WcStatus::success);
}

TEST_CASE("a program that polls once and leaves does not keep the answer back") {
  Config config = test_config("loopback:1");
  Config silent = Pair::other(config);
  silent.helper = false;  // it sends once, and will not send again and wake the other side so
  Pair pair(silent, config, 4096);
  for (int round = 0; round < 10; ++round) {  // the helper may be faster, now and then
    const std::uint64_t before = answers(pair.b.device), packets = pair.b.qps[0].stats().rx_packets;
    std::this_thread::sleep_for(5 * config.expert.helper_takeover);  // it sleeps deeply now
    REQUIRE(post_copy(pair.a, pair.a.qps[0], pair.b, 0, 100) == Errc::ok);
    CHECK(eventually([&] { return pair.b.qps[0].stats().rx_packets > packets; },
                     [&] { (void)pair.b.device.progress(); }));
    CHECK(eventually([&] { return answers(pair.b.device) >= before + 2; }));
    CHECK(pair.a.await_one().status == WcStatus::success);
  }
}

TEST_CASE("faults of the configuration end on time while nobody polls") {
  Config config = test_config("loopback:2");
  config.faults = "down@0s-3s";
  Side side(config, 4096);
  CHECK_FALSE(side.device.stats().planes[0].up);
  CHECK(eventually([&] { return side.device.stats().planes[0].up; }));
}

}  // namespace progress_test
