// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <doctest/doctest.h>

#include <thread>
#include <utility>

#include "device_rig.hpp"

/// Queue pairs that are connected step by step, as verbs programs do.
namespace mrc::test {

inline QpChange to(QpState state) {
  QpChange change;
  change.state = state;
  return change;
}
inline QpChange to_rtr(const port::IpAddress& gid, Qpn qpn, Psn psn) {
  QpChange change = to(QpState::rtr);
  change.destination = Destination{gid, qpn};
  change.receive_psn = psn;
  return change;
}
inline QpChange to_rts(Psn psn) {
  QpChange change = to(QpState::rts);
  change.rts.send_psn = psn;
  return change;
}

/// What a verbs program does with what it knows: GID, QPN and PSN of the other side.
inline void connect_by_gid(QueuePair& qp, Psn own, const port::IpAddress& gid, Qpn qpn,
                           Psn theirs) {
  qp.modify(to(QpState::init));
  qp.modify(to_rtr(gid, qpn, theirs));
  qp.modify(to_rts(own));
}

inline constexpr Psn kPsnA{0xFFFFF0}, kPsnB{0x000123};

/// Both of them, one after the other.
inline void connect_by_gid(const Side& a, QueuePair& qa, const Side& b, QueuePair& qb) {
  connect_by_gid(qa, kPsnA, b.device.gid(), qb.qpn(), kPsnB);
  connect_by_gid(qb, kPsnB, a.device.gid(), qa.qpn(), kPsnA);
}

/// Two devices whose first queue pairs are connected by GID, one after the other.
struct GidPair {
  explicit GidPair(const Config& config = test_config(), Duration between = {})
      : a(config), b(Pair::other(config)) {
    connect_by_gid(a.add_qp(), kPsnA, b.device.gid(), b.add_qp().qpn(), kPsnB);
    std::this_thread::sleep_for(between);
    connect_by_gid(b.qps[0], kPsnB, a.device.gid(), a.qps[0].qpn(), kPsnA);
  }
  Side a, b;
};

inline void copy_one(Side& from, QueuePair& qp, Side& to) {
  REQUIRE(post_copy(from, qp, to, 0, from.source.size()) == Errc::ok);
  const Completion done = from.await_one();
  INFO(qp.error_text());
  REQUIRE(done.status == WcStatus::success);
  CHECK(from.source == to.target);
}

}  // namespace mrc::test
