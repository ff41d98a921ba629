// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

#include "mrc/sim/mrc_cluster.hpp"
#include "mrc/sim/traffic/workload.hpp"

/// Small simulated fabrics for tests.
namespace mrc::test {

/// Two planes; four hosts to a T0, three T1s.
inline sim::FabricSettings small_clos(unsigned hosts) {
  sim::FabricSettings s;
  s.planes = 2;
  s.hosts = hosts;
  s.hosts_per_t0 = 4;
  s.t1s = 3;
  return s;
}

/// A fabric between nodes of the test's own, of a class that is made from the network.
template <class N>
struct FabricRig {
  explicit FabricRig(const sim::FabricSettings& settings, std::uint64_t seed = 1) {
    std::vector<sim::NodeId> ids;
    for (unsigned h = 0; h < settings.hosts; ++h) {
      hosts.push_back(std::make_unique<N>(network));
      ids.push_back(network.add_node(*hosts.back()));
    }
    fabric = std::make_unique<sim::Fabric>(network, settings, ids, seed);
  }

  sim::Network network{1};
  std::vector<std::unique_ptr<N>> hosts;
  std::unique_ptr<sim::Fabric> fabric;
};

/// MRC hosts on a fabric, with 200 Gb/s each, and a log of their messages.
struct ClusterRig {
  explicit ClusterRig(const sim::FabricSettings& settings)
      : cluster(network, settings.hosts, cluster_settings(), 7),
        fabric(network, settings, cluster.nodes(), 3) {
    cluster.attach(fabric);
  }
  static sim::MrcCluster::Settings cluster_settings() {
    sim::MrcCluster::Settings s;
    s.host.engine.cc.nscc.link_speed = 200'000'000'000;
    s.host.engine.cc.nscc.base_rtt = std::chrono::microseconds(10);
    return s;
  }

  sim::Network network{1};
  sim::MrcCluster cluster;
  sim::Fabric fabric;
  sim::MessageLog log;
};

}  // namespace mrc::test
