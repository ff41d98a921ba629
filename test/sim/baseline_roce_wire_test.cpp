// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <set>
#include <vector>

#include "mrc/core/random.hpp"
#include "mrc/sim/baseline/roce_host.hpp"

using namespace mrc;
using namespace mrc::sim::baseline;

namespace baseline_roce_wire_test {

using Buffer = std::array<std::uint8_t, 256>;

RcPacket data(bool first, bool last, bool notify, std::uint32_t payload) {
  RcPacket p;
  p.psn = Psn{0x123456};
  p.payload = payload;
  p.first = first;
  p.last = last;
  p.notify = notify;
  p.ack_request = last;
  p.message = 0x1122334455667788;
  p.message_bytes = first && last ? payload : 9000;
  return p;
}

/// One header of each kind, with the size that it must have from BTH to iCRC.
struct Sample {
  RoceHeader header;
  std::size_t size;
};
std::vector<Sample> samples() {
  const Qpn dqp{0xABCDEF};
  RcReply ack, nak;
  ack.kind = RcReply::Kind::ack;
  nak.kind = RcReply::Kind::nak;
  ack.psn = nak.psn = Psn{0xFFFFFF};
  ack.msn = nak.msn = 0x010203;
  return {{roce_header(data(true, false, false, 4096), dqp), 12 + 16 + 4096 + 4},
          {roce_header(data(false, false, false, 4096), dqp), 12 + 4096 + 4},
          {roce_header(data(false, true, false, 1001), dqp), 12 + 1001 + 3 + 4},
          {roce_header(data(false, true, true, 1002), dqp), 12 + 4 + 1002 + 2 + 4},
          {roce_header(data(true, true, false, 0), dqp), 12 + 16 + 4},
          {roce_header(data(true, true, true, 7), dqp), 12 + 16 + 4 + 7 + 1 + 4},
          {roce_header(ack, dqp), 12 + 4 + 4},
          {roce_header(nak, dqp), 12 + 4 + 4},
          {cnp_header(dqp), 12 + 16 + 4}};
}

wire::Envelope envelope(bool v4) {
  wire::Envelope e;
  if (v4) {
    e.source = wire::map_ipv4({10, 0, 0, 1});
    e.destination = wire::map_ipv4({10, 0, 0, 2});
  } else {
    e.source = {0xFD, 0, 1};
    e.destination = {0xFD, 0, 2};
  }
  e.source_port = roce_source_port(Qpn{3}, Qpn{4});
  e.dscp = kRoceDscp;
  e.ecn = Ecn::ect0;
  return e;
}

TEST_CASE("roce wire: the fields stand where RoCE has them") {
  Buffer b{};
  RcPacket p = data(true, true, true, 6);
  REQUIRE(build_roce(b, roce_header(p, Qpn{0xABCDEF})) == 32);
  const std::uint8_t only_imm[] = {0x0B, 0x20, 0xFF, 0xFF, 0x00, 0xAB, 0xCD, 0xEF,  // BTH, pad 2
                                   0x80, 0x12, 0x34, 0x56,                          // AckReq, PSN
                                   0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88,  // RETH: va
                                   0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x06,  // rkey, length
                                   0x55, 0x66, 0x77, 0x88};                         // ImmDt
  CHECK(std::equal(std::begin(only_imm), std::end(only_imm), b.begin()));

  RcReply nak;
  nak.kind = RcReply::Kind::nak;
  nak.psn = Psn{5};
  nak.msn = 0x0A0B0C;
  REQUIRE(build_roce(b, roce_header(nak, Qpn{1})) == 16);
  const std::uint8_t nak_bytes[] = {0x11, 0, 0xFF, 0xFF, 0, 0, 0, 1, 0, 0, 0, 5, 0x60, 10, 11, 12};
  CHECK(std::equal(std::begin(nak_bytes), std::end(nak_bytes), b.begin()));

  b.fill(0xEE);
  REQUIRE(build_roce(b, cnp_header(Qpn{2})) == 28);
  const std::uint8_t cnp[28] = {0x81, 0, 0xFF, 0xFF, 0x40, 0, 0, 2};  // BECN, the rest zero
  CHECK(std::equal(std::begin(cnp), std::end(cnp), b.begin()));
}

TEST_CASE("roce wire: a data packet reaches the receiver as it was polled") {
  for (unsigned kind = 0; kind < 8; ++kind) {
    CAPTURE(kind);
    const bool first = (kind & 1) != 0, last = (kind & 2) != 0;
    const RcPacket p = data(first, last, last && (kind & 4) != 0, 512);
    const RcPacket q = rc_packet(roce_header(p, Qpn{9}));
    CHECK(q.psn == p.psn);
    CHECK(q.payload == p.payload);
    CHECK(q.first == first);
    CHECK(q.last == last);
    CHECK(q.notify == p.notify);
    CHECK(q.ack_request == p.ack_request);
    if (first) CHECK(q.message == p.message);
    if (first) CHECK(q.message_bytes == p.message_bytes);
  }
}

TEST_CASE("roce wire: malformed packets are refused") {
  RoceHeader out;
  for (const Sample& s : samples()) {
    CAPTURE(static_cast<int>(s.header.opcode));
    Buffer b{};
    const std::size_t head = build_roce(b, s.header);
    for (std::size_t n = 0; n < head; ++n)  // cut within the headers
      CHECK(parse_roce(Bytes(b).first(n), s.size, out) == RoceError::too_short);
    CHECK(parse_roce(b, head, out) == RoceError::too_short);  // no room for an iCRC
    CHECK(parse_roce(b, 0, out) == RoceError::too_short);
    CHECK(parse_roce(b, s.size + 1, out) != RoceError::none);  // pad that does not fit
    b[1] |= 0x01;
    CHECK(parse_roce(b, s.size, out) == RoceError::bad_version);
  }
  Buffer b{};
  REQUIRE(build_roce(b, cnp_header(Qpn{1})) != 0);
  CHECK(parse_roce(b, 32 + 4, out) == RoceError::bad_length);  // a CNP carries nothing
  for (const int op : {0x00, 0x05, 0x0C, 0x10, 0x12, 0x80, 0xCA, 0xFF}) {
    b[0] = static_cast<std::uint8_t>(op);
    CHECK(parse_roce(b, 32, out) == RoceError::unknown_opcode);
  }
  RoceHeader bad;
  bad.opcode = static_cast<RoceOpcode>(0x04);
  CHECK(build_roce(b, bad) == 0);
  // Payloads that the opcode or RETH denies.
  RoceHeader first = roce_header(data(true, false, false, 64), Qpn{1});
  first.dma_length = 64;  // the whole message, yet not the only packet
  RoceHeader only = roce_header(data(true, true, false, 64), Qpn{1});
  only.dma_length = 65;
  for (const RoceHeader& h : {roce_header(data(false, false, false, 0), Qpn{1}),  // empty middle
                              roce_header(data(false, true, false, 0), Qpn{1}),   // empty last
                              first, only}) {
    REQUIRE(build_roce(b, h) != 0);
    CHECK(parse_roce(b, roce_transport_size(h.opcode, h.payload), out) == RoceError::bad_length);
  }
}

TEST_CASE("roce frame: each kind of packet is read as it was written, and has its exact size") {
  for (const bool v4 : {false, true})
    for (const Sample& s : samples()) {
      CAPTURE(v4);
      CAPTURE(static_cast<int>(s.header.opcode));
      const wire::Envelope e = envelope(v4);
      Buffer b{};
      const std::size_t n = build_roce_headers(b, e, s.header);
      REQUIRE(n == (v4 ? 28u : 48u) + roce_header_size(s.header.opcode));
      RoceFrame f;
      CHECK(parse_roce_frame(Bytes(b).first(n), f) == RoceError::none);
      CHECK(f.header == s.header);
      CHECK(f.source == e.source);
      CHECK(f.destination == e.destination);
      CHECK(f.source_port == e.source_port);
      CHECK(f.ecn == Ecn::ect0);
      CHECK(f.size == roce_packet_size(e, s.header));
      CHECK(f.size == (v4 ? 28u : 48u) + s.size);
      for (std::size_t cut = 0; cut < n; ++cut)
        CHECK(parse_roce_frame(Bytes(b).first(cut), f) == RoceError::too_short);
      CHECK(build_roce_headers(MutableBytes(b).first(n - 1), e, s.header) == 0);
    }
}

TEST_CASE("roce frame: foreign and inconsistent envelopes are refused") {
  RoceFrame f;
  for (const bool v4 : {false, true}) {
    CAPTURE(v4);
    Buffer good{};
    const std::size_t n =
        build_roce_headers(good, envelope(v4), roce_header(data(true, true, false, 64), Qpn{5}));
    const std::size_t udp = v4 ? 20 : 40;
    const auto refuses = [&](std::size_t byte, std::uint8_t flip) {
      CAPTURE(byte);
      Buffer b = good;
      b[byte] ^= flip;
      CHECK(parse_roce_frame(Bytes(b).first(n), f) == RoceError::bad_envelope);
    };
    refuses(0, 0x80);           // IP version
    refuses(v4 ? 3 : 5, 0x04);  // IP length
    refuses(v4 ? 9 : 6, 0x01);  // not UDP
    refuses(udp + 3, 0x01);     // other port
    refuses(udp + 5, 0x04);     // UDP length
    if (v4) refuses(0, 0x01);   // IHL 4
    if (v4) refuses(6, 0x20);   // fragment
  }
  // Any bytes at all: no crash, and what is accepted lies within the packet.
  Random random(3);
  for (int i = 0; i < 20'000; ++i) {
    Buffer b{};
    static_cast<void>(
        build_roce_headers(b, envelope((i & 1) != 0), samples()[random.below(9)].header));
    for (int k = 0; k < 3; ++k) {
      const std::uint32_t where = random.below(80);
      b[where] = static_cast<std::uint8_t>(random.next());
    }
    const std::uint32_t length = random.below(100);
    if (parse_roce_frame(Bytes(b).first(length), f) == RoceError::none)
      CHECK(f.header.payload + roce_header_size(f.header.opcode) < f.size);
  }
}

TEST_CASE("roce frame: queue pairs spread over the source ports") {
  std::set<std::uint16_t> ports;
  for (std::uint32_t q = 0; q < 1000; ++q) {
    const std::uint16_t port = roce_source_port(Qpn{0x100 + q}, Qpn{0x200 + q});
    CHECK(port >= 0xC000);
    ports.insert(port);
  }
  CHECK(ports.size() > 950);  // 1000 in 16,384: about 970 different ones
  CHECK(roce_source_port(Qpn{1}, Qpn{2}) == roce_source_port(Qpn{1}, Qpn{2}));
}

}  // namespace baseline_roce_wire_test
