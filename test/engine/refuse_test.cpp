// SPDX-License-Identifier: Apache-2.0
// What a responder does with packets that it can't or must not take.
#include <doctest/doctest.h>

#include "support/single.hpp"

using namespace mrc;
using namespace mrc::test;
using namespace std::chrono_literals;
using wire::NackReason;
using wire::Opcode;

namespace refuse_test {

/// Sends one bad packet; both the NAK and the state of the queue pair are as wanted.
void refused(Single& s, const Single::Data& d, wire::Syndrome syndrome, QpErrorCause cause) {
  INFO(to_string(cause));
  const std::vector<std::uint8_t> before = s.target;
  if (syndrome == wire::Syndrome::remote_access_error) {
    s.data(d);  // it may be forged: what is the peer's comes again
    CHECK(s.transmit().empty());
    CHECK(s.qp().state == QpState::rts);
    CHECK(s.engine.stats().drops.bad_key == 1);
  }
  s.data(d);
  const SentList acks = only(s.transmit(), Opcode::acknowledge);
  REQUIRE(acks.size() == 1);
  CHECK(acks[0].ack().aeth.code() == syndrome);
  CHECK(acks[0].psn() == s.first + static_cast<std::int32_t>(d.n));
  CHECK(s.qp().state == QpState::err);
  CHECK(s.qp().cause == cause);
  CHECK(s.target == before);
  const auto flushed = s.receives();
  CHECK(flushed.size() == s.setup.receives);
  for (const auto& c : flushed) CHECK(c.status == WcStatus::wr_flush_err);
  engine::Engine::Event e;
  REQUIRE(s.engine.poll_event(e));
  CHECK(e.kind == engine::Engine::Event::Kind::qp_error);
  CHECK(e.qpn == s.qpn);
}

constexpr auto kAccess = wire::Syndrome::remote_access_error;
constexpr auto kInvalid = wire::Syndrome::invalid_request;

TEST_CASE("refuse: keys, bounds, rights and protection domains") {
  struct Case {
    Single::Data (*of)(Single&);
    QpErrorCause cause;
  };
  const Case cases[] = {
      {[](Single& s) { return Single::Data{.rkey = s.rkey ^ 0x10000}; }, QpErrorCause::bad_key},
      {[](Single& s) { return Single::Data{.rkey = s.rkey + 100}; }, QpErrorCause::bad_key},
      {[](Single& s) {
         const auto old = s.rkey;
         REQUIRE(s.engine.deregister_memory(old) == Errc::ok);
         s.rkey = *s.engine.register_memory(s.target.data(), s.target.size(), s.setup.access, s.pd);
         CHECK(s.rkey != old);
         return Single::Data{.rkey = old};
       },
       QpErrorCause::bad_key},
      {[](Single& s) { return Single::Data{.offset = s.target.size() - 63}; },
       QpErrorCause::bad_bounds},
      {[](Single&) { return Single::Data{.offset = std::size_t{0} - 1}; },
       QpErrorCause::bad_bounds},
      {[](Single& s) {  // the address wraps around
         const auto base = reinterpret_cast<std::uint64_t>(s.target.data());
         return Single::Data{.offset = ~std::uint64_t{0} - base - 10};
       },
       QpErrorCause::bad_bounds},
      {[](Single& s) { return Single::Data{.rkey = s.lkey}; }, QpErrorCause::bad_access},
      {[](Single& s) {
         const PdId other = *s.engine.alloc_pd();
         return Single::Data{.rkey = *s.engine.register_memory(s.target.data(), s.target.size(),
                                                               s.setup.access, other)};
       },
       QpErrorCause::bad_pd}};
  for (const Case& one : cases) {
    Single s;
    refused(s, one.of(s), kAccess, one.cause);
  }
}

TEST_CASE("refuse: a peer that goes on with wrong keys in several packets is told so") {
  Single s;
  for (std::uint32_t n = 0; n < 16; ++n) s.data({.n = n, .rkey = 1});
  CHECK(s.transmit().empty());
  CHECK(s.qp().state == QpState::rts);
  for (std::uint32_t n = 0; n < 16 && s.qp().state == QpState::rts; ++n)
    s.data({.n = n, .rkey = 1});
  CHECK(s.qp().cause == QpErrorCause::bad_key);
  CHECK_FALSE(only(s.transmit(), Opcode::acknowledge).empty());
}

TEST_CASE("refuse: the last byte of a region may be written, the one after it not") {
  Single s;
  s.data({.n = 0, .offset = s.target.size() - 64, .fill = 0x77});
  CHECK(s.target.back() == 0x77);
  CHECK(s.qp().state == QpState::rts);
}

TEST_CASE("refuse: lengths against the rules") {
  const auto invalid = [](const Single::Data& d) {
    Single s;
    refused(s, d, kInvalid, QpErrorCause::bad_request);
  };
  invalid({.opcode = Opcode::write_first, .length = 1000, .dma_length = 5000});
  invalid({.opcode = Opcode::write_middle, .length = 1020, .dma_length = 5000});
  invalid({.opcode = Opcode::write_only, .length = 1028});
  invalid({.opcode = Opcode::write_last, .length = 0, .dma_length = 1024});
  invalid({.opcode = Opcode::write_only, .length = 100, .dma_length = 99});
  invalid({.opcode = Opcode::write_only, .length = 100, .dma_length = 0x8000'0001});
}

TEST_CASE("zero-length writes need no key and touch nothing") {
  Single s;
  s.data({.n = 0, .length = 0, .rkey = 0xDEAD});
  CHECK(s.qp().state == QpState::rts);
  CHECK(s.qp().rx.messages == 1);
  s.data({.n = 1, .opcode = Opcode::write_only_imm, .length = 0, .immediate = 9, .rkey = 0xDEAD});
  const auto c = s.receives();
  REQUIRE(c.size() == 1);
  CHECK(c[0].byte_len == 0);
  CHECK(c[0].immediate == 9);
}

TEST_CASE("NACK: PSN beyond the window, at most one per round trip") {
  Single::Setup setup;
  setup.attributes.mpr_dest = 1;
  Single s(setup);
  s.data({.n = 128, .stamp = 0x1357, .plane = 3});
  SentList nacks = only(s.transmit(), Opcode::nack);
  REQUIRE(nacks.size() == 1);
  const wire::Neth& n = nacks[0].nack().neth;
  CHECK(n.reason == NackReason::psn_oor_window);
  CHECK(n.nack_psn() == s.first + 128);
  CHECK(n.tx_timestamp.value() == 0x1357);
  CHECK(n.entropy() == Ev{0xABC00003});
  CHECK(nacks[0].psn() == s.first + 128);
  CHECK(nacks[0].plane == 3);
  for (std::uint32_t i = 0; i < 50; ++i) s.data({.n = 128 + i});
  CHECK(s.transmit().empty());
  s.now += s.peer_state().congestion.base_rtt();
  s.data({.n = 500});
  CHECK(only(s.transmit(), Opcode::nack).size() == 1);
  CHECK(s.qp().rx.window.out_of_order() == 0);
  s.data({.n = 127});  // the edge is inside
  CHECK(s.qp().rx.window.out_of_order() == 1);
}

TEST_CASE("NACK: a trimmed packet, its time stamp if it is left, and no other trace") {
  Single s;
  s.data({.n = 1, .stamp = 0x2468, .trim = wire::Trim::trimmed, .cut = 20});
  s.data({.n = 2, .stamp = 0x2468, .trim = wire::Trim::trimmed_last_hop, .cut = 12});
  s.data({.n = 500'000, .trim = wire::Trim::trimmed, .cut = 20});  // beyond the window
  const SentList nacks = only(s.transmit(), Opcode::nack);
  REQUIRE(nacks.size() == 2);
  CHECK(nacks[0].nack().neth.reason == NackReason::trimmed);
  CHECK(nacks[0].nack().neth.nack_psn() == s.first + 1);
  CHECK(nacks[0].nack().neth.tx_timestamp.value() == 0x2468);
  CHECK(nacks[1].nack().neth.reason == NackReason::trimmed_last_hop);
  CHECK(nacks[1].nack().neth.tx_timestamp.value() == 0);
  CHECK(s.qp().rx.window.out_of_order() == 0);
  CHECK(s.qp().rx.rcvd_bytes == 0);
  s.data({.n = 1});
  s.data({.n = 1, .trim = wire::Trim::trimmed, .cut = 20});  // it is here already
  CHECK(only(s.transmit(), Opcode::nack).empty());
  CHECK(s.engine.stats().rx_trimmed == 4);
}

TEST_CASE("NACK: a responder that does not answer trims stays silent") {
  Single::Setup setup;
  setup.attributes.trim_nack = false;
  Single s(setup);
  s.data({.n = 1, .trim = wire::Trim::trimmed, .cut = 20});
  CHECK(s.transmit().empty());
}

TEST_CASE("NACK: UNEXP_EVENT from a queue pair in ERR, at most one per round trip") {
  Single s;
  REQUIRE(s.engine.to_error(s.qpn) == Errc::ok);
  s.data({.n = 0});
  SentList nacks = only(s.transmit(), Opcode::nack);
  REQUIRE(nacks.size() == 1);
  CHECK(nacks[0].nack().neth.reason == NackReason::unexp_event);
  CHECK(nacks[0].nack().neth.nack_psn() == s.first);
  s.data({.n = 1});
  s.receive_control(wire::ProbePacket{wire::Bth::make(Opcode::probe, s.qpn, Psn{}), {}});
  CHECK(s.transmit().empty());
  s.now += s.peer_state().congestion.base_rtt();
  s.receive_control(wire::ProbePacket{wire::Bth::make(Opcode::probe, s.qpn, Psn{}), {}});
  CHECK(only(s.transmit(), Opcode::nack).size() == 1);
  CHECK(s.target[0] == 0xEE);
  CHECK(s.engine.stats().drops.wrong_state == 4);
}

TEST_CASE("refuse: data and probes after it get the same NAK, at most once per round trip") {
  Single s;
  refused(s, {.n = 3, .rkey = s.rkey ^ 0x10000}, kAccess, QpErrorCause::bad_key);
  s.data({.n = 4});
  CHECK(s.transmit().empty());
  for (const bool probe : {false, true}) {
    s.now += s.peer_state().congestion.base_rtt();
    if (probe)
      s.receive_control(wire::ProbePacket{wire::Bth::make(Opcode::probe, s.qpn, Psn{}), {}});
    else
      s.data({.n = 5});
    const SentList sent = s.transmit();
    const SentList naks = only(sent, Opcode::acknowledge);
    REQUIRE(naks.size() == 1);
    CHECK(only(sent, Opcode::nack).size() == (probe ? 1 : 0));  // it may be another connection's
    CHECK(naks[0].ack().aeth.code() == kAccess);
    CHECK(naks[0].psn() == s.first + 3);  // which the requester still waits for
  }
  s.now += s.peer_state().congestion.base_rtt();
  s.data({.n = 40'000});  // of another connection, surely, which knows nothing of that
  const SentList nacks = only(s.transmit(), Opcode::nack);
  REQUIRE(nacks.size() == 1);
  CHECK(nacks[0].nack().neth.reason == NackReason::unexp_event);
  CHECK(nacks[0].psn() == s.first + 40'000);
}

TEST_CASE("NACK: no room to hold a message's end back, and only where it has to be") {
  Single::Setup setup;
  setup.options.deferred_stores = 1;
  setup.access = Access::local_write | Access::remote_write;
  Single s(setup);
  s.data({.n = 2});
  CHECK(only(s.transmit(), Opcode::nack).empty());
  s.data({.n = 4});
  const SentList answers = s.transmit();
  const SentList nacks = only(answers, Opcode::nack);
  REQUIRE(nacks.size() == 1);
  CHECK(nacks[0].nack().neth.reason == NackReason::no_resource);
  // Room comes back with what is missing in front, so a SACK names that.
  const SentList sacks = only(answers, Opcode::sack);
  REQUIRE(sacks.size() == 1);
  CHECK(sacks[0].sack().seth.cack_psn() == s.first - 1);
  CHECK(sacks[0].sack().seth.sack_offset() == 1);
  CHECK(sacks[0].sack().seth.sack_bitmap.value() == 0b100);
  CHECK(s.qp().rx.window.check(s.first + 4) == reliability::ReceiveWindow::Verdict::fresh);
  s.data({.n = 5, .length = 0});  // has no end to hold back
  s.data({.n = 6, .opcode = Opcode::write_middle, .length = 1024, .dma_length = 5000});
  const auto relaxed =
      *s.engine.register_memory(s.target.data(), 64, setup.access | Access::relaxed_ordering, s.pd);
  s.data({.n = 7, .rkey = relaxed});
  CHECK(only(s.transmit(), Opcode::nack).empty());
  CHECK(s.qp().rx.window.out_of_order() == 4);
}

TEST_CASE("drops: everything that is nobody's is counted by kind and leaves no trace") {
  Single s;
  const auto& drops = s.engine.stats().drops;
  const std::vector<std::uint8_t> good = s.build({.n = 0});
  const auto with = [&](auto change) {
    std::vector<std::uint8_t> bytes = good;
    wire::RxPacket facts = Single::from(0);
    change(bytes, facts);
    s.receive(bytes, facts);
  };
  with([](auto& b, auto&) { b.resize(11); });
  with([](auto& b, auto&) { b[0] = 0x0A; });                                 // an RC opcode
  with([](auto& b, auto&) { b[1] = static_cast<std::uint8_t>(b[1] | 1); });  // version 1
  with([](auto&, auto& f) { f.plane = 32; });
  with([](auto& b, auto&) { b.resize(30); });
  CHECK(drops.malformed == 5);
  with([](auto& b, auto&) { b[7] = 0xF0; });
  CHECK(drops.unknown_qp == 1);
  with([](auto& b, auto&) { b[5] = 9; });  // another process's slot
  CHECK(drops.unknown_qp == 2);
  with([](auto&, auto& f) { f.source = 0x9999; });
  CHECK(drops.foreign == 1);
  with([](auto& b, auto& f) {
    f.source = 0x9999;
    f.trim = wire::Trim::trimmed;
    b.resize(20);
  });
  CHECK(drops.foreign == 2);
  const Qpn idle = s.create();
  const auto name = [](auto& b, Qpn qpn) {
    for (unsigned i = 0; i < 3; ++i)
      b[5 + i] = static_cast<std::uint8_t>(value(qpn) >> (16 - 8 * i));
  };
  with([&](auto& b, auto&) { name(b, idle); });
  CHECK(drops.wrong_state == 1);
  REQUIRE(s.engine.to_init(idle) == Errc::ok);
  with([&](auto& b, auto&) { name(b, idle); });
  CHECK(drops.wrong_state == 2);
  CHECK(s.transmit().empty());
  CHECK(s.target[0] == 0xEE);
  CHECK(s.qp().rx.window.cack() == s.first - 1);
  // The sender's address counts, not the plane that it came by.
  with([](auto&, auto& f) { f.source = Single::kTag + 1; });
  CHECK(s.target[0] == 0x11);
}

}  // namespace refuse_test
