// SPDX-License-Identifier: Apache-2.0
// Ports that read payload after they have taken a packet: nothing that gives the memory back to the
// application happens before they have stopped.
#include <doctest/doctest.h>

#include <array>
#include <vector>

#include "support/single.hpp"

using namespace mrc;
using namespace mrc::test;
using namespace std::chrono_literals;

namespace held_payload_test {

SingleSetup holding(std::uint32_t copies = 1000) {
  SingleSetup s;
  s.options.holding_planes = 0xF;
  s.options.held_copies = copies;
  return s;
}

void release(Single& s, const Sent& packet) {
  REQUIRE(packet.copy != wire::CopyId::none);
  s.engine.on_released({&packet.copy, 1});
}

std::vector<std::uint64_t> ids(const std::vector<Completion>& completions) {
  std::vector<std::uint64_t> all;
  for (const Completion& c : completions) all.push_back(c.wr_id);
  return all;
}

TEST_CASE("held payload: requests complete in order, each when its last copy is given back") {
  Single s(holding());
  for (std::uint64_t i = 0; i < 3; ++i) REQUIRE(s.post({.id = i, .length = 2000}) == Errc::ok);
  const SentList sent = data_of(s.transmit());
  REQUIRE(sent.size() == 6);
  s.sack({.cack = 5});
  s.ack(2, 5);
  CHECK(s.sends().empty());
  CHECK(s.engine.copies_held(s.lkey) == 6);
  release(s, sent[2]);
  release(s, sent[3]);  // the second request is free now, but the first is before it
  release(s, sent[0]);
  CHECK(s.sends().empty());
  release(s, sent[1]);
  CHECK(ids(s.sends()) == std::vector<std::uint64_t>{0, 1});
  release(s, sent[5]);
  release(s, sent[4]);
  CHECK(ids(s.sends()) == std::vector<std::uint64_t>{2});
  CHECK(s.engine.copies_held(s.lkey) == 0);
  release(s, sent[4]);  // a second time: ignored
  CHECK(s.engine.copies_held(s.lkey) == 0);
}

TEST_CASE("held payload: a copy that was sent again counts as well") {
  Single s(holding());
  REQUIRE(s.post({.id = 7, .length = 100}) == Errc::ok);
  const SentList first = data_of(s.transmit());
  const SentList again = data_of(s.advance(20ms));
  REQUIRE(again.size() >= 1);
  s.sack({.cack = 0});
  s.ack(0, 0);
  for (const Sent& packet : again) release(s, packet);
  CHECK(s.sends().empty());  // the first one, stuck in a queue of the port
  release(s, first[0]);
  CHECK(ids(s.sends()) == std::vector<std::uint64_t>{7});
}

TEST_CASE("held payload: packets that a port refused are not held") {
  Single s(holding());
  REQUIRE(s.post({.id = 1, .length = 100}) == Errc::ok);
  s.burst.clear();
  s.engine.poll_transmit(s.now, ~PlaneMask{0}, s.burst);
  REQUIRE(s.burst.size() == 1);
  CHECK(s.engine.copies_held(s.lkey) == 1);
  s.engine.on_untransmitted(s.now, s.burst.packets());
  CHECK(s.engine.copies_held(s.lkey) == 0);
  const SentList sent = data_of(s.transmit());
  REQUIRE(sent.size() == 1);
  s.ack(0, 0);
  CHECK(s.sends().empty());
  release(s, sent[0]);
  CHECK(s.sends().size() == 1);
}

TEST_CASE("held payload: inline data and empty writes are never held") {
  Single s(holding());
  REQUIRE(s.post({.length = 20, .inlined = true}) == Errc::ok);
  REQUIRE(s.post({.length = 0}) == Errc::ok);
  const SentList sent = data_of(s.transmit());
  REQUIRE(sent.size() == 2);
  for (const Sent& packet : sent) CHECK(packet.copy == wire::CopyId::none);
  s.ack(1, 1);
  CHECK(s.sends().size() == 2);
}

TEST_CASE("held payload: an error flushes a request when its copies are back, in order") {
  Single s(holding());
  for (std::uint64_t i = 0; i < 4; ++i) REQUIRE(s.post({.id = i, .length = 100}) == Errc::ok);
  const SentList sent = data_of(s.transmit());
  REQUIRE(sent.size() == 4);
  s.ack(0, 0);  // done, but held
  REQUIRE(s.engine.to_error(s.qpn) == Errc::ok);
  CHECK(s.receives().size() == s.setup.receives);  // they hold nothing
  CHECK(s.sends().empty());
  release(s, sent[1]);
  CHECK(s.sends().empty());
  release(s, sent[0]);
  const auto two = s.sends();
  REQUIRE(two.size() == 2);
  CHECK(two[0].status == WcStatus::success);
  CHECK(two[1].status == WcStatus::wr_flush_err);
  release(s, sent[3]);
  release(s, sent[2]);
  CHECK(ids(s.sends()) == std::vector<std::uint64_t>{2, 3});
}

TEST_CASE("held payload: the memory outlives the queue pair, and its number is no one else's") {
  for (const bool destroy : {false, true}) {
    CAPTURE(destroy);
    Single s(holding());
    REQUIRE(s.post({.id = 1, .length = 100}) == Errc::ok);
    const SentList old = data_of(s.transmit());
    REQUIRE(old.size() == 1);
    if (destroy) {
      REQUIRE(s.engine.destroy_qp(s.qpn) == Errc::ok);
      for (Qpn next{}; next != s.qpn;) {  // numbers are used again as late as possible
        next = s.create();
        if (next != s.qpn) REQUIRE(s.engine.destroy_qp(next) == Errc::ok);
      }
    } else {
      REQUIRE(s.engine.to_reset(s.qpn) == Errc::ok);
    }
    s.connect();
    REQUIRE(s.post({.id = 2, .length = 100}) == Errc::ok);
    const SentList sent = data_of(s.transmit());
    REQUIRE(sent.size() == 1);
    s.ack(0, 0);
    CHECK(s.engine.copies_held(s.lkey) == 2);
    release(s, old[0]);  // gives nothing back to the new connection's request
    CHECK(s.sends().empty());
    release(s, sent[0]);
    CHECK(ids(s.sends()) == std::vector<std::uint64_t>{2});
  }
}

TEST_CASE("held payload: a memory region is there until its copies are back") {
  Single s(holding());
  REQUIRE(s.post({.id = 1, .length = 100}) == Errc::ok);
  const SentList sent = data_of(s.transmit());
  CHECK(s.engine.deregister_memory(s.lkey) == Errc::in_use);
  REQUIRE(s.engine.deregister_memory(s.lkey, true) == Errc::ok);
  CHECK(s.qp().state == QpState::err);
  CHECK(s.post({}) == Errc::invalid_state);
  CHECK(s.engine.copies_held(s.lkey) == 1);
  // Its number is not given to another region meanwhile.
  std::vector<std::uint8_t> other(64);
  const std::uint32_t key = *s.engine.register_memory(other.data(), 64, Access::none, s.pd);
  CHECK((key & 0xFFF) != (s.lkey & 0xFFF));
  CHECK(s.sends().empty());
  release(s, sent[0]);
  CHECK(s.engine.copies_held(s.lkey) == 0);
  const auto flushed = s.sends();
  REQUIRE(flushed.size() == 1);
  CHECK(flushed[0].status == WcStatus::loc_prot_err);
  const std::uint32_t next = *s.engine.register_memory(other.data(), 64, Access::none, s.pd);
  CHECK((next & 0xFFF) == (s.lkey & 0xFFF));  // 4,096 regions
}

TEST_CASE("held payload: with no room for further copies sending waits") {
  Single s(holding(6));
  for (std::uint64_t i = 0; i < 10; ++i) REQUIRE(s.post({.id = i, .length = 100}) == Errc::ok);
  SentList sent = data_of(s.transmit());
  CHECK(sent.size() == 4);  // a packet may need as many as it can have SGEs: three
  CHECK(s.transmit().empty());
  release(s, sent[0]);
  for (Sent& more : data_of(s.transmit())) sent.push_back(more);
  CHECK(sent.size() == 5);
  for (std::size_t i = 1; i < sent.size(); ++i) {
    release(s, sent[i]);
    for (Sent& more : data_of(s.transmit())) sent.push_back(more);
  }
  CHECK(sent.size() == 10);
}

// --- Ports that place payload -----------------------------------------------------------------

namespace {

SingleSetup placing() {
  SingleSetup s;
  s.options.placing_planes = 0xF;
  return s;
}

void settle(Single& s, std::uint32_t n) {
  const wire::PacketName name{s.qpn, s.first + static_cast<std::int32_t>(n)};
  s.engine.on_settled(s.now, 0, {&name, 1});
}

}  // namespace

TEST_CASE("placed payload: counts as received, and is not written again") {
  Single s(placing());
  s.data({.length = 500, .fill = 0x33, .ack_request = true, .placed = true});
  CHECK(s.target[0] == 0xEE);  // the port has placed it: not the engine's business
  const SentList answers = s.transmit();
  REQUIRE(only(answers, wire::Opcode::sack).size() == 1);
  CHECK(only(answers, wire::Opcode::acknowledge).size() == 1);
  CHECK(s.qp().rx.rx_bytes == 500);
}

TEST_CASE("placed payload: what the engine does not allow is refused all the same") {
  Single s(placing());
  for (int i = 0; i < 2; ++i) s.data({.offset = (1 << 20) - 10, .length = 500, .placed = true});
  CHECK(s.qp().state == QpState::err);
  CHECK(s.qp().cause == QpErrorCause::bad_bounds);
}

TEST_CASE("unsettled packets: reported at once, complete when settled") {
  Single s(placing());
  s.data({.n = 0, .opcode = wire::Opcode::write_only_imm, .rtx = true, .unsettled = true});
  s.data(
      {.n = 1, .opcode = wire::Opcode::write_only_imm, .ack_request = true, .rqmsn = 1, .msn = 1});
  SentList answers = s.transmit();
  const SentList sacks = only(answers, wire::Opcode::sack);
  REQUIRE(sacks.size() >= 1);
  const auto& sack = sacks.back().sack();
  CHECK(sack.seth.cack_psn() == s.first - 1);
  CHECK((sack.seth.sack_bitmap.value() & 3) == 3);
  CHECK(only(answers, wire::Opcode::acknowledge).empty());
  CHECK(s.receives().empty());
  settle(s, 1);  // was never unsettled
  settle(s, 5);  // was never received
  CHECK(s.receives().empty());
  s.data({.n = 0, .opcode = wire::Opcode::write_only_imm, .rtx = true, .unsettled = true});
  CHECK(s.receives().empty());  // a duplicate changes nothing
  settle(s, 0);
  CHECK(s.receives().size() == 2);
  answers = s.transmit();
  REQUIRE(only(answers, wire::Opcode::acknowledge).size() == 1);
  CHECK(only(answers, wire::Opcode::acknowledge)[0].psn() == s.first + 1);
  settle(s, 0);
  CHECK(s.transmit().empty());
}

TEST_CASE("unsettled packets: a duplicate tells that a further copy is under way") {
  Single s(placing());
  s.data({.n = 1, .opcode = wire::Opcode::write_only_imm, .msn = 1});
  s.data({.n = 1, .opcode = wire::Opcode::write_only_imm, .msn = 1, .unsettled = true});
  s.data({.n = 0});
  CHECK(s.receives().empty());
  CHECK(s.qp().rx.window.cack() == s.first);
  settle(s, 1);
  CHECK(s.receives().size() == 1);
  s.data({.n = 1, .rtx = true, .unsettled = true});  // too late to matter
  CHECK(s.qp().rx.window.cack() == s.first + 1);
}

TEST_CASE("unsettled packets: in the middle of the window, and across its end") {
  Single s(placing());
  for (std::uint32_t n = 0; n < 300; ++n) {
    s.data({.n = n, .msn = n, .unsettled = n % 10 == 5});
    (void)s.transmit();
  }
  CHECK(s.qp().rx.window.cack() == s.first + 4);
  for (std::uint32_t n = 295; n > 5; n -= 10) settle(s, n);
  CHECK(s.qp().rx.window.cack() == s.first + 4);
  settle(s, 5);
  CHECK(s.qp().rx.window.cack() == s.first + 299);
  CHECK(s.qp().rx.messages == 300);
}

TEST_CASE("unsettled packets: a refusal that settling brings, and a connection that ends before") {
  SingleSetup setup = placing();
  setup.receives = 0;
  Single s(setup);
  s.data({.opcode = wire::Opcode::write_only_imm, .unsettled = true});
  CHECK(s.qp().state == QpState::rts);
  settle(s, 0);
  CHECK(s.qp().state == QpState::err);
  CHECK(s.qp().cause == QpErrorCause::no_receive);
  CHECK(only(s.transmit(), wire::Opcode::acknowledge).size() == 1);  // the NAK
  settle(s, 0);
  REQUIRE(s.engine.to_reset(s.qpn) == Errc::ok);
  s.connect();
  settle(s, 0);
  CHECK(s.qp().rx.window.cack() == s.first - 1);
}

}  // namespace held_payload_test
