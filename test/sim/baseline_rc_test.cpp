// SPDX-License-Identifier: Apache-2.0
// The two ends of the RC baseline: each by itself, with inputs given by hand, and joined by a pipe
// that loses and delays.
#include <doctest/doctest.h>

#include <cstdint>
#include <map>
#include <vector>

#include "mrc/core/random.hpp"
#include "mrc/sim/baseline/rc_sender.hpp"

using namespace mrc;
using namespace mrc::sim::baseline;

namespace baseline_rc_test {

constexpr Time at_ns(std::int64_t ns) {
  return Time{Duration{ns}};
}

std::vector<RcPacket> poll_all(RcSender& s, Time now) {
  std::vector<RcPacket> packets;
  for (RcPacket p; s.poll(now, p);) packets.push_back(p);
  return packets;
}

std::vector<RcCompletion> completions(RcSender& s) {
  std::vector<RcCompletion> done;
  for (RcCompletion c; s.poll_completion(c);) done.push_back(c);
  return done;
}

void post(RcSender& s, std::uint64_t id, std::uint32_t bytes, bool notify = false) {
  REQUIRE(s.post(id, bytes, notify) == Errc::ok);
}

RcPacket packet(std::uint32_t psn, bool ack_request = false) {
  RcPacket p;
  p.psn = Psn{psn};
  p.payload = 100;
  p.ack_request = ack_request;
  return p;
}

TEST_CASE("rc sender: messages become packets of the MTU") {
  RcSender s({.mtu = 1000, .first_psn = Psn{7}});
  CHECK_FALSE(s.next_deadline() <= at_ns(0));
  post(s, 40, 2500, true);
  post(s, 41, 0);
  post(s, 42, 1000, true);
  CHECK(s.next_deadline() <= at_ns(0));
  const auto p = poll_all(s, at_ns(0));
  REQUIRE(p.size() == 5);
  const std::uint32_t payload[] = {1000, 1000, 500, 0, 1000};
  const bool first[] = {true, false, false, true, true}, last[] = {false, false, true, true, true};
  const bool notify[] = {false, false, true, false, true};
  const std::uint64_t id[] = {40, 40, 40, 41, 42};
  for (std::size_t i = 0; i < 5; ++i) {
    CAPTURE(i);
    CHECK(p[i].psn == Psn{static_cast<std::uint32_t>(7 + i)});
    CHECK(p[i].payload == payload[i]);
    CHECK(p[i].first == first[i]);
    CHECK(p[i].last == last[i]);
    CHECK(p[i].notify == notify[i]);
    CHECK(p[i].ack_request == last[i]);
    CHECK(p[i].message == id[i]);
    CHECK_FALSE(p[i].retransmission);
  }
  CHECK(p[1].message_bytes == 2500);
  CHECK(s.inflight() == 3500);
  CHECK(s.post(1, RcSender::kMaxMessage + 1, false) == Errc::too_long);
}

TEST_CASE("rc sender: ACKs are cumulative, old and foolish ones are ignored") {
  RcSender s({.mtu = 1000, .first_psn = Psn{0xFFFFFE}});
  for (std::uint64_t id = 0; id < 4; ++id) post(s, id, 2000);
  CHECK(poll_all(s, at_ns(0)).size() == 8);
  s.on_ack(at_ns(10), Psn{0xFFFFFE});  // half of message 0
  CHECK(completions(s).empty());
  CHECK(s.inflight() == 7000);
  s.on_ack(at_ns(20), Psn{3});  // beyond the wrap: messages 0, 1 and 2
  const auto done = completions(s);
  REQUIRE(done.size() == 3);
  for (std::uint64_t id = 0; id < 3; ++id) {
    CHECK(done[id].message == id);
    CHECK(done[id].ok);
    CHECK(done[id].bytes == 2000);
    CHECK(done[id].at == at_ns(20));
  }
  s.on_ack(at_ns(30), Psn{0});  // old
  s.on_ack(at_ns(30), Psn{6});  // never sent
  s.on_nak(at_ns(30), Psn{6});  // likewise
  s.on_nak(at_ns(30), Psn{1});  // old
  CHECK(s.stats().stale == 4);
  CHECK(s.inflight() == 2000);
  CHECK(poll_all(s, at_ns(30)).empty());
  s.on_ack(at_ns(40), Psn{5});
  CHECK(completions(s).size() == 1);
  CHECK(s.idle());
  CHECK(s.inflight() == 0);
  CHECK(s.next_deadline() == kNever);
}

TEST_CASE("rc sender: the window bounds what is unacknowledged, and its end asks for an ACK") {
  RcSender s({.mtu = 1000, .window = 4500});
  post(s, 1, 10'000);
  auto p = poll_all(s, at_ns(0));
  REQUIRE(p.size() == 4);
  CHECK_FALSE(p[2].ack_request);
  CHECK(p[3].ack_request);
  CHECK(s.next_deadline() == at_ns(0) + rc_ack_timeout(8));  // nothing but the timer
  s.on_ack(at_ns(5), Psn{1});
  CHECK(poll_all(s, at_ns(5)).size() == 2);

  RcSender small({.mtu = 1000, .window = 10});  // one packet is always allowed
  post(small, 1, 2000);
  CHECK(poll_all(small, at_ns(0)).size() == 1);
}

TEST_CASE("rc sender: a NAK goes back to the missing packet and sends all from there again") {
  RcSender s({.mtu = 1000});
  post(s, 1, 4000);
  post(s, 2, 4000);
  post(s, 3, 4000);
  CHECK(poll_all(s, at_ns(0)).size() == 12);
  s.on_nak(at_ns(100), Psn{5});  // in message 2; message 1 has arrived
  CHECK(completions(s).size() == 1);
  CHECK(s.inflight() == 0);
  const auto p = poll_all(s, at_ns(100));
  REQUIRE(p.size() == 7);
  for (std::size_t i = 0; i < p.size(); ++i) {
    CHECK(p[i].psn == Psn{static_cast<std::uint32_t>(5 + i)});
    CHECK(p[i].retransmission);
    CHECK(p[i].first == (i == 3));
    CHECK(p[i].message == (i < 3 ? 2u : 3u));
  }
  CHECK(p[0].ack_request);  // so that its loss is noticed
  CHECK_FALSE(p[1].ack_request);
  CHECK(s.stats().retransmitted == 7);
}

TEST_CASE("rc sender: an ACK that comes in after going back spares what it covers") {
  RcSender s({.mtu = 1000});
  post(s, 1, 6000);
  CHECK(poll_all(s, at_ns(0)).size() == 6);
  s.on_timer(at_ns(0) + rc_ack_timeout(8));
  s.set_rate(1000);  // holds the packets back for seconds
  s.on_ack(at_ns(2'000'000), Psn{3});
  CHECK(s.next_deadline() > at_ns(1'000'000'000));  // nothing sent again yet, so no timer
  s.set_rate(0);
  const auto p = poll_all(s, at_ns(2'000'000));
  REQUIRE(p.size() == 2);
  CHECK(p[0].psn == Psn{4});
  s.on_ack(at_ns(2'100'000), Psn{5});
  CHECK(s.idle());
  CHECK(s.next_deadline() == kNever);
}

TEST_CASE("rc sender: the timer runs from the first packet that asks, and anew with progress") {
  constexpr Duration timeout{1000};
  RcSender s({.mtu = 1000, .window = 4000, .ack_timeout = timeout});
  post(s, 1, 8000);
  RcPacket p;
  REQUIRE(s.poll(at_ns(0), p));
  CHECK(s.next_deadline() <= at_ns(0));
  REQUIRE(s.poll(at_ns(10), p));
  REQUIRE(s.poll(at_ns(20), p));
  REQUIRE(s.poll(at_ns(30), p));  // fills the window: asks
  CHECK_FALSE(s.poll(at_ns(30), p));
  CHECK(s.next_deadline() == at_ns(1030));
  s.on_timer(at_ns(1029));
  CHECK(s.stats().timeouts == 0);
  s.on_ack(at_ns(500), Psn{2});  // progress, PSN 3 is still asked about
  REQUIRE(s.poll(at_ns(500), p));
  REQUIRE(s.poll(at_ns(500), p));
  REQUIRE(s.poll(at_ns(500), p));
  CHECK_FALSE(s.poll(at_ns(500), p));
  CHECK(s.next_deadline() == at_ns(1500));
  s.on_timer(at_ns(1500));
  CHECK(s.stats().timeouts == 1);
  REQUIRE(s.poll(at_ns(1600), p));
  CHECK(p.psn == Psn{3});
  CHECK(p.retransmission);
  CHECK(poll_all(s, at_ns(1600)).size() == 3);
  CHECK(s.next_deadline() == at_ns(2600));  // from when it was sent, not from when it expired
}

TEST_CASE("rc sender: a slow rate does not make the timer expire on what was gone back on") {
  RcSender s({.mtu = 1000, .ack_timeout = Duration{10'000}, .overhead = 0});
  post(s, 1, 6000);
  CHECK(poll_all(s, at_ns(0)).size() == 6);  // the last asks
  s.on_nak(at_ns(100), Psn{2});
  s.set_rate(8'000'000);  // 1 ms a packet
  CHECK(s.next_deadline() == at_ns(1'000'000));
  RcPacket p;
  REQUIRE(s.poll(at_ns(1'000'000), p));
  CHECK(s.next_deadline() == at_ns(1'010'000));  // it asks, since it is the first again
  s.on_ack(at_ns(1'005'000), Psn{2});
  CHECK(s.next_deadline() == at_ns(2'000'000));  // PSN 5 has not asked again yet
  s.on_timer(at_ns(2'000'000));
  CHECK(s.stats().timeouts == 0);
}

TEST_CASE("rc sender: out of retries the queue pair fails and flushes, in order") {
  RcSender s({.mtu = 1000, .ack_timeout = Duration{1000}, .retry_count = 7});
  post(s, 1, 1500);
  post(s, 2, 1000);
  unsigned rounds = 0;
  Time now = at_ns(0);
  while (!s.failed() && rounds < 100) {
    ++rounds;
    CHECK(poll_all(s, now).size() == 3);
    CHECK(s.next_deadline() == now + Duration{1000});
    now = s.next_deadline();
    s.on_timer(now);
  }
  CHECK(rounds == 8);  // once and seven times again
  CHECK(s.stats().timeouts == 8);
  CHECK(poll_all(s, now).empty());
  CHECK(s.next_deadline() == kNever);
  CHECK(s.post(3, 1, false) == Errc::invalid_state);
  s.on_ack(now, Psn{0});  // too late
  const auto done = completions(s);
  REQUIRE(done.size() == 2);
  CHECK(done[0].message == 1);
  CHECK(done[1].message == 2);
  CHECK_FALSE(done[0].ok);
  CHECK_FALSE(done[1].ok);
  CHECK(done[1].at == now);
}

TEST_CASE("rc sender: progress gives all retries back") {
  RcSender s({.mtu = 1000, .ack_timeout = Duration{1000}, .retry_count = 2});
  post(s, 1, 10'000);
  Time now = at_ns(0);
  for (std::uint32_t psn = 0; psn < 10; ++psn) {
    for (int i = 0; i < 2; ++i) {
      CHECK_FALSE(poll_all(s, now).empty());
      now += Duration{1000};
      s.on_timer(now);
    }
    CHECK_FALSE(s.failed());
    s.on_ack(now, Psn{psn});
  }
  CHECK(s.idle());
  CHECK(completions(s).at(0).ok);
}

TEST_CASE("rc sender: a rate spaces packets, on average exactly") {
  RcSender s({.mtu = 1000, .overhead = 0});
  s.set_rate(3'000'000'000);  // a packet takes 2666.67 ns
  post(s, 1, 1'000'000);
  Time now = at_ns(0);
  RcPacket p;
  std::int64_t sent = 0;
  while (now < at_ns(1'000'000) && s.poll(now, p)) {
    ++sent;
    CHECK_FALSE(s.poll(now, p));
    now = s.next_deadline();
  }
  CHECK(sent == 375);  // 3 Gb/s for 1 ms
  // A new rate shortens the wait in progress: 1000 bytes at 8 Gb/s take 1 us.
  const Time last = s.next_deadline();
  CHECK(last <= at_ns(1'000'001));  // never early, and a picosecond per packet late
  REQUIRE(s.poll(last, p));
  s.set_rate(8'000'000'000);
  CHECK(s.next_deadline() == last + Duration{1000});
  s.set_rate(0);
  CHECK(poll_all(s, last).size() == 1000 - 376);
}

TEST_CASE("rc sender: bad options are refused") {
  CHECK_THROWS_AS(RcSender({.mtu = 0}), Error);
  CHECK_THROWS_AS(RcSender({.mtu = 70'000}), Error);
  CHECK_THROWS_AS(RcSender({.ack_timeout = Duration{0}}), Error);
  CHECK_THROWS_AS(RcSender({.overhead = 5000}), Error);
  CHECK(rc_ack_timeout(14) == Duration{67'108'864});
}

TEST_CASE("pacer: what was late is made good, an idle time is not") {
  Pacer pacer;
  pacer.set_rate(8'000'000'000);  // 1 ns a byte
  pacer.on_send(at_ns(0), 1000);
  CHECK(pacer.ready() == at_ns(1000));
  pacer.on_send(at_ns(1400), 1000);  // the port was busy: the next may go at 2000 all the same
  CHECK(pacer.ready() == at_ns(2000));
  pacer.on_send(at_ns(50'000), 1000);  // idle: two packets at once, not 48
  CHECK(pacer.ready() <= at_ns(50'000));
  pacer.on_send(at_ns(50'000), 1000);
  CHECK(pacer.ready() == at_ns(51'000));
}

TEST_CASE("rc receiver: one NAK per gap, the rest is dropped in silence") {
  RcReceiver r({.first_psn = Psn{10}});
  CHECK(r.on_packet(at_ns(0), packet(10), false).kind == RcReply::Kind::none);
  const RcReply nak = r.on_packet(at_ns(1), packet(12), false);
  CHECK(nak.kind == RcReply::Kind::nak);
  CHECK(nak.psn == Psn{11});
  for (std::uint32_t psn = 13; psn < 100; ++psn)  // even those that ask for an answer
    CHECK(r.on_packet(at_ns(2), packet(psn, true), false).kind == RcReply::Kind::none);
  CHECK(r.expected() == Psn{11});
  CHECK(r.stats().naks == 1);
  CHECK(r.stats().out_of_order == 88);
  CHECK(r.on_packet(at_ns(3), packet(11), false).kind == RcReply::Kind::none);  // closes the gap
  const RcReply second = r.on_packet(at_ns(4), packet(14), false);
  CHECK(second.kind == RcReply::Kind::nak);
  CHECK(second.psn == Psn{12});
}

TEST_CASE("rc receiver: ACKs are coalesced") {
  RcReceiver r({.first_psn = Psn{0xFFFFFF}, .ack_every = 4});
  std::uint32_t psn = 0xFFFFFF;
  for (int i = 0; i < 3; ++i)
    CHECK(r.on_packet(at_ns(i), packet(psn++), false).kind == RcReply::Kind::none);
  RcReply reply = r.on_packet(at_ns(3), packet(psn++), false);
  CHECK(reply.kind == RcReply::Kind::ack);
  CHECK(reply.psn == Psn{2});
  reply = r.on_packet(at_ns(4), packet(psn++, true), false);  // asked for
  CHECK(reply.kind == RcReply::Kind::ack);
  CHECK(reply.psn == Psn{3});
  for (int i = 0; i < 3; ++i)  // which starts the count anew
    CHECK(r.on_packet(at_ns(5), packet(psn++), false).kind == RcReply::Kind::none);
  CHECK(r.on_packet(at_ns(6), packet(psn++), false).kind == RcReply::Kind::ack);
}

TEST_CASE("rc receiver: a duplicate is answered and delivers nothing") {
  RcReceiver r;
  RcPacket p = packet(0, true);
  p.first = p.last = p.notify = true;
  p.message = 77;
  const RcReply reply = r.on_packet(at_ns(0), p, false);
  CHECK(reply.delivered);
  CHECK(reply.delivery.message == 77);
  CHECK(reply.delivery.bytes == 100);
  CHECK(reply.delivery.notify);
  CHECK(reply.msn == 1);
  const RcReply again = r.on_packet(at_ns(1), p, false);
  CHECK_FALSE(again.delivered);
  CHECK(again.kind == RcReply::Kind::ack);
  CHECK(again.psn == Psn{0});
  CHECK(again.msn == 1);
  CHECK(r.stats().duplicates == 1);
  CHECK(r.stats().messages == 1);
  CHECK(r.stats().bytes == 100);
}

TEST_CASE("rc receiver: marks are answered with CNPs at a pace, dropped packets' too") {
  RcReceiver r({.cnp_interval = Duration{1000}});
  CHECK_FALSE(r.on_packet(at_ns(0), packet(0), false).cnp);
  CHECK(r.on_packet(at_ns(1), packet(5), true).cnp);
  CHECK_FALSE(r.on_packet(at_ns(1000), packet(6), true).cnp);
  CHECK(r.on_packet(at_ns(1001), packet(7), true).cnp);
  CHECK_FALSE(r.on_packet(at_ns(5001), packet(7), false).cnp);
  CHECK(r.stats().cnps == 2);
  RcReceiver paper;  // one in 50 us
  for (int us = 10; us < 1010; ++us) (void)paper.on_packet(at_ns(us * 1000), packet(5), true);
  CHECK(paper.stats().cnps == 20);
}

TEST_CASE("rc: messages arrive once and in order whatever is lost, also across the PSN wrap") {
  constexpr Duration kStep{100}, kDelay{5000};  // between packets; each way
  constexpr std::uint64_t kMessages = 200;
  std::uint64_t timeouts = 0;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    const double loss = 0.02 * static_cast<double>(1 + seed % 4);
    const Psn start{0xFFFFFF - random.below(500)};
    RcSender sender({.mtu = 1024,
                     .window = 64 * 1024,
                     .ack_timeout = Duration{50'000},
                     .retry_count = 30,
                     .first_psn = start});
    RcReceiver receiver({.first_psn = start});
    for (std::uint64_t id = 0; id < kMessages; ++id)
      post(sender, id, random.below(10) == 0 ? 0 : random.below(20'000), id % 3 == 0);
    std::multimap<Time, RcPacket> data;  // by their arrival; equal times in order of insertion
    std::multimap<Time, RcReply> answers;
    std::vector<RcDelivery> delivered;
    std::vector<RcCompletion> completed;
    for (Time now = at_ns(0); !sender.idle() && !sender.failed(); now += kStep) {
      sender.on_timer(now);
      RcPacket p;
      if (sender.poll(now, p) && !random.chance(loss))
        data.emplace(now + kDelay + Duration{random.chance(0.01) ? random.below(3000) : 0}, p);
      for (; !data.empty() && data.begin()->first <= now; data.erase(data.begin())) {
        const RcReply r = receiver.on_packet(now, data.begin()->second, false);
        if (r.delivered) delivered.push_back(r.delivery);
        if (r.kind != RcReply::Kind::none && !random.chance(loss)) answers.emplace(now + kDelay, r);
      }
      for (; !answers.empty() && answers.begin()->first <= now; answers.erase(answers.begin())) {
        const RcReply& r = answers.begin()->second;
        r.kind == RcReply::Kind::ack ? sender.on_ack(now, r.psn) : sender.on_nak(now, r.psn);
      }
      for (const RcCompletion& c : completions(sender)) completed.push_back(c);
    }
    REQUIRE_FALSE(sender.failed());
    REQUIRE(delivered.size() == kMessages);
    REQUIRE(completed.size() == kMessages);
    for (std::uint64_t i = 0; i < kMessages; ++i) {
      CHECK(delivered[i].message == i);
      CHECK(completed[i].message == i);
      CHECK(completed[i].ok);
      CHECK(delivered[i].bytes == completed[i].bytes);
      CHECK(delivered[i].notify == (i % 3 == 0));
    }
    timeouts += sender.stats().timeouts;
    CHECK(sender.stats().retransmitted > 0);
    // Each packet was taken exactly once.
    const RcReceiverStats& r = receiver.stats();
    const RcSenderStats& s = sender.stats();
    CHECK(r.packets - r.out_of_order - r.duplicates == s.packets - s.retransmitted);
  }
  CHECK(timeouts > 20);  // a lost tail, NAK or ACK, and what is lost twice
}

}  // namespace baseline_rc_test
