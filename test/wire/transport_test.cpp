// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cstdint>
#include <cstring>
#include <set>
#include <string>

#include "mrc/core/random.hpp"
#include "mrc/wire/transport.hpp"
#include "support/header_of.hpp"
#include "vectors.hpp"

namespace mrc::wire::transport_test {
namespace {

using test::Buffer;
using test::copy;
using test::header_bytes;

/// Data packets, by their codes: all of an RC queue pair but the ACK.
bool is_data_code(unsigned code) {
  return code >= 0xC0 && code <= 0xD4 && code != 0xD1;
}
bool is_data_code(Opcode op) {
  return is_data_code(static_cast<unsigned>(op));
}

/// Bytes from BTH to the end of the headers, without TSETH.
std::size_t header_length(Opcode op) {
  const auto code = static_cast<unsigned>(op);
  const bool immediate = code == 0xC3 || code == 0xC5 || code == 0xC9 || code == 0xCB;
  if (is_data_code(op)) return 12 + 4 + 16 + (immediate ? 4 : 0);
  switch (op) {
    case Opcode::acknowledge:
      return 12 + 4;
    case Opcode::endpoint_request:
    case Opcode::probe:
      return 12 + 16;
    case Opcode::endpoint_response:
    case Opcode::sack:
      return 12 + 36;
    case Opcode::nack:
      return 12 + 20;
    case Opcode::resolution:
      return 12 + 52;
    case Opcode::packet_part:
      return 12 + 8 + 4 + 16;
    case Opcode::datagram:
      return 12 + 8;
    case Opcode::datagram_imm:
      return 12 + 8 + 4;
    default:
      return 0;
  }
}

TEST_CASE("worked SACK: built byte for byte, read field by field") {
  CHECK(test::bytes_of(test::sack_packet()) == test::sack_transport());
  const Buffer bytes = test::sack_transport();
  REQUIRE(check(bytes) == ParseError::none);
  const auto& p = view_as<SackPacket>(bytes);
  CHECK(p.bth.opcode() == Opcode::sack);
  CHECK(p.bth.dqp() == Qpn{0x100});
  CHECK(p.bth.psn() == p.seth.cack_psn());
  CHECK(p.seth.m() == SackMark::skip_once);
  CHECK_FALSE(p.seth.probe());
  CHECK(p.seth.ack_psn_offset() == 3);
  CHECK(p.seth.entropy() == Ev{0x05A31234});
  CHECK(p.seth.spdcid.value() == 0x200);
  CHECK(p.seth.dpdcid.value() == 0x100);
  CHECK(p.seth.cack_psn() == Psn{0x10});
  CHECK((p.seth.cc_type_flags >> 4) == 0);
  CHECK(p.seth.mpr == 32);
  CHECK(p.seth.sack_offset() == 1);
  CHECK(p.seth.sack_bitmap.value() == 6);
  CHECK(p.cc.tx_timestamp.value() == 0xBEEF);
  CHECK(p.cc.ooo_count() == 3);
  CHECK(p.cc.rcvd_bytes.value() == 0x12);
}

TEST_CASE("worked WRITE Only: transport part built byte for byte, read field by field") {
  const Buffer packet = test::write_only_packet();
  const Buffer transport = copy(Bytes{packet}.subspan(48, 44));
  Buffer built = header_bytes(test::write_only_header());
  CHECK(built.size() == 36);
  built.insert(built.end(), std::begin(test::kLetters), std::end(test::kLetters));
  CHECK(built == transport);

  REQUIRE(check(transport) == ParseError::none);
  const WriteView v = view_write(transport);
  CHECK(v.bth->opcode() == Opcode::write_only);
  CHECK(v.bth->p_key() == kDefaultPKey);
  CHECK(v.bth->dqp() == Qpn{0x200});
  CHECK(v.bth->ack_request());
  CHECK_FALSE(v.bth->rtx());
  CHECK(v.bth->psn() == Psn{0x10});
  CHECK(v.meth->rqmsn == 0);
  CHECK(v.meth->msn == 0);
  REQUIRE(v.tseth != nullptr);
  CHECK(v.tseth->tx_timestamp == 0xBEEF);
  CHECK(v.tseth->ftype() == kFtypeTimestamp);
  CHECK(v.reth->va == 0x1000);
  CHECK(v.reth->rkey == 0x11223344);
  CHECK(v.reth->dma_length == 8);
  CHECK(v.imm == nullptr);
  CHECK(std::memcmp(v.payload.data(), test::kLetters, 8) == 0);
  CHECK(v.payload.size() == 8);
}

TEST_CASE("data headers: all opcodes, with and without timestamp, round trip") {
  Random random(7);
  for (unsigned code = 0xC0; code <= 0xD4; ++code) {
    if (!is_data_code(code)) continue;
    for (const bool timestamp : {false, true}) {
      for (unsigned pad = 0; pad <= 3; ++pad) {
        WriteHeader h;
        h.opcode = static_cast<Opcode>(code);
        h.pad = static_cast<std::uint8_t>(pad);
        h.ack_request = random.chance(0.5);
        h.rtx = random.chance(0.5);
        h.has_timestamp = timestamp;
        h.timestamp = timestamp ? static_cast<std::uint16_t>(random.next()) : std::uint16_t{0};
        h.dqp = Qpn{random.below(1u << 24)};
        h.psn = Psn{random.below(1u << 24)};
        h.rqmsn = Rqmsn{random.below(1u << 16)};
        h.msn = Msn{random.below(1u << 16)};
        h.va = random.next();
        h.rkey = random.below(0xFFFFFFFF);
        h.dma_length = random.below(0xFFFFFFFF);
        h.immediate = has_immediate(h.opcode) ? random.below(0xFFFFFFFF) : 0;
        Buffer bytes = header_bytes(h);
        CHECK(bytes.size() == header_length(h.opcode) + (timestamp ? 4 : 0));
        bytes.resize(bytes.size() + 5 + pad, 0x5A);
        REQUIRE(check(bytes) == ParseError::none);
        const WriteView v = view_write(bytes);
        CHECK(v.payload.size() == 5);
        CHECK((v.tseth != nullptr) == timestamp);
        CHECK((v.imm != nullptr) == has_immediate(h.opcode));
        const WriteHeader again = header_of(v);
        CHECK(header_bytes(again) == header_bytes(h));
        CHECK(again.psn == h.psn);
        CHECK(again.msn == h.msn);
        CHECK(again.rqmsn == h.rqmsn);
        CHECK(again.dqp == h.dqp);
        CHECK(again.va == h.va);
        CHECK(again.immediate == h.immediate);
      }
    }
  }
}

TEST_CASE("check: every opcode at every length") {
  for (unsigned code = 0; code < 256; ++code) {
    for (const bool timestamp : {false, true}) {
      const auto op = static_cast<Opcode>(code);
      const std::size_t need =
          header_length(op) + (timestamp && is_data_code(op) ? sizeof(Tseth) : 0);
      for (std::size_t n = 0; n <= 70; ++n) {
        CAPTURE(code);
        CAPTURE(n);
        Bth bth = Bth::make(op, Qpn{5}, Psn{6});
        bth.set_has_timestamp(timestamp);
        Buffer full = test::bytes_of(bth);
        full.resize(70, 0xA5);
        const Buffer cut = copy(full, n);
        const ParseError e = check(cut);
        if (n < 12) {
          CHECK(e == ParseError::too_short);
        } else if (!is_known(static_cast<std::uint8_t>(code))) {
          CHECK(e == ParseError::unknown_opcode);
        } else if (n < need) {
          CHECK(e == ParseError::too_short);
        } else if (op == Opcode::resolution || op == Opcode::packet_part ||
                   op == Opcode::endpoint_request) {  // data, or padding, may follow
          CHECK(e == ParseError::none);
        } else if (is_datagram(op)) {
          REQUIRE(e == ParseError::none);
          CHECK(view_datagram(cut).payload.size() == n - need);
        } else if (!is_data_code(op)) {
          CHECK(e == (n == need ? ParseError::none : ParseError::bad_length));
        } else {
          REQUIRE(e == ParseError::none);
          const WriteView v = view_write(cut);
          CHECK(v.payload.size() == n - need);
          // Touch all parts, for the address sanitizer.
          std::uint64_t sum = v.reth->va + v.meth->msn;
          if (v.imm != nullptr) sum += v.imm->immediate;
          for (const std::uint8_t byte : v.payload) sum += byte;
          CHECK(sum > 0);
        }
      }
    }
  }
}

TEST_CASE("check: version and pad") {
  Buffer bytes = header_bytes(test::write_only_header());
  for (std::uint8_t version = 1; version < 16; ++version) {
    bytes[1] = version;
    CHECK(check(bytes) == ParseError::bad_version);
  }
  for (unsigned pad = 0; pad <= 3; ++pad) {
    for (std::size_t after = 0; after <= 4; ++after) {
      WriteHeader h = test::write_only_header();
      h.pad = static_cast<std::uint8_t>(pad);
      Buffer b = header_bytes(h);
      b.resize(b.size() + after);
      REQUIRE(check(b) == (pad <= after ? ParseError::none : ParseError::bad_pad));
      if (pad <= after) CHECK(view_write(b).payload.size() == after - pad);
    }
  }
  Buffer sack = test::sack_transport();
  sack[1] = 0x10;
  CHECK(check(sack) == ParseError::bad_pad);
}

TEST_CASE("trimmed: readable from a complete BTH on, at every length") {
  WriteHeader h = test::write_only_header();
  for (unsigned code = 0xC0; code <= 0xD4; ++code) {
    if (!is_data_code(code)) continue;
    CAPTURE(code);
    h.opcode = static_cast<Opcode>(code);
    h.has_timestamp = !h.has_timestamp;
    const bool timestamp = h.has_timestamp;
    const Buffer full = header_bytes(h);
    for (std::size_t n = 0; n <= full.size(); ++n) {
      CAPTURE(n);
      const Buffer cut = copy(full, n);
      TrimmedView v;
      const ParseError e = view_trimmed(cut, v);
      CHECK(e == (n < 12 ? ParseError::too_short : ParseError::none));
      CHECK((v.bth != nullptr) == (n >= 12));
      CHECK((v.meth != nullptr) == (n >= 16));
      CHECK((v.tseth != nullptr) == (timestamp && n >= 20));
      if (v.bth != nullptr) CHECK(v.bth->psn() == Psn{0x10});
      if (v.tseth != nullptr) CHECK(v.tseth->tx_timestamp == 0xBEEF);
    }
  }
}

TEST_CASE("trimmed: only data packets of version 0") {
  TrimmedView v;
  CHECK(view_trimmed(test::sack_transport(), v) == ParseError::not_data);
  CHECK(v.bth == nullptr);
  Buffer bytes = header_bytes(test::write_only_header());
  for (unsigned code = 0; code < 256; ++code) {
    CAPTURE(code);
    bytes[0] = static_cast<std::uint8_t>(code);
    const bool known = is_data_code(code) || header_length(static_cast<Opcode>(code)) != 0;
    const auto expected = !known               ? ParseError::unknown_opcode
                          : is_data_code(code) ? ParseError::none
                                               : ParseError::not_data;
    CHECK(view_trimmed(bytes, v) == expected);
  }
  bytes[0] = 0xCA;
  bytes[1] = 0x01;
  CHECK(view_trimmed(bytes, v) == ParseError::bad_version);
}

TEST_CASE("errors have names of their own") {
  std::set<std::string> names;
  for (unsigned i = 0; i <= static_cast<unsigned>(ParseError::count_); ++i)
    names.insert(to_string(static_cast<ParseError>(i)));
  CHECK(names.size() == static_cast<unsigned>(ParseError::count_) + 1);
  names.clear();
  for (unsigned i = 0; i <= static_cast<unsigned>(PacketError::count_); ++i)
    names.insert(to_string(static_cast<PacketError>(i)));
  CHECK(names.size() == static_cast<unsigned>(PacketError::count_) + 1);
}

}  // namespace
}  // namespace mrc::wire::transport_test
