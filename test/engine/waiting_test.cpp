// SPDX-License-Identifier: Apache-2.0
// What a queue pair is said to wait for, and for how long its peer has been silent.
#include <doctest/doctest.h>

#include "mrc/engine/context.hpp"
#include "support/single.hpp"

using namespace mrc;
using namespace mrc::test;
using namespace std::chrono_literals;
using engine::WaitsFor;
using reliability::timeout_value;

namespace waiting_test {

/// A queue pair whose congestion window takes eight packets.
Single::Setup narrow() {
  Single::Setup setup = with_retries(8, 1, 25);
  setup.options.cc.algorithm = cc::Algorithm::fixed;
  setup.options.cc.fixed_window = 8192;
  return setup;
}

WaitsFor waits(Single& s, Qpn qpn) {
  return engine::waits_for(*s.engine.find_qp(qpn), s.now);
}
Duration silence(Single& s, Qpn qpn) {
  return engine::silence(*s.engine.find_qp(qpn), s.now);
}

TEST_CASE("waiting: a silent peer is waited for, since its first unanswered packet") {
  Single s(narrow());
  const Qpn first = s.qpn, second = s.create();
  s.connect(second, s.remote());
  CHECK(waits(s, first) == WaitsFor::nothing);
  CHECK(silence(s, first) == 0s);
  (void)s.advance(1s);  // idle time is no silence

  REQUIRE(s.post({.length = 20'000}) == Errc::ok);
  s.qpn = second;  // to the same peer: it finds the window full
  REQUIRE(s.post({.length = 20'000}) == Errc::ok);
  s.qpn = first;
  const Time asked = s.now;
  (void)s.transmit();
  CHECK(waits(s, first) == WaitsFor::window);
  CHECK(waits(s, second) == WaitsFor::window);
  CHECK(s.engine.find_qp(second)->tx.window.empty());

  // Packets are sent again and again, and the window is full or not: the peer is silent.
  for (int i = 1; i <= 40; ++i) {
    (void)s.advance(timeout_value(8) + 50us);
    CAPTURE(i);
    for (const Qpn qpn : {first, second}) {
      CHECK(silence(s, qpn) == s.now - asked);
      CHECK(waits(s, qpn) == WaitsFor::answer);
    }
  }
  CHECK(s.qp().stats.retransmits > 2);

  s.sack({.cack = 0});
  (void)s.advance(10us);
  CHECK(silence(s, first) == 10us);
  CHECK(waits(s, first) != WaitsFor::answer);
}

TEST_CASE("waiting: a Transport ACK that is missing is an answer that is owed") {
  Single s(narrow());
  REQUIRE(s.post({}) == Errc::ok);
  (void)s.transmit();
  (void)s.advance(20us);
  s.sack({.cack = 0});
  (void)s.advance(100us);  // in which it is asked for
  (void)s.advance(1ms);
  CHECK(silence(s, s.qpn) >= 1ms);
  CHECK(silence(s, s.qpn) <= 1100us);
  CHECK(waits(s, s.qpn) == WaitsFor::answer);
}

}  // namespace waiting_test
