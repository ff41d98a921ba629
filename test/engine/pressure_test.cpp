// SPDX-License-Identifier: Apache-2.0
// What a responder asks for while its own resources run short: the receiver's penalty (mrc-1.0
// §6.7) and Dynamic MPR (§2.4).
#include <doctest/doctest.h>

#include "support/errors.hpp"
#include "support/single.hpp"
#include "support/traffic.hpp"

using namespace mrc;
using namespace mrc::test;
using namespace std::chrono_literals;
using wire::Opcode;

namespace pressure_test {

/// The SACK that a packet in the middle of a message makes.
wire::SackPacket sack_of(Single& s, std::uint32_t n) {
  s.data({.n = n,
          .opcode = Opcode::write_middle,
          .offset = n * 1024,
          .length = 1024,
          .dma_length = 1 << 20,
          .ack_request = true});
  const SentList out = only(s.transmit(), Opcode::sack);
  REQUIRE(out.size() == 1);
  return out[0].sack();
}

TEST_CASE("pressure: the penalty follows the fill of the fullest receive buffer [O-8]") {
  Single s;
  std::uint32_t n = 0;
  const auto penalty = [&] { return sack_of(s, n++).cc.rcv_cwnd_pen(); };
  CHECK(penalty() == 0);
  CHECK_FALSE(sack_of(s, n++).cc.restore_cwnd());  // as if there were no penalties
  s.engine.set_receive_fill(1, 96);
  CHECK(penalty() == 0);
  s.engine.set_receive_fill(1, 97);
  CHECK(penalty() == 2);
  CHECK(sack_of(s, n++).cc.restore_cwnd());  // to be remembered
  s.engine.set_receive_fill(2, 112);
  CHECK(penalty() == 32);
  s.engine.set_receive_fill(1, 200);  // more than full is full
  CHECK(penalty() == 64);
  s.engine.set_receive_fill(1, 0);
  CHECK(penalty() == 32);
  s.engine.set_receive_fill(2, 96);
  CHECK(penalty() == 0);
  CHECK(sack_of(s, n++).cc.restore_cwnd());  // and to be given back
}

TEST_CASE("pressure: an application's penalty, 0 to 127; the greater one counts") {
  Single s;
  std::uint32_t n = 0;
  CHECK(s.engine.set_receiver_penalty(128, true) == Errc::invalid_argument);
  CHECK(sack_of(s, n++).cc.rcv_cwnd_pen() == 0);
  REQUIRE(s.engine.set_receiver_penalty(40, false) == Errc::ok);
  wire::SackPacket p = sack_of(s, n++);
  CHECK(p.cc.rcv_cwnd_pen() == 40);
  CHECK_FALSE(p.cc.restore_cwnd());
  s.engine.set_receive_fill(0, 128);
  p = sack_of(s, n++);
  CHECK(p.cc.rcv_cwnd_pen() == 64);
  CHECK(p.cc.restore_cwnd());
  REQUIRE(s.engine.set_receiver_penalty(127, true) == Errc::ok);
  p = sack_of(s, n++);
  CHECK(p.cc.rcv_cwnd_pen() == 127);
  CHECK(p.cc.restore_cwnd());
  s.engine.set_receive_fill(0, 0);
  REQUIRE(s.engine.set_receiver_penalty(0, true) == Errc::ok);
  p = sack_of(s, n++);
  CHECK(p.cc.rcv_cwnd_pen() == 0);
  CHECK(p.cc.restore_cwnd());
}

TEST_CASE("pressure: a penalty makes a sender's window small, and it comes back") {
  EnginePair::Setup setup;
  setup.planes = 1;
  EnginePair pair(setup, 3);
  const auto& sender = pair[0].find_peer(pair.peer(0))->congestion;
  const std::uint64_t full = sender.window();
  std::uint64_t least = full;
  const Time begin = pair.now();
  Traffic traffic(pair, {.messages = 400}, 3);
  pair.tap = [&](unsigned side, const wire::TxPacket&, std::vector<std::uint8_t>&) {
    pair[1].set_receive_fill(0, pair.now() < begin + 200us ? 128 : 0);
    if (side == 0) least = std::min(least, sender.window());
  };
  CHECK(traffic.run(5s));
  CHECK(least < full / 4);
  CHECK(sender.window() > full / 2);
  traffic.check();
}

TEST_CASE("pressure: Dynamic MPR shrinks while room for message ends runs short") {
  Single::Setup setup;
  setup.options.deferred_stores = 8;
  setup.attributes.dynamic_mpr = setup.remote_dynamic_mpr = true;
  setup.attributes.mpr_dest = 32;
  setup.access = Access::local_write | Access::remote_write;  // ordered: ends are held back
  Single s(setup);
  const auto mpr = [&](std::uint32_t n) {
    s.data({.n = n, .offset = n * 64, .ack_request = true});
    const SentList out = only(s.transmit(), Opcode::sack);
    REQUIRE(out.size() == 1);
    return int{out[0].sack().seth.mpr};
  };
  for (std::uint32_t n = 1; n <= 5; ++n) CHECK(mpr(n) == 32);  // three of eight are left
  CHECK(mpr(6) == 16);
  CHECK(mpr(7) == 8);
  CHECK(mpr(8) == 1);  // none is left
  REQUIRE(s.engine.set_mpr(s.qpn, 12) == Errc::ok);
  CHECK(mpr(0) == 12);  // the gap is filled: all of what the application allows
  REQUIRE(s.engine.set_mpr(s.qpn, 32) == Errc::ok);
  CHECK(mpr(9) == 32);
  Single off(setup);
  off.engine.set_receive_fill(0, 112);  // an eighth of the buffer is left
  CHECK(int{sack_of(off, 0).seth.mpr} == 8);
  off.engine.set_receive_fill(0, 128);
  CHECK(int{sack_of(off, 1).seth.mpr} == 1);
  setup.remote_dynamic_mpr = false;
  Single none(setup);
  none.engine.set_receive_fill(0, 128);
  CHECK(int{sack_of(none, 0).seth.mpr} == 0);  // off stays off
}

TEST_CASE("pressure: queue pairs that hold nothing back are not asked for less") {
  Single::Setup setup;
  setup.options.deferred_stores = 2;
  setup.attributes.dynamic_mpr = setup.remote_dynamic_mpr = true;
  setup.access = Access::local_write | Access::remote_write;
  Single s(setup);
  s.data({.n = 1, .offset = 64, .ack_request = true});
  s.data({.n = 2, .offset = 128, .ack_request = true});
  REQUIRE(s.engine.to_reset(s.qpn) == Errc::ok);  // gives its stores back
  s.qpn = s.create();
  s.connect();
  CHECK(int{sack_of(s, 0).seth.mpr} == s.qp().attributes.mpr_dest);
}

TEST_CASE("pressure: NSCC without time stamps is refused, and the error names the remedy") {
  EngineOptions o;
  o.timestamps = false;
  const Error e = thrown_by([&] { const Engine engine(o); });
  CHECK(e.code() == Errc::invalid_argument);
  for (const char* part : {"cc=nscc", "timestamps", "fixed or none"})
    CHECK(contains(e.what(), part));
  for (const cc::Algorithm a : {cc::Algorithm::fixed, cc::Algorithm::none}) {
    o.cc.algorithm = a;
    CHECK_NOTHROW(Engine{o});
  }
}

}  // namespace pressure_test
