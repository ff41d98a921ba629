// SPDX-License-Identifier: Apache-2.0
// Sends forged MRC packets: what somebody can build who knows addresses, UDP ports, queue pair
// numbers and PSNs, but no secret of the connection. For the tests in this folder.
//
//     forge KIND to=IP from=IP [NAME=VALUE ...]
//     forge watch dev=INTERFACE seconds=N [id=N]
//
// All kinds: via=raw|udp, port=N, sport=N, qpn=N, psn=N, step=N, count=N, rate=PER_SECOND, froms=N
// (addresses from `from` on, one after the other), dscp=N, guess=N (1: random p_key and addition to
// the iCRC), wrap=N. Packet i has the PSN psn + (i modulo wrap) * step. The other arguments are
// with each kind below.
#include <cstdio>
#include <cstring>
#include <exception>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "arguments.hpp"
#include "mrc/core/random.hpp"
#include "mrc/net/address.hpp"
#include "mrc/resolve/packets.hpp"
#include "sender.hpp"
#include "watch.hpp"

namespace mrc::forge {
namespace {

using wire::Bth;
using wire::Opcode;

/// BTH .. last extension header, and then zero bytes of payload.
struct Forged {
  std::vector<std::uint8_t> header;
  std::size_t payload = 0;
  std::size_t keep = 0;  ///< not 0: cut after so many bytes of BTH .., as a trimming switch does
};

/// Writes packet `i`, whose queue pair and PSN are given.
using Maker = std::function<Forged(std::uint64_t i, Qpn qpn, Psn psn)>;

template <class P>
[[nodiscard]] Forged whole(const P& packet) {
  Forged f;
  f.header.resize(sizeof packet);
  std::memcpy(f.header.data(), &packet, sizeof packet);
  return f;
}

/// The source address of packet `i`, of `froms` addresses from `first` on.
[[nodiscard]] wire::IpAddress source_of(wire::IpAddress first, std::uint64_t i,
                                        std::uint64_t froms) {
  first[15] = static_cast<std::uint8_t>(first[15] + i % froms);
  return first;
}

/// Port status of process slot=N with mask=N, or an EV probe of it. The answer copies stamp=N.
Maker request(const Arguments& a, wire::EndpointOp op) {
  const auto mask = static_cast<PlaneMask>(a.number("mask", 0));
  const auto slot = static_cast<std::uint8_t>(a.number("slot", 0));
  const auto stamp = static_cast<std::uint16_t>(a.number("stamp", 1));
  return [=](std::uint64_t, Qpn qpn, Psn psn) {
    wire::EndpointRequestPacket p{Bth::make(Opcode::endpoint_request, qpn, psn), {}};
    p.erth.set_op(op);
    p.erth.port_status_mask = mask;
    p.erth.vendor_info = slot;
    p.erth.set_tx_timestamp(stamp);
    return whole(p);
  };
}

/// Endpoint response: op=0 (port status) or 1 (EV probe), stamp=N; the PSN is the request's id.
Maker response(const Arguments& a) {
  const auto op = static_cast<wire::EndpointOp>(a.number("op", 1));
  const auto stamp = static_cast<std::uint16_t>(a.number("stamp", 1));
  return [=](std::uint64_t, Qpn qpn, Psn psn) {
    wire::EndpointResponsePacket p{Bth::make(Opcode::endpoint_response, qpn, psn), {}};
    p.eeth.set_op(op);
    p.eeth.tx_timestamp = stamp;
    return whole(p);
  };
}

/// Transport ACK, or NAK, of message msn=N (msn_step=N per packet).
Maker transport_ack(const Arguments& a, wire::Syndrome syndrome) {
  const auto code =
      static_cast<wire::Syndrome>(a.number("syndrome", static_cast<std::uint64_t>(syndrome)));
  const std::uint64_t msn = a.number("msn", 0), step = a.number("msn_step", 0);
  return [=](std::uint64_t i, Qpn qpn, Psn psn) {
    wire::AckPacket p{};
    p.bth = Bth::make(Opcode::acknowledge, qpn, psn);
    p.aeth.set_code(code);
    p.aeth.msn = static_cast<std::uint16_t>(msn + i * step);
    return whole(p);
  };
}

/// SACK whose cumulative PSN is ahead=N beyond the PSN, and that calls 64 PSNs after it received.
Maker sack(const Arguments& a) {
  const auto ahead = static_cast<std::int32_t>(a.number("ahead", 0));
  const auto mpr = static_cast<std::uint8_t>(a.number("mpr", 32));
  const auto received = static_cast<std::uint32_t>(a.number("rcvd", 0));
  return [=](std::uint64_t, Qpn qpn, Psn psn) {
    wire::SackPacket p{Bth::make(Opcode::sack, qpn, psn), {}, {}};
    p.seth.set_cack_psn(psn + ahead);
    p.seth.set_sack_offset(1);
    p.seth.sack_bitmap = ~std::uint64_t{0};
    p.seth.mpr = mpr;
    p.cc.rcvd_bytes = received;
    return whole(p);
  };
}

/// NACK with reason=N; default UNEXP_EVENT.
Maker nack(const Arguments& a) {
  const auto reason = static_cast<wire::NackReason>(
      a.number("reason", static_cast<std::uint64_t>(wire::NackReason::unexp_event)));
  return [=](std::uint64_t, Qpn qpn, Psn psn) {
    wire::NackPacket p{Bth::make(Opcode::nack, qpn, psn), {}};
    p.neth.reason = reason;
    p.neth.set_nack_psn(psn);
    return whole(p);
  };
}

/// Reliability probe with id=N.
Maker probe(const Arguments& a) {
  const auto id = static_cast<std::uint16_t>(a.number("id", 0xBEEF));
  return [=](std::uint64_t, Qpn qpn, Psn psn) {
    wire::ProbePacket p{Bth::make(Opcode::probe, qpn, psn), {}};
    p.peth.probe_id = id;
    p.peth.set_tx_timestamp(1);
    return whole(p);
  };
}

/// A write of length=N bytes to key=N, va=N. keep=N: trimmed to so many bytes from BTH on.
Maker write(const Arguments& a, std::size_t keep) {
  wire::WriteHeader h;
  h.opcode =
      static_cast<Opcode>(a.number("opcode", static_cast<std::uint64_t>(Opcode::write_only)));
  h.has_timestamp = true;
  h.timestamp = 1;
  h.ack_request = a.number("ack", 0) != 0;
  h.rtx = a.number("rtx", 0) != 0;
  h.rkey = static_cast<std::uint32_t>(a.number("key", 0xDEADBEEF));
  h.va = a.number("va", 0x1000);
  h.immediate = 0x600DF00D;
  const std::uint64_t length = a.number("length", 64);
  h.dma_length = static_cast<std::uint32_t>(length);
  return [=](std::uint64_t, Qpn qpn, Psn psn) mutable {
    h.dqp = qpn;
    h.psn = psn;
    Forged f;
    f.header.resize(wire::kMaxWriteHeader);
    f.header.resize(wire::build_write_header(f.header.data(), h));
    f.payload = length;
    f.keep = keep;
    return f;
  };
}

/// The first message of a resolution, from queue pair asker=N. It names the packet's source address
/// and, as the port that takes the answer, the destination port.
Maker resolution(const Arguments& a) {
  const auto asker = static_cast<std::uint32_t>(a.number("asker", 3));
  const wire::IpAddress first = port::parse_ip(a.needed("from"));
  const std::uint64_t froms = a.number("froms", 1);
  const auto port = static_cast<std::uint16_t>(a.number("port", wire::kUdpPort));
  return [=](std::uint64_t i, Qpn qpn, Psn psn) {
    wire::ResolutionPacket p{Bth::make(Opcode::resolution, qpn, psn), {}};
    p.header.magic = wire::ResolutionHeader::kMagic;
    p.header.version = wire::ResolutionHeader::kVersion;
    p.header.step = static_cast<std::uint8_t>(wire::ResolutionStep::hello);
    p.header.nonce_a = i + 1;
    p.header.qpn_a = asker;
    p.header.qpn_b = value(qpn);
    p.header.address = source_of(first, i, froms);
    p.header.udp_port = port;
    return whole(p);
  };
}

/// Random bytes behind an opcode of MRC (opcode=0: random, too) and the queue pair.
Maker garbage(const Arguments& a) {
  auto random = std::make_shared<Random>(a.number("seed", 1));
  const bool known = a.number("opcode", 1) != 0;
  return [=](std::uint64_t, Qpn qpn, Psn psn) {
    static constexpr std::uint8_t kCodes[] = {0xC6, 0xC7, 0xC8, 0xC9, 0xCA, 0xCB, 0xD1,
                                              0xD8, 0xD9, 0xDC, 0xDD, 0xDE, 0xDF};
    Forged f;
    f.header.resize(sizeof(Bth) + random->below(80));
    for (auto& byte : f.header) byte = static_cast<std::uint8_t>(random->next());
    if (!known) return f;
    const Bth bth = Bth::make(Opcode{kCodes[random->below(sizeof kCodes)]}, qpn, psn);
    std::memcpy(f.header.data(), &bth, sizeof bth);
    return f;
  };
}

Maker maker_of(const std::string& kind, const Arguments& a) {
  if (kind == "status") return request(a, wire::EndpointOp::port_status);
  if (kind == "evprobe") return request(a, wire::EndpointOp::ev_probe);
  if (kind == "response") return response(a);
  if (kind == "ack") return transport_ack(a, wire::Syndrome::ack);
  if (kind == "nak") return transport_ack(a, wire::Syndrome::remote_access_error);
  if (kind == "sack") return sack(a);
  if (kind == "nack") return nack(a);
  if (kind == "probe") return probe(a);
  if (kind == "write") return write(a, 0);
  if (kind == "trimmed") return write(a, a.number("keep", sizeof(Bth) + 8));
  if (kind == "resolution") return resolution(a);
  if (kind == "garbage") return garbage(a);
  throw std::runtime_error("no kind of packet is called " + kind);
}

/// Envelope, packet and, unless it is garbage or trimmed, the iCRC. Returns the length.
std::size_t assemble(MutableBytes out, const wire::Envelope& e, const Forged& f, bool right_check,
                     Random* guesses) {
  static const std::vector<std::uint8_t> kZeros(1 << 16);
  const wire::TxSge sge{kZeros.data(), static_cast<std::uint32_t>(f.payload)};
  std::vector<std::uint8_t> header = f.header;
  std::uint32_t seed = right_check ? 0 : 1;
  if (guesses != nullptr) {
    const auto guess = guesses->next();
    reinterpret_cast<Bth*>(header.data())->set_p_key(static_cast<std::uint16_t>(guess));
    seed = static_cast<std::uint32_t>(guess >> 32);
  }
  const std::size_t n = wire::build_packet(out, e, header, {&sge, 1}, 0, seed);
  if (f.keep == 0) return n;
  return wire::trim_packet(out.first(n), sizeof(wire::Udp) + f.keep, e.dscp);
}

wire::Envelope envelope_of(const std::string& kind, const Arguments& a) {
  wire::Envelope e;
  e.source = port::parse_ip(a.needed("from"));
  e.destination = port::parse_ip(a.needed("to"));
  e.destination_port = static_cast<std::uint16_t>(a.number("port", wire::kUdpPort));
  e.source_port = static_cast<std::uint16_t>(a.number("sport", 0));
  e.dscp = static_cast<std::uint8_t>(
      a.number("dscp", kind == "trimmed" ? wire::DscpMap{}.trimmed : wire::DscpMap{}.control));
  return e;
}

void send_all(const std::string& kind, const Arguments& a) {
  wire::Envelope e = envelope_of(kind, a);
  const bool raw = a.text("via", "raw") == "raw";
  if (raw && e.source_port == 0) e.source_port = 49152;
  Sender sender(raw, e, a.number("rate", 0));
  const Maker make = maker_of(kind, a);
  const bool endpoint = kind == "status" || kind == "evprobe" || kind == "response";
  const Qpn qpn{static_cast<std::uint32_t>(a.number("qpn", endpoint ? value(kEndpointQpn) : 3))};
  const std::uint64_t psn = a.number("psn", 0), step = a.number("step", 0);
  const std::uint64_t count = a.number("count", 1), froms = a.number("froms", 1);
  const std::uint64_t wrap = a.number("wrap", count);
  Random random(a.number("seed", 1));
  Random* guesses = a.number("guess", 0) != 0 ? &random : nullptr;
  const wire::IpAddress first = e.source;
  std::vector<std::uint8_t> packet(1 << 16);
  for (std::uint64_t i = 0; i < count; ++i) {
    const Psn here{static_cast<std::uint32_t>((psn + i % wrap * step) & 0xFFFFFF)};
    e.source = source_of(first, i, froms);
    const std::size_t n = assemble(packet, e, make(i, qpn, here), kind != "garbage", guesses);
    if (n == 0) throw std::runtime_error("these addresses make no packet");
    sender.send(Bytes(packet).first(n), e.size());
  }
  sender.flush();
}

}  // namespace
}  // namespace mrc::forge

int main(int argc, char** argv) try {
  if (argc < 2) throw std::runtime_error("usage: see the head of forge.cpp");
  const std::string kind = argv[1];
  const mrc::forge::Arguments arguments(argc, argv, 2);
  if (kind == "watch")
    mrc::forge::watch(arguments);
  else
    mrc::forge::send_all(kind, arguments);
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "forge: %s\n", error.what());
  return 1;
}
