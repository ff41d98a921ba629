// SPDX-License-Identifier: Apache-2.0
// Choices about single fields: what is ignored, what a value means, what is not looked at.
#include <doctest/doctest.h>

#include "support/single.hpp"

using namespace mrc;
using namespace mrc::test;
using wire::Opcode;

TEST_CASE("fields: reserved ones and spdcid/dpdcid mean nothing [C-2] [C-4] [C-21] [O-11]") {
  Single s;
  REQUIRE(s.post({}) == Errc::ok);
  const SentList out = data_of(s.transmit());
  wire::SackPacket p{wire::Bth::make(Opcode::sack, s.qpn, out[0].psn()), {}, {}};
  p.seth.set_cack_psn(out[0].psn());
  p.seth.flags_ = 0xFFFF & ~(wire::Seth::kMarkMask | wire::Seth::kProbeBit);
  p.seth.spdcid = 0xFFFF;
  p.seth.dpdcid = 0xFFFF;
  p.seth.reserved_ = 0xFF;
  p.seth.cc_type_flags = 0xF;
  p.bth.se_m_pad_tver = 0xC0;  // se and m
  p.bth.a_rtx_ts = 0x4F;       // reserved bits
  p.bth.variant_reserved = 0xFF;
  p.bth.set_p_key(0x1234);
  s.receive_control(p);
  CHECK(s.qp().tx.window.empty());
  // What goes out has all of them at 0.
  s.data({.n = 0, .ack_request = true});
  const SentList sacks = only(s.transmit(), Opcode::sack);
  REQUIRE(sacks.size() == 1);
  const wire::SackPacket& q = sacks[0].sack();
  CHECK(q.bth.se_m_pad_tver == 0);
  CHECK(q.bth.a_rtx_ts == 0);
  CHECK(q.bth.variant_reserved == 0);
  CHECK(q.seth.flags_ == 0);
  CHECK(q.seth.reserved_ == 0);
  CHECK((q.seth.cc_type_flags >> 4) == 0);
  CHECK((q.seth.cc_type_flags & 0xF) == 0);
  CHECK(q.cc.rcv_cwnd_pen() == 0);  // [O-8]
  CHECK_FALSE(q.cc.restore_cwnd());
}

TEST_CASE("fields: time stamps go out in ticks of 128 ns, and another tick is just echoed [O-13]") {
  Single s;
  REQUIRE(s.post({}) == Errc::ok);
  const SentList out = data_of(s.transmit());
  REQUIRE(out.size() == 1);
  const wire::Tseth* t = out[0].write().tseth;
  REQUIRE(t != nullptr);
  CHECK(t->tick_is_128ns());
  CHECK(t->ftype() == wire::kFtypeTimestamp);
  CHECK(t->tx_timestamp == wire::timestamp_of(s.now));
  auto bytes = s.build({.n = 0, .ack_request = true, .stamp = 0x7654});
  bytes[18] |= 0x80;  // tsr
  s.receive(bytes, Single::from(0));
  const SentList sacks = only(s.transmit(), Opcode::sack);
  REQUIRE(sacks.size() == 1);
  CHECK(sacks[0].sack().cc.tx_timestamp.value() == 0x7654);
}

TEST_CASE("fields: DMALEN is the message's, only the packet's own bytes are checked [C-7]") {
  Single s;
  // The last KiB of the region; VA + DMALEN reaches far beyond it.
  Single::Data d{.n = 0, .opcode = Opcode::write_middle, .length = 1024, .dma_length = 1 << 30};
  d.offset = s.target.size() - 1024;
  d.fill = 0x5A;
  s.data(d);
  CHECK(s.qp().state == QpState::rts);
  CHECK(s.target.back() == 0x5A);
}

TEST_CASE("fields: a PSN below the window is a duplicate over half the number space [C-6]") {
  Single s;
  s.data({.n = 0, .opcode = Opcode::write_middle, .length = 1024, .dma_length = 1 << 20});
  for (const std::int32_t n : {0, -1, -1000, -0x7F'0000}) {
    Single::Data d{.n = static_cast<std::uint32_t>(n), .fill = 0x77};
    s.data(d);
    CHECK(s.transmit().empty());
    d.ack_request = true;
    s.data(d);
    CHECK(s.transmit().size() == 1);
  }
  CHECK(s.target[0] == 0x11);
  CHECK(s.qp().rx.window.cack() == s.first);
}

TEST_CASE("fields: a smaller Dynamic MPR does not refuse what was admitted before [O-28]") {
  Single::Setup setup;
  setup.attributes.mpr_dest = 8;
  setup.attributes.dynamic_mpr = setup.remote_dynamic_mpr = true;
  Single s(setup);
  REQUIRE(s.engine.set_mpr(s.qpn, 1) == Errc::ok);
  s.data({.n = 1023, .ack_request = true});
  const SentList out = s.transmit();
  REQUIRE(out.size() == 1);
  CHECK(out[0].sack().seth.mpr == 1);
  CHECK(out[0].sack().cc.ooo_count() == 1);
}
