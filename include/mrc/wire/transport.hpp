// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "mrc/core/types.hpp"
#include "mrc/wire/burst.hpp"
#include "mrc/wire/headers.hpp"
#include "mrc/wire/ip.hpp"
#include "mrc/wire/opcode.hpp"

namespace mrc::inline v0_1::wire {

/// Of datagrams and of resolution messages, which only modules read (resolve/packets.hpp).
inline constexpr std::size_t kDethSize = 8;
inline constexpr std::size_t kResolutionHeaderSize = 52;  ///< likewise
/// Longest resolution message, BTH included: fits the least MTU of IPv6 behind a uSID stack.
inline constexpr std::size_t kLongResolution = 1088;

/// A part of a data packet: how packets pass planes that have become too narrow for them, since the
/// MTU of a connection is agreed once and a packet keeps PSN and payload. The receiver puts the
/// parts together first (engine/memory.hpp). An extension between OpenMRC peers.
///
/// The BTH of the packet, but with this opcode and the pad of this part; PartHeader; the rest of
/// the packet's header; kPartPayload bytes of payload, in the last part the rest.
struct PartHeader {
  std::uint8_t op = 0;         ///< opcode of the packet
  std::uint8_t reserved_ = 0;  ///< sent 0
  Be16 offset;                 ///< of this part in the packet's payload, bytes
  Be16 length;                 ///< of the packet's payload, bytes: more than kPartPayload
  Be16 reserved2_;             ///< sent 0

  [[nodiscard]] constexpr Opcode opcode() const noexcept { return static_cast<Opcode>(op); }
};

static_assert(sizeof(PartHeader) == 8);
static_assert(kMaxWriteHeader + sizeof(PartHeader) <= kMaxTransportHeader);

/// Payload of each part but the last, bytes: a multiple of the cache line, and without pad.
inline constexpr std::uint32_t kPartPayload = 1024;
/// Longest part, BTH .. iCRC, bytes. Fits the least MTU of IPv6 in every encapsulation.
inline constexpr std::uint32_t kMaxPart = kMaxTransportHeader + kPartPayload + kIcrcSize;

/// Parts of a packet with so many bytes of payload.
[[nodiscard]] constexpr std::uint32_t parts_of(std::uint32_t payload) noexcept {
  return payload <= kPartPayload ? 1 : (payload + kPartPayload - 1) / kPartPayload;
}

/// Header fields of a data packet, except those with a fixed value.
struct WriteHeader {
  Opcode opcode = Opcode::write_only;  ///< of a data packet, is_data()
  std::uint8_t pad = 0;                ///< 0..3
  bool ack_request = false;            ///< ask for a SACK
  bool rtx = false;                    ///< retransmission
  bool solicited = false;              ///< se; 0 in MRC, between OpenMRC peers used as in RC
  bool has_timestamp = false;          ///< add a TSETH
  std::uint16_t timestamp = 0;         ///< its tx_timestamp, in ticks of 128 ns
  Qpn dqp{};                           ///< destination queue pair
  Psn psn;                             ///< packet sequence number
  Rqmsn rqmsn;                         ///< receive-queue message or request number (Meth::rqmsn)
  Msn msn;                             ///< message number
  std::uint64_t va = 0;                ///< virtual address or offset of this payload (Reth)
  std::uint32_t rkey = 0;              ///< remote key; 0 where `va` is an offset
  std::uint32_t dma_length = 0;        ///< length of the whole message, in bytes
  std::uint32_t immediate = 0;         ///< used only when the opcode has one
  Tag tag{};                           ///< for p_key and reserved bits
  bool head_check = false;             ///< the iCRC leaves the payload out (Bth::head_check())
};

static_assert(kMaxWriteHeader <= kMaxTransportHeader);

/// Writes the headers of a data packet to `out`, which has room for kMaxWriteHeader bytes. Returns
/// the length.
[[gnu::always_inline]] inline std::size_t build_write_header(std::uint8_t* out,
                                                             const WriteHeader& h) noexcept {
  std::uint8_t* p = out;
  const auto put = [&p](const auto& header) {
    std::memcpy(p, &header, sizeof(header));
    p += sizeof(header);
  };
  Bth bth = Bth::make(h.opcode, h.dqp, h.psn);
  bth.set_pad(h.pad);
  bth.set_ack_request(h.ack_request);
  bth.set_rtx(h.rtx);
  bth.set_solicited_event(h.solicited);
  bth.set_has_timestamp(h.has_timestamp);
  bth.set_head_check(h.head_check);
  h.tag.stamp(bth);
  put(bth);
  put(Meth{static_cast<std::uint16_t>(h.rqmsn.value()), static_cast<std::uint16_t>(h.msn.value())});
  if (h.has_timestamp) put(Tseth{h.timestamp, kFtypeTimestamp});
  put(Reth{h.va, h.rkey, h.dma_length});
  if (has_immediate(h.opcode)) put(ImmDt{h.immediate});
  return static_cast<std::size_t>(p - out);
}

/// Parts of a data packet; points into the packet's bytes.
struct WriteView {
  const Bth* bth;      ///< base transport header
  const Meth* meth;    ///< message numbers
  const Tseth* tseth;  ///< null when there is none
  const Reth* reth;    ///< target address
  const ImmDt* imm;    ///< null when there is none
  Bytes payload;       ///< without pad
};

/// Whole transport packets: validate once with check(), then read in place. "Transport" is BTH ..
/// payload and pad, without the iCRC.

/// SACK, for reading in place and for building; like the control packets below.
struct SackPacket {
  Bth bth;     ///< base transport header
  Seth seth;   ///< acknowledgement
  CcState cc;  ///< congestion control state
};
/// NACK.
struct NackPacket {
  Bth bth;    ///< base transport header
  Neth neth;  ///< NACK header
};
/// Reliability probe request.
struct ProbePacket {
  Bth bth;    ///< base transport header
  Peth peth;  ///< probe header
};
/// Transport ACK.
struct AckPacket {
  Bth bth;    ///< base transport header
  Aeth aeth;  ///< syndrome and MSN
};
/// Endpoint request.
struct EndpointRequestPacket {
  Bth bth;    ///< base transport header
  Erth erth;  ///< request header
};
/// Endpoint response.
struct EndpointResponsePacket {
  Bth bth;    ///< base transport header
  Eeth eeth;  ///< response header
};

static_assert(sizeof(SackPacket) == 48 && sizeof(SackPacket) <= kMaxTransportHeader);
static_assert(sizeof(NackPacket) == 32 && sizeof(ProbePacket) == 28 && sizeof(AckPacket) == 16);
static_assert(sizeof(EndpointRequestPacket) == 28 && sizeof(EndpointResponsePacket) == 48);

/// Why a transport packet is not usable. Suitable as an index for counters (count_ of them).
enum class ParseError : std::uint8_t {
  none = 0,
  too_short,       ///< ends within BTH or within the headers required by opcode and ts bit
  bad_version,     ///< transport version other than 0
  unknown_opcode,  ///< none of Opcode
  bad_length,      ///< a control packet with bytes after its header
  bad_pad,         ///< pad count exceeds the bytes after the headers
  not_data,        ///< trimmed, but not a data packet
  count_,
};

/// Short English text for an error; static storage.
[[nodiscard]] constexpr const char* to_string(ParseError e) noexcept {
  constexpr std::array kTexts{"none",
                              "too short",
                              "bad transport version",
                              "unknown opcode",
                              "bad length of a control packet",
                              "bad pad count",
                              "trimmed packet is not a data packet"};
  static_assert(kTexts.size() == static_cast<std::size_t>(ParseError::count_));
  return e < ParseError::count_ ? kTexts[static_cast<std::size_t>(e)] : "unknown parse error";
}

namespace detail {

/// Bytes of extension headers after BTH for each opcode, without TSETH; 0: unknown opcode.
[[nodiscard]] constexpr std::array<std::uint8_t, 256> make_extension_lengths() noexcept {
  std::array<std::uint8_t, 256> length{};
  const auto set = [&length](Opcode op, std::size_t bytes) {
    length[static_cast<std::size_t>(op)] = static_cast<std::uint8_t>(bytes);
  };
  for (unsigned code = 0; code < length.size(); ++code) {
    const auto op = static_cast<Opcode>(code);
    if (is_data(op)) set(op, sizeof(Meth) + sizeof(Reth) + (has_immediate(op) ? sizeof(ImmDt) : 0));
  }
  set(Opcode::datagram, kDethSize);
  set(Opcode::datagram_imm, kDethSize + sizeof(ImmDt));
  set(Opcode::acknowledge, sizeof(Aeth));
  set(Opcode::endpoint_request, sizeof(Erth));
  set(Opcode::endpoint_response, sizeof(Eeth));
  set(Opcode::sack, sizeof(Seth) + sizeof(CcState));
  set(Opcode::nack, sizeof(Neth));
  set(Opcode::probe, sizeof(Peth));
  set(Opcode::resolution, kResolutionHeaderSize);
  set(Opcode::packet_part, sizeof(PartHeader) + sizeof(Meth) + sizeof(Reth));
  return length;
}
inline constexpr std::array<std::uint8_t, 256> kExtensionLengths = make_extension_lengths();

/// Packets that are no data and may have bytes after their header. An EV probe between OpenMRC
/// peers is filled up to the size that it is to prove.
[[nodiscard]] constexpr bool may_be_longer(Opcode op) noexcept {
  return op == Opcode::resolution || op == Opcode::packet_part || op == Opcode::endpoint_request ||
         is_datagram(op);
}

}  // namespace detail

/// The bytes, at least sizeof(P), as a header or control packet P.
template <class P>
[[nodiscard]] inline const P& view_as(Bytes bytes) noexcept {
  static_assert(alignof(P) == 1 && std::is_trivially_copyable_v<P>);
  assert(bytes.size() >= sizeof(P));
  return *reinterpret_cast<const P*>(bytes.data());
}

/// Validates any bytes so that the headers can be read: version, opcode, and that headers and pad
/// fit; a control packet of MRC must have exactly its length. Reserved bits, p_key and what depends
/// on a queue pair are not checked (mrc-1.0 §2.13, step 5).
[[nodiscard]] inline ParseError check(Bytes transport) noexcept {
  if (transport.size() < sizeof(Bth)) return ParseError::too_short;
  const Bth& bth = view_as<Bth>(transport);
  if (bth.tver() != 0) return ParseError::bad_version;
  const std::size_t extension = detail::kExtensionLengths[bth.op];
  if (extension == 0) return ParseError::unknown_opcode;
  const bool data = is_data(bth.opcode());
  const std::size_t headers =
      sizeof(Bth) + extension + (data && bth.has_timestamp() ? sizeof(Tseth) : 0);
  if (transport.size() < headers) return ParseError::too_short;
  const std::size_t rest = transport.size() - headers;
  if (!data && rest != 0 && !detail::may_be_longer(bth.opcode())) return ParseError::bad_length;
  return bth.pad() <= rest ? ParseError::none : ParseError::bad_pad;
}

/// The parts of a data packet. Requires that check() returned none and is_data() the opcode.
[[nodiscard]] inline WriteView view_write(Bytes transport) noexcept {
  const std::uint8_t* p = transport.data();
  const auto take = [&p]<class H>(const H*& header) {
    header = reinterpret_cast<const H*>(p);
    p += sizeof(H);
  };
  WriteView view{};
  take(view.bth);
  assert(is_data(view.bth->opcode()));
  take(view.meth);
  if (view.bth->has_timestamp()) take(view.tseth);
  take(view.reth);
  if (has_immediate(view.bth->opcode())) take(view.imm);
  const auto headers = static_cast<std::size_t>(p - transport.data());
  view.payload = {p, transport.size() - headers - view.bth->pad()};
  return view;
}

/// The remaining parts of a trimmed data packet.
struct TrimmedView {
  const Bth* bth = nullptr;      ///< always present
  const Meth* meth = nullptr;    ///< null when cut off
  const Tseth* tseth = nullptr;  ///< null when cut off, or when the packet had none
};

/// Reads the head of a trimmed data packet (mrc-1.0 §1.12 [O-10]). Safe on any input. No checksum
/// covers these bytes: they may only cause a NACK.
[[nodiscard]] inline ParseError view_trimmed(Bytes transport, TrimmedView& view) noexcept {
  view = {};
  if (transport.size() < sizeof(Bth)) return ParseError::too_short;
  const Bth& bth = view_as<Bth>(transport);
  if (bth.tver() != 0) return ParseError::bad_version;
  if (!is_known(bth.op)) return ParseError::unknown_opcode;
  if (!is_data(bth.opcode())) return ParseError::not_data;
  view.bth = &bth;
  const Bytes after_bth = transport.subspan(sizeof(Bth));
  if (after_bth.size() < sizeof(Meth)) return ParseError::none;
  view.meth = &view_as<Meth>(after_bth);
  const Bytes after_meth = after_bth.subspan(sizeof(Meth));
  if (bth.has_timestamp() && after_meth.size() >= sizeof(Tseth))
    view.tseth = &view_as<Tseth>(after_meth);
  return ParseError::none;
}

}  // namespace mrc::inline v0_1::wire
