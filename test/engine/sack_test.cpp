// SPDX-License-Identifier: Apache-2.0
// The responder's SACKs and Transport ACKs, packet by packet.
#include <doctest/doctest.h>

#include <set>

#include "support/single.hpp"

using namespace mrc;
using namespace mrc::test;
using namespace std::chrono_literals;
using wire::Opcode;

namespace sack_test {

/// A message of three packets with holes in front never ends, so no Transport ACK disturbs.
Single::Data middle(std::uint32_t n) {
  return {.n = n,
          .opcode = Opcode::write_middle,
          .offset = n * 1024,
          .length = 1024,
          .dma_length = 1 << 20};
}
SentList sacks(Single& s) {
  return only(s.transmit(), Opcode::sack);
}

TEST_CASE("SACK: the byte threshold, counted as nominal sizes and at least 1 KiB") {
  Single s;
  const std::uint32_t nominal = 8 + 12 + 4 + 4 + 16 + 1024 + 4 + 40;
  const std::uint32_t packets = (16 * 1024 + nominal - 1) / nominal;
  std::uint32_t n = 0;
  for (unsigned round = 0; round < 3; ++round) {
    for (std::uint32_t i = 1; i < packets; ++i) {
      s.data(middle(n++));
      CHECK(sacks(s).empty());
    }
    s.data(middle(n++));
    CHECK(sacks(s).size() == 1);
  }
  Single small;  // 64 bytes of payload count for 1,024
  for (std::uint32_t i = 0; i < 15; ++i) {
    small.data({.n = i});
    CHECK(sacks(small).empty());
  }
  small.data({.n = 15});
  CHECK(sacks(small).size() == 1);
}

TEST_CASE("SACK: each of the other triggers makes one at once") {
  Single s;
  auto d = middle(0);
  d.ack_request = true;
  s.data(d);
  CHECK(sacks(s).size() == 1);
  d = middle(1);
  d.rtx = true;
  s.data(d);
  CHECK(sacks(s).size() == 1);
  d = middle(2);
  d.ecn = Ecn::ce;
  s.data(d);
  const SentList ce = sacks(s);
  REQUIRE(ce.size() == 1);
  CHECK(ce[0].sack().seth.m() == wire::SackMark::skip_once);
  s.data(middle(3));
  CHECK(sacks(s).empty());
  CHECK(s.engine.stats().rx_ecn == 1);
}

TEST_CASE("SACK: fields name the trigger and the state") {
  Single s;
  s.data(middle(0));
  auto d = middle(5);
  d.ack_request = true;
  d.plane = 2;
  d.stamp = 0xBEEF;
  s.data(d);
  const SentList list = sacks(s);
  REQUIRE(list.size() == 1);
  const wire::SackPacket& p = list[0].sack();
  CHECK(p.bth.dqp() == Single::kRemote);
  CHECK(p.bth.psn() == s.first);  // cack
  CHECK(p.seth.cack_psn() == s.first);
  CHECK(p.seth.ack_psn_offset() == 5);
  CHECK(p.seth.entropy() == Ev{0xABC00002});
  CHECK(p.seth.sack_offset() == 1);
  CHECK(p.seth.sack_bitmap.value() == std::uint64_t{1} << 4);
  CHECK(p.seth.m() == wire::SackMark::none);
  CHECK_FALSE(p.seth.probe());
  CHECK(p.seth.mpr == 0);  // Dynamic MPR is off
  CHECK(p.seth.spdcid.value() == (value(s.qpn) & 0xFFFF));
  CHECK(p.seth.dpdcid.value() == (value(Single::kRemote) & 0xFFFF));
  CHECK(p.cc.tx_timestamp.value() == 0xBEEF);
  CHECK(p.cc.ooo_count() == 1);
  const std::uint32_t bytes = 2 * (8 + 12 + 4 + 4 + 16 + 1024 + 4 + 40);
  CHECK(p.cc.rcvd_bytes.value() == (bytes + 255) / 256);
  CHECK(list[0].plane == 2);  // where the trigger came in
  CHECK(list[0].dscp == s.setup.options.dscp.control);
  CHECK(list[0].ecn == Ecn::not_ect);
}

TEST_CASE("SACK: answers of a plane that is down go by another one") {
  Single s;
  s.engine.set_plane_up(s.now, 2, false);
  auto d = middle(0);
  d.ack_request = true;
  d.plane = 2;
  s.data(d);
  const SentList list = sacks(s);
  REQUIRE(list.size() == 1);
  CHECK(list[0].plane != 2);
}

TEST_CASE("SACK: of those that wait there are no more than it takes to tell everything") {
  for (const std::uint32_t span : {3u, 64u, 65u, 300u}) {
    CAPTURE(span);
    Single s;
    std::set<std::uint32_t> here;
    for (std::uint32_t n = 1; n <= span; ++n) {  // 0 and every seventh are missing
      if (n % 7 == 0 && n != span) continue;
      auto d = middle(n);
      d.ack_request = true;
      s.data(d);
      here.insert(n);
    }
    const std::uint32_t enough = (span + 1 + 63) / 64;
    const SentList list = sacks(s);
    CHECK(list.size() == enough);
    std::set<std::uint32_t> told;
    for (const Sent& p : list) {
      const auto& seth = p.sack().seth;
      CHECK(seth.cack_psn() == s.first - 1);
      for (unsigned bit = 0; bit < 64; ++bit)
        if ((seth.sack_bitmap.value() >> bit & 1) != 0)
          told.insert(static_cast<std::uint32_t>(seth.sack_offset() + bit) - 1);
    }
    CHECK(told == here);
    auto d = middle(0);  // and then it is one again
    d.ack_request = true;
    s.data(d);
    CHECK(sacks(s).size() == 1);
  }
}

TEST_CASE("SACK: those that wait tell everything, also when the walk is under way") {
  Single s;
  const auto send = [&](std::uint32_t n) {
    auto d = middle(n);
    d.ack_request = true;
    s.data(d);
  };
  for (std::uint32_t n = 1; n <= 150; ++n)  // 0 and 55 are missing
    if (n != 55) send(n);
  CHECK(sacks(s).size() == 3);
  send(151);
  CHECK(sacks(s).size() == 1);  // of the first 64: the next one goes on behind them
  s.data(middle(0));
  CHECK(s.qp().rx.window.cack() == s.first + 54);
  for (std::uint32_t n = 152; n <= 160; ++n) send(n);
  std::set<std::uint32_t> told;
  for (const Sent& p : sacks(s)) {
    const auto& seth = p.sack().seth;
    for (unsigned bit = 0; bit < 64; ++bit)
      if ((seth.sack_bitmap.value() >> bit & 1) != 0)
        told.insert(static_cast<std::uint32_t>(seth.cack_psn() - s.first) + seth.sack_offset() +
                    bit);
  }
  std::set<std::uint32_t> here;
  for (std::uint32_t n = 56; n <= 160; ++n) here.insert(n);
  CHECK(told == here);
}

TEST_CASE("SACK: while nothing is missing, one that still waits is brought up to date") {
  Single s;
  for (std::uint32_t n = 0; n < 10; ++n) {
    auto d = middle(n);
    d.ack_request = true;
    s.data(d);
  }
  const SentList list = sacks(s);
  REQUIRE(list.size() == 1);
  CHECK(list[0].sack().seth.cack_psn() == s.first + 9);
  CHECK(list[0].sack().seth.ack_psn_offset() == 0);

  Single marked;  // but a mark is never swallowed, neither as the old one nor as the new one
  for (std::uint32_t n = 0; n < 4; ++n) {
    auto d = middle(n);
    d.ack_request = true;
    if (n % 2 == 1) d.ecn = Ecn::ce;
    marked.data(d);
  }
  unsigned marks = 0;
  for (const Sent& p : sacks(marked)) marks += p.sack().seth.m() == wire::SackMark::skip_once;
  CHECK(marks == 2);
}

TEST_CASE("SACK: a reliability probe is answered with everything known") {
  Single s;
  s.data(middle(0));
  s.data(middle(3));
  wire::ProbePacket probe{wire::Bth::make(Opcode::probe, s.qpn, Psn{}), {}};
  probe.peth.probe_id = 0x1234;
  probe.peth.set_tx_timestamp(0x5678);
  s.receive_control(probe, 1);
  const SentList list = sacks(s);
  REQUIRE(list.size() == 1);
  const wire::SackPacket& p = list[0].sack();
  CHECK(p.seth.probe());
  CHECK(p.seth.probe_id() == 0x1234);
  CHECK(p.cc.tx_timestamp.value() == 0x5678);
  CHECK(p.seth.cack_psn() == s.first);
  CHECK(p.seth.sack_bitmap.value() == 0b100);
  CHECK(list[0].plane == 1);
  CHECK(s.qp().rx.window.cack() == s.first);  // the probe took no PSN
}

TEST_CASE("duplicates: never placed, and answered only when asked") {
  Single s;
  s.data({.n = 0, .fill = 0x11});
  s.data({.n = 2, .offset = 64, .fill = 0x22});
  (void)s.transmit();
  s.data({.n = 0, .fill = 0x33});
  s.data({.n = 2, .offset = 64, .fill = 0x44});
  CHECK(s.target[0] == 0x11);
  CHECK(s.target[64] == 0x22);
  CHECK(s.transmit().empty());
  CHECK(s.engine.stats().rx_duplicates == 2);
  CHECK(s.engine.stats().rx_data == 2);
  const std::uint64_t bytes = s.qp().rx.rcvd_bytes;
  s.data({.n = 0, .fill = 0x55, .ack_request = true});
  CHECK(sacks(s).size() == 1);
  s.data({.n = 2, .offset = 64, .fill = 0x66, .rtx = true});
  CHECK(s.target[0] == 0x11);
  CHECK(s.target[64] == 0x22);
  CHECK(sacks(s).size() == 1);
  CHECK(s.qp().rx.rcvd_bytes == bytes);  // accepted packets only
}

TEST_CASE("Transport ACK: when the last hole closes, one for all that are finished") {
  Single s;
  s.data({.n = 1, .msn = 1});
  s.data({.n = 2, .opcode = Opcode::write_first, .length = 1024, .dma_length = 1088, .msn = 2});
  s.data({.n = 3, .opcode = Opcode::write_last, .dma_length = 1088, .msn = 2});
  s.data({.n = 4, .opcode = Opcode::write_first, .length = 1024, .dma_length = 4096, .msn = 3});
  CHECK(only(s.transmit(), Opcode::acknowledge).empty());
  s.data({.n = 0, .msn = 0});
  const SentList acks = only(s.transmit(), Opcode::acknowledge);
  REQUIRE(acks.size() == 1);
  const wire::AckPacket& a = acks[0].ack();
  CHECK(a.aeth.code() == wire::Syndrome::ack);
  CHECK(a.aeth.msn.value() == 2);     // message 3 is not finished
  CHECK(a.bth.psn() == s.first + 3);  // and that is where message 2 ends
  CHECK(a.bth.dqp() == Single::kRemote);
}

TEST_CASE("Transport ACK: sent again for a retransmission below cack and for a probe") {
  Single s;
  s.data({.n = 0});
  CHECK(only(s.transmit(), Opcode::acknowledge).size() == 1);
  s.data({.n = 0, .ack_request = true});  // a plain duplicate does not
  CHECK(only(s.transmit(), Opcode::acknowledge).empty());
  s.data({.n = 0, .rtx = true});
  SentList acks = only(s.transmit(), Opcode::acknowledge);
  REQUIRE(acks.size() == 1);
  CHECK(acks[0].ack().aeth.msn.value() == 0);
  wire::ProbePacket probe{wire::Bth::make(Opcode::probe, s.qpn, Psn{}), {}};
  s.receive_control(probe);
  acks = only(s.transmit(), Opcode::acknowledge);
  REQUIRE(acks.size() == 1);
  CHECK(acks[0].ack().bth.psn() == s.first);
}

TEST_CASE("Transport ACK: a probe before the first message gets none") {
  Single s;
  s.receive_control(wire::ProbePacket{wire::Bth::make(Opcode::probe, s.qpn, Psn{}), {}});
  CHECK(only(s.transmit(), Opcode::acknowledge).empty());
}

}  // namespace sack_test
