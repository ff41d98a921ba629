// SPDX-License-Identifier: Apache-2.0
// Packets that the peer refuses over and over, while an older one is missing: they hold up nothing
// that looks for it.
#include <doctest/doctest.h>

#include <utility>

#include "support/single.hpp"

using namespace mrc;
using namespace mrc::test;
using namespace std::chrono_literals;
using wire::NackReason;
using wire::Opcode;

namespace refused_test {

/// For want of room.
constexpr NackReason kNoRoom[] = {NackReason::no_bitmap, NackReason::no_pkt_buffer,
                                  NackReason::no_resource, NackReason::psn_oor_window};
/// And of a receive.
constexpr NackReason kRefusals[] = {NackReason::no_bitmap, NackReason::no_pkt_buffer,
                                    NackReason::no_resource, NackReason::psn_oor_window,
                                    NackReason::receiver_not_ready};
/// All after which a packet is sent again.
constexpr NackReason kReasons[] = {NackReason::no_bitmap,         NackReason::no_pkt_buffer,
                                   NackReason::no_resource,       NackReason::psn_oor_window,
                                   NackReason::trimmed,           NackReason::trimmed_last_hop,
                                   NackReason::receiver_not_ready};

/// QpAttributes::timeout `n`, retries for ever.
[[nodiscard]] Single::Setup patient(unsigned n) {
  Single::Setup s = with_retries(n, 7, reliability::kRetryForever);
  s.rc = true;
  return s;
}

/// A peer that lacks all packets below `refused`, whatever is sent, and refuses that one.
struct RefusingPeer {
  Single& s;
  Psn refused;
  NackReason reason;
  bool answers_probes = false;
  SentList older{};  ///< transmissions of the packets that it lacks
  std::size_t probes = 0, refusals = 0;

  void run(Duration time) {
    for (const Time end = s.now + time; s.now < end && s.qp().state == QpState::rts;)
      for (Sent& p : s.advance(10us)) {
        if (p.opcode() == Opcode::probe) {
          ++probes;
          if (answers_probes) s.answer_probe(p);
        } else if (!wire::is_write(p.opcode())) {
          continue;
        } else if (p.psn() == refused) {
          ++refusals;
          s.nack(p, reason);
        } else {
          older.push_back(std::move(p));
        }
      }
  }
};

/// A write, and one with immediate behind it.
void post_two(Single& s) {
  REQUIRE(s.post({.id = 1}) == Errc::ok);
  REQUIRE(s.post({.id = 2, .with_immediate = true}) == Errc::ok);
}

}  // namespace refused_test

using namespace refused_test;

TEST_CASE("refused: the timer of an older packet expires, whatever the reason and however often") {
  for (const NackReason reason : kReasons) {
    CAPTURE(static_cast<int>(reason));
    Single s(patient(8));  // T(8) is 262 us
    post_two(s);
    RefusingPeer peer{s, s.own + 1, reason};
    peer.run(3ms);
    CHECK(peer.refusals > 10);
    CHECK(s.qp().stats.timeouts >= 4);
    CHECK(peer.older.size() >= s.qp().stats.timeouts);
    CHECK(s.qp().tx.retries.used() == s.qp().stats.timeouts);
  }
}

TEST_CASE("refused: the timer of an earlier packet of the same message expires too") {
  for (const NackReason reason : kReasons) {
    CAPTURE(static_cast<int>(reason));
    Single s(patient(8));
    REQUIRE(s.post({.length = 3000, .with_immediate = true}) == Errc::ok);
    RefusingPeer peer{s, s.own + 2, reason};
    peer.run(3ms);
    CHECK(peer.refusals > 10);
    CHECK(s.qp().stats.timeouts >= 4);
  }
}

TEST_CASE("refused: probes that look for an older packet are not used up") {
  for (const NackReason reason : kRefusals) {
    CAPTURE(static_cast<int>(reason));
    Single s(patient(20));  // the timer takes a second
    post_two(s);
    RefusingPeer peer{s, s.own + 1, reason};
    peer.run(5ms);
    CHECK(peer.refusals > 50);
    CHECK(peer.probes == 5);
    CHECK(s.qp().tx.probe_series == 0);
    CHECK(peer.older.size() == 1);
  }
}

TEST_CASE("refused: the answer to a probe alone shows that an older packet is missing") {
  for (const NackReason reason : kRefusals) {
    CAPTURE(static_cast<int>(reason));
    Single s(patient(20));
    post_two(s);
    RefusingPeer peer{s, s.own + 1, reason, true};
    peer.run(1ms);
    CHECK(peer.refusals > 5);
    CHECK(peer.older.size() >= 5);
    CHECK(s.qp().stats.timeouts == 0);
  }
}

TEST_CASE("refused: costs a retry for the oldest packet, and none for another one") {
  for (const NackReason reason : kNoRoom) {
    CAPTURE(static_cast<int>(reason));
    Single::Setup setup = with_retries(20, 1, 2);
    Single s(setup);
    post_two(s);
    RefusingPeer peer{s, s.own + 1, reason};
    peer.run(5ms);
    CHECK(peer.refusals > 50);
    CHECK(s.qp().state == QpState::rts);
    CHECK(s.qp().tx.retries.used() == 0);
    s.sack({.cack = 0});
    peer.run(5ms);
    CHECK(s.qp().cause == QpErrorCause::retry_exhausted);
    CHECK(s.qp().stats.refused == peer.refusals);
    CHECK(s.engine.stats().refused == peer.refusals);
  }
}

TEST_CASE("refused: for ever, the timer of an older packet ends the queue pair") {
  for (const NackReason reason : kReasons) {
    CAPTURE(static_cast<int>(reason));
    Single::Setup setup = with_retries(8, 1, 2);
    setup.rc = true;
    Single s(setup);
    post_two(s);
    RefusingPeer peer{s, s.own + 1, reason};
    peer.run(20ms);
    CHECK(s.qp().cause == QpErrorCause::retry_exhausted);
    CHECK(s.now - s.setup.options.start < reliability::timeout_value(8) * 9);
  }
}
