// SPDX-License-Identifier: Apache-2.0
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wstringop-overread"  // g++ 12 is wrong about an empty vector
#endif
#include <doctest/doctest.h>

#include <cstdint>
#include <set>

#include "mrc/core/random.hpp"
#include "mrc/fabric/packet.hpp"
#include "mrc/wire/icrc.hpp"
#include "support/header_of.hpp"
#include "vectors.hpp"

namespace mrc::wire::packet_test {
namespace {

using test::Buffer;
using test::copy;
using test::host;

/// fc00:1:t:... with one uSID, enough to tell paths apart.
constexpr IpAddress carrier(std::uint8_t usid) {
  return {0xFC, 0, 0, 1, 0, usid, 0x65, 0x01, 0, 2, 0, 0, 0, 0, 0, 0};
}

Envelope envelope(Encapsulation encapsulation) {
  Envelope e = test::write_only_envelope();
  e.encapsulation = encapsulation;
  e.outer_source = host(9);
  e.outer_destination = carrier(1);
  e.segment = carrier(2);
  return e;
}
Envelope ipv4_envelope() {
  Envelope e = test::write_only_envelope();
  e.source = map_ipv4({10, 0, 0, 1});
  e.destination = map_ipv4({10, 0, 0, 2});
  return e;
}
Buffer write_packet(const Envelope& e) {
  return test::packet_of(e, test::header_bytes(test::write_only_header()), test::kLetters);
}
PacketError parse(Bytes packet, ParsedPacket& out) {
  return parse_packet(packet, {}, out);
}
PacketError parse(Bytes packet) {
  ParsedPacket out;
  return parse(packet, out);
}

const Encapsulation kAllEncapsulations[] = {Encapsulation::none, Encapsulation::ipv6_in_ipv6,
                                            Encapsulation::srh};

TEST_CASE("worked WRITE Only: built byte for byte, read field by field") {
  CHECK(write_packet(test::write_only_envelope()) == test::write_only_packet());

  const Buffer bytes = test::write_only_packet();
  ParsedPacket p;
  REQUIRE(parse(bytes, p) == PacketError::none);
  CHECK(p.icrc == IcrcState::ok);
  CHECK(p.source == host(1));
  CHECK(p.destination == host(2));
  CHECK(p.ip_version == 6);
  CHECK(p.outer_dscp == 4);
  CHECK(p.outer_ecn == Ecn::not_ect);
  CHECK(p.flow_label == 0x5A3);
  CHECK(p.source_port == 0x1234);
  CHECK(p.destination_port == 4791);
  CHECK(p.udp_length == 0x38);
  CHECK(p.trim == Trim::none);
  CHECK(p.encapsulation == Encapsulation::none);
  CHECK(p.transport.data() == bytes.data() + 48);
  CHECK(p.transport.size() == 44);
  CHECK(from_wire(p.entropy(), EvFormat::stev) == Ev{0x05A31234});
}

TEST_CASE("worked variants: what the iCRC covers and what not") {
  const auto icrc_of = [](const Buffer& b) { return load_icrc(b.data() + b.size() - 4); };
  Envelope e = test::write_only_envelope();
  e.flow_label = 1;
  e.dscp = 0;
  e.hop_limit = 3;
  e.ecn = Ecn::ce;
  CHECK(icrc_of(write_packet(e)) == test::kWriteOnlyIcrc);
  e = test::write_only_envelope();
  e.source_port = 0x1235;
  CHECK(icrc_of(write_packet(e)) == test::kWriteOnlyPort1235Icrc);
  WriteHeader h = test::write_only_header();
  h.rtx = true;
  CHECK(icrc_of(test::packet_of(test::write_only_envelope(), test::header_bytes(h),
                                test::kLetters)) == test::kWriteOnlyRtxIcrc);
  e = test::write_only_envelope();
  e.source_port = 0x4321;
  CHECK(icrc_of(test::packet_of(e, test::sack_transport())) == test::kSackIcrc);
}

TEST_CASE("encapsulation: outer headers byte for byte, iCRC untouched by them") {
  const Buffer plain = test::write_only_packet();

  const Buffer tunnel = write_packet(envelope(Encapsulation::ipv6_in_ipv6));
  CHECK(tunnel.size() == plain.size() + 40);
  CHECK(copy(Bytes{tunnel}.subspan(40)) == plain);
  CHECK(copy(tunnel, 40) == test::from_hex("61 00 00 00 00 60 29 40 "
                                           "20 01 0d b8 00 00 00 00 00 00 00 00 00 00 00 09 "
                                           "fc 00 00 01 00 01 65 01 00 02 00 00 00 00 00 00"));

  const Buffer routed = write_packet(envelope(Encapsulation::srh));
  CHECK(routed.size() == plain.size() + 64);
  CHECK(copy(Bytes{routed}.subspan(64)) == plain);
  CHECK(copy(routed, 64) == test::from_hex("61 00 00 00 00 78 2b 40 "
                                           "20 01 0d b8 00 00 00 00 00 00 00 00 00 00 00 09 "
                                           "fc 00 00 01 00 01 65 01 00 02 00 00 00 00 00 00 "
                                           "29 02 04 01 00 00 00 00 "
                                           "fc 00 00 01 00 02 65 01 00 02 00 00 00 00 00 00"));
}

TEST_CASE("encapsulation: DSCP and ECN come from the outermost header, the rest from inside") {
  for (const Encapsulation kind : {Encapsulation::ipv6_in_ipv6, Encapsulation::srh}) {
    Buffer packet = write_packet(envelope(kind));
    // A switch on the way marks CE; the uSIDs are shifted away.
    packet[1] = static_cast<std::uint8_t>(packet[1] | 0x30);
    for (std::size_t i = 28; i < 40; ++i) packet[i] = 0;
    ParsedPacket p;
    REQUIRE(parse(packet, p) == PacketError::none);
    CHECK(p.icrc == IcrcState::ok);
    CHECK(p.encapsulation == kind);
    CHECK(p.outer_ecn == Ecn::ce);
    CHECK(p.outer_dscp == 4);
    CHECK(p.source == host(1));
    CHECK(p.destination == host(2));
    CHECK(p.flow_label == 0x5A3);
    CHECK(p.transport.size() == 44);
  }
}

TEST_CASE("SRH: segments left may be used up; malformed ones are refused") {
  Buffer packet = write_packet(envelope(Encapsulation::srh));
  const auto with = [&packet](std::size_t at, std::uint8_t byte) {
    Buffer changed = packet;
    changed[at] = byte;
    return parse(changed);
  };
  CHECK(with(43, 0) == PacketError::none);         // segments left
  CHECK(with(43, 2) == PacketError::bad_srh);      // more than there are
  CHECK(with(42, 3) == PacketError::bad_srh);      // routing type
  CHECK(with(41, 0) == PacketError::bad_srh);      // no room for the segment
  CHECK(with(44, 1) == PacketError::bad_srh);      // last entry beyond the header
  CHECK(with(41, 255) == PacketError::too_short);  // longer than the packet
  CHECK(with(40, 17) == PacketError::not_udp);     // no IPv6 header inside
}

TEST_CASE("IPv4: canonical header, checksum, round trip") {
  const Buffer packet = write_packet(ipv4_envelope());
  CHECK(packet.size() == 76);
  CHECK(copy(packet, 20) ==
        test::from_hex("45 10 00 4c 00 00 40 00 40 11 26 8f 0a 00 00 01 0a 00 00 02"));
  ParsedPacket p;
  REQUIRE(parse(packet, p) == PacketError::none);
  CHECK(p.ip_version == 4);
  CHECK(p.icrc == IcrcState::ok);
  CHECK(p.source == map_ipv4({10, 0, 0, 1}));
  CHECK(p.destination == map_ipv4({10, 0, 0, 2}));
  CHECK(p.flow_label == 0);
  CHECK(p.outer_dscp == 4);
  CHECK(p.transport.size() == 44);
}

TEST_CASE("IPv4: another identification is part of the iCRC, TTL and ToS are not") {
  const auto refresh = [](Buffer& b) {
    Ipv4& ip = *reinterpret_cast<Ipv4*>(b.data());
    ip.checksum = 0;
    ip.checksum = ipv4_checksum(Bytes{b}.first(ip.header_length()));
  };
  Buffer packet = write_packet(ipv4_envelope());
  packet[1] = 0xB9;
  packet[8] = 1;
  CHECK(parse(packet) == PacketError::bad_ip_checksum);
  refresh(packet);
  CHECK(parse(packet) == PacketError::none);
  packet[5] = 7;
  refresh(packet);
  CHECK(parse(packet) == PacketError::bad_icrc);
}

TEST_CASE("IPv4: options are tolerated and covered") {
  const Buffer plain = write_packet(ipv4_envelope());
  Buffer packet = copy(plain, 20);
  packet.insert(packet.end(), {0x01, 0x01, 0x01, 0x00});
  packet.insert(packet.end(), plain.begin() + 20, plain.end());
  Ipv4& ip = *reinterpret_cast<Ipv4*>(packet.data());
  ip.version_ihl = 0x46;
  ip.total_length = static_cast<std::uint16_t>(packet.size());
  ip.checksum = 0;
  ip.checksum = ipv4_checksum(Bytes{packet}.first(24));
  CHECK(parse(packet) == PacketError::bad_icrc);
  const IcrcPrefix prefix =
      IcrcPrefix::of_packet(Bytes{packet}.first(24), view_as<Udp>(Bytes{packet}.subspan(24)));
  store_icrc(packet.data() + packet.size() - 4, icrc(prefix, Bytes{packet}.subspan(32, 44)));
  ParsedPacket p;
  REQUIRE(parse(packet, p) == PacketError::none);
  CHECK(p.transport.size() == 44);
}

TEST_CASE("every kind of malformed packet is told apart") {
  const Buffer good = test::write_only_packet();
  const auto with = [&good](std::size_t at, std::uint8_t byte) {
    Buffer changed = good;
    changed[at] = byte;
    return parse(changed);
  };
  CHECK(parse({}) == PacketError::too_short);
  CHECK(with(0, 0x51) == PacketError::bad_ip_version);
  CHECK(with(5, 0x39) == PacketError::bad_ip_length);  // more than there is
  CHECK(with(5, 0x07) == PacketError::too_short);      // no room for UDP
  CHECK(with(6, 6) == PacketError::not_udp);
  CHECK(with(6, 43) == PacketError::bad_srh);
  CHECK(with(43, 0xB8) == PacketError::foreign_port);
  CHECK(with(45, 0x37) == PacketError::bad_udp_length);
  CHECK(with(45, 0x39) == PacketError::bad_udp_length);
  CHECK(with(45, 0x17) == PacketError::bad_udp_length);  // no room for BTH and iCRC
  CHECK(with(84, 0x00) == PacketError::bad_icrc);
  CHECK(with(95, 0x00) == PacketError::bad_icrc);
  CHECK(with(52, 0xFF) == PacketError::none);  // variant reserved

  Buffer v4 = write_packet(ipv4_envelope());
  const auto with4 = [&v4](std::size_t at, std::uint8_t byte) {
    Buffer changed = v4;
    changed[at] = byte;
    Ipv4& ip = *reinterpret_cast<Ipv4*>(changed.data());
    ip.checksum = 0;
    ip.checksum = ipv4_checksum(Bytes{changed}.first(20));
    return parse(changed);
  };
  CHECK(with4(0, 0x44) == PacketError::bad_ip_length);  // header of 16 bytes
  CHECK(with4(3, 0x10) == PacketError::bad_ip_length);  // shorter than the header
  CHECK(with4(3, 0x4D) == PacketError::bad_ip_length);
  CHECK(with4(6, 0x20) == PacketError::fragment);
  CHECK(with4(7, 0x01) == PacketError::fragment);
  CHECK(with4(9, 6) == PacketError::not_udp);

  Buffer tunnel = write_packet(envelope(Encapsulation::ipv6_in_ipv6));
  tunnel[40] = 0x45;
  CHECK(parse(tunnel) == PacketError::bad_ip_version);
  tunnel[40] = 0x61;
  tunnel[45] = 0x37;
  CHECK(parse(tunnel) == PacketError::bad_ip_length);
  tunnel[45] = 0x39;
  CHECK(parse(tunnel) == PacketError::bad_ip_length);
}

TEST_CASE("a bad transport header comes with its cause") {
  Buffer header = test::header_bytes(test::write_only_header());
  header[0] = 0xD5;
  ParsedPacket p;
  CHECK(parse(test::packet_of(test::write_only_envelope(), header), p) ==
        PacketError::bad_transport);
  CHECK(p.transport_error == ParseError::unknown_opcode);
  CHECK(p.icrc == IcrcState::ok);
}

TEST_CASE("both UDP ports are accepted, others when configured") {
  Envelope e = test::write_only_envelope();
  e.destination_port = 4971;
  CHECK(parse(write_packet(e)) == PacketError::none);
  e.destination_port = 5000;
  const Buffer packet = write_packet(e);
  CHECK(parse(packet) == PacketError::foreign_port);
  ParseOptions options;
  options.udp_ports = {5000, 5000};
  ParsedPacket p;
  CHECK(parse_packet(packet, options, p) == PacketError::none);
  CHECK(parse_packet(test::write_only_packet(), options, p) == PacketError::foreign_port);
}

TEST_CASE("the iCRC check can be left to others") {
  Buffer packet = test::write_only_packet();
  packet.back() ^= 1;
  ParseOptions options;
  options.check_icrc = false;
  ParsedPacket p;
  CHECK(parse_packet(packet, options, p) == PacketError::none);
  CHECK(p.icrc == IcrcState::unchecked);
  CHECK(parse(packet, p) == PacketError::bad_icrc);
  CHECK(p.icrc == IcrcState::bad);
}

TEST_CASE("link padding after the IP length is no part of the packet") {
  Buffer packet = test::write_only_packet();
  packet.resize(packet.size() + 20, 0xEE);
  ParsedPacket p;
  CHECK(parse(packet, p) == PacketError::none);
  CHECK(p.transport.size() == 44);
}

TEST_CASE("cut at any length: refused, nothing read beyond") {
  Buffer packets[] = {test::write_only_packet(), write_packet(ipv4_envelope()),
                      write_packet(envelope(Encapsulation::ipv6_in_ipv6)),
                      write_packet(envelope(Encapsulation::srh))};
  for (const Buffer& packet : packets)
    for (std::size_t n = 0; n < packet.size(); ++n) {
      CHECK(parse(copy(packet, n)) != PacketError::none);
      Buffer cut = copy(packet, n);
      CHECK(trim_packet(cut, kTrimKeep, 12) == 0);
      CHECK(cut == copy(packet, n));
    }
}

TEST_CASE("trimming: what a switch leaves can be answered, for every size that it may keep") {
  const Buffer header = test::header_bytes(test::write_only_header());
  const Buffer payload(4096, 0x77);
  for (const Encapsulation kind : kAllEncapsulations) {
    for (const std::uint8_t dscp : {std::uint8_t{12}, std::uint8_t{16}}) {
      for (std::size_t keep = 0; keep <= 60; ++keep) {
        CAPTURE(keep);
        Envelope e = envelope(kind);
        e.ecn = Ecn::ect0;
        Buffer packet = test::packet_of(e, header, payload);
        const std::size_t before = e.size() - sizeof(Udp);
        const std::size_t kept = keep < 20 ? 20 : keep;
        const std::size_t length = trim_packet(packet, keep, dscp);
        REQUIRE(length == before + kept);
        packet.resize(length);
        packet.shrink_to_fit();
        ParsedPacket p;
        REQUIRE(parse(packet, p) == PacketError::none);
        CHECK(p.trim == (dscp == 12 ? Trim::trimmed : Trim::trimmed_last_hop));
        CHECK(p.icrc == IcrcState::absent);
        CHECK(p.outer_dscp == dscp);
        CHECK(p.outer_ecn == Ecn::ect0);
        CHECK(p.udp_length == 8 + 36 + 4096 + 4);
        CHECK(p.source_port == 0x1234);
        CHECK(p.transport.size() == kept - 8);
        TrimmedView v;
        REQUIRE(view_trimmed(p.transport, v) == ParseError::none);
        CHECK(v.bth->psn() == Psn{0x10});
        CHECK((v.meth != nullptr) == (kept >= 24));
        CHECK((v.tseth != nullptr) == (kept >= kTrimKeep));
      }
    }
  }
}

TEST_CASE("trimming: a tunnelled packet of which only the outer length was changed") {
  Buffer packet = test::packet_of(envelope(Encapsulation::ipv6_in_ipv6),
                                  test::header_bytes(test::write_only_header()), Buffer(1000, 1));
  const Buffer original = packet;
  packet.resize(40 + 40 + kTrimKeep);
  Ipv6& outer = *reinterpret_cast<Ipv6*>(packet.data());
  outer.payload_length = static_cast<std::uint16_t>(40 + kTrimKeep);
  CHECK(parse(packet) == PacketError::bad_ip_length);  // not said to be trimmed
  set_dscp(outer, 12);
  ParsedPacket p;
  REQUIRE(parse(packet, p) == PacketError::none);
  CHECK(p.transport.size() == kTrimKeep - sizeof(Udp));
  CHECK(p.udp_length == 8 + 36 + 1000 + 4);
}

TEST_CASE("trimming: IPv4 keeps a correct checksum, short packets lose nothing but the class") {
  Buffer v4 = test::packet_of(ipv4_envelope(), test::header_bytes(test::write_only_header()),
                              Buffer(1000, 1));
  v4.resize(trim_packet(v4, 64, 16));
  CHECK(v4.size() == 20 + 64);
  CHECK(ipv4_checksum(Bytes{v4}.first(20)) == 0);
  ParsedPacket p;
  CHECK(parse(v4, p) == PacketError::none);
  CHECK(p.trim == Trim::trimmed_last_hop);

  Buffer small = test::write_only_packet();
  CHECK(trim_packet(small, 1000, 12) == small.size());
  CHECK(parse(small, p) == PacketError::none);
  CHECK(p.trim == Trim::trimmed);
  CHECK(p.transport.size() == 44);  // the iCRC is left out
}

TEST_CASE("trimming: a control packet marked as trimmed is refused") {
  Envelope e = test::write_only_envelope();
  e.dscp = 12;
  ParsedPacket p;
  CHECK(parse(test::packet_of(e, test::sack_transport()), p) == PacketError::bad_transport);
  CHECK(p.transport_error == ParseError::not_data);
}

TEST_CASE("build: refuses what can't be built") {
  const Buffer header = test::header_bytes(test::write_only_header());
  const Envelope e = test::write_only_envelope();
  CHECK(write_packet(e).size() == 96);
  Buffer out(95);
  const TxSge payload{test::kLetters, 8};
  for (std::size_t n = 0; n < 96; ++n) {
    Buffer small(n);
    CHECK(build_packet(small, e, header, {&payload, 1}, 0) == 0);
  }
  out.resize(200);
  CHECK(build_packet(out, e, header, {&payload, 1}, 4) == 0);
  CHECK(build_packet(out, e, Bytes{header}.first(11), {}, 0) == 0);
  Envelope mixed = e;
  mixed.source = map_ipv4({10, 0, 0, 1});
  CHECK(build_packet(out, mixed, header, {&payload, 1}, 0) == 0);
  Envelope tunnel4 = ipv4_envelope();
  tunnel4.encapsulation = Encapsulation::ipv6_in_ipv6;
  CHECK(build_packet(out, tunnel4, header, {&payload, 1}, 0) == 0);
  const Buffer large(65536);
  out.resize(70000);
  const TxSge too_long{large.data(), 65536};
  CHECK(build_packet(out, e, header, {&too_long, 1}, 0) == 0);
}

TEST_CASE("build and parse: random packets of all kinds round trip") {
  Random random(11);
  for (int round = 0; round < 300; ++round) {
    Envelope e = round % 4 == 3 ? ipv4_envelope()
                                : envelope(kAllEncapsulations[static_cast<unsigned>(round % 4)]);
    e.source_port = static_cast<std::uint16_t>(random.next());
    e.flow_label = e.is_ipv4() ? 0 : random.below(1u << 20);
    e.ecn = static_cast<Ecn>(random.below(4));
    Buffer payload(random.below(5000));
    for (auto& byte : payload) byte = static_cast<std::uint8_t>(random.next());
    WriteHeader h = test::write_only_header();
    do h.opcode = static_cast<Opcode>(0xC0 + random.below(0x15));
    while (h.opcode == Opcode::acknowledge);
    h.has_timestamp = random.chance(0.5);
    h.pad = static_cast<std::uint8_t>((4 - payload.size() % 4) % 4);
    const Buffer packet = test::packet_of(e, test::header_bytes(h), payload, h.pad);
    ParsedPacket p;
    REQUIRE(parse(packet, p) == PacketError::none);
    CHECK(p.source_port == e.source_port);
    CHECK(p.flow_label == e.flow_label);
    CHECK(p.outer_ecn == e.ecn);
    CHECK(p.encapsulation == e.encapsulation);
    const WriteView v = view_write(p.transport);
    CHECK(copy(v.payload) == payload);
    CHECK(test::header_bytes(header_of(v)) == test::header_bytes(h));
    // Any flipped bit that the iCRC covers is found, and none is taken for something else.
    Buffer flipped = packet;
    const std::size_t from = e.size();
    const std::size_t at = from + random.below(static_cast<std::uint32_t>(packet.size() - from));
    flipped[at] ^= static_cast<std::uint8_t>(1u << random.below(8));
    if (at != from + 4) CHECK(parse(flipped) == PacketError::bad_icrc);
  }
}

}  // namespace
}  // namespace mrc::wire::packet_test
