// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "mrc/core/types.hpp"
#include "mrc/wire/bth.hpp"
#include "mrc/wire/burst.hpp"
#include "mrc/wire/data_headers.hpp"
#include "mrc/wire/opcode.hpp"
#include "mrc/wire/overhead.hpp"
#include "mrc/wire/tag.hpp"

namespace mrc::inline v0_1::wire {

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

/// Writes BTH, METH, TSETH when there is a timestamp, RETH, and ImmDt when the opcode has one.
/// `out` has room for kMaxWriteHeader bytes. Returns the length.
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

/// The inverse of build_write_header(), for a checked data packet.
[[nodiscard]] inline WriteHeader header_of(const WriteView& view) noexcept {
  WriteHeader h;
  h.opcode = view.bth->opcode();
  h.pad = view.bth->pad();
  h.ack_request = view.bth->ack_request();
  h.rtx = view.bth->rtx();
  h.has_timestamp = view.tseth != nullptr;
  h.timestamp = view.tseth != nullptr ? view.tseth->tx_timestamp.value() : std::uint16_t{0};
  h.dqp = view.bth->dqp();
  h.psn = view.bth->psn();
  h.rqmsn = Rqmsn{view.meth->rqmsn.value()};
  h.msn = Msn{view.meth->msn.value()};
  h.va = view.reth->va;
  h.rkey = view.reth->rkey;
  h.dma_length = view.reth->dma_length;
  h.immediate = view.imm != nullptr ? view.imm->immediate.value() : 0;
  return h;
}

}  // namespace mrc::inline v0_1::wire
