// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <string>

#include "device_rig.hpp"

/// Devices of several lanes for tests.
namespace mrc::test {

inline Config lanes_config(std::uint16_t lanes = 4, const std::string& planes = "loopback:2") {
  Config config = test_config(planes);
  config.lanes = lanes;
  return config;
}

/// Two devices of several lanes, and a connected queue pair in each lane of both.
struct LanePair : Pair {
  explicit LanePair(const Config& config = lanes_config(), std::size_t bytes = 1 << 20)
      : Pair(config, bytes) {
    while (a.qps.size() < config.lanes) add_qps();
  }
  /// Each queue pair writes its share of a's source to b.
  void copy_by_all() {
    std::fill(b.target.begin(), b.target.end(), std::uint8_t{0});
    const std::size_t share = a.source.size() / a.qps.size();
    for (std::size_t i = 0; i < a.qps.size(); ++i)
      REQUIRE(post_copy(a, a.qps[i], b, i * share, share, i) == Errc::ok);
    for (const Completion& c : a.await(a.qps.size())) REQUIRE(c.status == WcStatus::success);
    CHECK(a.source == b.target);
  }
};

inline QueuePair in_lane(Side& side, unsigned lane, const CompletionQueue& cq) {
  QpOptions options;
  options.send_cq = &cq;
  options.lane = lane;
  return side.device.create_qp(options);
}

}  // namespace mrc::test
