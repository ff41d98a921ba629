// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "mrc/core/types.hpp"
#include "mrc/sim/baseline/rc_packet.hpp"
#include "mrc/wire/headers.hpp"
#include "mrc/wire/icrc.hpp"
#include "mrc/wire/transport.hpp"

/// RoCEv2 transport packets in bytes: BTH, extension headers, payload, pad to four bytes, iCRC, in
/// UDP with destination port 4791 (wire::kUdpPort). Unlike in MRC, only a message's first packet
/// has a RETH, which covers the whole message.
namespace mrc::inline v0_1::sim::baseline {

/// Usual DSCP of RoCE data and ACKs.
inline constexpr std::uint8_t kRoceDscp = 26;
/// Usual DSCP of CNPs, which have a class of their own.
inline constexpr std::uint8_t kCnpDscp = 48;

/// The BTH opcodes in use: RDMA Writes and ACK of the RC service, and CNP.
enum class RoceOpcode : std::uint8_t {
  write_first = 0x06,
  write_middle = 0x07,
  write_last = 0x08,
  write_last_imm = 0x09,
  write_only = 0x0A,
  write_only_imm = 0x0B,
  acknowledge = 0x11,  ///< ACK or NAK, by AETH
  cnp = 0x81,          ///< congestion notification packet
};

/// The 16 bytes after BTH in a CNP, all zero.
struct CnpPayload {
  std::uint8_t reserved[16] = {};  ///< zeros
};

/// Why a transport packet can't be read.
enum class RoceError : std::uint8_t {
  none = 0,
  too_short,       ///< ends within the headers, the pad or the iCRC
  bad_version,     ///< BTH.TVer is not 0
  unknown_opcode,  ///< none of RoceOpcode
  bad_length,    ///< a payload or a pad that a packet of this opcode can't have or that contradicts
                 ///< RETH
  bad_envelope,  ///< roce_frame.hpp: not an IP and UDP header of RoCE, or lengths that disagree
};

/// Whether a RETH follows BTH.
[[nodiscard]] constexpr bool roce_has_reth(RoceOpcode op) noexcept {
  return op == RoceOpcode::write_first || op == RoceOpcode::write_only ||
         op == RoceOpcode::write_only_imm;
}
/// Whether an ImmDt is present.
[[nodiscard]] constexpr bool roce_has_immediate(RoceOpcode op) noexcept {
  return op == RoceOpcode::write_last_imm || op == RoceOpcode::write_only_imm;
}
/// Whether it is a data packet.
[[nodiscard]] constexpr bool roce_is_write(RoceOpcode op) noexcept {
  return op >= RoceOpcode::write_first && op <= RoceOpcode::write_only_imm;
}
/// Whether it ends a message.
[[nodiscard]] constexpr bool roce_is_last(RoceOpcode op) noexcept {
  return op >= RoceOpcode::write_last && op <= RoceOpcode::write_only_imm;
}

/// Bytes from BTH to the last extension header; 0 for an unknown opcode. A CNP's 16 bytes count as
/// an extension header.
[[nodiscard]] constexpr std::size_t roce_header_size(RoceOpcode op) noexcept {
  if (roce_is_write(op))
    return sizeof(wire::Bth) + (roce_has_reth(op) ? sizeof(wire::Reth) : 0) +
           (roce_has_immediate(op) ? sizeof(wire::ImmDt) : 0);
  if (op == RoceOpcode::acknowledge) return sizeof(wire::Bth) + sizeof(wire::Aeth);
  return op == RoceOpcode::cnp ? sizeof(wire::Bth) + sizeof(CnpPayload) : 0;
}
/// Largest roce_header_size().
inline constexpr std::size_t kMaxRoceHeader = 32;
static_assert(roce_header_size(RoceOpcode::write_first) == 28);
static_assert(roce_header_size(RoceOpcode::write_middle) == 12);
static_assert(roce_header_size(RoceOpcode::write_last_imm) == 16);
static_assert(roce_header_size(RoceOpcode::write_only_imm) == kMaxRoceHeader);
static_assert(roce_header_size(RoceOpcode::acknowledge) == 16);
static_assert(roce_header_size(RoceOpcode::cnp) == 28);

/// Zero bytes after the payload.
[[nodiscard]] constexpr std::uint8_t roce_pad(std::size_t payload) noexcept {
  return static_cast<std::uint8_t>((4 - payload % 4) % 4);
}

/// Bytes from BTH to the iCRC, which is what UDP carries.
[[nodiscard]] constexpr std::size_t roce_transport_size(RoceOpcode op,
                                                        std::size_t payload) noexcept {
  return roce_header_size(op) + payload + roce_pad(payload) + wire::kIcrcSize;
}

/// Fields of a packet's headers.
struct RoceHeader {
  RoceOpcode opcode = RoceOpcode::write_only;     ///< opcode
  bool ack_request = false;                       ///< BTH.AckReq
  Qpn dqp{};                                      ///< destination queue pair
  Psn psn;                                        ///< 0 in a CNP
  std::uint64_t va = 0;                           ///< RETH
  std::uint32_t rkey = 0;                         ///< RETH
  std::uint32_t dma_length = 0;                   ///< RETH: bytes of the whole message
  std::uint32_t immediate = 0;                    ///< ImmDt
  wire::Syndrome syndrome = wire::Syndrome::ack;  ///< AETH
  std::uint32_t msn = 0;                          ///< AETH, 24 bit
  std::uint32_t payload = 0;                      ///< bytes, without pad

  /// Equal in all fields.
  friend bool operator==(const RoceHeader&, const RoceHeader&) = default;
};

/// Header of a data packet. RETH's address carries the message's id, in place of a real address;
/// the immediate is the id's low 32 bits.
[[nodiscard]] RoceHeader roce_header(const RcPacket& packet, Qpn dqp) noexcept;

/// Header of the ACK or NAK of a reply, whose kind is not none.
[[nodiscard]] RoceHeader roce_header(const RcReply& reply, Qpn dqp) noexcept;

/// Header of a CNP to the sender's queue pair.
[[nodiscard]] inline RoceHeader cnp_header(Qpn dqp) noexcept {
  RoceHeader h;
  h.opcode = RoceOpcode::cnp;
  h.dqp = dqp;
  return h;
}

/// A data packet as input to RcReceiver; the opcode is a Write. Fields that are not on the wire
/// keep their defaults.
[[nodiscard]] inline RcPacket rc_packet(const RoceHeader& h) noexcept {
  return {.psn = h.psn,
          .payload = h.payload,
          .first = roce_has_reth(h.opcode),
          .last = roce_is_last(h.opcode),
          .notify = roce_has_immediate(h.opcode),
          .ack_request = h.ack_request,
          .message = h.va,
          .message_bytes = h.dma_length};
}

/// Writes BTH and extension headers. Returns their size, or 0 when `out` is too small or the opcode
/// is unknown.
[[nodiscard]] std::size_t build_roce(MutableBytes out, const RoceHeader& h) noexcept;

/// The inverse. `head` starts with BTH and holds at least the extension headers; `transport_size`
/// is the packet's size from BTH to the iCRC by its UDP length. Payload and iCRC are not read,
/// since a simulator need not carry them. Safe on any input; `out` is valid only when the result is
/// none.
[[nodiscard]] RoceError parse_roce(Bytes head, std::size_t transport_size,
                                   RoceHeader& out) noexcept;

}  // namespace mrc::inline v0_1::sim::baseline
