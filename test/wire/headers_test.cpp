// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cstdint>
#include <set>
#include <string>

#include "mrc/wire/headers.hpp"
#include "vectors.hpp"

namespace mrc::wire::headers_test {
namespace {

using test::Buffer;
using test::bytes_of;
using test::from_hex;

TEST_CASE("big-endian integers: byte order, width, constant expressions") {
  CHECK(bytes_of(Be16{std::uint16_t{0x1234}}) == from_hex("12 34"));
  CHECK(bytes_of(Be24{0x12345678u}) == from_hex("34 56 78"));  // the upper byte is lost
  CHECK(bytes_of(Be32{0x12345678u}) == from_hex("12 34 56 78"));
  CHECK(bytes_of(Be64{0x0123456789ABCDEFu}) == from_hex("01 23 45 67 89 ab cd ef"));

  static_assert(Be16{std::uint16_t{0xBEEF}} == 0xBEEF);
  static_assert(Be24{0xFFBEEFu} == 0xFFBEEFu);
  static_assert(Be64{0x8000000000000001u} == 0x8000000000000001u);

  Be32 x;
  CHECK(x == 0);
  x = 0xCAFEF00Du;
  CHECK(x == 0xCAFEF00Du);
  const Buffer shifted = from_hex("ff 00 00 00 00 00 00 12 34");
  CHECK(view_as<Be64>(Bytes{shifted}.subspan(1)) == 0x1234u);  // no alignment needed
}

TEST_CASE("NACK reasons: seven of the specification, two of them trims, and one of OpenMRC's own") {
  unsigned known = 0;
  std::set<std::string> names;
  for (unsigned code = 0; code < 256; ++code) {
    const auto reason = static_cast<NackReason>(code);
    if (is_trim(reason)) CHECK(code <= 2);
    if (!is_known(reason)) continue;
    ++known;
    names.insert(to_string(reason));
  }
  CHECK(known == 8);
  CHECK(names.size() == 8);
  for (const unsigned code : {0x01u, 0x02u, 0x06u, 0x07u, 0x0Au, 0x0Bu, 0x19u, 0x80u})
    CHECK(is_known(static_cast<NackReason>(code)));
  CHECK(is_trim(NackReason::trimmed));
  CHECK(is_trim(NackReason::trimmed_last_hop));
}

TEST_CASE("AETH syndromes: ACK, NAK and neither") {
  CHECK(is_ack(Syndrome::ack));
  for (unsigned code = 0; code < 256; ++code) {
    const auto s = static_cast<Syndrome>(code);
    CHECK(is_nak(s) == (code >= 0x60 && code <= 0x7F));
    CHECK(is_ack(s) == (code <= 0x1F));
  }
  Aeth aeth;
  aeth.set_code(Syndrome::remote_access_error);
  aeth.msn = 0xABCDu;
  CHECK(bytes_of(aeth) == from_hex("62 00 ab cd"));
  CHECK(aeth.code() == Syndrome::remote_access_error);
}

TEST_CASE("BTH: every field in its place") {
  Bth bth = Bth::make(Opcode::write_middle, Qpn{0xABCDEF}, Psn{0x123456});
  CHECK(bytes_of(bth) == from_hex("c7 00 ff ff 00 ab cd ef 00 12 34 56"));
  bth.set_p_key(0x8001);
  CHECK(bth.p_key() == 0x8001);
  bth.set_pad(3);
  CHECK(bth.se_m_pad_tver == 0x30);
  CHECK(bth.pad() == 3);
  bth.set_pad(1);
  CHECK(bth.se_m_pad_tver == 0x10);
  bth.set_ack_request(true);
  CHECK(bth.a_rtx_ts == 0x80);
  bth.set_rtx(true);
  CHECK(bth.a_rtx_ts == 0xA0);
  bth.set_has_timestamp(true);
  CHECK(bth.a_rtx_ts == 0xB0);
  bth.set_ack_request(false);
  CHECK(bth.a_rtx_ts == 0x30);
  CHECK_FALSE(bth.ack_request());
  CHECK(bth.rtx());
  CHECK(bth.has_timestamp());
  CHECK(bytes_of(bth) == from_hex("c7 10 80 01 00 ab cd ef 30 12 34 56"));

  const Buffer raw = from_hex("dd e5 00 00 ff ff ff ff 0f ff ff ff");
  const Bth& odd = view_as<Bth>(raw);
  CHECK(odd.solicited_event());
  CHECK(odd.migration());
  CHECK(odd.pad() == 2);
  CHECK(odd.tver() == 5);
  CHECK_FALSE(odd.ack_request());
  CHECK_FALSE(odd.rtx());
  CHECK_FALSE(odd.has_timestamp());
  CHECK(value(odd.dqp()) == 0xFFFFFF);
  CHECK(odd.psn().value() == 0xFFFFFF);
}

TEST_CASE("timestamps count 128 ns and wrap after 8.388608 ms") {
  CHECK(timestamp_of(Time{}) == 0);
  CHECK(timestamp_of(Time{Duration{127}}) == 0);
  CHECK(timestamp_of(Time{Duration{128}}) == 1);
  CHECK(timestamp_of(Time{Duration{8'388'607}}) == 0xFFFF);
  CHECK(timestamp_of(Time{Duration{8'388'608}}) == 0);
  CHECK(timestamp_distance(0xFFFF, 1) == Duration{256});
  CHECK(timestamp_distance(1, 0xFFFF) == Duration{0xFFFE * 128});
  Tseth tseth{0xBEEF, kFtypeTimestamp};
  CHECK(tseth.tick_is_128ns());
  CHECK(tseth.ftype() == 1);
  tseth.tsr_ftype = 0x8002;
  CHECK_FALSE(tseth.tick_is_128ns());
  CHECK(tseth.ftype() == 2);
}

TEST_CASE("AtomicOperands: both numbers big-endian, the one to swap or add first") {
  const AtomicOperands operands{0x0102030405060708u, 0x1112131415161718u};
  CHECK(bytes_of(operands) == from_hex("01 02 03 04 05 06 07 08 11 12 13 14 15 16 17 18"));
  const Buffer raw = from_hex("ff 80 00 00 00 00 00 00 01 7f ff ff ff ff ff ff fe");
  const auto& read = view_as<AtomicOperands>(Bytes{raw}.subspan(1));  // no alignment needed
  CHECK(read.swap_or_add == 0x8000000000000001u);
  CHECK(read.compare == 0x7FFFFFFFFFFFFFFEu);
}

TEST_CASE("SETH: fields don't touch each other") {
  Seth s;
  CHECK(bytes_of(s) == Buffer(28, 0));
  s.set_m(SackMark::always_skip);
  CHECK(s.flags_ == 0x0040);
  s.set_probe(true);
  CHECK(s.flags_ == 0x0042);
  s.set_m(SackMark::skip_once);
  CHECK(s.flags_ == 0x0022);
  CHECK(s.m() == SackMark::skip_once);
  CHECK(s.probe());
  s.set_probe(false);
  CHECK(s.flags_ == 0x0020);
  s.set_ack_psn_offset(-2);
  CHECK(s.ack_psn_offset() == -2);
  CHECK(s.probe_id() == 0xFFFE);  // the same two bytes
  s.set_probe_id(0x0102);
  CHECK(s.ack_psn_offset() == 0x0102);
  s.set_entropy(Ev{0x0A0B0C0D});
  s.spdcid = 0x1111;
  s.dpdcid = 0x2222;
  s.set_cack_psn(Psn{0x333333});
  s.cc_type_flags = 5;
  s.mpr = 255;
  s.set_sack_offset(-32768);
  s.sack_bitmap = 0x8000000000000001u;
  CHECK(bytes_of(s) == from_hex("00 20 01 02 0a 0b 0c 0d 11 11 22 22 00 33 33 33 05 ff 80 00 "
                                "80 00 00 00 00 00 00 01"));
  CHECK(s.entropy() == Ev{0x0A0B0C0D});
  CHECK(s.cack_psn() == Psn{0x333333});
  CHECK((s.cc_type_flags >> 4) == 0);
  CHECK((s.cc_type_flags & 0xF) == 5);
  CHECK(s.mpr == 255);
  CHECK(s.sack_offset() == -32768);
  CHECK(s.sack_bitmap.value() == 0x8000000000000001u);
  // Reserved and type bits of other implementations do not disturb.
  s.flags_ = 0xFF9D;
  CHECK(s.m() == SackMark::none);
  CHECK_FALSE(s.probe());
}

TEST_CASE("CC_STATE: widths, saturation of ooo_count, wrap of rcvd_bytes") {
  CcState cc;
  cc.tx_timestamp = 0xBEEF;
  cc.set_ooo_count(0x12345);
  CHECK(cc.ooo_count() == 0x7FFF);
  cc.set_ooo_count(0x0102);
  cc.set_rcv_cwnd_pen(0x7F);
  CHECK_FALSE(cc.restore_cwnd());
  cc.set_restore_cwnd(true);
  cc.set_rcv_cwnd_pen(0x85);
  CHECK(cc.restore_cwnd());
  CHECK(cc.rcv_cwnd_pen() == 5);
  cc.rcvd_bytes = 0x01000002;
  CHECK(cc.rcvd_bytes.value() == 2);
  CHECK(bytes_of(cc) == from_hex("be ef 01 02 85 00 00 02"));
  cc.set_restore_cwnd(false);
  CHECK(cc.rcv_cwnd_pen() == 5);
  cc.ooo_count_ = 0x8001;
  CHECK(cc.ooo_count() == 1);  // the reserved bit is ignored
}

TEST_CASE("NETH and PETH: every field in its place") {
  Neth n;
  n.reason = NackReason::psn_oor_window;
  n.vendor_info = 0x7E;
  n.set_entropy(Ev{0x0A0B0C0D});
  n.spdcid = 0x1111;
  n.dpdcid = 0x2222;
  n.set_nack_psn(Psn{0x334455});
  n.tx_timestamp = 0xBEEF;
  CHECK(bytes_of(n) == from_hex("00 00 0b 7e 0a 0b 0c 0d 11 11 22 22 00 33 44 55 20 00 be ef"));
  CHECK((n.cc_type_flags >> 4) == 2);
  CHECK((n.cc_type_flags & 0xF) == 0);
  CHECK(n.reason == NackReason::psn_oor_window);
  CHECK(n.nack_psn() == Psn{0x334455});
  CHECK(n.tx_timestamp.value() == 0xBEEF);

  Peth p;
  CHECK_FALSE(p.has_timestamp());
  p.vendor_info = 0x7E;
  p.probe_id = 0x0102;
  p.spdcid = 0x1111;
  p.dpdcid = 0x2222;
  p.set_tx_timestamp(0xBEEF);
  CHECK(bytes_of(p) == from_hex("00 00 00 7e 01 02 00 00 11 11 22 22 be ef 00 01"));
  CHECK(p.has_timestamp());
  CHECK((p.tsr_ftype & kTsrBit) == 0);
  CHECK(p.probe_id.value() == 0x0102);
}

TEST_CASE("ERTH and EETH: op at different places, API numbers translated") {
  Erth request;
  request.set_op(EndpointOp::ev_probe);
  request.port_status_mask = 0x80000001;
  request.vendor_info = 0x7E;
  request.set_tx_timestamp(0xBEEF);
  CHECK(bytes_of(request) == from_hex("00 01 00 7e 80 00 00 01 00 00 00 00 be ef 00 01"));
  CHECK(request.op() == EndpointOp::ev_probe);
  CHECK(request.port_status_mask.value() == 0x80000001);
  request.set_op(EndpointOp::port_status);
  CHECK(request.type_op_ == 0);

  Eeth response;
  response.set_op(EndpointOp::ev_probe);
  response.tx_timestamp = 0xBEEF;
  Buffer expected(36, 0);
  expected[1] = 0x04;
  expected[28] = 0xBE;
  expected[29] = 0xEF;
  CHECK(bytes_of(response) == expected);
  CHECK(response.op() == EndpointOp::ev_probe);
  response.type_op_ = 0x0033;  // neighbouring bits, among them where others put op
  CHECK(response.op() == EndpointOp::port_status);
  response.type_op_ = 0x000C;
  CHECK_FALSE(is_known(response.op()));
}

}  // namespace
}  // namespace mrc::wire::headers_test
