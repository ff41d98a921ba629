// SPDX-License-Identifier: Apache-2.0
// Devices with ports that are not OpenMRC's own, as a program may bring them.
#include <doctest/doctest.h>

#include <array>
#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "lanes_rig.hpp"
#include "support/memory_planes.hpp"

using namespace mrc;
using namespace mrc::test;

namespace own_port_test {

/// A side of a pair over planes in memory, with a queue pair in each lane.
struct MemorySide : Side {
  MemorySide(const std::shared_ptr<MemoryNetwork>& network, std::uint8_t host, const Config& config,
             bool holds)
      : Side(config, 1 << 20, std::make_unique<MemoryKind>(network, host, holds)) {
    for (unsigned lane = 0; lane < device.lane_count(); ++lane)
      qps.push_back(in_lane(*this, lane, cq));
  }
  Errc post(std::size_t qp, const Side& to, std::size_t offset, std::size_t size) {
    return post_copy(*this, qps[qp], to, offset, size);
  }
};

struct MemoryPair {
  explicit MemoryPair(const Config& config, bool holds = false)
      : a(network, 1, config, holds), b(network, 2, config, holds) {
    for (std::size_t i = 0; i < a.qps.size(); ++i) connect(a.qps[i], b.qps[i]);
  }
  std::shared_ptr<MemoryNetwork> network = std::make_shared<MemoryNetwork>();
  MemorySide a, b;
};

TEST_CASE("own ports: threads sleep on armed ports of all lanes, and every byte arrives") {
  for (const std::uint16_t lanes : {1, 3})
    for (const bool holds : {false, true}) {
      CAPTURE(lanes);
      CAPTURE(holds);
      Config config = lanes_config(lanes);
      config.expert.spin = Duration{0};
      MemoryPair pair(config, holds);
      constexpr unsigned kMessages = 16;
      const std::size_t size = pair.a.source.size() / kMessages;
      for (unsigned round = 0; round < kMessages; ++round) {
        REQUIRE(pair.a.post(round % lanes, pair.b, round * size, size) == Errc::ok);
        std::array<Completion, 1> done;
        REQUIRE(pair.a.cq.wait(done, kPatience) == 1);
        REQUIRE(done[0].status == WcStatus::success);
        if (round % 4 == 0) std::this_thread::sleep_for(2ms);  // all threads fall asleep
      }
      CHECK(pair.a.source == pair.b.target);
    }
}

TEST_CASE("own ports: a region is deregistered when the port has given all of its bytes back") {
  for (const std::uint16_t lanes : {1, 2}) {
    CAPTURE(lanes);
    const std::size_t last = lanes - 1u;
    MemoryPair pair(lanes_config(lanes), true);
    pair.network->stalled = true;
    REQUIRE(pair.a.post(last, pair.b, 0, 8192) == Errc::ok);
    CHECK(eventually([&] { return pair.a.qps[last].stats().tx_packets > 0; },
                     [&] { (void)pair.a.device.progress(); }));
    CHECK(pair.a.source_region.close() == Errc::in_use);
    std::atomic<bool> closed{false};
    std::jthread closing([&] {
      pair.a.source_region = MemoryRegion();  // by force: the request fails
      closed = true;
    });
    CHECK(eventually([&] { return pair.a.qps[last].state() == QpState::err; }));
    std::this_thread::sleep_for(20ms);
    CHECK_FALSE(closed);
    pair.network->stalled = false;
    closing.join();
    CHECK(closed);
  }
}

TEST_CASE("own ports: what a port has to say of itself gets to the peer's port") {
  const MemoryPair pair(lanes_config(2));
  for (const QueuePair& qp : pair.b.qps) {
    ConnectionInfo info = qp.local_info();
    REQUIRE(info.port_data.size() == info.planes.size());
    CHECK(info.port_data[1] == std::vector<std::uint8_t>{
                                   0xDA, 2, 1, static_cast<std::uint8_t>(info.planes[1].udp_port)});
    CHECK(decode_connection_info(encode(info)).port_data == info.port_data);
  }
  // A peer that says something else is another one: it is not reached by the way of the first.
  MemoryPair other(impatient_config("loopback:1"));
  QpOptions options;
  options.send_cq = &other.a.cq;
  QueuePair qp = other.a.device.create_qp(options);
  ConnectionInfo wrong = other.b.qps[0].local_info();
  wrong.port_data[0].back() ^= 1;
  qp.connect(wrong);
  CHECK(other.a.device.stats().peers == 2);
  CHECK(Side(test_config()).add_qp().local_info().port_data.empty());
}

TEST_CASE("own ports: a device without a kind of planes is an error") {
  CHECK_THROWS_AS((void)Device(test_config(), nullptr), Error);
}

TEST_CASE("own ports: a receive buffer that runs full, and an application, make senders slow") {
  Config config = lanes_config(1);
  config.cc_base_rtt = std::chrono::seconds(1);  // no round trip is long here
  MemoryPair pair(config);
  const auto window = [&] { return pair.a.qps[0].stats().cwnd; };
  const auto write = [&] {
    REQUIRE(pair.a.post(0, pair.b, 0, 1 << 18) == Errc::ok);
    Completion c;
    REQUIRE(pair.a.cq.wait({&c, 1}, std::chrono::seconds(20)) == 1);
    CHECK(c.status == WcStatus::success);
  };
  const std::uint64_t full = window();
  REQUIRE(full > 1'000'000'000);
  write();
  CHECK(window() == full);
  pair.network->fill = 128;
  for (int i = 0; i < 100 && window() == full; ++i) write();
  CHECK(window() < full / 4);
  pair.network->fill = 0;
  for (int i = 0; i < 100 && window() != full; ++i) write();
  CHECK(window() == full);

  CHECK_THROWS_AS(pair.b.device.set_receiver_penalty(128), Error);
  pair.b.device.set_receiver_penalty(127);
  for (int i = 0; i < 100 && window() == full; ++i) write();
  CHECK(window() < full / 4);
  pair.b.device.set_receiver_penalty(0);
  for (int i = 0; i < 100 && window() != full; ++i) write();
  CHECK(window() == full);
}

}  // namespace own_port_test
