// SPDX-License-Identifier: Apache-2.0
// SEND, READ and atomics between queue pairs that are connected by GID, QPN and PSN.
#include <doctest/doctest.h>

#include <cstdint>
#include <string>

#include "gid_rig.hpp"
#include "rc_rig.hpp"

using namespace mrc;
using namespace mrc::test;

TEST_CASE("rc by GID: a responder in RTR answers READs and atomics") {
  RcSide a(test_config()), b(Pair::other(test_config()));
  QueuePair &qa = a.add(), &qb = b.add();
  const auto bytes = random_bytes(100'000, 5);
  std::copy(bytes.begin(), bytes.end(), b.target.begin());
  b.words[0] = 40;
  qb.modify(to(QpState::init));
  qb.modify(to_rtr(a.device.gid(), qa.qpn(), kPsnA));
  connect_by_gid(qa, kPsnA, b.device.gid(), qb.qpn(), kPsnB);
  REQUIRE(post(qa, SendOpcode::read, {a.into(0, 100'000)}, b.target_region.remote(), 1) ==
          Errc::ok);
  REQUIRE(post_atomic(a, qa, b, 0, SendOpcode::fetch_add, 2) == Errc::ok);
  for (const Completion& done : a.await(2)) {
    INFO(qa.error_text());
    REQUIRE(done.status == WcStatus::success);
  }
  CHECK(std::equal(bytes.begin(), bytes.end(), a.target.begin()));
  CHECK(a.words[0] == 40);
  CHECK(b.words[0] == 42);
  CHECK(qb.state() == QpState::rtr);
  CHECK(post(qb, SendOpcode::send, {}) == Errc::invalid_state);

  // It goes on from where its answers have ended.
  qb.modify(to_rts(kPsnB));
  REQUIRE(qa.post_receive(7) == Errc::ok);
  REQUIRE(post(qb, SendOpcode::send, {}) == Errc::ok);
  CHECK(b.await_one().status == WcStatus::success);
  CHECK(a.await_one().wr_id == 7);
}

TEST_CASE("rc by GID: a peer that turns out not to offer the operations") {
  RcSide a(test_config()), b(Pair::other(test_config()));
  QueuePair& qa = a.add();
  QueuePair& qb = b.add([&](QpOptions& options) {
    options.attributes = b.device.default_attributes();
    options.attributes->rc = false;
  });
  connect_by_gid(qa, kPsnA, b.device.gid(), qb.qpn(), kPsnB);
  REQUIRE(post(qa, SendOpcode::write, {a.sge(0, 8)}, b.target_region.remote(), 1) == Errc::ok);
  REQUIRE(post(qa, SendOpcode::read, {a.into(0, 8)}, b.target_region.remote(), 2) == Errc::ok);
  REQUIRE(post(qa, SendOpcode::write, {a.sge(0, 8)}, b.target_region.remote(), 3) == Errc::ok);
  connect_by_gid(qb, kPsnB, a.device.gid(), qa.qpn(), kPsnA);
  bool found = false;
  for (const Completion& done : a.await(3)) {
    if (done.wr_id == 2) {
      found = true;
      CHECK(done.status == WcStatus::loc_qp_op_err);
    }
    if (done.wr_id == 3) CHECK(done.status == WcStatus::wr_flush_err);
  }
  CHECK(found);
  CHECK(qa.error_cause() == QpErrorCause::unsupported);
  const std::string text = qa.error_text();
  CAPTURE(text);
  CHECK(contains(text, "the peer offers neither SEND nor READ nor atomics; peer 127.0.0."));
  CHECK(contains(text, "option strict"));
}
