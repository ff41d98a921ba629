// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "mrc/core/types.hpp"
#include "mrc/wire/endian.hpp"
#include "mrc/wire/opcode.hpp"

namespace mrc::inline v0_1::wire {

/// Partition key of every packet (mrc-1.0 §1.3).
inline constexpr std::uint16_t kDefaultPKey = 0xFFFF;

/// Base transport header, the first 12 bytes of every MRC packet (mrc-1.0 §1.3). The data members
/// are the raw bytes; use the accessors. opcode() is not checked: a received packet can hold any
/// value there.
struct Bth {
  std::uint8_t op = 0;                ///< opcode
  std::uint8_t se_m_pad_tver = 0;     ///< se 7, m 6, pad 5:4, tver 3:0 (IBTA order, mrc-1.0 [C-2])
  Be16 pkey = kDefaultPKey;           ///< partition key
  std::uint8_t variant_reserved = 0;  ///< may change in flight; masked in the iCRC
  Be24 dest_qp;                       ///< destination QPN
  std::uint8_t a_rtx_ts = 0;          ///< a 7, R 6, rtx 5, ts 4, reserved 3:0
  Be24 sequence;                      ///< PSN, or the request id of an endpoint packet

  static constexpr std::uint8_t kSolicitedBit = 0x80;  ///< in se_m_pad_tver
  static constexpr std::uint8_t kMigrationBit = 0x40;  ///< in se_m_pad_tver
  static constexpr std::uint8_t kPadMask = 0x30;       ///< in se_m_pad_tver
  static constexpr std::uint8_t kVersionMask = 0x0F;   ///< in se_m_pad_tver
  static constexpr std::uint8_t kHeadCheckBit = 0x01;  ///< in variant_reserved
  static constexpr std::uint8_t kAckBit = 0x80;        ///< in a_rtx_ts
  static constexpr std::uint8_t kRtxBit = 0x20;        ///< in a_rtx_ts
  static constexpr std::uint8_t kTimestampBit = 0x10;  ///< in a_rtx_ts
  static constexpr std::uint8_t kReservedMask = 0x0F;  ///< in a_rtx_ts

  /// A header with p_key 0xFFFF and all flags 0.
  [[nodiscard]] static constexpr Bth make(Opcode opcode, Qpn dqp, Psn psn) noexcept {
    Bth bth;
    bth.set_opcode(opcode);
    bth.set_dqp(dqp);
    bth.set_psn(psn);
    return bth;
  }

  /// Not checked: see is_known().
  [[nodiscard]] constexpr Opcode opcode() const noexcept { return static_cast<Opcode>(op); }
  /// The receiver's application is to be notified; not used by MRC, but between OpenMRC peers.
  [[nodiscard]] constexpr bool solicited_event() const noexcept {
    return (se_m_pad_tver & kSolicitedBit) != 0;
  }
  /// IBTA migration state; not used by MRC.
  [[nodiscard]] constexpr bool migration() const noexcept {
    return (se_m_pad_tver & kMigrationBit) != 0;
  }
  /// Bytes (0..3) between the payload's end and the iCRC.
  [[nodiscard]] constexpr std::uint8_t pad() const noexcept {
    return static_cast<std::uint8_t>((se_m_pad_tver & kPadMask) >> 4);
  }
  /// Transport version; only 0 is defined.
  [[nodiscard]] constexpr std::uint8_t tver() const noexcept {
    return static_cast<std::uint8_t>(se_m_pad_tver & kVersionMask);
  }
  /// Partition key.
  [[nodiscard]] constexpr std::uint16_t p_key() const noexcept { return pkey; }
  /// The iCRC covers the head of the packet only (icrc_of_head()). MRC sends 0 here and ignores
  /// what arrives; it counts between OpenMRC peers of one host that have agreed on it.
  [[nodiscard]] constexpr bool head_check() const noexcept {
    return (variant_reserved & kHeadCheckBit) != 0;
  }
  /// Destination queue pair.
  [[nodiscard]] constexpr Qpn dqp() const noexcept { return Qpn{dest_qp.value()}; }
  /// The sender asks for a SACK.
  [[nodiscard]] constexpr bool ack_request() const noexcept { return (a_rtx_ts & kAckBit) != 0; }
  /// The packet is a retransmission.
  [[nodiscard]] constexpr bool rtx() const noexcept { return (a_rtx_ts & kRtxBit) != 0; }
  /// A TSETH follows METH (data packets only).
  [[nodiscard]] constexpr bool has_timestamp() const noexcept {
    return (a_rtx_ts & kTimestampBit) != 0;
  }
  /// The reserved bits 3:0 of byte 8; 0 in MRC, between OpenMRC peers a part of their tag (Tag).
  [[nodiscard]] constexpr std::uint8_t reserved() const noexcept {
    return static_cast<std::uint8_t>(a_rtx_ts & kReservedMask);
  }
  /// Packet sequence number.
  [[nodiscard]] constexpr Psn psn() const noexcept { return Psn{sequence.value()}; }

  /// Sets the opcode.
  constexpr void set_opcode(Opcode opcode) noexcept { op = static_cast<std::uint8_t>(opcode); }
  /// Sets the pad count; only the low two bits are used.
  constexpr void set_pad(unsigned pad) noexcept {
    se_m_pad_tver =
        static_cast<std::uint8_t>((se_m_pad_tver & ~unsigned{kPadMask}) | ((pad & 3u) << 4));
  }
  /// Marks a message whose receiver's application is to be notified.
  constexpr void set_solicited_event(bool on) noexcept {
    se_m_pad_tver = static_cast<std::uint8_t>((se_m_pad_tver & ~unsigned{kSolicitedBit}) |
                                              (on ? kSolicitedBit : 0u));
  }
  /// Sets the partition key.
  constexpr void set_p_key(std::uint16_t p_key) noexcept { pkey = p_key; }
  /// Says what the iCRC covers; the other variant reserved bits become 0.
  constexpr void set_head_check(bool on) noexcept {
    variant_reserved = on ? kHeadCheckBit : std::uint8_t{0};
  }
  /// Sets the destination queue pair.
  constexpr void set_dqp(Qpn dqp) noexcept { dest_qp = mrc::value(dqp); }
  /// Asks for a SACK.
  constexpr void set_ack_request(bool on) noexcept { set_bit(kAckBit, on); }
  /// Marks a retransmission.
  constexpr void set_rtx(bool on) noexcept { set_bit(kRtxBit, on); }
  /// Announces a TSETH.
  constexpr void set_has_timestamp(bool on) noexcept { set_bit(kTimestampBit, on); }
  /// Sets the reserved bits 3:0 of byte 8.
  constexpr void set_reserved(std::uint8_t bits) noexcept {
    a_rtx_ts = static_cast<std::uint8_t>((a_rtx_ts & ~unsigned{kReservedMask}) |
                                         (bits & unsigned{kReservedMask}));
  }
  /// Sets the packet sequence number.
  constexpr void set_psn(Psn psn) noexcept { sequence = psn.value(); }

 private:
  constexpr void set_bit(std::uint8_t bit, bool on) noexcept {
    a_rtx_ts = static_cast<std::uint8_t>(on ? a_rtx_ts | bit : a_rtx_ts & ~unsigned{bit});
  }
};

static_assert(sizeof(Bth) == 12 && alignof(Bth) == 1);
static_assert(std::is_trivially_copyable_v<Bth> && std::is_standard_layout_v<Bth>);
static_assert(offsetof(Bth, op) == 0 && offsetof(Bth, se_m_pad_tver) == 1);
static_assert(offsetof(Bth, pkey) == 2 && offsetof(Bth, variant_reserved) == 4);
static_assert(offsetof(Bth, dest_qp) == 5 && offsetof(Bth, a_rtx_ts) == 8);
static_assert(offsetof(Bth, sequence) == 9);

}  // namespace mrc::inline v0_1::wire
