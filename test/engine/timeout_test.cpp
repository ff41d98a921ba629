// SPDX-License-Identifier: Apache-2.0
// Time: retransmission timeouts, retry exhaustion, reliability probes, and paths that are suspected
// and come back.
#include <doctest/doctest.h>

#include "support/single.hpp"

using namespace mrc;
using namespace mrc::test;
using namespace std::chrono_literals;
using reliability::timeout_value;
using wire::NackReason;
using wire::Opcode;

TEST_CASE("retry exhaustion: at the sum of the timeouts, to the nanosecond") {
  struct Case {
    unsigned n, linear, exponential;
    std::int64_t units;
  };
  for (const Case& k : {Case{8, 0, 0, 1}, Case{8, 3, 0, 4}, Case{8, 0, 3, 1 + 2 + 4 + 8},
                        Case{10, 2, 2, 3 + 2 + 4}, Case{14, 7, 1, 8 + 2}}) {
    INFO("n ", k.n, " linear ", k.linear, " exponential ", k.exponential);
    Single s(with_retries(k.n, k.linear, k.exponential));
    REQUIRE(s.post({.id = 1}) == Errc::ok);
    REQUIRE(s.post({.id = 2}) == Errc::ok);
    const Time start = s.now;
    const Duration total = timeout_value(k.n) * k.units;
    const SentList out = s.advance(total - 1ns);
    CHECK(s.qp().state == QpState::rts);
    CHECK(s.qp().stats.timeouts == k.linear + k.exponential);
    // Each expiry sends the oldest packet again, and it is a different path each time.
    SentList oldest;
    for (const Sent& p : data_of(out))
      if (p.psn() == s.own) oldest.push_back(p);
    REQUIRE(oldest.size() == 1 + k.linear + k.exponential);
    for (std::size_t i = 1; i < oldest.size(); ++i) {
      CHECK(oldest[i].write().bth->rtx());
      CHECK(oldest[i].ev != oldest[i - 1].ev);
      CHECK(s.peer_state().paths.stats(s.path_of(oldest[i - 1])).timeouts > 0);
    }
    (void)s.advance(1ns);
    CHECK(s.now - start == total);
    CHECK(s.qp().state == QpState::err);
    CHECK(s.qp().cause == QpErrorCause::retry_exhausted);
    const auto c = s.sends();
    REQUIRE(c.size() == 2);
    CHECK(c[0].wr_id == 1);
    CHECK(c[0].status == WcStatus::retry_exc_err);
    CHECK(c[1].status == WcStatus::wr_flush_err);
    for (const Sent& p : s.advance(1s)) CHECK(p.opcode() == Opcode::endpoint_request);
  }
}

TEST_CASE("retry exhaustion: also when only the Transport ACK misses") {
  Single s(with_retries(8, 1, 1));
  REQUIRE(s.post({}) == Errc::ok);
  (void)s.transmit();
  s.sack({.cack = 0});
  const SentList out = s.advance(timeout_value(8) * 4 - 1ns);
  CHECK(only(out, Opcode::probe).size() >= 5);
  CHECK(s.qp().state == QpState::rts);
  (void)s.advance(1ns);
  CHECK(s.qp().cause == QpErrorCause::retry_exhausted);
}

TEST_CASE("retry exhaustion: also without a plane, and for every queue pair at the same time") {
  for (const bool down_first : {true, false}) {
    Single::Setup setup = with_retries(8, 1, 1);
    setup.options.cc.algorithm = cc::Algorithm::fixed;
    setup.options.cc.fixed_window = 8192;
    setup.capacity.send = 64;
    Single s(setup);
    const auto all_down = [&] {
      for (Plane p = 0; p < 4; ++p) s.engine.set_plane_up(s.now, p, false);
    };
    std::vector<Qpn> others;
    for (unsigned i = 0; i < 10; ++i) {
      const Qpn q = s.create();
      s.connect(q, s.remote());
      others.push_back(q);
    }
    if (down_first) all_down();
    REQUIRE(s.post({.length = 20'000}) == Errc::ok);
    const Qpn main = s.qpn;
    for (const Qpn q : others) {
      s.qpn = q;
      REQUIRE(s.post({.length = 20'000}) == Errc::ok);
    }
    s.qpn = main;
    (void)s.transmit();
    if (!down_first) all_down();
    (void)s.advance(timeout_value(8) * 4 + 2us);
    for (const Qpn q : others) CHECK(s.engine.find_qp(q)->cause == QpErrorCause::retry_exhausted);
    CHECK(s.qp().cause == QpErrorCause::retry_exhausted);
  }
}

TEST_CASE("timeouts: progress gives all retries back, and the first value") {
  Single s(with_retries(8, 0, 4));
  REQUIRE(s.post({.length = 2000}) == Errc::ok);
  (void)s.advance(timeout_value(8) * 3 + 1us);
  CHECK(s.qp().tx.retries.used() == 2);
  s.sack({.cack = 0});
  CHECK(s.qp().tx.retries.used() == 0);
  (void)s.advance(timeout_value(8) - 1us);
  CHECK(s.qp().stats.timeouts == 2);
  (void)s.advance(1us);
  CHECK(s.qp().stats.timeouts == 3);
}

TEST_CASE("timeout: its packet goes although lost ones fill the window") {
  Single s(with_retries(6, 7, 3));  // NSCC: one packet of window from the second timeout on
  REQUIRE(s.post({.length = 1024 * 40}) == Errc::ok);
  const SentList out = data_of(s.transmit());
  REQUIRE(out.size() > 10);
  const SentList again = data_of(s.advance(5ms));
  CHECK(s.engine.stats().timeouts == 10);
  REQUIRE(again.size() == 10);
  for (const Sent& p : again) CHECK(p.psn() == out[0].psn());
}

TEST_CASE("marks: CE skips the path once, ALWAYS_SKIP until probes succeed") {
  Single s;
  REQUIRE(s.post({}) == Errc::ok);
  Sent out = data_of(s.transmit()).at(0);
  s.sack({.cack = 0, .trigger = &out, .mark = wire::SackMark::skip_once});
  CHECK(s.peer_state().paths.health(s.path_of(out)) == path::Health::skip);
  s.ack(0, 0);
  REQUIRE(s.post({}) == Errc::ok);
  out = data_of(s.transmit()).at(0);
  s.sack({.cack = 1, .trigger = &out, .mark = wire::SackMark::always_skip});
  CHECK(s.peer_state().paths.health(s.path_of(out)) == path::Health::assumed_bad);
  s.ack(1, 1);
  const SentList probes = only(s.advance(100us), Opcode::endpoint_request);
  REQUIRE(!probes.empty());
  CHECK(s.path_of(probes[0]) == s.path_of(out));
}

TEST_CASE("a port without room: the packet goes out again by another, and nothing is inferred") {
  Single::Setup setup;
  setup.options.cc.algorithm = cc::Algorithm::none;
  Single s(setup);
  REQUIRE(s.post({.length = 1024 * 40}) == Errc::ok);
  wire::TxBurst burst(64, 256);
  s.engine.poll_transmit(s.now, ~PlaneMask{0}, burst);
  REQUIRE(burst.size() == 40);
  std::vector<wire::TxPacket> untaken(burst.packets().begin() + 1, burst.packets().end());
  s.engine.on_untransmitted(s.now, untaken);
  CHECK(s.transmit(0).empty());  // no port is free
  s.now += 1ms;
  s.engine.on_time(s.now);
  CHECK(s.engine.stats().inferred_losses == 0);  // nothing was sent after packet 0
  const SentList out = data_of(s.transmit(plane_bit(2)));
  CHECK(out.size() == 39);
  for (const Sent& p : out) CHECK(p.plane == 2);
}

TEST_CASE("a port without room for a packet sent again: what arrives is no credit to its path") {
  Single s;
  REQUIRE(s.post({}) == Errc::ok);
  const Sent first = data_of(s.transmit()).at(0);
  s.now += 5us;
  s.nack(first, NackReason::trimmed);
  wire::TxBurst burst(64, 256);
  s.engine.poll_transmit(s.now, ~PlaneMask{0}, burst);
  REQUIRE(burst.size() == 1);
  const path::PathIndex refused = s.peer_state().paths.find(burst.packets()[0].entropy);
  REQUIRE(refused != s.path_of(first));
  s.engine.on_untransmitted(s.now, burst.packets());
  s.now += 5us;
  s.sack({.cack = 0, .trigger = &first});  // a second copy was not trimmed
  CHECK(s.peer_state().paths.stats(refused).delivered == 0);
  CHECK_FALSE(s.peer_state().paths.passed(refused, s.now - 6us));
}

TEST_CASE("answers wait for a free port, and go where there is one") {
  Single s;
  s.data({.n = 0, .ack_request = true, .plane = 1});
  CHECK(s.transmit(0).empty());
  const SentList out = s.transmit(plane_bit(3));
  CHECK(only(out, Opcode::sack).size() == 1);
  CHECK(only(out, Opcode::acknowledge).size() == 1);
  for (const Sent& p : out) CHECK(p.plane == 3);
}
