// SPDX-License-Identifier: Apache-2.0
// Packets of SEND, READ and atomics: the test vectors of docs/extensions.md. Their iCRCs were
// computed apart from this code.
#include <doctest/doctest.h>

#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

#include "mrc/fabric/packet.hpp"
#include "vectors.hpp"

namespace mrc::wire::extension_test {
namespace {

using test::Buffer;
using test::from_hex;

/// IPv6 and UDP in front of all of them: 2001:db8::1 to 2001:db8::2, EV 0x05A31234.
Buffer extension_packet(std::string_view length, std::string_view transport) {
  Buffer packet = from_hex("61 00 05 a3");
  const auto append = [&packet](std::string_view hex) {
    const Buffer bytes = from_hex(hex);
    packet.insert(packet.end(), bytes.begin(), bytes.end());
  };
  append(length);
  append("11 40 20 01 0d b8 00 00 00 00 00 00 00 00 00 00 00 01");
  append("20 01 0d b8 00 00 00 00 00 00 00 00 00 00 00 02 12 34 12 b7");
  append(length);
  append("00 00");
  append(transport);
  return packet;
}

/// What the vectors have in common.
WriteHeader extension_header(Opcode opcode, std::uint32_t psn) {
  WriteHeader h;
  h.opcode = opcode;
  h.dqp = Qpn{0x200};
  h.psn = Psn{psn};
  h.ack_request = true;
  h.has_timestamp = true;
  h.timestamp = 0xBEEF;
  h.dma_length = 8;
  return h;
}

struct ExtensionVector {
  const char* name;
  WriteHeader header;
  Buffer payload, packet;
};

std::vector<ExtensionVector> extension_vectors() {
  std::vector<ExtensionVector> all;
  const Buffer letters(std::begin(test::kLetters), std::end(test::kLetters));
  {
    WriteHeader h = extension_header(Opcode::send_only_imm, 0x10);
    h.rqmsn = Rqmsn{3};
    h.msn = Msn{9};
    h.immediate = 0xCAFE0001;
    all.push_back({"SEND", h, letters,
                   extension_packet("00 3c",
                                    "c5 00 ff ff 00 00 02 00 90 00 00 10 00 03 00 09 be ef 00 01 "
                                    "00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 08 ca fe 00 01 "
                                    "41 42 43 44 45 46 47 48 c7 ef 1a 62")});
  }
  {
    WriteHeader h = extension_header(Opcode::read_request, 0x11);
    h.rqmsn = Rqmsn{1};
    h.msn = Msn{10};
    h.va = 0x1000;
    h.rkey = 0x11223344;
    h.dma_length = 520;
    all.push_back({"READ",
                   h,
                   {},
                   extension_packet("00 30",
                                    "cc 00 ff ff 00 00 02 00 90 00 00 11 00 01 00 0a be ef 00 01 "
                                    "00 00 00 00 00 00 10 00 11 22 33 44 00 00 02 08 51 07 b1 "
                                    "53")});
  }
  {
    WriteHeader h = extension_header(Opcode::read_response_last, 0x10);
    h.rqmsn = Rqmsn{1};
    h.msn = Msn{4};
    h.va = 512;
    h.dma_length = 520;
    all.push_back({"READ response", h, letters,
                   extension_packet("00 38",
                                    "cf 00 ff ff 00 00 02 00 90 00 00 10 00 01 00 04 be ef 00 01 "
                                    "00 00 00 00 00 00 02 00 00 00 00 00 00 00 02 08 41 42 43 44 "
                                    "45 46 47 48 6b e9 89 96")});
  }
  {
    WriteHeader h = extension_header(Opcode::compare_swap, 0x12);
    h.rqmsn = Rqmsn{2};
    h.msn = Msn{11};
    h.va = 0x1008;
    h.rkey = 0x11223344;
    all.push_back(
        {"CmpSwap", h, test::bytes_of(AtomicOperands{0x0102030405060708, 0x1112131415161718}),
         extension_packet("00 40",
                          "d3 00 ff ff 00 00 02 00 90 00 00 12 00 02 00 0b be ef 00 01 00 00 00 "
                          "00 00 00 10 08 11 22 33 44 00 00 00 08 01 02 03 04 05 06 07 08 11 12 "
                          "13 14 15 16 17 18 ef cc f0 52")});
    h.opcode = Opcode::fetch_add;
    h.psn = Psn{0x13};
    h.rqmsn = Rqmsn{3};
    h.msn = Msn{12};
    all.push_back(
        {"FetchAdd", h, test::bytes_of(AtomicOperands{0x0102030405060708, std::uint64_t{0}}),
         extension_packet("00 40",
                          "d4 00 ff ff 00 00 02 00 90 00 00 13 00 03 00 0c be ef 00 01 00 00 00 "
                          "00 00 00 10 08 11 22 33 44 00 00 00 08 01 02 03 04 05 06 07 08 00 00 "
                          "00 00 00 00 00 00 d0 55 ba 3f")});
  }
  {
    WriteHeader h = extension_header(Opcode::atomic_response, 0x10);
    h.rqmsn = Rqmsn{2};
    h.msn = Msn{5};
    all.push_back({"atomic response", h, from_hex("01 23 45 67 89 ab cd ef"),
                   extension_packet("00 38",
                                    "d2 00 ff ff 00 00 02 00 90 00 00 10 00 02 00 05 be ef 00 01 "
                                    "00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 08 01 23 45 67 "
                                    "89 ab cd ef 68 45 34 60")});
  }
  return all;
}

TEST_CASE("worked SEND, READ and atomics: built byte for byte, read field by field") {
  for (const ExtensionVector& v : extension_vectors()) {
    CAPTURE(v.name);
    CHECK(test::packet_of(test::write_only_envelope(), test::header_bytes(v.header), v.payload) ==
          v.packet);
    ParsedPacket p;
    REQUIRE(parse_packet(v.packet, {}, p) == PacketError::none);
    CHECK(p.icrc == IcrcState::ok);
    REQUIRE(is_data(view_as<Bth>(p.transport).opcode()));
    const WriteView w = view_write(p.transport);
    CHECK(w.bth->opcode() == v.header.opcode);
    CHECK(w.bth->psn() == v.header.psn);
    CHECK(w.meth->rqmsn == v.header.rqmsn.value());
    CHECK(w.meth->msn == v.header.msn.value());
    CHECK(w.reth->va == v.header.va);
    CHECK(w.reth->rkey == v.header.rkey);
    CHECK(w.reth->dma_length == v.header.dma_length);
    CHECK((w.imm != nullptr) == (v.header.opcode == Opcode::send_only_imm));
    if (w.imm != nullptr) CHECK(w.imm->immediate == 0xCAFE0001);
    CHECK(test::copy(w.payload) == v.payload);
    if (is_atomic(v.header.opcode)) {
      REQUIRE(w.payload.size() == sizeof(AtomicOperands));
      const auto& operands = view_as<AtomicOperands>(w.payload);
      CHECK(operands.swap_or_add == 0x0102030405060708);
      const bool swap = v.header.opcode == Opcode::compare_swap;
      CHECK(operands.compare == (swap ? 0x1112131415161718u : 0u));
    }
  }
}

TEST_CASE("worked SEND, READ and atomics: a switch trims them like writes") {
  for (const ExtensionVector& v : extension_vectors()) {
    CAPTURE(v.name);
    Buffer packet = v.packet;
    packet.resize(trim_packet(packet, kTrimKeep, DscpMap{}.trimmed));
    ParsedPacket p;
    REQUIRE(parse_packet(packet, {}, p) == PacketError::none);
    CHECK(p.trim == Trim::trimmed);
    TrimmedView t;
    REQUIRE(view_trimmed(p.transport, t) == ParseError::none);
    CHECK(t.bth->opcode() == v.header.opcode);
    REQUIRE(t.meth != nullptr);
    CHECK(t.meth->msn == v.header.msn.value());
    REQUIRE(t.tseth != nullptr);
    CHECK(t.tseth->tx_timestamp == 0xBEEF);
  }
}

}  // namespace
}  // namespace mrc::wire::extension_test
