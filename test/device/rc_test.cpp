// SPDX-License-Identifier: Apache-2.0
// SEND, READ and atomics between two devices.
#include <doctest/doctest.h>

#include <cstdint>
#include <cstring>
#include <string>

#include "rc_rig.hpp"

using namespace mrc;
using namespace mrc::test;

TEST_CASE("rc: everything at once in both directions, with loss; completions in posting order") {
  Config config = test_config();
  config.faults = "loss=0.02";
  RcPair pair(config);
  const auto post_all = [](RcSide& from, RcSide& to) {
    for (std::uint64_t id = 0; id < 60; id += 4) {
      REQUIRE(post(from.qps[0], SendOpcode::write, {from.sge(0, 30'000)},
                   to.target_region.remote(0), id) == Errc::ok);
      REQUIRE(post(from.qps[0], SendOpcode::read, {from.into(200'000, 30'000)},
                   to.target_region.remote(0), id + 1) == Errc::ok);
      REQUIRE(post(from.qps[0], SendOpcode::send, {from.sge(0, 10'000)}, {}, id + 2) == Errc::ok);
      const Sge sge = from.word(1 + id / 4);  // results of several may arrive in any order
      SendRequest request;
      request.wr_id = id + 3;
      request.opcode = SendOpcode::fetch_add;
      request.sges = {&sge, 1};
      request.remote = to.words_region.remote(0);
      request.compare_add = 1;
      REQUIRE(from.qps[0].post_send(request) == Errc::ok);
    }
  };
  for (RcSide* side : {&pair.a, &pair.b})
    for (std::uint64_t id = 0; id < 15; ++id)
      REQUIRE(post_receive(side->qps[0], {side->into(400'000, 10'000)}, 100 + id) == Errc::ok);
  post_all(pair.a, pair.b);
  post_all(pair.b, pair.a);
  for (RcSide* side : {&pair.a, &pair.b}) {
    std::uint64_t next_send = 0, next_receive = 100;
    for (const Completion& done : side->await(75)) {
      INFO(side->qps[0].error_text());
      REQUIRE(done.status == WcStatus::success);
      CHECK(done.wr_id == (done.opcode == WcOpcode::recv ? next_receive++ : next_send++));
    }
  }
  // What one side has done at the other is there when both are done.
  for (RcSide* side : {&pair.a, &pair.b}) {
    CHECK(side->words[0] == 15);
    for (std::size_t i = 0; i < 15; ++i) CHECK(side->words[1 + i] == i);
    RcSide& other = side == &pair.a ? pair.b : pair.a;
    CHECK(std::memcmp(side->target.data(), other.source.data(), 30'000) == 0);
    CHECK(std::memcmp(side->target.data() + 200'000, side->source.data(), 30'000) == 0);
    CHECK(std::memcmp(side->target.data() + 400'000, other.source.data(), 10'000) == 0);
  }
}

TEST_CASE("rc: requests that fail say why: no receive in time, a misaligned atomic") {
  RcSide a(test_config()), b(Pair::other(test_config()));
  const auto twice = [](RcSide& side) {
    return [&side](QpOptions& options) {
      options.attributes = side.device.default_attributes();
      options.attributes->rnr_retry = 2;
      options.attributes->min_rnr_timer = 1;
    };
  };
  connect(a.add(twice(a)), b.add(twice(b)));
  REQUIRE(post(a.qps[0], SendOpcode::send, {a.sge(0, 8)}, {}, 1) == Errc::ok);
  const Completion done = a.await_one();
  CHECK(done.wr_id == 1);
  CHECK(done.status == WcStatus::rnr_retry_exc_err);
  CHECK(a.qps[0].error_cause() == QpErrorCause::rnr_exhausted);
  const std::string text = a.qps[0].error_text();
  CAPTURE(text);
  CHECK(contains(text, "the peer posts no receive"));
  CHECK(contains(text, "waited 2 times"));
  CHECK(contains(text, "; peer 127.0.0."));

  connect(a.add(), b.add());
  REQUIRE(post(a.qps[1], SendOpcode::fetch_add, {a.word(0)}, b.words_region.remote(4)) == Errc::ok);
  CHECK(a.await_one().status == WcStatus::rem_inv_req_err);
  CHECK(contains(b.qps[1].error_text(), "not a multiple of 8"));
}
