// SPDX-License-Identifier: Apache-2.0
// Numbers that run out of bits: PSN (24), MSN and RQMSN (16), rcvd_bytes (24 of 256 B).
#include <doctest/doctest.h>

#include "support/traffic.hpp"

using namespace mrc;
using namespace mrc::test;
using namespace std::chrono_literals;

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
