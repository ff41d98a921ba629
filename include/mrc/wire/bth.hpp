// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "mrc/core/types.hpp"
#include "mrc/wire/endian.hpp"
#include "mrc/wire/opcode.hpp"

namespace mrc::inline v0_1::wire {

inline constexpr std::uint16_t kDefaultPKey = 0xFFFF;

/// Base transport header, the first 12 bytes of every MRC packet (mrc-1.0 §1.3). The data members
/// are the bytes as they stand; use the accessors. opcode() is not checked: a packet from the wire
/// can hold any value there.
struct Bth {
  std::uint8_t op = 0;
  std::uint8_t se_m_pad_tver = 0;  ///< se 7, m 6, pad 5:4, tver 3:0 (IBTA order, mrc-1.0 [C-2])
  Be16 pkey = kDefaultPKey;
  std::uint8_t variant_reserved = 0;  ///< may change in flight; masked in the iCRC
  Be24 dest_qp;
  std::uint8_t a_rtx_ts = 0;  ///< a 7, R 6, rtx 5, ts 4, reserved 3:0
  Be24 sequence;

  static constexpr std::uint8_t kSolicitedBit = 0x80, kMigrationBit = 0x40;
  static constexpr std::uint8_t kPadMask = 0x30, kVersionMask = 0x0F;
  static constexpr std::uint8_t kAckBit = 0x80, kRtxBit = 0x20, kTimestampBit = 0x10;

  /// All defaults: p_key 0xFFFF, every flag 0.
  [[nodiscard]] static constexpr Bth make(Opcode opcode, Qpn dqp, Psn psn) noexcept {
    Bth bth;
    bth.set_opcode(opcode);
    bth.set_dqp(dqp);
    bth.set_psn(psn);
    return bth;
  }

  [[nodiscard]] constexpr Opcode opcode() const noexcept { return static_cast<Opcode>(op); }
  [[nodiscard]] constexpr bool solicited_event() const noexcept {
    return (se_m_pad_tver & kSolicitedBit) != 0;
  }
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
  [[nodiscard]] constexpr std::uint16_t p_key() const noexcept { return pkey; }
  [[nodiscard]] constexpr Qpn dqp() const noexcept { return Qpn{dest_qp.value()}; }
  /// The sender asks for a SACK.
  [[nodiscard]] constexpr bool ack_request() const noexcept { return (a_rtx_ts & kAckBit) != 0; }
  /// The packet is a retransmission.
  [[nodiscard]] constexpr bool rtx() const noexcept { return (a_rtx_ts & kRtxBit) != 0; }
  /// Data packets: a TSETH follows METH.
  [[nodiscard]] constexpr bool has_timestamp() const noexcept {
    return (a_rtx_ts & kTimestampBit) != 0;
  }
  [[nodiscard]] constexpr Psn psn() const noexcept { return Psn{sequence.value()}; }

  constexpr void set_opcode(Opcode opcode) noexcept { op = static_cast<std::uint8_t>(opcode); }
  /// Takes the low two bits.
  constexpr void set_pad(unsigned pad) noexcept {
    se_m_pad_tver =
        static_cast<std::uint8_t>((se_m_pad_tver & ~unsigned{kPadMask}) | ((pad & 3u) << 4));
  }
  constexpr void set_p_key(std::uint16_t p_key) noexcept { pkey = p_key; }
  constexpr void set_dqp(Qpn dqp) noexcept { dest_qp = mrc::value(dqp); }
  constexpr void set_ack_request(bool on) noexcept { set_bit(kAckBit, on); }
  constexpr void set_rtx(bool on) noexcept { set_bit(kRtxBit, on); }
  constexpr void set_has_timestamp(bool on) noexcept { set_bit(kTimestampBit, on); }
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
