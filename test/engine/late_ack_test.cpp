// SPDX-License-Identifier: Apache-2.0
// Acknowledgements that nobody waits for: unsignaled requests ask for none, and Transport ACKs wait
// for a SACK to travel with (EngineOptions::ack_delay).
#include <doctest/doctest.h>

#include "support/single.hpp"
#include "support/traffic.hpp"

using namespace mrc;
using namespace mrc::test;
using namespace std::chrono_literals;
using wire::Opcode;

namespace {

constexpr Duration kDelay = 200us;

[[nodiscard]] SingleSetup late() {
  SingleSetup setup;
  setup.options.ack_delay = kDelay;
  setup.options.calm_sack = 512 << 10;
  setup.remote_solicited = true;  // an OpenMRC peer
  return setup;
}

[[nodiscard]] bool asks(const SentList& sent) {
  REQUIRE(sent.size() == 1);
  REQUIRE(sent.front().is_data());
  return sent.front().bth().ack_request();
}

/// Answers to data, among EV probes of the reverse path.
[[nodiscard]] SentList answers(const SentList& sent) {
  SentList found;
  for (const Sent& s : sent)
    if (s.opcode() == Opcode::sack || s.opcode() == Opcode::acknowledge) found.push_back(s);
  return found;
}

/// Packets that count as 1 KiB each, from number `n` on, until one is answered by a SACK.
[[nodiscard]] std::uint32_t until_sack(Single& s, std::uint32_t& n) {
  for (std::uint32_t count = 1; count < 1000; ++count, ++n) {
    s.data({.n = n, .msn = n});
    if (only(s.transmit(), Opcode::sack).empty()) continue;
    ++n;
    return count;
  }
  return 0;
}

/// Which packets of a message of that many KiB ask for a SACK.
[[nodiscard]] std::vector<std::size_t> asking(Single& s, std::uint32_t kib) {
  REQUIRE(s.post({.length = kib << 10, .signaled = false}) == Errc::ok);
  const SentList sent = data_of(s.transmit());
  std::vector<std::size_t> found;
  for (std::size_t i = 0; i < sent.size(); ++i)
    if (sent[i].bth().ack_request()) found.push_back(i);
  return found;
}

}  // namespace

TEST_CASE("late ACK: an unsignaled request asks for no SACK, a signaled one does") {
  Single s(late());
  REQUIRE(s.post({.signaled = false}) == Errc::ok);
  CHECK_FALSE(asks(s.transmit()));
  REQUIRE(s.post({.signaled = true}) == Errc::ok);
  CHECK(asks(s.transmit()));
  s.ack(1, 1);
  CHECK(s.sends().size() == 1);
  CHECK(s.qp().tx.queue.empty());
}

TEST_CASE("late ACK: a signaled request asks, whatever is queued behind it") {
  Single s(late());
  REQUIRE(s.post({.length = 3000, .signaled = true}) == Errc::ok);
  REQUIRE(s.post({.signaled = false}) == Errc::ok);
  const SentList sent = s.transmit();
  REQUIRE(sent.size() == 4);
  for (std::size_t i = 0; i < 4; ++i) CHECK(sent[i].bth().ack_request() == (i == 2));
}

TEST_CASE("late ACK: unsignaled requests ask when room gets short") {
  SUBCASE("in the send queue") {
    SingleSetup setup = late();
    setup.capacity.send = 8;
    Single s(setup);
    for (unsigned i = 0; i < 8; ++i) {
      CAPTURE(i);
      REQUIRE(s.post({.signaled = false}) == Errc::ok);
      CHECK(asks(s.transmit()) == (i >= 4));
    }
    REQUIRE(s.post({.signaled = false}) == Errc::queue_full);
    s.ack(7, 7);
    REQUIRE(s.post({.signaled = false}) == Errc::ok);
    CHECK_FALSE(asks(s.transmit()));
  }
  SUBCASE("among the WriteImm that the peer tracks") {
    SingleSetup setup = late();
    setup.remote_wimm = 6;
    Single s(setup);
    for (unsigned i = 0; i < 6; ++i) {
      CAPTURE(i);
      REQUIRE(s.post({.with_immediate = true, .signaled = false}) == Errc::ok);
      CHECK(asks(s.transmit()) == (i >= 2));
    }
  }
}

TEST_CASE("late ACK: a message that keeps the next one waiting asks") {
  SingleSetup setup = late();
  setup.remote_wimm = 1;
  Single s(setup);
  for (unsigned i = 0; i < 2; ++i)
    REQUIRE(s.post({.with_immediate = true, .signaled = i == 1}) == Errc::ok);
  CHECK(asks(s.transmit()));
  s.ack(0, 0);
  CHECK(asks(s.transmit()));
}

TEST_CASE("late ACK: every end of a message asks where acknowledgements may not be late") {
  SingleSetup setup = late();
  SUBCASE("without the option") {
    setup.options.ack_delay = {};
  }
  SUBCASE("to another implementation") {
    setup.remote_solicited = false;
  }
  Single s(setup);
  REQUIRE(s.post({.signaled = false}) == Errc::ok);
  CHECK(asks(s.transmit()));
  s.data({.n = 0});  // and is acknowledged, though it asks for nothing
  CHECK(only(s.transmit(), Opcode::acknowledge).size() == 1);
}

TEST_CASE("late ACK: the Transport ACK waits for a SACK, no longer than the delay") {
  Single s(late());
  SUBCASE("until its time is over") {
    s.data({.n = 0});
    s.data({.n = 1, .offset = 64, .msn = 1});
    CHECK(s.transmit().empty());
    CHECK(s.advance(kDelay - 1us).empty());
    const SentList sent = s.advance(2us);
    REQUIRE(sent.size() == 1);
    CHECK(sent.front().ack().bth.psn() == s.first + 1);  // one for both
    CHECK(sent.front().ack().aeth.msn.value() == 1);
    CHECK(answers(s.advance(10ms)).empty());
  }
  SUBCASE("that a message asks for") {
    s.data({.n = 0});
    s.data({.n = 1, .offset = 64, .ack_request = true, .msn = 1});
    const SentList sent = s.transmit();
    REQUIRE(sent.size() == 2);
    CHECK(sent[0].sack().seth.cack_psn() == s.first + 1);
    CHECK(sent[1].ack().bth.psn() == s.first + 1);
    CHECK(answers(s.advance(10ms)).empty());
  }
  SUBCASE("of the first 16 KiB") {
    for (std::uint32_t n = 0; n < 16; ++n) {
      CHECK(s.transmit().empty());
      s.data({.n = n, .msn = n});
    }
    CHECK(s.transmit().size() == 2);
    CHECK(answers(s.advance(10ms)).empty());
  }
  SUBCASE("that answers a probe") {
    s.data({.n = 0});
    wire::ProbePacket p{wire::Bth::make(Opcode::probe, s.qpn, Psn{}), {}};
    s.receive_control(p);
    CHECK(s.transmit().size() == 2);
    CHECK(answers(s.advance(10ms)).empty());
  }
}

TEST_CASE("late ACK: a message that ends by the arrival of what was missing is acknowledged") {
  Single s(late());
  s.data({.n = 1, .offset = 64, .ack_request = true, .msn = 1});
  CHECK(answers(s.transmit()).size() == 1);  // the SACK that was asked for
  s.data({.n = 0});
  const SentList sent = only(s.transmit(), Opcode::acknowledge);
  REQUIRE(sent.size() == 1);
  CHECK(sent.front().ack().bth.psn() == s.first + 1);
}

TEST_CASE("late ACK: one that is held goes out before the queue pair ends") {
  Single s(late());
  s.data({.n = 0});
  CHECK(answers(s.transmit()).empty());
  SUBCASE("in ERR") {
    REQUIRE(s.engine.to_error(s.qpn) == Errc::ok);
  }
  SUBCASE("because the program says so") {
    s.engine.send_held_ack(s.qpn);
  }
  SUBCASE("because the device closes") {
    s.engine.send_held_acks();
  }
  CHECK(only(s.transmit(), Opcode::acknowledge).size() == 1);
}

TEST_CASE("late ACK: what was lost is asked for, later than where an answer is due at once") {
  Duration waited[2];
  for (const bool signaled : {false, true}) {
    Single s(late());
    REQUIRE(s.post({.signaled = signaled}) == Errc::ok);
    const Time sent = s.now;
    CHECK(data_of(s.transmit()).size() == 1);
    while (true) {
      REQUIRE(s.engine.next_deadline() < sent + 100ms);
      s.now = s.engine.next_deadline();
      s.engine.on_time(s.now);
      if (!only(s.transmit(), Opcode::probe).empty()) break;
    }
    waited[signaled] = s.now - sent;
  }
  CHECK(waited[false] > 2 * kDelay);
  CHECK(waited[false] < waited[true] + 3 * kDelay);
  CHECK(waited[true] < 2 * kDelay);
}

TEST_CASE("late ACK: a queue pair that is made anew owes none") {
  Single s(late());
  s.data({.n = 0});
  REQUIRE(s.engine.to_reset(s.qpn) == Errc::ok);
  s.setup.receives = 0;
  s.connect();
  CHECK(answers(s.advance(10ms)).empty());
}

TEST_CASE("fewer SACKs: one each 128 KiB, each 16 KiB after signs of congestion or loss") {
  Single s(late());
  std::uint32_t n = 0;
  CHECK(until_sack(s, n) == 16);  // whose interval began before the queue pair was in RTS
  CHECK(until_sack(s, n) == 128);
  SUBCASE("a mark") {
    s.data({.n = n++, .msn = n, .ecn = Ecn::ce});
  }
  SUBCASE("a packet that was sent again") {
    s.data({.n = n++, .rtx = true, .msn = n});
  }
  CHECK(only(s.transmit(), Opcode::sack).size() == 1);
  for (unsigned i = 0; i < engine::kCalmPackets / 16; ++i) {
    for (unsigned k = 0; k < 16; ++k, ++n) s.data({.n = n, .msn = n});
    REQUIRE(only(s.transmit(), Opcode::sack).size() == 1);
  }
  CHECK(until_sack(s, n) == 128);
}

TEST_CASE("fewer SACKs: the queue pairs of a peer share what may be unanswered") {
  Single s(late());
  const Qpn first = s.qpn;
  const auto sacks_of_each = [&](unsigned queue_pairs) {
    for (unsigned i = 1; i < queue_pairs; ++i) {
      s.qpn = s.create();
      s.connect();
    }
    s.qpn = first;
    std::uint32_t n = 0;
    (void)until_sack(s, n);  // the next one is counted by the present number
    return until_sack(s, n);
  };
  SUBCASE("4") {
    CHECK(sacks_of_each(4) == 128);
  }
  SUBCASE("16") {
    CHECK(sacks_of_each(16) == 32);
  }
  SUBCASE("40") {
    CHECK(sacks_of_each(40) == 16);
  }
}

TEST_CASE("fewer SACKs: as many as ever for another implementation, or without late ACKs") {
  SingleSetup setup = late();
  SUBCASE("without the option") {
    setup.options.ack_delay = {};
  }
  SUBCASE("another implementation") {
    setup.remote_solicited = false;
  }
  Single s(setup);
  std::uint32_t n = 0;
  CHECK(until_sack(s, n) == 16);
  CHECK(until_sack(s, n) == 16);
}

TEST_CASE("fewer SACKs: the sender asks for one each quarter of what may be in flight") {
  SingleSetup setup = late();
  setup.options.cc.algorithm = cc::Algorithm::fixed;
  setup.options.cc.fixed_window = 1 << 20;
  SUBCASE("of the congestion window") {
    setup.options.cc.fixed_window = 64 << 10;
    Single s(setup);  // 14 packets with their headers are less than 16 KiB, 15 are not
    CHECK(asking(s, 40) == std::vector<std::size_t>{14, 29});
  }
  SUBCASE("of the packets that the peer tracks") {
    setup.remote_mpr = 1;
    Single s(setup);
    CHECK(asking(s, 80) == std::vector<std::size_t>{31, 63});
  }
  SUBCASE("of other implementations none, which answer each 16 KiB") {
    setup.options.cc.fixed_window = 64 << 10;
    setup.remote_solicited = false;
    Single s(setup);
    CHECK(asking(s, 40) == std::vector<std::size_t>{39});  // the last one
  }
}

namespace {

struct Outcome {
  Duration time{};
  std::uint64_t sacks = 0, probes = 0;
};

/// Messages of many packets from one side to the other, on a network that loses nothing.
[[nodiscard]] Outcome stream(EnginePair::Setup setup, std::uint32_t calm, unsigned queue_pairs) {
  setup.options.ack_delay = kDelay;
  setup.options.calm_sack = calm;
  setup.options.burst = 16;
  setup.rc = true;  // OpenMRC peers
  EnginePair pair(setup, 1);
  Traffic traffic(
      pair, {.queue_pairs = queue_pairs, .messages = 80 / queue_pairs, .max_size = 400'000}, 1);
  const Time start = pair.now();
  CHECK(traffic.run(5s));
  const Duration time = pair.now() - start;
  traffic.check();
  CHECK(pair[0].stats().tx_retransmits == 0);
  return {time, pair[1].stats().sacks_sent, pair[0].stats().probes_sent};
}

}  // namespace

TEST_CASE("fewer SACKs: nobody waits for one") {
  EnginePair::Setup setup;
  std::uint32_t calm = 512 << 10;
  unsigned queue_pairs = 1;
  SUBCASE("with a large window") {}
  SUBCASE("of four queue pairs") {
    queue_pairs = 4;
  }
  SUBCASE("of more queue pairs than share them") {
    queue_pairs = 40;
  }
  SUBCASE("where little may be in flight in a plane, which the responder knows") {
    setup.planes = 1;
    setup.plane_window = 104 << 10;
    setup.options.cc.algorithm = cc::Algorithm::none;
    calm = setup.plane_window / 4;
  }
  SUBCASE("where the congestion window is small, which the responder does not know") {
    setup.options.cc.algorithm = cc::Algorithm::fixed;
    setup.options.cc.fixed_window = 96 << 10;
  }
  const Outcome usual = stream(setup, 0, queue_pairs), few = stream(setup, calm, queue_pairs);
  CAPTURE(usual.sacks);
  CAPTURE(few.sacks);
  CHECK(few.sacks <= usual.sacks);
  CHECK(few.probes <= usual.probes);
  CHECK(few.time < usual.time + usual.time / 4);  // it is some 200 Gb/s: a SACK each 3 us
}
