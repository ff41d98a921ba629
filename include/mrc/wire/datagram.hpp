// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "mrc/core/types.hpp"
#include "mrc/wire/bth.hpp"
#include "mrc/wire/data_headers.hpp"
#include "mrc/wire/endian.hpp"
#include "mrc/wire/opcode.hpp"
#include "mrc/wire/overhead.hpp"

/// Unreliable datagrams (UD) in the format of RoCEv2: BTH, DETH, ImmDt if the opcode has one,
/// payload, pad, iCRC. Not a part of MRC, and side by side with it on the same UDP ports.
namespace mrc::inline v0_1::wire {

/// Datagram extended transport header; follows BTH in every datagram.
struct Deth {
  Be32 q_key;                  ///< of the destination queue pair
  std::uint8_t reserved_ = 0;  ///< sent 0
  Be24 source_qp;              ///< queue pair that sent it
};

static_assert(sizeof(Deth) == 8 && alignof(Deth) == 1 && std::is_trivially_copyable_v<Deth>);
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

/// The inverse of build_datagram_header(), for a checked datagram.
[[nodiscard]] inline DatagramHeader header_of(const DatagramView& view) noexcept {
  DatagramHeader h;
  h.pad = view.bth->pad();
  h.solicited = view.bth->solicited_event();
  h.with_immediate = view.imm != nullptr;
  h.dqp = view.bth->dqp();
  h.psn = view.bth->psn();
  h.q_key = view.deth->q_key;
  h.source = Qpn{view.deth->source_qp.value()};
  h.immediate = view.imm != nullptr ? view.imm->immediate.value() : 0;
  return h;
}

}  // namespace mrc::inline v0_1::wire
