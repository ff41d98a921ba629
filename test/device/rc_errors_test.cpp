// SPDX-License-Identifier: Apache-2.0
// SEND, READ and atomics that must fail: which completions both sides get, and what they say.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "rc_rig.hpp"

using namespace mrc;
using namespace mrc::test;

namespace {

/// A queue pair whose attributes `change` may alter.
template <class F>
QueuePair& add_with(RcSide& side, F&& change) {
  return side.add([&](QpOptions& options) {
    options.attributes = side.device.default_attributes();
    change(*options.attributes);
  });
}

/// Posts a READ, then a request that the peer refuses, then another READ, and checks that the first
/// one succeeds, the second one fails in this way, and the third one is flushed. All at once: the
/// peer's answer must not come in between.
struct Refused {
  WcStatus status;
  QpErrorCause here, there;
};
void expect_refused(RcPair& pair, SendOpcode opcode, const Sge& sge, RemoteAddress remote,
                    const Refused& expected) {
  QueuePair& qp = pair.a.qps[0];
  const Sge result = pair.a.into(0, 20'000);
  std::array<SendRequest, 3> requests;
  for (SendRequest& request : requests) {
    request.wr_id = static_cast<std::uint64_t>(&request - &requests[0]) + 1;
    request.opcode = SendOpcode::read;
    request.sges = {&result, 1};
    request.remote = pair.b.target_region.remote();
  }
  requests[1].opcode = opcode;
  requests[1].sges = {&sge, 1};
  requests[1].remote = remote;
  std::size_t posted = 0;
  REQUIRE(qp.post_sends(requests, posted) == Errc::ok);
  const auto done = pair.a.await(3);
  INFO(qp.error_text(), " / ", pair.b.qps[0].error_text());
  CHECK(done[0].wr_id == 1);
  CHECK(done[0].status == WcStatus::success);
  CHECK(done[1].status == expected.status);
  CHECK(done[2].wr_id == 3);
  CHECK(done[2].status == WcStatus::wr_flush_err);
  CHECK(qp.state() == QpState::err);
  CHECK(qp.error_cause() == expected.here);
  CHECK(pair.b.qps[0].state() == QpState::err);
  CHECK(pair.b.qps[0].error_cause() == expected.there);
}

}  // namespace

TEST_CASE("rc errors: READs and atomics without the right, beyond the region, with a wrong key") {
  const Refused access{WcStatus::rem_access_err, QpErrorCause::nak_remote_access,
                       QpErrorCause::bad_access};
  Refused bounds = access, key = access;
  bounds.there = QpErrorCause::bad_bounds;
  key.there = QpErrorCause::bad_key;
  {
    RcPair pair;
    expect_refused(pair, SendOpcode::read, pair.a.into(0, 8), pair.b.source_region.remote(),
                   access);
  }
  {
    RcPair pair;  // readable and writable, but not by atomics
    expect_refused(pair, SendOpcode::fetch_add, pair.a.word(0), pair.b.target_region.remote(),
                   access);
    CHECK(std::count(pair.b.target.begin(), pair.b.target.begin() + 8, 0) == 8);
  }
  {
    RcPair pair;
    expect_refused(pair, SendOpcode::read, pair.a.into(0, 100),
                   pair.b.target_region.remote(pair.b.target.size() - 99), bounds);
  }
  {
    RcPair pair;
    RemoteAddress wrong = pair.b.target_region.remote();
    wrong.rkey ^= 0x5A5A;
    expect_refused(pair, SendOpcode::read, pair.a.into(0, 100), wrong, key);
  }
}

TEST_CASE("rc errors: an atomic at an address that is not a multiple of 8") {
  RcPair pair;
  expect_refused(
      pair, SendOpcode::fetch_add, pair.a.word(0), pair.b.words_region.remote(4),
      {WcStatus::rem_inv_req_err, QpErrorCause::nak_invalid_request, QpErrorCause::bad_atomic});
  CHECK(contains(pair.b.qps[0].error_text(), "not a multiple of 8"));
}

TEST_CASE("rc errors: a SEND that its receive has no room for") {
  RcPair pair;
  REQUIRE(post_receive(pair.b.qps[0], {pair.b.into(0, 60), pair.b.into(100, 39)}, 8) == Errc::ok);
  REQUIRE(post_receive(pair.b.qps[0], {pair.b.into(0, 100)}, 9) == Errc::ok);
  expect_refused(pair, SendOpcode::send, pair.a.sge(0, 100), {},
                 {WcStatus::rem_inv_req_err, QpErrorCause::nak_invalid_request,
                  QpErrorCause::receive_too_short});
  const auto received = pair.b.await(2);
  CHECK(received[0].wr_id == 8);
  CHECK(received[0].status == WcStatus::loc_len_err);
  CHECK(received[1].wr_id == 9);
  CHECK(received[1].status == WcStatus::wr_flush_err);
}

TEST_CASE("rc errors: what this side refuses to post, without a trace") {
  RcPair pair;
  QueuePair& qp = pair.a.qps[0];
  const RemoteAddress there = pair.b.target_region.remote(), words = pair.b.words_region.remote();
  // The source region has no local_write access.
  CHECK(post(qp, SendOpcode::read, {pair.a.sge(0, 8)}, there) == Errc::access_denied);
  CHECK(post(qp, SendOpcode::fetch_add, {pair.a.sge(0, 8)}, words) == Errc::access_denied);
  // An atomic's result has 8 bytes.
  for (const std::size_t length : {std::size_t{0}, std::size_t{4}, std::size_t{16}})
    CHECK(post(qp, SendOpcode::fetch_add, {pair.a.into(0, length)}, words) != Errc::ok);
  CHECK(post(qp, SendOpcode::compare_swap, {}, words) != Errc::ok);
  SendRequest request;  // there is nothing to send
  const Sge sge = pair.a.into(0, 8);
  request.opcode = SendOpcode::read;
  request.sges = {&sge, 1};
  request.remote = there;
  request.flags.inline_data = true;
  CHECK(qp.post_send(request) == Errc::invalid_argument);
  CHECK(qp.state() == QpState::rts);
  CHECK(pair.a.source_region.close() == Errc::ok);
  REQUIRE(post(qp, SendOpcode::read, {sge}, there) == Errc::ok);
  CHECK(pair.a.await_one().status == WcStatus::success);
}

TEST_CASE("rc errors: one side does not offer the operations: writes only") {
  for (const bool own : {true, false}) {
    CAPTURE(own);
    RcSide a(test_config()), b(Pair::other(test_config()));
    const auto plain = [](QpAttributes& attributes) { attributes.rc = false; };
    connect(own ? add_with(a, plain) : a.add(), own ? b.add() : add_with(b, plain));
    CHECK(a.qps[0].local_info().rc == !own);
    CHECK(post(a.qps[0], SendOpcode::send, {}) == Errc::unsupported);
    CHECK(post(a.qps[0], SendOpcode::read, {a.into(0, 8)}, b.target_region.remote()) ==
          Errc::unsupported);
    CHECK(post(a.qps[0], SendOpcode::fetch_add, {a.word(0)}, b.words_region.remote()) ==
          Errc::unsupported);
    CHECK(a.qps[0].state() == QpState::rts);
    REQUIRE(b.qps[0].post_receive(4) == Errc::ok);
    REQUIRE(post(a.qps[0], SendOpcode::write_imm, {a.sge(0, 100)}, b.target_region.remote()) ==
            Errc::ok);
    CHECK(a.await_one().status == WcStatus::success);
    CHECK(b.await_one().opcode == WcOpcode::recv_write_imm);
    // As in MRC, a write with immediate needs its receive in time.
    REQUIRE(post(a.qps[0], SendOpcode::write_imm, {}) == Errc::ok);
    CHECK(a.await_one().status == WcStatus::rem_op_err);
    CHECK(b.qps[0].error_cause() == QpErrorCause::no_receive);
  }
}

TEST_CASE("rc errors: a limit of 0 forbids READs and atomics, not SENDs") {
  for (const bool own : {true, false}) {
    CAPTURE(own);
    RcSide a(test_config()), b(Pair::other(test_config()));
    connect(add_with(a,
                     [own](QpAttributes& attributes) {
                       if (own) attributes.max_rd_atomic = 0;
                     }),
            add_with(b, [own](QpAttributes& attributes) {
              if (!own) attributes.max_rd_atomic_dest = 0;
            }));
    CHECK(post(a.qps[0], SendOpcode::read, {a.into(0, 8)}, b.target_region.remote()) ==
          Errc::unsupported);
    CHECK(post(a.qps[0], SendOpcode::fetch_add, {a.word(0)}, b.words_region.remote()) ==
          Errc::unsupported);
    REQUIRE(b.qps[0].post_receive(1) == Errc::ok);
    REQUIRE(post(a.qps[0], SendOpcode::send, {}) == Errc::ok);
    CHECK(a.await_one().status == WcStatus::success);
    // The other direction has limits of its own.
    REQUIRE(post(b.qps[0], SendOpcode::read, {b.into(0, 8)}, a.target_region.remote()) == Errc::ok);
    CHECK(b.await(2)[1].status == WcStatus::success);
  }
}
