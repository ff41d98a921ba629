// SPDX-License-Identifier: Apache-2.0
// Acknowledgements that nobody waits for: unsignaled requests ask for none, and Transport ACKs wait
// for a SACK to travel with (EngineOptions::ack_delay).
#include <doctest/doctest.h>

#include "support/single.hpp"

using namespace mrc;
using namespace mrc::test;
using namespace std::chrono_literals;
using wire::Opcode;

namespace late_ack_test {

constexpr Duration kDelay = 200us;

[[nodiscard]] SingleSetup late() {
  SingleSetup setup;
  setup.options.ack_delay = kDelay;
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
  SUBCASE("of every 16 KiB") {
    for (std::uint32_t n = 0; n < 16; ++n) {
      CHECK(s.transmit().empty());
      s.data({.n = n, .offset = n * 64, .msn = n});
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

}  // namespace late_ack_test
