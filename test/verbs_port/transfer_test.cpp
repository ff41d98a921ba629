// SPDX-License-Identifier: Apache-2.0
// What two devices on RDMA devices tell each other arrives, whatever the network does to it.
#include <doctest/doctest.h>

#include <algorithm>

#include "verbs_port_rig.hpp"

using namespace mrc;
using namespace mrc::test;

namespace transfer_test {

/// UD only, and with placement.
template <class Test>
void both_ways(const Test& test) {
  for (const bool placement : {false, true}) {
    CAPTURE(placement);
    test(placement);
  }
}

TEST_CASE("verbs ports: every byte arrives, in writes of all sizes") {
  both_ways([](bool placement) {
    const RdmaNetwork network;
    RdmaPair pair(placement, 200'000);
    if (placement) pair.until_placed();
    for (const std::size_t size : {64u << 10, 200'000u, 3968u, 3969u, 4096u, 1023u, 1024u, 511u}) {
      CAPTURE(size);
      pair.there(size);
      pair.back(size);
    }
    const auto stats = RdmaPair::port_of(pair.b);
    CHECK((stats.rx_placed > 0) == placement);
    CHECK(stats.late_writes == 0);
    CHECK(stats.peers_refused == 0);
  });
}

TEST_CASE("verbs ports: what is sent late is read late, and its memory is left alone until then") {
  both_ways([](bool placement) {
    const RdmaNetwork network;
    fake_nic::Nic slow = RdmaNetwork::nic(0);
    slow.send_delay = 500us;
    fake_nic::add(slow);
    RdmaPair pair(placement, 256 << 10);
    if (placement) pair.until_placed();
    for (int i = 0; i < 4; ++i) {
      pair.there(16 << 10);
      // Completed: the program may change its memory.
      const auto other = random_bytes(pair.a.source.size(), static_cast<std::uint64_t>(i) + 100);
      std::copy(other.begin(), other.end(), pair.a.source.begin());
    }
  });
}

TEST_CASE("verbs ports: packets that the peer's device cannot place go by UD") {
  const RdmaNetwork network;
  RdmaPair pair(rdma_config(0, true), rdma_config(1, false));
  pair.there();
  pair.back();
  CHECK(RdmaPair::port_of(pair.b).rx_placed == 0);
  CHECK(RdmaPair::port_of(pair.a).rx_placed == 0);
  // Memory that may not be written to in any order.
  RdmaPair strict(true);
  strict.until_placed();
  const auto placed = RdmaPair::port_of(strict.b).rx_placed;
  strict.copy_all();
  CHECK(RdmaPair::port_of(strict.b).rx_placed == placed);
}

}  // namespace transfer_test
