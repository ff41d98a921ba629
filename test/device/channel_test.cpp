// SPDX-License-Identifier: Apache-2.0
// Completion channels: events of several queues on one descriptor, counted acknowledgements, and
// solicited events.
#include <doctest/doctest.h>
#include <poll.h>

#include <atomic>
#include <map>
#include <thread>

#include "device_rig.hpp"

using namespace mrc;
using namespace mrc::test;

namespace channel_test {

/// A receiver with queues on one channel, a queue pair for each, and a sender.
struct Channels {
  explicit Channels(unsigned queues = 3) : a(test_config()), b(Pair::other(test_config())) {
    a.qps.reserve(queues);
    channel = b.device.create_channel();
    for (unsigned i = 0; i < queues; ++i) {
      cqs.push_back(b.device.create_cq(64, &channel));
      QpOptions options;
      options.send_cq = &cqs.back();
      qps.push_back(b.device.create_qp(options));
      connect(a.add_qp(), qps.back());
      for (std::uint64_t id = 0; id < 16; ++id) REQUIRE(qps[i].post_receive(id) == Errc::ok);
    }
  }
  void send(unsigned i, bool solicited = false) {
    SendRequest request;
    request.opcode = SendOpcode::write_imm;
    request.immediate = i;
    request.flags.solicited = solicited;
    REQUIRE(a.qps[i].post_send(request) == Errc::ok);
    REQUIRE(a.await_one().status == WcStatus::success);
  }
  [[nodiscard]] bool readable() const {
    pollfd fd{channel.fd(), POLLIN, 0};
    return poll(&fd, 1, 0) == 1;
  }

  Side a, b;
  CompletionChannel channel;
  std::vector<CompletionQueue> cqs;
  std::vector<QueuePair> qps;
};

TEST_CASE("channel: one event for each armed queue, and none for the others") {
  Channels c;
  CHECK_FALSE(c.readable());
  REQUIRE(c.cqs[0].arm() == Errc::ok);
  REQUIRE(c.cqs[2].arm() == Errc::ok);
  for (const unsigned i : {2u, 1u, 0u, 2u}) c.send(i);
  const auto first = c.channel.wait(kPatience), second = c.channel.wait(kPatience);
  REQUIRE(first.has_value());
  REQUIRE(second.has_value());
  CHECK(*first == c.cqs[2].id());
  CHECK(*second == c.cqs[0].id());
  CHECK_FALSE(c.channel.poll().has_value());
  CHECK_FALSE(c.channel.wait(10ms).has_value());
  Completion done[4];
  CHECK(c.cqs[2].poll(done) == 2);
  CHECK(c.cqs[1].poll(done) == 1);
}

TEST_CASE("channel: a queue is closed only when its events are acknowledged") {
  Channels c(2);
  REQUIRE(c.cqs[0].arm() == Errc::ok);
  c.send(0);
  REQUIRE(c.channel.wait(kPatience).has_value());
  REQUIRE(c.qps[0].close() == Errc::ok);
  CHECK(c.cqs[0].close() == Errc::in_use);
  c.cqs[0].acknowledge();
  CHECK(c.cqs[0].close() == Errc::ok);
  // An event that was never taken goes with its queue.
  REQUIRE(c.cqs[1].arm() == Errc::ok);
  c.send(1);
  CHECK(eventually([&] { return c.readable(); }));
  REQUIRE(c.qps[1].close() == Errc::ok);
  CHECK(c.cqs[1].close() == Errc::ok);
  CHECK_FALSE(c.readable());
  CHECK_FALSE(c.channel.poll().has_value());
}

TEST_CASE("channel: a queue armed over and over has one event waiting, and displaces no other's") {
  Channels c(2);
  Completion done[4];
  for (int i = 0; i < 10; ++i) {
    REQUIRE(c.cqs[0].arm() == Errc::ok);
    c.send(0);
    REQUIRE(c.cqs[0].wait(done, kPatience) == 1);
    REQUIRE(c.qps[0].post_receive(0) == Errc::ok);
  }
  REQUIRE(c.cqs[1].arm() == Errc::ok);
  c.send(1);
  const auto first = c.channel.wait(kPatience), second = c.channel.wait(kPatience);
  REQUIRE(first.has_value());
  REQUIRE(second.has_value());
  CHECK(*first == c.cqs[0].id());
  CHECK(*second == c.cqs[1].id());
  CHECK_FALSE(c.channel.poll().has_value());
  c.cqs[0].acknowledge();
  c.cqs[1].acknowledge();
}

TEST_CASE("channel: armed for solicited completions only") {
  Channels c(1);
  REQUIRE(c.cqs[0].arm(Arm::solicited) == Errc::ok);
  c.send(0, false);
  CHECK_FALSE(c.channel.wait(50ms).has_value());
  c.send(0, true);
  REQUIRE(c.channel.wait(kPatience).has_value());
  c.cqs[0].acknowledge();
  Completion done[4];
  REQUIRE(c.cqs[0].poll(done) == 2);
  CHECK_FALSE(done[0].solicited);
  CHECK(done[1].solicited);
  // A failure is always worth an event, and "all" is not weakened by "solicited".
  REQUIRE(c.cqs[0].arm(Arm::solicited) == Errc::ok);
  REQUIRE(c.qps[0].to_error() == Errc::ok);
  CHECK(c.channel.wait(kPatience).has_value());
  c.cqs[0].acknowledge();
}

TEST_CASE("channel: 'all' is not weakened by a later 'solicited'") {
  Channels c(1);
  REQUIRE(c.cqs[0].arm(Arm::all) == Errc::ok);
  REQUIRE(c.cqs[0].arm(Arm::solicited) == Errc::ok);
  c.send(0, false);
  CHECK(c.channel.wait(kPatience).has_value());
  c.cqs[0].acknowledge();
}

TEST_CASE("channel: wait() on a queue takes no event from its channel, and gives it none") {
  Channels c(1);
  std::thread waiter([&] {
    Completion done;
    CHECK(c.cqs[0].wait({&done, 1}, kPatience) == 1);
  });
  std::this_thread::sleep_for(20ms);
  c.send(0);
  waiter.join();
  CHECK_FALSE(c.channel.poll().has_value());
}

TEST_CASE("channel: threads that arm, wait and acknowledge, while others send") {
  Channels c(3);
  constexpr unsigned kMessages = 200;
  std::atomic<unsigned> received{0};
  std::thread receiver([&] {
    std::map<CqId, std::size_t> which;
    Completion done[8];
    const auto arm_and_drain = [&](std::size_t i) {
      CHECK(c.cqs[i].arm() == Errc::ok);
      while (const std::size_t n = c.cqs[i].poll(done)) {
        for (std::size_t k = 0; k < n; ++k) CHECK(c.qps[i].post_receive(0) == Errc::ok);
        received += static_cast<unsigned>(n);
      }
    };
    for (std::size_t i = 0; i < c.cqs.size(); ++i) {
      which[c.cqs[i].id()] = i;
      arm_and_drain(i);
    }
    while (received < kMessages) {
      const auto cq = c.channel.wait(kPatience);
      if (!cq) break;
      arm_and_drain(which[*cq]);
      c.cqs[which[*cq]].acknowledge();
    }
  });
  const Time end = monotonic_now() + kPatience;
  for (unsigned n = 0; n < kMessages; ++n) {
    while (n > received + 8 && monotonic_now() < end) std::this_thread::yield();  // of 16 receives
    c.send(n % 3);
  }
  receiver.join();
  CHECK(received == kMessages);
}

TEST_CASE("channel: of another device, or none") {
  Side a(test_config()), b(Pair::other(test_config()));
  const CompletionChannel other = b.device.create_channel();
  CHECK_THROWS_WITH_AS((void)a.device.create_cq(8, &other), doctest::Contains("another device"),
                       Error);
  CompletionChannel none;
  CHECK(none.fd() == -1);
  CHECK_FALSE(none.poll().has_value());
  CHECK_FALSE(none.wait(1ms).has_value());
}

}  // namespace channel_test
