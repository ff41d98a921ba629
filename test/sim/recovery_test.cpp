// SPDX-License-Identifier: Apache-2.0
// A failure at full load costs its share while it lasts and nothing afterwards.
#include <doctest/doctest.h>

#include <memory>
#include <utility>
#include <vector>

#include "clos_rig.hpp"
#include "mrc/sim/traffic/streams.hpp"

using namespace mrc;
using namespace mrc::sim;
using namespace std::chrono_literals;

namespace recovery_test {

constexpr unsigned kHosts = 16;
constexpr Time kDown{400us};
constexpr Time kUp{1000us};
constexpr Time kEnd{1600us};

/// 16 hosts at two T0s, with eight T1s in each of four planes, all of them sending to the other T0
/// as fast as they can.
struct FullLoad {
  FullLoad(const char* failed, Duration spread) : simulation(scenario(failed, spread)) {
    for (bool more = true; more;) {
      more = simulation.advance(50us);
      std::uint64_t sum = 0;
      for (unsigned h = 0; h < kHosts; ++h) sum += simulation.cluster().received_bytes(h);
      received.push_back(sum);
    }
  }
  static Scenario scenario(const char* failed, Duration spread) {
    Scenario s = mrc::test::clos_of_mrc(4, kHosts, 8, 8);
    s.traffic.push_back({"permutation", Time{}, [spread](const Fabric&) {
                           PermutationSettings p;
                           p.shift = 8;
                           p.spread = spread;
                           return std::make_unique<Permutation>(p);
                         }});
    if (failed != nullptr) s.faults.add_for({kDown, FaultKind::down, failed, 0}, kUp - kDown);
    s.end = kEnd;
    return s;
  }
  /// Goodput of all hosts in Gb/s, to 50 us.
  [[nodiscard]] double goodput(Time from, Time to) const {
    const auto at = [&](Time t) {
      const auto i = static_cast<std::size_t>(t.time_since_epoch() / 50us);
      return i == 0 ? 0.0 : static_cast<double>(received.at(i - 1));
    };
    return (at(to) - at(from)) * 8 / static_cast<double>((to - from).count());
  }
  /// How often paths were called bad: those over that T1 of plane 1, and all others.
  [[nodiscard]] std::pair<unsigned, unsigned> retired(unsigned t1) const {
    std::pair<unsigned, unsigned> n{};
    for (unsigned h = 0; h < kHosts; ++h) {
      MrcHost& host = simulation.mrc()->host(h);
      const auto peer = host.peer((h + 8) % kHosts);
      const path::PathSet& paths = host.engine().find_peer(peer)->paths;
      for (path::PathIndex i = 0; i < paths.size(); ++i)
        (paths[i].plane == 1 && paths[i].port_path == t1 ? n.first : n.second) +=
            paths.stats(i).times_bad;
    }
    return n;
  }

  Simulation simulation;
  std::vector<std::uint64_t> received;
};

TEST_CASE("recovery: one T1 of 32 costs its share while it is down, and nothing afterwards") {
  for (const Duration spread : {Duration{}, Duration{100us}}) {
    CAPTURE(spread);
    FullLoad healthy(nullptr, spread);
    const double usual = healthy.goodput(kDown, kEnd);
    CHECK(usual > 0.97 * 0.961 * 400 * kHosts);
    CHECK(healthy.simulation.cluster().stats().retransmitted == 0);

    FullLoad run("p1t1-3", spread);
    CHECK(run.goodput(kDown + 100us, kUp) > 0.94 * usual);  // 0.969 are left
    // Hosts that began in step, with hardly a queue, are not in step any more.
    CHECK(run.goodput(kUp + 100us, kEnd) > (spread > 0us ? 0.99 : 0.98) * usual);
    const auto [failed, healthy_paths] = run.retired(3);
    CHECK(failed == kHosts);  // each host has one path over it, and needs to find out once
    CHECK(healthy_paths == 0);
    const ClusterStats s = run.simulation.cluster().stats();
    CHECK(s.retransmitted > 50);
    CHECK(s.duplicates * 11 <= s.retransmitted);
    CHECK(s.timeouts == 0);
  }
}

TEST_CASE("recovery: a cable, a NIC port or a T0 costs its own share only") {
  FullLoad healthy(nullptr, 100us);
  const double usual = healthy.goodput(kDown, kEnd);
  for (const auto& one :
       {std::pair("p1t0-0-p1t1-3", 0.969), std::pair("h3.p1", 0.969), std::pair("p1t0-0", 0.75)}) {
    const char* failed = one.first;
    const double left = one.second;
    CAPTURE(failed);
    FullLoad run(failed, 100us);
    CHECK(run.goodput(kDown + 100us, kUp) > 0.97 * left * usual);
    CHECK(run.goodput(kUp + 100us, kEnd) > 0.99 * usual);
    if (left > 0.75) CHECK(run.retired(3).second == 0);
    CHECK(run.simulation.cluster().stats().duplicates == 0);
  }
}

}  // namespace recovery_test
