// SPDX-License-Identifier: Apache-2.0
// Devices with ports that are not OpenMRC's own, as a program may bring them.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <memory>
#include <thread>
#include <vector>

#include "lanes_rig.hpp"
#include "support/memory_planes.hpp"

using namespace mrc;
using namespace mrc::test;

namespace {

/// A side of a pair over planes in memory.
struct MemorySide {
  MemorySide(const std::shared_ptr<MemoryNetwork>& network, std::uint8_t host, Config config,
             std::size_t bytes)
      : source(random_bytes(bytes, host)),
        target(bytes),
        device(config, std::make_unique<MemoryOpener>(network, host)),
        source_region(device.register_memory(source, Access::none)),
        target_region(device.register_memory(target, Access::remote_write)),
        cq(device.create_cq(256)) {}
  std::vector<std::uint8_t> source, target;
  Device device;
  MemoryRegion source_region, target_region;
  CompletionQueue cq;
};

}  // namespace

TEST_CASE("planes in memory: threads sleep on ports that are armed, and every byte arrives") {
  for (const std::uint16_t lanes : {1, 3}) {
    CAPTURE(lanes);
    Config config = lanes_config(lanes);
    config.spin = Duration{0};
    const auto network = std::make_shared<MemoryNetwork>();
    MemorySide a(network, 1, config, 1 << 20), b(network, 2, config, 1 << 20);
    REQUIRE(a.device.lane_count() == lanes);
    std::vector<QueuePair> from, to;
    for (unsigned lane = 0; lane < lanes; ++lane) {
      QpOptions options;
      options.lane = lane;
      options.send_cq = &a.cq;
      from.push_back(a.device.create_qp(options));
      options.send_cq = &b.cq;
      to.push_back(b.device.create_qp(options));
      connect(from.back(), to.back());
    }
    for (unsigned round = 0; round < 20; ++round) {
      const std::size_t size = a.source.size() / 20, offset = round * size;
      const Sge sge{a.source.data() + offset, static_cast<std::uint32_t>(size),
                    a.source_region.lkey()};
      SendRequest request;
      request.sges = {&sge, 1};
      request.remote = b.target_region.remote(offset);
      REQUIRE(from[round % lanes].post_send(request) == Errc::ok);
      std::array<Completion, 1> done;
      REQUIRE(a.cq.wait(done, kPatience) == 1);
      REQUIRE(done[0].status == WcStatus::success);
      if (round % 4 == 0) std::this_thread::sleep_for(2ms);  // all threads fall asleep
    }
    const std::size_t all = a.source.size() / 20 * 20;
    CHECK(std::equal(a.source.begin(), a.source.begin() + static_cast<std::ptrdiff_t>(all),
                     b.target.begin()));
  }
}
