// SPDX-License-Identifier: Apache-2.0
// One side of a connection ends in mid-transfer: the other side learns of it, the neighbours don't.
#include <doctest/doctest.h>

#include "support/traffic.hpp"

using namespace mrc;
using namespace mrc::test;
using namespace std::chrono_literals;

namespace close_test {

enum class End { error, reset, destroy };

Errc end(Engine& e, Qpn qpn, End how) {
  switch (how) {
    case End::error:
      return e.to_error(qpn);
    case End::reset:
      return e.to_reset(qpn);
    default:
      return e.destroy_qp(qpn);
  }
}

TEST_CASE("close: with traffic in flight, from either side, in each way, at random moments") {
  unsigned busy = 0;
  for (std::uint64_t seed = 1; seed <= 36; ++seed) {
    INFO("seed ", seed);
    Random r(seed);
    const auto how = static_cast<End>(seed % 3);
    const unsigned side = static_cast<unsigned>(seed / 3 % 2);
    EnginePair::Setup setup;
    setup.gbps = 10;
    EnginePair pair(setup, seed);
    pair.faults.loss = seed % 4 == 0 ? 0.02 : 0;
    TrafficOptions o;
    o.messages = 60;
    o.max_size = 20'000;
    o.both = true;
    o.attributes.timeout = 8;
    o.attributes.retry_linear = 3;
    o.attributes.retry_exponential = 3;
    Traffic victim(pair, o, seed), bystander(pair, o, seed + 1000);
    const auto both = [&] {
      victim.work();
      bystander.work();
      return false;
    };
    pair.run_for(Duration{1 + r.below(150'000)}, both);
    const Qpn ends = side == 0 ? victim.qpn() : victim.peer_qpn();
    const Qpn stays = side == 0 ? victim.peer_qpn() : victim.qpn();
    const bool idle = pair[1 - side].find_qp(stays)->tx.window.empty();  // it has nothing to lose
    REQUIRE(end(pair[side], ends, how) == Errc::ok);
    const Duration limit = reliability::timeout_value(8) * (4 + 2 + 4 + 8);
    const auto failed = [&] {
      bystander.work();
      return pair[1 - side].find_qp(stays)->state == QpState::err;
    };
    const bool noticed = pair.run_for(limit + 1ms, failed);
    // The last acknowledgement may have been on its way: then too there is nothing to lose.
    const auto& survivor = *pair[1 - side].find_qp(stays);
    const bool served = survivor.tx.window.empty();
    CHECK((noticed || idle || served));
    const QpErrorCause cause = survivor.cause;
    if (idle || (served && !noticed)) continue;
    ++busy;
    if (how == End::error)
      CHECK((cause == QpErrorCause::peer_in_error || cause == QpErrorCause::retry_exhausted));
    else
      CHECK(cause == QpErrorCause::retry_exhausted);
    pair.faults = {};
    CHECK(bystander.run(1s));
    bystander.check();
  }
  CHECK(busy > 25);
}

}  // namespace close_test
