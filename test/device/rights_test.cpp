// SPDX-License-Identifier: Apache-2.0
// What a queue pair lets its peer do, and a queue pair that receives no more.
#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

#include "rc_rig.hpp"

using namespace mrc;
using namespace mrc::test;

namespace rights_test {

/// The next completion of a side is a success.
void completes(RcSide& side) {
  REQUIRE(side.await_one().status == WcStatus::success);
}

TEST_CASE("rights: what a queue pair does not allow fails, whatever the memory allows") {
  for (const Access right : {Access::remote_write, Access::remote_read}) {
    CAPTURE(static_cast<int>(right));
    const SendOpcode allowed = right == Access::remote_write ? SendOpcode::write : SendOpcode::read;
    const SendOpcode refused = right == Access::remote_write ? SendOpcode::read : SendOpcode::write;
    RcPair pair;
    REQUIRE(pair.b.qps[0].set_peer_rights(right) == Errc::ok);
    REQUIRE(post(pair.a.qps[0], allowed, {pair.a.into(0, 5000)}, pair.b.target_region.remote(0)) ==
            Errc::ok);
    completes(pair.a);
    pair.b.target[20'000] = 0x11;
    REQUIRE(post(pair.a.qps[0], refused, {pair.a.into(0, 5000)},
                 pair.b.target_region.remote(20'000)) == Errc::ok);
    CHECK(eventually([&] { return pair.a.qps[0].state() == QpState::err; }));
    CHECK(eventually([&] { return pair.b.qps[0].state() == QpState::err; }));
    CHECK(pair.b.qps[0].error_cause() == QpErrorCause::bad_access);
    CHECK(pair.b.target[20'000] == 0x11);
  }
}

TEST_CASE("rights: others than a peer's are refused") {
  RcPair pair;
  CHECK(pair.b.qps[0].set_peer_rights(Access::local_write) == Errc::invalid_argument);
  CHECK(pair.b.qps[0].set_peer_rights(kPeerRights) == Errc::ok);
  CHECK(pair.b.qps[0].set_peer_rights(Access::none) == Errc::ok);
}

TEST_CASE("stop receiving: memory and receives are left alone, and nothing completes") {
  RcPair pair;
  REQUIRE(post_receive(pair.b.qps[0], {pair.b.into(100'000, 1000)}, 1) == Errc::ok);
  REQUIRE(post_receive(pair.b.qps[0], {pair.b.into(200'000, 1000)}, 2) == Errc::ok);
  REQUIRE(post(pair.a.qps[0], SendOpcode::send, {pair.a.into(0, 1000)}) == Errc::ok);
  completes(pair.a);
  completes(pair.b);
  REQUIRE(pair.b.qps[0].stop_receiving() == Errc::ok);
  std::fill(pair.b.target.begin(), pair.b.target.end(), std::uint8_t{0x77});
  REQUIRE(post(pair.a.qps[0], SendOpcode::write, {pair.a.into(0, 3000)},
               pair.b.target_region.remote(0)) == Errc::ok);
  REQUIRE(post(pair.a.qps[0], SendOpcode::send, {pair.a.into(0, 1000)}) == Errc::ok);
  Completion done;
  CHECK(pair.b.cq.wait({&done, 1}, std::chrono::milliseconds(100)) == 0);
  // The memory of its receives can go: they are discarded, without completions.
  pair.b.target_region = {};
  CHECK(pair.b.cq.wait({&done, 1}, std::chrono::milliseconds(20)) == 0);
  CHECK(std::all_of(pair.b.target.begin(), pair.b.target.end(),
                    [](std::uint8_t byte) { return byte == 0x77; }));
  CHECK(pair.b.qps[0].state() == QpState::rts);
}

}  // namespace rights_test
