// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "mrc/core/types.hpp"
#include "mrc/wire/headers.hpp"
#include "mrc/wire/ip.hpp"
#include "mrc/wire/opcode.hpp"
#include "mrc/wire/transport.hpp"

namespace mrc::inline v0_1::wire {

/// Unreliable datagrams (UD) in the format of RoCEv2: BTH, DETH, ImmDt if the opcode has one,
/// payload, pad, iCRC. Not a part of MRC, and side by side with it on the same UDP ports.

/// Datagram extended transport header; follows BTH in every datagram.
struct Deth {
  Be32 q_key;                  ///< of the destination queue pair
  std::uint8_t reserved_ = 0;  ///< sent 0
  Be24 source_qp;              ///< queue pair that sent it
};

static_assert(sizeof(Deth) == kDethSize && alignof(Deth) == 1 &&
              std::is_trivially_copyable_v<Deth>);
static_assert(offsetof(Deth, q_key) == 0 && offsetof(Deth, source_qp) == 5);

/// From BTH to the last extension header of a datagram.
[[nodiscard]] constexpr std::size_t datagram_header_size(bool immediate) noexcept {
  return sizeof(Bth) + sizeof(Deth) + (immediate ? sizeof(ImmDt) : 0);
}
/// Largest payload: the largest MTU of RoCEv2.
inline constexpr std::uint32_t kMaxDatagram = 4096;
// A plane that carries MRC's packets of some MTU also carries datagrams of that size.
static_assert(datagram_header_size(true) <= write_header_size(false, false));

/// Header fields of a datagram, except those with a fixed value.
struct DatagramHeader {
  std::uint8_t pad = 0;         ///< 0..3
  bool solicited = false;       ///< the receiver's completion is solicited
  bool with_immediate = false;  ///< add an ImmDt
  Qpn dqp{};                    ///< destination queue pair
  Psn psn;                      ///< counts the datagrams of a queue pair; receivers ignore it
  std::uint32_t q_key = 0;      ///< of the destination queue pair
  Qpn source{};                 ///< queue pair that sends it
  std::uint32_t immediate = 0;  ///< used only with `with_immediate`
};

/// Writes BTH, DETH, and ImmDt when there is one. `out` has room for datagram_header_size(true)
/// bytes. Returns the length.
inline std::size_t build_datagram_header(std::uint8_t* out, const DatagramHeader& h) noexcept {
  std::uint8_t* p = out;
  const auto put = [&p](const auto& header) {
    std::memcpy(p, &header, sizeof(header));
    p += sizeof(header);
  };
  Bth bth = Bth::make(h.with_immediate ? Opcode::datagram_imm : Opcode::datagram, h.dqp, h.psn);
  bth.set_pad(h.pad);
  bth.set_solicited_event(h.solicited);
  put(bth);
  put(Deth{h.q_key, 0, mrc::value(h.source)});
  if (h.with_immediate) put(ImmDt{h.immediate});
  return static_cast<std::size_t>(p - out);
}

/// Parts of a datagram; points into the packet's bytes.
struct DatagramView {
  const Bth* bth;    ///< base transport header
  const Deth* deth;  ///< Q_Key and source
  const ImmDt* imm;  ///< null when there is none
  Bytes payload;     ///< without pad
};

/// The parts of a datagram. Requires that check() returned none and is_datagram(opcode).
[[nodiscard]] inline DatagramView view_datagram(Bytes transport) noexcept {
  DatagramView view{};
  const std::uint8_t* p = transport.data();
  view.bth = reinterpret_cast<const Bth*>(p);
  assert(is_datagram(view.bth->opcode()));
  p += sizeof(Bth);
  view.deth = reinterpret_cast<const Deth*>(p);
  p += sizeof(Deth);
  if (view.bth->opcode() == Opcode::datagram_imm) {
    view.imm = reinterpret_cast<const ImmDt*>(p);
    p += sizeof(ImmDt);
  }
  const auto headers = static_cast<std::size_t>(p - transport.data());
  view.payload = {p, transport.size() - headers - view.bth->pad()};
  return view;
}

/// The 40 bytes for a packet of `udp_length` bytes from UDP header to iCRC: its IPv6 header, or 20
/// bytes of zeros and its IPv4 header. Programs tell the two apart by version and checksum.
[[nodiscard]] inline std::array<std::uint8_t, kGrhSize> make_grh(
    const Origin& o, std::uint32_t udp_length) noexcept {
  std::array<std::uint8_t, kGrhSize> grh{};
  if (is_mapped_ipv4(o.source) && is_mapped_ipv4(o.destination)) {
    Ipv4 ip;
    ip.tos = o.traffic_class;
    ip.total_length = static_cast<std::uint16_t>(sizeof(Ipv4) + udp_length);
    ip.flags_fragment = Ipv4::kDontFragment;
    ip.ttl = o.hop_limit;
    ip.protocol = kNextUdp;
    ip.source = unmap_ipv4(o.source);
    ip.destination = unmap_ipv4(o.destination);
    ip.checksum = ipv4_checksum({reinterpret_cast<const std::uint8_t*>(&ip), sizeof ip});
    std::memcpy(grh.data() + kGrhSize - sizeof ip, &ip, sizeof ip);
    return grh;
  }
  Ipv6 ip;
  ip.set_first_word(o.traffic_class, o.flow_label);
  ip.payload_length = static_cast<std::uint16_t>(udp_length);
  ip.next_header = kNextUdp;
  ip.hop_limit = o.hop_limit;
  ip.source = o.source;
  ip.destination = o.destination;
  std::memcpy(grh.data(), &ip, sizeof ip);
  return grh;
}

static_assert(sizeof(Ipv6) == kGrhSize);

/// Messages by which OpenMRC devices find out how to reach a queue pair of which only GID and QPN
/// are known (resolve/resolution.hpp). An extension: the opcode is not one of MRC, and other
/// implementations drop it.

/// Steps of a resolution. "A" asks, "B" answers.
enum class ResolutionStep : std::uint8_t {
  hello = 1,      ///< A to B: A's nonce
  challenge = 2,  ///< B to A: both nonces; B keeps nothing
  offer = 3,      ///< A to B: both nonces, and A's ConnectionInfo
  answer = 4,  ///< B to A: both nonces, and B's ConnectionInfo unless its queue pair is not ready
};

/// Header of a resolution message, behind the BTH. In front of a ConnectionInfo in its encoded
/// form, and zero bytes up to the message's size.
struct ResolutionHeader {
  static constexpr std::uint32_t kMagic = 0x4F4D5258;  ///< "OMRX"
  static constexpr std::uint8_t kVersion = 1;          ///< of this layout

  Be32 magic;                            ///< kMagic
  std::uint8_t version;                  ///< kVersion
  std::uint8_t step;                     ///< ResolutionStep
  Be16 info_length;                      ///< bytes of the ConnectionInfo; 0: none
  Be64 nonce_a;                          ///< random, of A
  Be64 nonce_b;                          ///< of B; 0 in a hello
  Be32 qpn_a;                            ///< queue pair that A wants to connect
  Be32 qpn_b;                            ///< queue pair that it wants to connect to
  IpAddress address;                     ///< where the sender receives
  Be16 udp_port;                         ///< likewise
  std::array<std::uint8_t, 2> reserved;  ///< 0
};
static_assert(sizeof(ResolutionHeader) == kResolutionHeaderSize && alignof(ResolutionHeader) == 1);

/// A resolution message without its ConnectionInfo.
struct ResolutionPacket {
  Bth bth;                  ///< dqp: the receiver's queue pair, whose slot names the process
  ResolutionHeader header;  ///< what the message says
};
static_assert(sizeof(ResolutionPacket) == 64);

/// Size of every hello and challenge, BTH included: so no answer is larger than what asked for it.
/// That of every offer is kLongResolution.
inline constexpr std::size_t kShortResolution = sizeof(ResolutionPacket);

}  // namespace mrc::inline v0_1::wire
