// SPDX-License-Identifier: Apache-2.0
// A Transport ACK is lost after everything has arrived, and the peer repeats it for packets that
// come again, as RoCE does, but not for reliability probes.
#include <doctest/doctest.h>

#include "support/single.hpp"
#include "support/steps.hpp"

using namespace mrc;
using namespace mrc::test;
using namespace std::chrono_literals;
using reliability::timeout_value;
using wire::Opcode;

namespace lost_ack_test {

/// Lets time pass up to `end` with a peer that answers probes and acknowledges nothing; false when
/// the queue pair fails before. Counts what it sends.
struct Patience {
  std::size_t probes = 0, repeats = 0;

  bool pass(Single& s, Time end) {
    while (s.now < end && s.qp().state == QpState::rts) {
      s.now = std::min(end, std::max(s.now, s.engine.next_deadline()));
      s.engine.on_time(s.now);
      for (const Sent& p : s.transmit()) {
        repeats += p.is_data() && p.opcode() != Opcode::probe;
        if (p.opcode() != Opcode::probe) continue;
        ++probes;
        s.answer_probe(p, 0);
      }
    }
    return s.qp().state == QpState::rts;
  }
};

[[nodiscard]] SentList writes_of(const SentList& list) {
  SentList found;
  for (const Sent& s : list)
    if (wire::is_write(s.opcode())) found.push_back(s);
  return found;
}

TEST_CASE("lost ACK: probes take turns with the last packet of the oldest message") {
  Single s(with_retries(20, 7, 10));
  REQUIRE(s.post({.id = 1, .length = 3 * 1024}) == Errc::ok);
  REQUIRE(s.post({.id = 2, .length = 2 * 1024}) == Errc::ok);
  REQUIRE(s.post({.id = 3, .length = 100}) == Errc::ok);
  CHECK(writes_of(s.transmit()).size() == 6);
  s.now += 5us;
  s.sack({.cack = 5});
  const std::int64_t inflight = s.peer_state().congestion.inflight();
  CHECK(inflight == 0);
  s.ack(0, 2);
  CHECK(s.sends().size() == 1);

  const SentList asked = s.advance(1ms);
  REQUIRE(asked.size() == 5);
  for (std::size_t i = 0; i < asked.size(); ++i) {
    CAPTURE(i);
    if (i % 2 == 0) {
      CHECK(asked[i].opcode() == Opcode::probe);
      continue;
    }
    CHECK(asked[i].opcode() == Opcode::write_last);
    CHECK(asked[i].psn() == s.own + 4);  // of message 2, which ends with the fifth packet
    CHECK(asked[i].bth().rtx());
    CHECK(asked[i].bth().ack_request());
    CHECK(asked[i].write().payload.size() == 1024);
  }
  CHECK(s.peer_state().congestion.inflight() == 0);  // it is in no account
  CHECK(s.peer_state().plane_inflight[asked[1].plane] == 0);
  CHECK(s.qp().stats.retransmits == 2);
  s.ack(1, 4);
  CHECK(s.sends().size() == 1);
  s.ack(2, 5);
  CHECK(s.sends().size() == 1);
  CHECK(s.advance(10s).empty());
}

TEST_CASE("lost ACK: new packets take the place of repeated ones") {
  Single s(with_retries(20, 7, 10));
  REQUIRE(s.post({.length = 100}) == Errc::ok);
  CHECK(writes_of(s.transmit()).size() == 1);
  s.sack({.cack = 0});
  Time& now = s.now;
  const Time end = now + 1s;
  while (!s.qp().tx.repeat_last && s.engine.next_deadline() != kNever && now < end) {
    now = s.engine.next_deadline();
    s.engine.on_time(now);
    if (!s.qp().tx.repeat_last) (void)s.transmit();
  }
  REQUIRE(s.post({.length = 200}) == Errc::ok);
  const SentList out = writes_of(s.transmit());
  REQUIRE_FALSE(out.empty());
  CHECK(out[0].psn() == s.own + 1);
  CHECK_FALSE(out[0].bth().rtx());
  s.ack(1, 1);
  CHECK(s.sends().size() == 2);
  CHECK(s.advance(10s).empty());
}

TEST_CASE("lost ACK: answered probes cost no retries; the limit is another, and says so") {
  // 1 ms, two retries: 10 s are the limit. 1 s: 32 expirations are.
  for (const unsigned n : {10u, 20u}) {
    CAPTURE(n);
    Single s(with_retries(n, 1, 1));
    REQUIRE(s.post({.id = 1, .length = 100}) == Errc::ok);
    REQUIRE(s.post({.id = 2, .length = 100}) == Errc::ok);
    (void)s.transmit();
    s.sack({.cack = 0});
    s.sack({.cack = 1});
    const Time start = s.now;
    const Duration limit = std::max<Duration>(10s, 32 * timeout_value(n));
    Patience p;
    CHECK(p.pass(s, start + limit - timeout_value(n)));
    CHECK(s.qp().tx.retries.used() == 0);
    CHECK(p.probes >= 32 * 2);
    CHECK(p.repeats >= 32);
    CHECK_FALSE(p.pass(s, start + limit + 2 * timeout_value(n)));
    CHECK(s.qp().cause == QpErrorCause::unacknowledged);
    CHECK(s.qp().tx.retries.answers() == p.probes);
    const auto c = s.sends();
    REQUIRE(c.size() == 2);
    CHECK(c[0].wr_id == 1);
    CHECK(c[0].status == WcStatus::retry_exc_err);
    CHECK(c[1].status == WcStatus::wr_flush_err);
  }
}

TEST_CASE("lost ACK: a peer that falls silent after it has answered uses the retries up") {
  Single s(with_retries(10, 1, 1));
  REQUIRE(s.post({.length = 100}) == Errc::ok);
  (void)s.transmit();
  s.sack({.cack = 0});
  Patience p;
  CHECK(p.pass(s, s.now + 20ms));
  (void)s.advance(timeout_value(10) * 6);
  CHECK(s.qp().cause == QpErrorCause::retry_exhausted);
}

TEST_CASE("lost ACK: with unlimited retries a live peer is asked for ever") {
  Single s(with_retries(16, 0, 25));
  REQUIRE(s.post({.length = 100}) == Errc::ok);
  (void)s.transmit();
  s.sack({.cack = 0});
  Patience p;
  CHECK(p.pass(s, s.now + 30s));
  s.ack(0, 0);
  CHECK(s.sends().size() == 1);
}

TEST_CASE("lost ACK: messages one by one to a peer that repeats ACKs as RoCE does, 2 % lost") {
  EnginePair::Setup setup;
  setup.tags = false;
  setup.planes = 2;
  EnginePair pair(setup, 3);
  pair.faults.loss = 0.02;
  mrc::test::Steps steps(pair, {.steps = 2000,
                                .size = 4096,
                                .depth = 1,
                                .attributes = {.mtu = 1024, .retry_exponential = 3}});
  Psn newest[2];
  bool told[2] = {true, true};  // the newest ACK was sent after the packet that it answers
  pair.filter = [&](unsigned side, const wire::TxPacket&, const std::vector<std::uint8_t>& bytes) {
    const auto& bth = wire::view_as<wire::Bth>(Bytes{bytes});
    if (wire::is_write(bth.opcode()) && bth.rtx()) told[1 - side] = false;
    if (bth.opcode() != Opcode::acknowledge) return true;
    const bool again = bth.psn() == newest[side] && told[side];
    newest[side] = bth.psn();
    told[side] = true;
    return !again;  // it was for a probe
  };
  CHECK(steps.run(10s));
  for (unsigned side = 0; side < 2; ++side) {
    CHECK(pair[side].find_qp(steps.qpn(side))->state == QpState::rts);
    CHECK(pair[side].stats().timeouts == 0);
  }
}

}  // namespace lost_ack_test
