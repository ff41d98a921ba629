// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <utility>
#include <vector>

#include "fuzz/fuzz.hpp"
#include "mrc/fabric/packet.hpp"
#include "mrc/wire/icrc.hpp"
#include "support/header_of.hpp"

// Fuzzes everything that reads bytes from the network before a queue pair is known. The first input
// byte selects: bit 0 whole packet or transport part, bit 1 mend the checks that random bytes never
// pass (IPv4 checksum and iCRC). Beyond the absence of crashes, what was read is built again and
// has to come out the same, apart from fields that a receiver ignores.

namespace {

using namespace mrc;
using namespace mrc::wire;
using mrc::fuzz::require;
using Buffer = std::vector<std::uint8_t>;

bool inside(Bytes part, Bytes whole) {
  return part.data() >= whole.data() && part.data() + part.size() <= whole.data() + whole.size();
}
template <class H>
bool inside(const H* header, Bytes whole) {
  return inside(Bytes{reinterpret_cast<const std::uint8_t*>(header), sizeof(H)}, whole);
}

/// Overwrites what receivers ignore in a data packet's headers with what senders write.
void normalise_write(std::uint8_t* header) {
  Bth& bth = *reinterpret_cast<Bth*>(header);
  bth.se_m_pad_tver &= Bth::kPadMask;
  bth.set_p_key(kDefaultPKey);
  bth.variant_reserved = 0;
  bth.a_rtx_ts &= Bth::kAckBit | Bth::kRtxBit | Bth::kTimestampBit;
  if (bth.has_timestamp())
    reinterpret_cast<Tseth*>(header + sizeof(Bth) + sizeof(Meth))->tsr_ftype = kFtypeTimestamp;
}

void exercise_write(Bytes transport) {
  const WriteView v = view_write(transport);
  require(inside(v.bth, transport) && inside(v.meth, transport) && inside(v.reth, transport));
  require(v.tseth == nullptr || inside(v.tseth, transport));
  require(v.imm == nullptr || inside(v.imm, transport));
  require(inside(v.payload, transport));
  const auto headers = static_cast<std::size_t>(v.payload.data() - transport.data());
  require(headers + v.payload.size() + v.bth->pad() == transport.size());

  std::uint8_t built[kMaxWriteHeader];
  require(build_write_header(built, header_of(v)) == headers);
  Buffer expected(transport.begin(), transport.begin() + static_cast<std::ptrdiff_t>(headers));
  normalise_write(expected.data());
  require(std::memcmp(built, expected.data(), headers) == 0);
}

void exercise_datagram(Bytes transport) {
  const DatagramView v = view_datagram(transport);
  require(inside(v.bth, transport) && inside(v.deth, transport));
  require(v.imm == nullptr || inside(v.imm, transport));
  require(inside(v.payload, transport));
  const auto headers = static_cast<std::size_t>(v.payload.data() - transport.data());
  require(headers + v.payload.size() + v.bth->pad() == transport.size());

  std::uint8_t built[datagram_header_size(true)];
  require(build_datagram_header(built, header_of(v)) == headers);
  Buffer expected(transport.begin(), transport.begin() + static_cast<std::ptrdiff_t>(headers));
  Bth& bth = *reinterpret_cast<Bth*>(expected.data());  // less what receivers ignore
  bth.se_m_pad_tver &= Bth::kPadMask | Bth::kSolicitedBit;
  bth.set_p_key(kDefaultPKey);
  bth.variant_reserved = 0;
  bth.a_rtx_ts = 0;
  reinterpret_cast<Deth*>(expected.data() + sizeof(Bth))->reserved_ = 0;
  require(std::memcmp(built, expected.data(), headers) == 0);
}

void exercise_transport(Bytes transport) {
  TrimmedView t;
  const ParseError trimmed = view_trimmed(transport, t);
  if (trimmed == ParseError::none) {
    require(inside(t.bth, transport) && is_data(t.bth->opcode()));
    require(t.meth == nullptr || inside(t.meth, transport));
    require(t.tseth == nullptr || (t.meth != nullptr && inside(t.tseth, transport)));
  }
  if (check(transport) != ParseError::none) return;
  const Bth& bth = view_as<Bth>(transport);
  if (is_data(bth.opcode())) {
    require(trimmed == ParseError::none);  // what is whole can be cut
    exercise_write(transport);
    return;
  }
  if (is_datagram(bth.opcode())) return exercise_datagram(transport);
  switch (bth.opcode()) {
    case Opcode::acknowledge:
      require(transport.size() == sizeof(AckPacket));
      break;
    case Opcode::sack:
      require(transport.size() == sizeof(SackPacket));
      break;
    case Opcode::nack:
      require(transport.size() == sizeof(NackPacket));
      break;
    case Opcode::probe:
      require(transport.size() == sizeof(ProbePacket));
      break;
    case Opcode::endpoint_request:
      require(transport.size() >= sizeof(EndpointRequestPacket));  // may be padded
      break;
    case Opcode::endpoint_response:
      require(transport.size() == sizeof(EndpointResponsePacket));
      break;
    case Opcode::packet_part:
      require(transport.size() >= sizeof(Bth) + sizeof(PartHeader) + sizeof(Meth) + sizeof(Reth));
      break;
    case Opcode::resolution:
      require(transport.size() >= sizeof(ResolutionPacket));  // data may follow
      break;
    default:
      require(false);
  }
}

/// Makes IPv4 checksum and iCRC right where the headers can be found at all.
void mend(Buffer& packet) {
  if (packet.size() >= sizeof(Ipv4) && packet[0] >> 4 == 4) {
    Ipv4& ip = *reinterpret_cast<Ipv4*>(packet.data());
    if (ip.header_length() >= sizeof(Ipv4) && ip.header_length() <= packet.size()) {
      ip.checksum = 0;
      ip.checksum = ipv4_checksum(Bytes{packet}.first(ip.header_length()));
    }
  }
  PacketLayout at;
  if (locate(packet, at) != PacketError::none) return;
  const Bytes all = packet;
  const Bytes after_udp = all.subspan(at.udp + sizeof(Udp), at.end - at.udp - sizeof(Udp));
  if (after_udp.size() < sizeof(Bth) + kIcrcSize) return;
  const auto prefix =
      IcrcPrefix::of_packet(all.subspan(at.ip, at.udp - at.ip), view_as<Udp>(all.subspan(at.udp)));
  store_icrc(packet.data() + at.end - kIcrcSize,
             icrc(prefix, after_udp.first(after_udp.size() - kIcrcSize)));
}

/// A packet of the same meaning as the one parsed has to parse to the same facts.
void rebuild(const ParsedPacket& p) {
  Envelope e;
  e.source = p.source;
  e.destination = p.destination;
  if (is_mapped_ipv4(p.source) != (p.ip_version == 4)) return;  // mapped addresses inside IPv6
  if (e.is_ipv4() != (p.ip_version == 4)) return;
  e.source_port = p.source_port;
  e.destination_port = p.destination_port;
  e.flow_label = p.flow_label;
  e.dscp = p.outer_dscp;
  e.ecn = p.outer_ecn;
  e.encapsulation = p.encapsulation;
  Buffer out(kMaxEnvelope + p.transport.size() + kIcrcSize);
  const std::size_t length = build_packet(out, e, p.transport, {}, 0);
  if (length == 0) return;  // over 65,535 bytes
  out.resize(length);
  ParsedPacket q;
  require(parse_packet(out, {}, q) == PacketError::none);
  require(q.transport.size() == p.transport.size());
  require(std::memcmp(q.transport.data(), p.transport.data(), p.transport.size()) == 0);
  require(q.source == p.source && q.destination == p.destination);
  require(q.entropy() == p.entropy() && q.udp_length == p.udp_length);
  require(q.outer_dscp == p.outer_dscp && q.outer_ecn == p.outer_ecn);
  require(q.encapsulation == p.encapsulation && q.icrc == IcrcState::ok);
}

void exercise_packet(Buffer packet) {
  ParsedPacket p;
  const PacketError e = parse_packet(packet, {}, p);
  require(e < PacketError::count_);
  bool data = false;  // a good data packet, not trimmed so far
  if (e == PacketError::none) {
    require(inside(p.transport, packet));
    data = p.trim == Trim::none && is_data(view_as<Bth>(p.transport).opcode());
    require((p.trim == Trim::none) == (p.icrc == IcrcState::ok));
    exercise_transport(p.transport);
    if (p.trim == Trim::none) rebuild(p);
  }
  const Buffer before = packet;
  const std::size_t length = trim_packet(packet, kTrimKeep, DscpMap{}.trimmed);
  if (length == 0) {
    require(packet == before);
    return;
  }
  require(length <= packet.size());
  packet.resize(length);
  packet.shrink_to_fit();
  ParsedPacket t;
  const PacketError after = parse_packet(packet, {}, t);
  if (data) {
    require(after == PacketError::none && t.trim == Trim::trimmed);
    require(t.udp_length == p.udp_length && t.entropy() == p.entropy());
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::uint8_t mode = data[0];
  Buffer input(data + 1, data + size);
  if ((mode & 1) == 0) {
    exercise_transport(input);
    return 0;
  }
  if ((mode & 2) != 0) mend(input);
  exercise_packet(std::move(input));
  return 0;
}
