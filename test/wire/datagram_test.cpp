// SPDX-License-Identifier: Apache-2.0
// Datagrams in the format of RoCEv2. The worked packets were made by another program, from the
// format's description.
#include <doctest/doctest.h>

#include <algorithm>

#include "mrc/fabric/packet.hpp"
#include "support/header_of.hpp"
#include "vectors.hpp"

namespace mrc::wire::datagram_test {
namespace {

using test::Buffer;

Buffer ipv4_datagram() {
  return test::from_hex(
      "45 00 00 40 00 00 40 00 40 11 b6 a9 c0 00 02 01 c0 00 02 02 c1 23 12 b7 00 2c 00 00 65 b0 "
      "ff ff 00 00 12 34 00 ab cd ef 11 11 11 11 00 00 56 78 de ad be ef 68 65 6c 6c 6f 00 00 00 "
      "d3 ef 08 60");
}
Buffer ipv6_datagram() {
  return test::from_hex(
      "60 00 00 00 00 28 11 40 20 01 0d b8 00 00 00 00 00 00 00 00 00 00 00 01 20 01 0d b8 00 00 "
      "00 00 00 00 00 00 00 00 00 02 c1 23 12 b7 00 28 00 00 64 00 ff ff 00 00 12 34 00 00 00 01 "
      "11 11 11 11 00 00 56 78 41 42 43 44 45 46 47 48 2d 81 b4 de");
}

Buffer build(const Envelope& e, const DatagramHeader& h, Bytes payload) {
  std::uint8_t header[datagram_header_size(true)];
  const std::size_t n = build_datagram_header(header, h);
  return test::packet_of(e, {header, n}, payload, h.pad);
}

TEST_CASE("worked datagram over IPv4, with immediate: built byte for byte, read field by field") {
  const Buffer packet = ipv4_datagram();
  Envelope e;
  e.source = map_ipv4({192, 0, 2, 1});
  e.destination = map_ipv4({192, 0, 2, 2});
  e.source_port = 0xC123;
  DatagramHeader h;
  h.pad = 3;
  h.solicited = true;
  h.with_immediate = true;
  h.dqp = Qpn{0x1234};
  h.psn = Psn{0xABCDEF};
  h.q_key = 0x1111'1111;
  h.source = Qpn{0x5678};
  h.immediate = 0xDEAD'BEEF;
  const std::uint8_t hello[] = {'h', 'e', 'l', 'l', 'o'};
  CHECK(build(e, h, hello) == packet);
  ParsedPacket p;
  REQUIRE(parse_packet(packet, {}, p) == PacketError::none);
  const DatagramView v = view_datagram(p.transport);
  CHECK(v.bth->opcode() == Opcode::datagram_imm);
  CHECK(v.bth->solicited_event());
  CHECK(v.bth->p_key() == kDefaultPKey);
  CHECK(v.deth->q_key.value() == 0x1111'1111);
  CHECK(v.deth->source_qp.value() == 0x5678);
  REQUIRE(v.imm != nullptr);
  CHECK(v.imm->immediate.value() == 0xDEAD'BEEF);
  CHECK(std::equal(v.payload.begin(), v.payload.end(), hello, hello + 5));
  CHECK(header_of(v).psn == h.psn);
}

TEST_CASE("worked datagram over IPv6, without immediate") {
  const Buffer packet = ipv6_datagram();
  Envelope e;
  e.source = test::host(1);
  e.destination = test::host(2);
  e.source_port = 0xC123;
  DatagramHeader h;
  h.dqp = Qpn{0x1234};
  h.psn = Psn{1};
  h.q_key = 0x1111'1111;
  h.source = Qpn{0x5678};
  const std::uint8_t letters[] = {'A', 'B', 'C', 'D', 'E', 'F', 'G', 'H'};
  CHECK(build(e, h, letters) == packet);
  ParsedPacket p;
  REQUIRE(parse_packet(packet, {}, p) == PacketError::none);
  CHECK(view_datagram(p.transport).imm == nullptr);
  CHECK(view_datagram(p.transport).payload.size() == 8);
  TrimmedView trimmed;  // nobody asks for a datagram again
  CHECK(view_trimmed(p.transport, trimmed) == ParseError::not_data);
}

TEST_CASE("GRH: the IP header of a packet, as it was on the wire") {
  const Buffer four = ipv4_datagram(), six = ipv6_datagram();
  Origin o;
  o.source = map_ipv4({192, 0, 2, 1});
  o.destination = map_ipv4({192, 0, 2, 2});
  o.hop_limit = 64;
  const auto of4 = make_grh(o, 0x2C);
  CHECK(std::all_of(of4.begin(), of4.begin() + 20, [](std::uint8_t b) { return b == 0; }));
  CHECK(std::equal(of4.begin() + 20, of4.end(), four.begin()));
  CHECK(read_grh(of4)->source == o.source);
  CHECK(read_grh(of4)->hop_limit == 64);
  o.source = test::host(1);
  o.destination = test::host(2);
  o.flow_label = 0x12345;
  CHECK(read_grh(make_grh(o, 0x28))->flow_label == 0x12345);
  o.flow_label = 0;
  const auto of6 = make_grh(o, 0x28);
  CHECK(std::equal(of6.begin(), of6.end(), six.begin()));
  CHECK(read_grh(of6)->destination == o.destination);
  auto damaged = of4;
  damaged[39] ^= 1;
  CHECK_FALSE(read_grh(damaged).has_value());
  damaged = of4;
  damaged[0] = 0x60;  // anything may stand there
  CHECK(read_grh(damaged)->source == map_ipv4({192, 0, 2, 1}));
  CHECK_FALSE(read_grh(Bytes(of4).first(39)).has_value());
}

}  // namespace
}  // namespace mrc::wire::datagram_test
