// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstring>

#include "mrc/sim/baseline/roce_wire.hpp"

namespace mrc::inline v0_1::sim::baseline {

RoceHeader roce_header(const RcPacket& packet, Qpn dqp) noexcept {
  RoceHeader h;
  if (packet.first && packet.last)
    h.opcode = packet.notify ? RoceOpcode::write_only_imm : RoceOpcode::write_only;
  else if (packet.last)
    h.opcode = packet.notify ? RoceOpcode::write_last_imm : RoceOpcode::write_last;
  else
    h.opcode = packet.first ? RoceOpcode::write_first : RoceOpcode::write_middle;
  h.ack_request = packet.ack_request;
  h.dqp = dqp;
  h.psn = packet.psn;
  h.payload = packet.payload;
  if (roce_has_reth(h.opcode)) {
    h.va = packet.message;
    h.dma_length = packet.message_bytes;
  }
  if (roce_has_immediate(h.opcode)) h.immediate = static_cast<std::uint32_t>(packet.message);
  return h;
}

RoceHeader roce_header(const RcReply& reply, Qpn dqp) noexcept {
  RoceHeader h;
  h.opcode = RoceOpcode::acknowledge;
  h.dqp = dqp;
  h.psn = reply.psn;
  h.syndrome =
      reply.kind == RcReply::Kind::nak ? wire::Syndrome::psn_sequence_error : wire::Syndrome::ack;
  h.msn = reply.msn;
  return h;
}

std::size_t build_roce(MutableBytes out, const RoceHeader& h) noexcept {
  constexpr std::uint8_t kBecn = 0x40;  // byte 4 of BTH in RoCE: FECN 7, BECN 6
  const std::size_t size = roce_header_size(h.opcode);
  if (size == 0 || out.size() < size) return 0;
  std::uint8_t* at = out.data();
  const auto put = [&at](const auto& header) {
    std::memcpy(at, &header, sizeof header);
    at += sizeof header;
  };
  wire::Bth bth;
  bth.op = static_cast<std::uint8_t>(h.opcode);
  bth.set_pad(roce_pad(h.payload));
  bth.set_ack_request(h.ack_request);
  bth.set_dqp(h.dqp);
  bth.set_psn(h.psn);
  if (h.opcode == RoceOpcode::cnp) bth.variant_reserved = kBecn;
  put(bth);
  if (roce_has_reth(h.opcode)) put(wire::Reth{h.va, h.rkey, h.dma_length});
  if (roce_has_immediate(h.opcode)) put(wire::ImmDt{h.immediate});
  if (h.opcode == RoceOpcode::acknowledge)
    put(wire::Aeth{static_cast<std::uint8_t>(h.syndrome), h.msn});
  if (h.opcode == RoceOpcode::cnp) put(CnpPayload{});
  return size;
}

RoceError parse_roce(Bytes head, std::size_t transport_size, RoceHeader& out) noexcept {
  out = {};
  if (head.size() < sizeof(wire::Bth)) return RoceError::too_short;
  const auto& bth = wire::view_as<wire::Bth>(head);
  if (bth.tver() != 0) return RoceError::bad_version;
  const auto op = static_cast<RoceOpcode>(bth.op);
  const std::size_t size = roce_header_size(op);
  if (size == 0) return RoceError::unknown_opcode;
  if (head.size() < size || transport_size < size + bth.pad() + wire::kIcrcSize)
    return RoceError::too_short;
  const std::size_t payload = transport_size - size - bth.pad() - wire::kIcrcSize;
  if (payload > 0xFFFF || bth.pad() != roce_pad(payload)) return RoceError::bad_length;
  out.opcode = op;
  out.ack_request = bth.ack_request();
  out.dqp = bth.dqp();
  out.psn = bth.psn();
  out.payload = static_cast<std::uint32_t>(payload);
  Bytes rest = head.subspan(sizeof(wire::Bth));
  if (!roce_is_write(op)) {
    if (payload != 0) return RoceError::bad_length;
    if (op == RoceOpcode::cnp) return RoceError::none;
    const auto& aeth = wire::view_as<wire::Aeth>(rest);
    out.syndrome = aeth.code();
    out.msn = aeth.msn;
    return RoceError::none;
  }
  if (roce_has_reth(op)) {
    const auto& reth = wire::view_as<wire::Reth>(rest);
    out.va = reth.va;
    out.rkey = reth.rkey;
    out.dma_length = reth.dma_length;
    rest = rest.subspan(sizeof(wire::Reth));
  }
  if (roce_has_immediate(op)) out.immediate = wire::view_as<wire::ImmDt>(rest).immediate;
  // Only a message of one packet can be empty or fill its RETH's length.
  const bool only = roce_has_reth(op) && roce_is_last(op);
  const bool good = only                            ? out.dma_length == payload
                    : op == RoceOpcode::write_first ? payload > 0 && out.dma_length > payload
                                                    : payload > 0;
  return good ? RoceError::none : RoceError::bad_length;
}

}  // namespace mrc::inline v0_1::sim::baseline
