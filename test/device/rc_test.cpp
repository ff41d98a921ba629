// SPDX-License-Identifier: Apache-2.0
// SEND, READ and atomics between two devices.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "rc_rig.hpp"

using namespace mrc;
using namespace mrc::test;

namespace {

/// The only completion that is expected of a side, which must be a success.
Completion succeed(RcSide& side) {
  const Completion done = side.await_one();
  INFO(side.qps[0].error_text());
  REQUIRE(done.status == WcStatus::success);
  return done;
}

}  // namespace

TEST_CASE("rc: a SEND from several SGEs goes to the SGEs of a receive, with its immediate") {
  RcPair pair;
  REQUIRE(post_receive(pair.b.qps[0], {pair.b.into(100, 5000), pair.b.into(9000, 70'000)}, 7) ==
          Errc::ok);
  const Sge gathered[] = {pair.a.sge(0, 10'000), pair.a.sge(50'000, 1), pair.a.sge(20'000, 9999)};
  SendRequest request;
  request.wr_id = 3;
  request.opcode = SendOpcode::send_imm;
  request.sges = gathered;
  request.immediate = 0xABCD1234;
  REQUIRE(pair.a.qps[0].post_send(request) == Errc::ok);

  const Completion received = succeed(pair.b);
  CHECK(received.opcode == WcOpcode::recv);
  CHECK(received.wr_id == 7);
  CHECK(received.byte_len == 20'000);
  CHECK(received.has_immediate);
  CHECK(received.immediate == 0xABCD1234);
  CHECK_FALSE(received.solicited);
  const Completion sent = succeed(pair.a);
  CHECK(sent.opcode == WcOpcode::send);
  CHECK(sent.wr_id == 3);

  std::vector<std::uint8_t> expected(pair.a.source.begin(), pair.a.source.begin() + 10'000);
  expected.push_back(pair.a.source[50'000]);
  expected.insert(expected.end(), pair.a.source.begin() + 20'000, pair.a.source.begin() + 29'999);
  const std::uint8_t* target = pair.b.target.data();
  CHECK(std::memcmp(target + 100, expected.data(), 5000) == 0);
  CHECK(std::memcmp(target + 9000, expected.data() + 5000, 15'000) == 0);
  CHECK(target[99] == 0);
  CHECK(target[5100] == 0);
  CHECK(target[24'000] == 0);
}

TEST_CASE("rc: SENDs inline and without data, and solicited events") {
  RcPair pair;
  REQUIRE(post_receive(pair.b.qps[0], {pair.b.into(0, 64)}, 1) == Errc::ok);
  REQUIRE(pair.b.qps[0].post_receive(2) == Errc::ok);
  char text[] = "inline";
  const Sge unregistered{text, sizeof text, 0};
  SendRequest request;
  request.opcode = SendOpcode::send;
  request.sges = {&unregistered, 1};
  request.flags.inline_data = true;
  REQUIRE(pair.a.qps[0].post_send(request) == Errc::ok);
  std::memset(text, 0, sizeof text);
  Completion received = succeed(pair.b);
  CHECK(received.byte_len == 7);
  CHECK_FALSE(received.has_immediate);
  CHECK(std::string(reinterpret_cast<const char*>(pair.b.target.data())) == "inline");
  succeed(pair.a);

  REQUIRE(pair.b.cq.arm(Arm::solicited) == Errc::ok);
  request = {};
  request.opcode = SendOpcode::send;
  request.flags.solicited = true;
  REQUIRE(pair.a.qps[0].post_send(request) == Errc::ok);
  received = succeed(pair.b);
  CHECK(received.wr_id == 2);
  CHECK(received.byte_len == 0);
  CHECK(received.solicited);
}

TEST_CASE("rc: a READ into several SGEs, and one without data") {
  RcPair pair;
  const auto expected = random_bytes(300'000, 77);
  std::copy(expected.begin(), expected.end(), pair.b.target.begin() + 1000);
  REQUIRE(post(pair.a.qps[0], SendOpcode::read,
               {pair.a.into(500, 100'001), pair.a.into(200'000, 199'999)},
               pair.b.target_region.remote(1000), 5) == Errc::ok);
  const Completion done = succeed(pair.a);
  CHECK(done.opcode == WcOpcode::read);
  CHECK(done.wr_id == 5);
  CHECK(done.byte_len == 300'000);
  CHECK(std::memcmp(pair.a.target.data() + 500, expected.data(), 100'001) == 0);
  CHECK(std::memcmp(pair.a.target.data() + 200'000, expected.data() + 100'001, 199'999) == 0);
  CHECK(pair.a.target[499] == 0);
  CHECK(pair.a.target[100'501] == 0);
  CHECK(pair.a.target[399'999] == 0);

  REQUIRE(post(pair.a.qps[0], SendOpcode::read, {}) == Errc::ok);
  CHECK(succeed(pair.a).byte_len == 0);
}

TEST_CASE("rc: atomics give the former value and change the word once, with loss and duplicates") {
  Config config = test_config();
  config.faults = "loss=0.05,duplicate=0.05";
  RcPair pair(config);
  pair.b.words[3] = 1000;
  for (std::uint64_t i = 0; i < 200; ++i) {
    REQUIRE(post_atomic(pair.a, pair.a.qps[0], pair.b, 3, SendOpcode::fetch_add, i) == Errc::ok);
    const Completion done = succeed(pair.a);
    CHECK(done.opcode == WcOpcode::fetch_add);
    CHECK(done.byte_len == 8);
    REQUIRE(pair.a.words[3] == 1000 + i * (i - 1) / 2);
  }
  const std::uint64_t sum = 1000 + 199 * 200 / 2;
  CHECK(pair.b.words[3] == sum);
  const auto swap = [&pair](std::uint64_t compare, std::uint64_t value) {
    REQUIRE(post_atomic(pair.a, pair.a.qps[0], pair.b, 3, SendOpcode::compare_swap, compare,
                        value) == Errc::ok);
    CHECK(succeed(pair.a).opcode == WcOpcode::compare_swap);
    return pair.a.words[3];
  };
  CHECK(swap(sum, 5) == sum);
  CHECK(pair.b.words[3] == 5);
  CHECK(swap(sum, 6) == 5);
  CHECK(pair.b.words[3] == 5);
}

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

TEST_CASE("rc: a SEND waits for its receive; writes go on") {
  RcPair pair;
  REQUIRE(post(pair.a.qps[0], SendOpcode::send, {pair.a.sge(0, 5000)}, {}, 1) == Errc::ok);
  REQUIRE(post_copy(pair.a, pair.a.qps[0], pair.b, 300'000, 100, 2) == Errc::ok);
  const Time end = monotonic_now() + kPatience;
  const auto written = [&] { return pair.b.qps[0].stats().rx_bytes >= 100; };
  while (!(pair.a.qps[0].stats().nacks > 0 && written()) && monotonic_now() < end)
    std::this_thread::sleep_for(1ms);
  CHECK(pair.a.qps[0].stats().nacks > 0);
  CHECK(written());
  std::array<Completion, 2> none;
  CHECK(pair.a.cq.poll(none) == 0);
  REQUIRE(post_receive(pair.b.qps[0], {pair.b.into(0, 5000)}, 9) == Errc::ok);
  CHECK(succeed(pair.b).wr_id == 9);
  CHECK(succeed(pair.a).wr_id == 1);
  CHECK(succeed(pair.a).wr_id == 2);
  CHECK(std::memcmp(pair.b.target.data(), pair.a.source.data(), 5000) == 0);
}

TEST_CASE("rc: without a receive, a limited number of waits ends in an error that says so") {
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
}
