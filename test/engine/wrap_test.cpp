// SPDX-License-Identifier: Apache-2.0
// Numbers that run out of bits: PSN (24), MSN and RQMSN (16), rcvd_bytes (24 of 256 B).
#include <doctest/doctest.h>

#include "support/traffic.hpp"

using namespace mrc;
using namespace mrc::test;
using namespace std::chrono_literals;

TEST_CASE("wrap: PSNs, with loss and reordering, in both directions") {
  for (std::uint64_t seed = 1; seed <= 4; ++seed) {
    EnginePair pair({}, seed);
    TrafficOptions o;
    o.messages = 60;
    o.both = true;
    o.near_wrap = 300;
    o.attributes.mtu = 1024;
    o.relaxed = seed % 2 == 0;
    Traffic traffic(pair, o, seed);
    const Psn first = pair[0].find_qp(traffic.qpn())->start_psn;
    pair.faults.loss = 0.02;
    pair.faults.reorder = 0.2;
    CHECK(traffic.run(1s));
    pair.faults = {};
    traffic.check();
    CHECK(pair[0].find_qp(traffic.qpn())->tx.window.next().value() < first.value());
  }
}

TEST_CASE("wrap: more than 65,536 messages, all of them with immediate") {
  EnginePair pair({}, 5);
  TrafficOptions o;
  o.messages = 70'000;
  o.max_size = 8;
  o.immediates = 1;
  o.signaled = 0.05;
  o.capacity.send = 512;
  o.capacity.receive = 512;
  o.attributes.max_wimm = o.attributes.max_wimm_dest = 512;
  Traffic traffic(pair, o, 5);
  pair.faults.loss = 0.001;
  CHECK(traffic.run(10s));
  pair.faults = {};
  CHECK(pair[0].find_qp(traffic.qpn())->tx.next_rqmsn == Rqmsn{70'000});
  CHECK(pair[0].find_qp(traffic.qpn())->stats.writes_completed == 70'000);
  traffic.check();
}
