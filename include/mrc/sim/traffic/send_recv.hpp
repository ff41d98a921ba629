// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "mrc/sim/traffic/streams.hpp"

namespace mrc::inline v0_1::sim {

/// Parameters of a SendRecv.
struct SendRecvSettings {
  StreamSettings stream{};  ///< of each pair and direction
  std::vector<HostPair>
      pairs{};            ///< empty: host h with h + hosts / 2, for the first half of the hosts
  bool both_ways = true;  ///< both directions at the same time
};

/// Pairs of hosts that send to each other: with one pair a point-to-point test, with all hosts the
/// send/recv test of collective libraries.
class SendRecv final : public Streams {
 public:
  /// See Workload.
  explicit SendRecv(const SendRecvSettings& settings)
      : Streams(settings.stream), pairs_(settings.pairs), both_ways_(settings.both_ways) {}

 private:
  void plan() override {
    const unsigned half = hosts() / 2;
    if (pairs_.empty())
      for (unsigned h = 0; h < half; ++h) pairs_.push_back({h, h + half});
    for (const HostPair& pair : pairs_) {
      add(pair);
      if (both_ways_) add({pair.to, pair.from});
    }
  }

  std::vector<HostPair> pairs_;
  bool both_ways_;
};

}  // namespace mrc::inline v0_1::sim
