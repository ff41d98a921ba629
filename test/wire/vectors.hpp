// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

#include "mrc/core/random.hpp"
#include "mrc/core/types.hpp"
#include "mrc/fabric/packet.hpp"

/// The worked packets of mrc-1.0 §1.15 and helpers of the wire tests.
namespace mrc::wire::test {

/// Heap copies of exactly the right size, so that the address sanitizer sees any read beyond.
using Buffer = std::vector<std::uint8_t>;

[[nodiscard]] inline Buffer from_hex(std::string_view text) {
  const auto digit = [](char c) {
    return static_cast<unsigned>(c <= '9' ? c - '0' : c - 'a' + 10);
  };
  Buffer out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == ' ') continue;
    out.push_back(static_cast<std::uint8_t>(digit(text[i]) << 4 | digit(text[i + 1])));
    ++i;
  }
  return out;
}

[[nodiscard]] inline Buffer random_bytes(Random& random, std::size_t n) {
  Buffer out(n);
  for (auto& byte : out) byte = static_cast<std::uint8_t>(random.next());
  return out;
}

[[nodiscard]] inline Buffer copy(Bytes bytes) {
  return {bytes.begin(), bytes.end()};
}
[[nodiscard]] inline Buffer copy(Bytes bytes, std::size_t n) {
  return copy(bytes.first(n));
}

template <class H>
[[nodiscard]] Buffer bytes_of(const H& header) {
  Buffer out(sizeof header);
  std::memcpy(out.data(), &header, sizeof header);
  return out;
}

/// 2001:db8::last
[[nodiscard]] constexpr IpAddress host(std::uint8_t last) {
  return {0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last};
}

[[nodiscard]] inline Buffer write_only_packet() {
  return from_hex(
      "61 00 05 a3 00 38 11 40 20 01 0d b8 00 00 00 00 00 00 00 00 00 00 00 01 20 01 0d b8 00 00 "
      "00 00 00 00 00 00 00 00 00 02 12 34 12 b7 00 38 00 00 ca 00 ff ff 00 00 02 00 90 00 00 10 "
      "00 00 00 00 be ef 00 01 00 00 00 00 00 00 10 00 11 22 33 44 00 00 00 08 41 42 43 44 45 46 "
      "47 48 75 e7 85 a0");
}
inline constexpr std::uint32_t kWriteOnlyIcrc = 0xA085E775, kWriteOnlyRtxIcrc = 0xB976258C,
                               kWriteOnlyPort1235Icrc = 0x6ABB14E6, kSackIcrc = 0xF1460E90;

/// What the packet above was built from.
[[nodiscard]] inline Envelope write_only_envelope() {
  Envelope e;
  e.source = host(1);
  e.destination = host(2);
  e.source_port = 0x1234;
  e.flow_label = 0x005A3;
  e.dscp = 4;
  return e;
}
[[nodiscard]] inline WriteHeader write_only_header() {
  WriteHeader h;
  h.dqp = Qpn{0x200};
  h.psn = Psn{0x10};
  h.ack_request = true;
  h.has_timestamp = true;
  h.timestamp = 0xBEEF;
  h.va = 0x1000;
  h.rkey = 0x11223344;
  h.dma_length = 8;
  return h;
}
inline constexpr std::uint8_t kLetters[8] = {'A', 'B', 'C', 'D', 'E', 'F', 'G', 'H'};

[[nodiscard]] inline Buffer sack_transport() {
  return from_hex(
      "dc 00 ff ff 00 00 01 00 00 00 00 10 00 20 00 03 05 a3 12 34 02 00 01 00 00 00 00 10 00 20 "
      "00 01 00 00 00 00 00 00 00 06 be ef 00 03 00 00 00 12");
}
[[nodiscard]] inline SackPacket sack_packet() {
  SackPacket p;
  p.bth = Bth::make(Opcode::sack, Qpn{0x100}, Psn{0x10});
  p.seth.set_m(SackMark::skip_once);
  p.seth.set_ack_psn_offset(3);
  p.seth.set_entropy(Ev{0x05A31234});
  p.seth.spdcid = 0x200;
  p.seth.dpdcid = 0x100;
  p.seth.set_cack_psn(Psn{0x10});
  p.seth.mpr = 32;
  p.seth.set_sack_offset(1);
  p.seth.sack_bitmap = 0x6;
  p.cc.tx_timestamp = 0xBEEF;
  p.cc.set_ooo_count(3);
  p.cc.rcvd_bytes = 0x12;
  return p;
}

/// A whole packet of a header and payload, in a buffer of exactly its size.
[[nodiscard]] inline Buffer packet_of(const Envelope& e, Bytes header, Bytes payload = {},
                                      unsigned pad = 0) {
  Buffer out(kMaxEnvelope + header.size() + payload.size() + pad + kIcrcSize);
  const TxSge sge{payload.data(), static_cast<std::uint32_t>(payload.size())};
  out.resize(build_packet(out, e, header, {&sge, 1}, pad));
  return out;
}
[[nodiscard]] inline Buffer header_bytes(const WriteHeader& h) {
  Buffer out(kMaxWriteHeader);
  out.resize(build_write_header(out.data(), h));
  return out;
}

}  // namespace mrc::wire::test
