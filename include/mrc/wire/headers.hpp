// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "mrc/core/types.hpp"
#include "mrc/wire/data_headers.hpp"
#include "mrc/wire/endian.hpp"
#include "mrc/wire/endpoint_headers.hpp"
#include "mrc/wire/nack_reason.hpp"

/// The extension headers of SACK, NACK and reliability probe (mrc-1.0 §1.7-1.9); includes
/// endpoint_headers.hpp for those of endpoint packets. Names that end in an underscore are the raw
/// bytes; use the accessors. The first 16 bits of each header (type, next header) are sent 0 and
/// ignored on receipt ([C-4], [O-11]), and so are all reserved fields.
namespace mrc::inline v0_1::wire {

/// SETH.m: the responder's verdict on the reflected EV (mrc-1.0 §2.7).
enum class SackMark : std::uint8_t { none = 0, skip_once = 1, always_skip = 2, reserved = 3 };

/// SACK, first part. A new instance is all zero.
struct Seth {
  Be16 flags_;                      ///< type 15:12, nh 11:7, m 6:5, pr 1
  Be16 offset_or_probe_id_;         ///< ack_psn_offset, or probe_id if pr is set
  Be32 entropy_;                    ///< reflected EV
  Be16 spdcid_;                     ///< see spdcid()
  Be16 dpdcid_;                     ///< see dpdcid()
  std::uint8_t reserved_ = 0;       ///< sent 0
  Be24 cack_psn_;                   ///< see cack_psn()
  std::uint8_t cc_type_flags_ = 0;  ///< cc_type 7:4, cc_flags 3:0
  std::uint8_t mpr_ = 0;            ///< see mpr()
  Be16 sack_offset_;                ///< see sack_offset()
  Be64 sack_bitmap_;                ///< see sack_bitmap()

  static constexpr std::uint16_t kMarkMask = 0x0060;  ///< m in flags_
  static constexpr std::uint16_t kProbeBit = 0x0002;  ///< pr in flags_

  /// Feedback on the reflected EV.
  [[nodiscard]] constexpr SackMark m() const noexcept {
    return static_cast<SackMark>((flags_ & kMarkMask) >> 5);
  }
  /// Sets m.
  constexpr void set_m(SackMark m) noexcept {
    flags_ = static_cast<std::uint16_t>((flags_ & ~unsigned{kMarkMask}) |
                                        (static_cast<unsigned>(m) & 3u) << 5);
  }
  /// pr: this SACK answers a reliability probe; bytes 2-3 are its probe_id.
  [[nodiscard]] constexpr bool probe() const noexcept { return (flags_ & kProbeBit) != 0; }
  /// Sets pr.
  constexpr void set_probe(bool on) noexcept {
    flags_ = static_cast<std::uint16_t>(on ? flags_ | kProbeBit : flags_ & ~unsigned{kProbeBit});
  }
  /// PSN of the packet that triggered the SACK, relative to cack_psn. Valid when probe() is false.
  [[nodiscard]] constexpr std::int16_t ack_psn_offset() const noexcept {
    return static_cast<std::int16_t>(offset_or_probe_id_.value());
  }
  /// Sets ack_psn_offset; leaves pr unchanged.
  constexpr void set_ack_psn_offset(std::int16_t offset) noexcept {
    offset_or_probe_id_ = static_cast<std::uint16_t>(offset);
  }
  /// Id of the probe that is answered. Valid when probe() is true.
  [[nodiscard]] constexpr std::uint16_t probe_id() const noexcept { return offset_or_probe_id_; }
  /// Sets probe_id; leaves pr unchanged.
  constexpr void set_probe_id(std::uint16_t id) noexcept { offset_or_probe_id_ = id; }
  /// EV of the triggering packet as received.
  [[nodiscard]] constexpr Ev entropy() const noexcept { return Ev{entropy_.value()}; }
  /// Sets the reflected EV.
  constexpr void set_entropy(Ev ev) noexcept { entropy_ = mrc::value(ev); }
  /// Low 16 bits of the QPN of the SACK's sender ([C-21]: ignored on receipt).
  [[nodiscard]] constexpr std::uint16_t spdcid() const noexcept { return spdcid_; }
  /// Sets spdcid.
  constexpr void set_spdcid(std::uint16_t id) noexcept { spdcid_ = id; }
  /// Low 16 bits of the QPN of the SACK's receiver ([C-21]: ignored on receipt).
  [[nodiscard]] constexpr std::uint16_t dpdcid() const noexcept { return dpdcid_; }
  /// Sets dpdcid.
  constexpr void set_dpdcid(std::uint16_t id) noexcept { dpdcid_ = id; }
  /// Cumulative acknowledgement: every PSN up to and including this one is received.
  [[nodiscard]] constexpr Psn cack_psn() const noexcept { return Psn{cack_psn_.value()}; }
  /// Sets cack_psn.
  constexpr void set_cack_psn(Psn psn) noexcept { cack_psn_ = psn.value(); }
  /// 0: NSCC state follows.
  [[nodiscard]] constexpr std::uint8_t cc_type() const noexcept {
    return static_cast<std::uint8_t>(cc_type_flags_ >> 4);
  }
  /// Flags of the congestion control type, 4 bit.
  [[nodiscard]] constexpr std::uint8_t cc_flags() const noexcept {
    return static_cast<std::uint8_t>(cc_type_flags_ & 0x0F);
  }
  /// Sets cc_type and cc_flags, 4 bit each.
  constexpr void set_cc(std::uint8_t type, std::uint8_t flags) noexcept {
    cc_type_flags_ = static_cast<std::uint8_t>((type << 4) | (flags & 0x0F));
  }
  /// The responder's MPR in units of 128 PSNs; 0: Dynamic MPR is off.
  [[nodiscard]] constexpr std::uint8_t mpr() const noexcept { return mpr_; }
  /// Sets mpr, in units of 128 PSNs.
  constexpr void set_mpr(std::uint8_t mpr) noexcept { mpr_ = mpr; }
  /// PSN of bit 0 of the bitmap, relative to cack_psn.
  [[nodiscard]] constexpr std::int16_t sack_offset() const noexcept {
    return static_cast<std::int16_t>(sack_offset_.value());
  }
  /// Sets sack_offset.
  constexpr void set_sack_offset(std::int16_t offset) noexcept {
    sack_offset_ = static_cast<std::uint16_t>(offset);
  }
  /// Bit i (0 = least significant): PSN cack_psn + sack_offset + i is received.
  [[nodiscard]] constexpr std::uint64_t sack_bitmap() const noexcept { return sack_bitmap_; }
  /// Sets sack_bitmap.
  constexpr void set_sack_bitmap(std::uint64_t bitmap) noexcept { sack_bitmap_ = bitmap; }
};

/// SACK, second part: the responder's NSCC state. Use of each field: mrc-1.0 §6.
struct CcState {
  Be16 tx_timestamp_;         ///< see tx_timestamp()
  Be16 ooo_count_;            ///< reserved 15, count 14:0
  std::uint8_t penalty_ = 0;  ///< restore_cwnd 7, rcv_cwnd_pen 6:0
  Be24 rcvd_bytes_;           ///< see rcvd_bytes()

  /// Largest ooo_count.
  static constexpr std::uint16_t kMaxOooCount = 0x7FFF;
  /// Unit of rcvd_bytes, in bytes.
  static constexpr std::uint32_t kRcvdBytesUnit = 256;

  /// Copied from the triggering packet's TSETH.
  [[nodiscard]] constexpr std::uint16_t tx_timestamp() const noexcept { return tx_timestamp_; }
  /// Sets tx_timestamp.
  constexpr void set_tx_timestamp(std::uint16_t ts) noexcept { tx_timestamp_ = ts; }
  /// Packets received above cack_psn, 15 bit.
  [[nodiscard]] constexpr std::uint16_t ooo_count() const noexcept {
    return static_cast<std::uint16_t>(ooo_count_ & kMaxOooCount);
  }
  /// Sets ooo_count; a larger count is sent as kMaxOooCount.
  constexpr void set_ooo_count(std::uint32_t count) noexcept {
    ooo_count_ = count < kMaxOooCount ? static_cast<std::uint16_t>(count) : kMaxOooCount;
  }
  /// The requester shall restore its congestion window (mrc-1.0 §6).
  [[nodiscard]] constexpr bool restore_cwnd() const noexcept { return (penalty_ & 0x80) != 0; }
  /// Sets restore_cwnd.
  constexpr void set_restore_cwnd(bool on) noexcept {
    penalty_ = static_cast<std::uint8_t>(on ? penalty_ | 0x80 : penalty_ & 0x7F);
  }
  /// Receiver's window penalty, 7 bit.
  [[nodiscard]] constexpr std::uint8_t rcv_cwnd_pen() const noexcept {
    return static_cast<std::uint8_t>(penalty_ & 0x7F);
  }
  /// Sets rcv_cwnd_pen; only the low 7 bits are used.
  constexpr void set_rcv_cwnd_pen(std::uint8_t penalty) noexcept {
    penalty_ = static_cast<std::uint8_t>((penalty_ & 0x80) | (penalty & 0x7F));
  }
  /// Received bytes in units of 256, modulo 2^24.
  [[nodiscard]] constexpr std::uint32_t rcvd_bytes() const noexcept { return rcvd_bytes_; }
  /// Sets rcvd_bytes, in units of 256 bytes.
  constexpr void set_rcvd_bytes(std::uint32_t units) noexcept { rcvd_bytes_ = units; }
};

/// NACK. A new instance has cc_type 2, the value of every NACK, and zeros elsewhere.
struct Neth {
  /// cc_type of a NACK.
  static constexpr std::uint8_t kCcType = 2;

  Be16 type_nh_;                               ///< type, next header
  std::uint8_t reason_ = 0;                    ///< see reason()
  std::uint8_t vendor_info_ = 0;               ///< see vendor_info()
  Be32 entropy_;                               ///< see entropy()
  Be16 spdcid_;                                ///< see spdcid()
  Be16 dpdcid_;                                ///< see dpdcid()
  std::uint8_t reserved_ = 0;                  ///< sent 0
  Be24 nack_psn_;                              ///< see nack_psn()
  std::uint8_t cc_type_flags_ = kCcType << 4;  ///< cc_type 7:4, cc_flags 3:0
  std::uint8_t reserved2_ = 0;                 ///< sent 0
  Be16 tx_timestamp_;                          ///< see tx_timestamp()

  /// Not checked: see is_known(NackReason).
  [[nodiscard]] constexpr NackReason reason() const noexcept {
    return static_cast<NackReason>(reason_);
  }
  /// Sets the reason.
  constexpr void set_reason(NackReason r) noexcept { reason_ = static_cast<std::uint8_t>(r); }
  /// Vendor specific; sent 0.
  [[nodiscard]] constexpr std::uint8_t vendor_info() const noexcept { return vendor_info_; }
  /// Sets vendor_info.
  constexpr void set_vendor_info(std::uint8_t info) noexcept { vendor_info_ = info; }
  /// EV of the refused packet as received.
  [[nodiscard]] constexpr Ev entropy() const noexcept { return Ev{entropy_.value()}; }
  /// Sets the EV.
  constexpr void set_entropy(Ev ev) noexcept { entropy_ = mrc::value(ev); }
  /// As in Seth.
  [[nodiscard]] constexpr std::uint16_t spdcid() const noexcept { return spdcid_; }
  /// As in Seth.
  constexpr void set_spdcid(std::uint16_t id) noexcept { spdcid_ = id; }
  /// As in Seth.
  [[nodiscard]] constexpr std::uint16_t dpdcid() const noexcept { return dpdcid_; }
  /// As in Seth.
  constexpr void set_dpdcid(std::uint16_t id) noexcept { dpdcid_ = id; }
  /// PSN of the refused packet.
  [[nodiscard]] constexpr Psn nack_psn() const noexcept { return Psn{nack_psn_.value()}; }
  /// Sets nack_psn.
  constexpr void set_nack_psn(Psn psn) noexcept { nack_psn_ = psn.value(); }
  /// Congestion control type; 2 in every NACK.
  [[nodiscard]] constexpr std::uint8_t cc_type() const noexcept {
    return static_cast<std::uint8_t>(cc_type_flags_ >> 4);
  }
  /// Flags of the congestion control type, 4 bit.
  [[nodiscard]] constexpr std::uint8_t cc_flags() const noexcept {
    return static_cast<std::uint8_t>(cc_type_flags_ & 0x0F);
  }
  /// Sets cc_type and cc_flags, 4 bit each.
  constexpr void set_cc(std::uint8_t type, std::uint8_t flags) noexcept {
    cc_type_flags_ = static_cast<std::uint8_t>((type << 4) | (flags & 0x0F));
  }
  /// Copied from the refused packet's TSETH; 0 when it had none.
  [[nodiscard]] constexpr std::uint16_t tx_timestamp() const noexcept { return tx_timestamp_; }
  /// Sets tx_timestamp.
  constexpr void set_tx_timestamp(std::uint16_t ts) noexcept { tx_timestamp_ = ts; }
};

/// Reliability probe request. A new instance is all zero: no valid timestamp.
struct Peth {
  Be16 type_nh_;                  ///< type, next header
  std::uint8_t reserved_ = 0;     ///< sent 0
  std::uint8_t vendor_info_ = 0;  ///< see vendor_info()
  Be16 probe_id_;                 ///< see probe_id()
  Be16 reserved2_;                ///< sent 0
  Be16 spdcid_;                   ///< see spdcid()
  Be16 dpdcid_;                   ///< see dpdcid()
  Be16 tx_timestamp_;             ///< see tx_timestamp()
  Be16 tsr_ftype_;                ///< tsr 15, reserved 14:4, ftype 3:0

  /// Vendor specific; sent 0.
  [[nodiscard]] constexpr std::uint8_t vendor_info() const noexcept { return vendor_info_; }
  /// Sets vendor_info.
  constexpr void set_vendor_info(std::uint8_t info) noexcept { vendor_info_ = info; }
  /// Echoed in the SACK that answers.
  [[nodiscard]] constexpr std::uint16_t probe_id() const noexcept { return probe_id_; }
  /// Sets probe_id.
  constexpr void set_probe_id(std::uint16_t id) noexcept { probe_id_ = id; }
  /// As in Seth.
  [[nodiscard]] constexpr std::uint16_t spdcid() const noexcept { return spdcid_; }
  /// As in Seth.
  constexpr void set_spdcid(std::uint16_t id) noexcept { spdcid_ = id; }
  /// As in Seth.
  [[nodiscard]] constexpr std::uint16_t dpdcid() const noexcept { return dpdcid_; }
  /// As in Seth.
  constexpr void set_dpdcid(std::uint16_t id) noexcept { dpdcid_ = id; }
  /// The sender's clock in ticks; valid if has_timestamp().
  [[nodiscard]] constexpr std::uint16_t tx_timestamp() const noexcept { return tx_timestamp_; }
  /// Whether ftype says that the timestamp is valid.
  [[nodiscard]] constexpr bool has_timestamp() const noexcept {
    return (tsr_ftype_ & kFtypeMask) == kFtypeTimestamp;
  }
  /// The timestamp's tick is 128 ns (tsr = 0).
  [[nodiscard]] constexpr bool tick_is_128ns() const noexcept {
    return (tsr_ftype_ & kTsrBit) == 0;
  }
  /// Sets a timestamp in ticks of 128 ns, and ftype.
  constexpr void set_tx_timestamp(std::uint16_t ts) noexcept {
    tx_timestamp_ = ts;
    tsr_ftype_ = kFtypeTimestamp;
  }
};

static_assert(sizeof(Seth) == 28 && alignof(Seth) == 1 && std::is_trivially_copyable_v<Seth>);
static_assert(offsetof(Seth, flags_) == 0 && offsetof(Seth, offset_or_probe_id_) == 2);
static_assert(offsetof(Seth, entropy_) == 4 && offsetof(Seth, spdcid_) == 8);
static_assert(offsetof(Seth, dpdcid_) == 10 && offsetof(Seth, reserved_) == 12);
static_assert(offsetof(Seth, cack_psn_) == 13 && offsetof(Seth, cc_type_flags_) == 16);
static_assert(offsetof(Seth, mpr_) == 17 && offsetof(Seth, sack_offset_) == 18);
static_assert(offsetof(Seth, sack_bitmap_) == 20);
static_assert(sizeof(CcState) == 8 && alignof(CcState) == 1);
static_assert(std::is_trivially_copyable_v<CcState>);
static_assert(offsetof(CcState, tx_timestamp_) == 0 && offsetof(CcState, ooo_count_) == 2);
static_assert(offsetof(CcState, penalty_) == 4 && offsetof(CcState, rcvd_bytes_) == 5);
static_assert(sizeof(Neth) == 20 && alignof(Neth) == 1 && std::is_trivially_copyable_v<Neth>);
static_assert(offsetof(Neth, type_nh_) == 0 && offsetof(Neth, reason_) == 2);
static_assert(offsetof(Neth, vendor_info_) == 3 && offsetof(Neth, entropy_) == 4);
static_assert(offsetof(Neth, spdcid_) == 8 && offsetof(Neth, dpdcid_) == 10);
static_assert(offsetof(Neth, reserved_) == 12 && offsetof(Neth, nack_psn_) == 13);
static_assert(offsetof(Neth, cc_type_flags_) == 16 && offsetof(Neth, reserved2_) == 17);
static_assert(offsetof(Neth, tx_timestamp_) == 18);
static_assert(sizeof(Peth) == 16 && alignof(Peth) == 1 && std::is_trivially_copyable_v<Peth>);
static_assert(offsetof(Peth, type_nh_) == 0 && offsetof(Peth, reserved_) == 2);
static_assert(offsetof(Peth, vendor_info_) == 3 && offsetof(Peth, probe_id_) == 4);
static_assert(offsetof(Peth, reserved2_) == 6 && offsetof(Peth, spdcid_) == 8);
static_assert(offsetof(Peth, dpdcid_) == 10 && offsetof(Peth, tx_timestamp_) == 12);
static_assert(offsetof(Peth, tsr_ftype_) == 14);

}  // namespace mrc::inline v0_1::wire
