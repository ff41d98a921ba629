// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <numeric>

#include "support/traffic.hpp"

using namespace mrc;
using namespace mrc::test;
using namespace std::chrono_literals;

TEST_CASE("a clean network: everything arrives, in order, without a retransmission") {
  EnginePair pair({}, 1);
  Traffic traffic(pair, {.messages = 200, .max_size = 100'000}, 1);
  CHECK(traffic.run(1s));
  traffic.check();
  CHECK(pair[0].stats().tx_retransmits == 0);
  CHECK(pair[1].stats().rx_duplicates == 0);
}
