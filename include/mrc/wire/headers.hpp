// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "mrc/core/types.hpp"
#include "mrc/wire/ip.hpp"
#include "mrc/wire/opcode.hpp"

namespace mrc::inline v0_1::wire {

/// All headers of transport packets, their sizes, and verification tags.

/// Extension headers of data packets and of the Transport ACK (mrc-1.0 §1.4-1.6).

/// Message numbers; follows BTH in every data packet.
struct Meth {
  /// Receive-queue message number of a SEND or WriteImm; 0 in plain Writes. Of a READ, an atomic
  /// and their responses: the number of the request in its queue pair.
  Be16 rqmsn;
  Be16 msn;  ///< message number on the send queue
};

/// One tick of a sender's timestamp, whose 16 bits wrap around after 8.388608 ms.
inline constexpr Duration kTimestampTick{128};
inline constexpr std::uint16_t kFtypeTimestamp = 1;  ///< ftype of a header with a valid timestamp
/// The tsr bit: the tick is not 128 ns, but an unspecified one (mrc-1.0 [O-13]).
inline constexpr std::uint16_t kTsrBit = 0x8000;
inline constexpr std::uint16_t kFtypeMask = 0x000F;  ///< bits of ftype

/// The time in ticks: what a sender writes into tx_timestamp.
[[nodiscard]] constexpr std::uint16_t timestamp_of(Time time) noexcept {
  return static_cast<std::uint16_t>(static_cast<std::uint64_t>(time.time_since_epoch().count()) /
                                    static_cast<std::uint64_t>(kTimestampTick.count()));
}

/// Time from one timestamp to a later one.
[[nodiscard]] constexpr Duration timestamp_distance(std::uint16_t from, std::uint16_t to) noexcept {
  return kTimestampTick * static_cast<std::uint16_t>(to - from);
}

/// Timestamp; between METH and RETH when BTH.ts is set.
struct Tseth {
  Be16 tx_timestamp;  ///< the sender's clock, opaque to the peer, echoed in SACK and NACK
  Be16 tsr_ftype;     ///< tsr 15, reserved 14:4, ftype 3:0

  [[nodiscard]] constexpr bool tick_is_128ns() const noexcept { return (tsr_ftype & kTsrBit) == 0; }
  [[nodiscard]] constexpr std::uint16_t ftype() const noexcept {
    return static_cast<std::uint16_t>(tsr_ftype & kFtypeMask);
  }
};

/// Target of the payload, in every data packet. In a SEND and in responses METH names the target:
/// `va` is the offset of the payload in the message, and `rkey` is 0. Of a READ and an atomic: the
/// memory they are about.
struct Reth {
  Be64 va;          ///< virtual address of this packet's payload, not of the message
  Be32 rkey;        ///< remote key of the memory region
  Be32 dma_length;  ///< length of the whole message (mrc-1.0 [C-7]); of a READ, of its response
};

/// Operands of an atomic: its payload.
struct AtomicOperands {
  Be64 swap_or_add;  ///< CmpSwap: the new value; FetchAdd: what is added
  Be64 compare;      ///< CmpSwap: the value that is replaced; FetchAdd: 0
};
static_assert(sizeof(AtomicOperands) == 16 && alignof(AtomicOperands) == 1);

/// Immediate value of a WriteImm, in its last packet.
struct ImmDt {
  Be32 immediate;  ///< passed to the receiver unchanged
};

/// AETH.syndrome: an acknowledgement (upper three bits 0b000) or a NAK with its cause (0b011).
enum class Syndrome : std::uint8_t {
  ack = 0x1F,
  psn_sequence_error = 0x60,  ///< not used by MRC
  invalid_request = 0x61,
  remote_access_error = 0x62,
  remote_operational_error = 0x63,
};

/// All NAK codes, also those without an enumerator.
[[nodiscard]] constexpr bool is_nak(Syndrome s) noexcept {
  return (static_cast<unsigned>(s) >> 5) == 0b011;
}
/// An acknowledgement with any credit count (MRC sends 0x1F, "no limit").
[[nodiscard]] constexpr bool is_ack(Syndrome s) noexcept {
  return (static_cast<unsigned>(s) >> 5) == 0b000;
}

/// Short English text for a syndrome; static storage.
[[nodiscard]] constexpr const char* to_string(Syndrome s) noexcept {
  switch (s) {
    case Syndrome::ack:
      return "ACK";
    case Syndrome::psn_sequence_error:
      return "NAK: PSN sequence error";
    case Syndrome::invalid_request:
      return "NAK: invalid request";
    case Syndrome::remote_access_error:
      return "NAK: remote access error";
    case Syndrome::remote_operational_error:
      return "NAK: remote operational error";
  }
  return is_ack(s) ? "ACK" : is_nak(s) ? "NAK" : "unknown syndrome";
}

/// Transport ACK: completion or NAK of a message.
struct Aeth {
  std::uint8_t syndrome = 0;  ///< see code()
  Be24 msn;                   ///< the message's 16-bit MSN, zero-extended (mrc-1.0 [O-15])

  /// The syndrome, which may lack an enumerator.
  [[nodiscard]] constexpr Syndrome code() const noexcept { return static_cast<Syndrome>(syndrome); }
  constexpr void set_code(Syndrome s) noexcept { syndrome = static_cast<std::uint8_t>(s); }
};

static_assert(sizeof(Meth) == 4 && sizeof(Tseth) == 4 && sizeof(Reth) == 16 && sizeof(ImmDt) == 4 &&
              sizeof(Aeth) == 4);

/// Endpoint requests and responses between the endpoints (QPN 2) of two hosts: mrc-1.0 §1.10.
/// BTH.psn[15:0] is the request id; the response copies it.

/// Operation of an endpoint request, as numbered on the wire. The MRC API (mrc_ctl_ep_op_type)
/// numbers them the other way round: EV probe 0, port status update 1.
enum class EndpointOp : std::uint8_t { port_status = 0, ev_probe = 1 };

/// Whether a value from the wire is one of the enumerators.
[[nodiscard]] constexpr bool is_known(EndpointOp op) noexcept {
  return op == EndpointOp::port_status || op == EndpointOp::ev_probe;
}

/// Endpoint request. A new instance is all zero: port status, no valid timestamp.
struct Erth {
  Be16 type_op_;                 ///< type, nh, reserved; op in bits 1:0
  std::uint8_t reserved_ = 0;    ///< sent 0
  std::uint8_t vendor_info = 0;  ///< OpenMRC: slot of the requesting process
  Be32 port_status_mask;         ///< planes of the sender that are up [O-19]; only with port_status
  Be32 tag;                      ///< Tag::endpoint() of the queue pair; 0 in MRC, which has no tags
  Be16 tx_timestamp;             ///< the sender's clock in ticks; valid if has_timestamp()
  Be16 tsr_ftype;                ///< tsr 15, reserved 14:4, ftype 3:0

  /// Not checked: see is_known(EndpointOp).
  [[nodiscard]] constexpr EndpointOp op() const noexcept {
    return static_cast<EndpointOp>(type_op_ & 3);
  }
  constexpr void set_op(EndpointOp op) noexcept {
    type_op_ = static_cast<std::uint16_t>((type_op_ & ~3u) | (static_cast<unsigned>(op) & 3u));
  }
  [[nodiscard]] constexpr bool has_timestamp() const noexcept {
    return (tsr_ftype & kFtypeMask) == kFtypeTimestamp;
  }
  constexpr void set_tx_timestamp(std::uint16_t ts) noexcept {
    tx_timestamp = ts;
    tsr_ftype = kFtypeTimestamp;
  }
};

/// Endpoint response. Its size is that of SETH and CC_STATE, with the timestamp at the same offset.
struct Eeth {
  Be16 type_op_;  ///< type, nh, reserved; op in bits 3:2 ([C-3]: other bits than in ERTH)
  std::uint8_t reserved_[26] = {};  ///< sent 0
  Be16 tx_timestamp;                ///< copied from the request
  Be16 tag;                         ///< as in the request
  std::uint8_t reserved2_[4] = {};  ///< sent 0

  /// Not checked: see is_known(EndpointOp).
  [[nodiscard]] constexpr EndpointOp op() const noexcept {
    return static_cast<EndpointOp>((type_op_ >> 2) & 3);
  }
  constexpr void set_op(EndpointOp op) noexcept {
    type_op_ =
        static_cast<std::uint16_t>((type_op_ & ~0xCu) | ((static_cast<unsigned>(op) & 3u) << 2));
  }
};

static_assert(sizeof(Erth) == 16 && sizeof(Eeth) == 36);

/// Extension headers of SACK, NACK and reliability probe (mrc-1.0 §1.7-1.9). Names that end in an
/// underscore are raw bytes: use the accessors. The first 16 bits of each header and all reserved
/// fields are sent 0 and ignored on receipt ([C-4], [O-11]).

/// SETH.m: the responder's verdict on the reflected EV (mrc-1.0 §2.7).
enum class SackMark : std::uint8_t { none = 0, skip_once = 1, always_skip = 2, reserved = 3 };

/// SACK, first part. A new instance is all zero.
struct Seth {
  Be16 flags_;                     ///< type 15:12, nh 11:7, m 6:5, pr 1
  Be16 offset_or_probe_id_;        ///< ack_psn_offset, or probe_id if pr is set
  Be32 entropy_;                   ///< reflected EV
  Be16 spdcid;                     ///< low 16 bits of the sender's QPN; ignored on receipt [C-21]
  Be16 dpdcid;                     ///< of the receiver's; likewise
  std::uint8_t reserved_ = 0;      ///< sent 0
  Be24 cack_psn_;                  ///< see cack_psn()
  std::uint8_t cc_type_flags = 0;  ///< cc_type 7:4, 0: NSCC state follows; cc_flags 3:0
  std::uint8_t mpr = 0;  ///< the responder's MPR in units of 128 PSNs; 0: Dynamic MPR is off
  Be16 sack_offset_;     ///< see sack_offset()
  Be64 sack_bitmap;      ///< bit i: PSN cack_psn + sack_offset + i is received

  static constexpr std::uint16_t kMarkMask = 0x0060;  ///< m in flags_
  static constexpr std::uint16_t kProbeBit = 0x0002;  ///< pr in flags_

  /// Feedback on the reflected EV.
  [[nodiscard]] constexpr SackMark m() const noexcept {
    return static_cast<SackMark>((flags_ & kMarkMask) >> 5);
  }
  constexpr void set_m(SackMark m) noexcept {
    flags_ = static_cast<std::uint16_t>((flags_ & ~unsigned{kMarkMask}) |
                                        (static_cast<unsigned>(m) & 3u) << 5);
  }
  /// pr: this SACK answers a reliability probe; bytes 2-3 are its probe_id.
  [[nodiscard]] constexpr bool probe() const noexcept { return (flags_ & kProbeBit) != 0; }
  constexpr void set_probe(bool on) noexcept {
    flags_ = static_cast<std::uint16_t>(on ? flags_ | kProbeBit : flags_ & ~unsigned{kProbeBit});
  }
  /// PSN of the packet that triggered the SACK, relative to cack_psn. Valid when probe() is false.
  [[nodiscard]] constexpr std::int16_t ack_psn_offset() const noexcept {
    return static_cast<std::int16_t>(offset_or_probe_id_.value());
  }
  constexpr void set_ack_psn_offset(std::int16_t offset) noexcept {
    offset_or_probe_id_ = static_cast<std::uint16_t>(offset);
  }
  /// Id of the probe that is answered. Valid when probe() is true.
  [[nodiscard]] constexpr std::uint16_t probe_id() const noexcept { return offset_or_probe_id_; }
  constexpr void set_probe_id(std::uint16_t id) noexcept { offset_or_probe_id_ = id; }
  /// EV of the triggering packet as received.
  [[nodiscard]] constexpr Ev entropy() const noexcept { return Ev{entropy_.value()}; }
  constexpr void set_entropy(Ev ev) noexcept { entropy_ = mrc::value(ev); }
  /// Cumulative acknowledgement: every PSN up to and including this one is received.
  [[nodiscard]] constexpr Psn cack_psn() const noexcept { return Psn{cack_psn_.value()}; }
  constexpr void set_cack_psn(Psn psn) noexcept { cack_psn_ = psn.value(); }
  /// PSN of bit 0 of the bitmap, relative to cack_psn.
  [[nodiscard]] constexpr std::int16_t sack_offset() const noexcept {
    return static_cast<std::int16_t>(sack_offset_.value());
  }
  constexpr void set_sack_offset(std::int16_t offset) noexcept {
    sack_offset_ = static_cast<std::uint16_t>(offset);
  }
};

/// SACK, second part: the responder's NSCC state. Use of each field: mrc-1.0 §6.
struct CcState {
  Be16 tx_timestamp;          ///< copied from the triggering packet's TSETH
  Be16 ooo_count_;            ///< reserved 15, count 14:0
  std::uint8_t penalty_ = 0;  ///< restore_cwnd 7, rcv_cwnd_pen 6:0
  Be24 rcvd_bytes;            ///< received bytes in units of 256, modulo 2^24

  static constexpr std::uint16_t kMaxOooCount = 0x7FFF;
  /// Unit of rcvd_bytes, in bytes.
  static constexpr std::uint32_t kRcvdBytesUnit = 256;

  /// Packets received above cack_psn, 15 bit.
  [[nodiscard]] constexpr std::uint16_t ooo_count() const noexcept {
    return static_cast<std::uint16_t>(ooo_count_ & kMaxOooCount);
  }
  /// A larger count is sent as kMaxOooCount.
  constexpr void set_ooo_count(std::uint32_t count) noexcept {
    ooo_count_ = count < kMaxOooCount ? static_cast<std::uint16_t>(count) : kMaxOooCount;
  }
  /// The requester shall restore its congestion window (mrc-1.0 §6).
  [[nodiscard]] constexpr bool restore_cwnd() const noexcept { return (penalty_ & 0x80) != 0; }
  constexpr void set_restore_cwnd(bool on) noexcept {
    penalty_ = static_cast<std::uint8_t>(on ? penalty_ | 0x80 : penalty_ & 0x7F);
  }
  /// Receiver's window penalty, 7 bit.
  [[nodiscard]] constexpr std::uint8_t rcv_cwnd_pen() const noexcept {
    return static_cast<std::uint8_t>(penalty_ & 0x7F);
  }
  constexpr void set_rcv_cwnd_pen(std::uint8_t penalty) noexcept {
    penalty_ = static_cast<std::uint8_t>((penalty_ & 0x80) | (penalty & 0x7F));
  }
};

/// NACK. A new instance is all zero but for cc_type.
struct Neth {
  static constexpr std::uint8_t kCcType = 2;  ///< of every NACK

  Be16 type_nh_;                              ///< type, next header
  NackReason reason{};                        ///< not checked: see is_known(NackReason)
  std::uint8_t vendor_info = 0;               ///< vendor specific; sent 0
  Be32 entropy_;                              ///< see entropy()
  Be16 spdcid;                                ///< as in Seth
  Be16 dpdcid;                                ///< as in Seth
  std::uint8_t reserved_ = 0;                 ///< sent 0
  Be24 nack_psn_;                             ///< see nack_psn()
  std::uint8_t cc_type_flags = kCcType << 4;  ///< cc_type 7:4, cc_flags 3:0
  std::uint8_t reserved2_ = 0;                ///< sent 0
  Be16 tx_timestamp;  ///< copied from the refused packet's TSETH; 0 when it had none

  /// EV of the refused packet as received.
  [[nodiscard]] constexpr Ev entropy() const noexcept { return Ev{entropy_.value()}; }
  constexpr void set_entropy(Ev ev) noexcept { entropy_ = mrc::value(ev); }
  /// PSN of the refused packet.
  [[nodiscard]] constexpr Psn nack_psn() const noexcept { return Psn{nack_psn_.value()}; }
  constexpr void set_nack_psn(Psn psn) noexcept { nack_psn_ = psn.value(); }
};

/// Reliability probe request. A new instance is all zero: no valid timestamp.
struct Peth {
  Be16 type_nh_;                 ///< type, next header
  std::uint8_t reserved_ = 0;    ///< sent 0
  std::uint8_t vendor_info = 0;  ///< vendor specific; sent 0
  Be16 probe_id;                 ///< echoed in the SACK that answers
  Be16 reserved2_;               ///< sent 0
  Be16 spdcid;                   ///< as in Seth
  Be16 dpdcid;                   ///< as in Seth
  Be16 tx_timestamp;             ///< the sender's clock in ticks; valid if has_timestamp()
  Be16 tsr_ftype;                ///< tsr 15, reserved 14:4, ftype 3:0

  [[nodiscard]] constexpr bool has_timestamp() const noexcept {
    return (tsr_ftype & kFtypeMask) == kFtypeTimestamp;
  }
  constexpr void set_tx_timestamp(std::uint16_t ts) noexcept {
    tx_timestamp = ts;
    tsr_ftype = kFtypeTimestamp;
  }
};

static_assert(sizeof(Seth) == 28 && sizeof(CcState) == 8 && sizeof(Neth) == 20 &&
              sizeof(Peth) == 16);

/// Partition key of every packet (mrc-1.0 §1.3).
inline constexpr std::uint16_t kDefaultPKey = 0xFFFF;

/// Base transport header, the first 12 bytes of every MRC packet (mrc-1.0 §1.3). The data members
/// are the raw bytes; use the accessors.
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
  /// The receiver's application is to be notified; not used by MRC.
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
  [[nodiscard]] constexpr std::uint16_t p_key() const noexcept { return pkey; }
  /// The iCRC covers the head of the packet only (icrc_of_head()). 0 in MRC; counts between OpenMRC
  /// peers of one host that have agreed on it.
  [[nodiscard]] constexpr bool head_check() const noexcept {
    return (variant_reserved & kHeadCheckBit) != 0;
  }
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
  [[nodiscard]] constexpr Psn psn() const noexcept { return Psn{sequence.value()}; }

  constexpr void set_opcode(Opcode opcode) noexcept { op = static_cast<std::uint8_t>(opcode); }
  constexpr void set_pad(unsigned pad) noexcept {
    se_m_pad_tver =
        static_cast<std::uint8_t>((se_m_pad_tver & ~unsigned{kPadMask}) | ((pad & 3u) << 4));
  }
  constexpr void set_solicited_event(bool on) noexcept {
    se_m_pad_tver = static_cast<std::uint8_t>((se_m_pad_tver & ~unsigned{kSolicitedBit}) |
                                              (on ? kSolicitedBit : 0u));
  }
  constexpr void set_p_key(std::uint16_t p_key) noexcept { pkey = p_key; }
  /// The other variant reserved bits become 0.
  constexpr void set_head_check(bool on) noexcept {
    variant_reserved = on ? kHeadCheckBit : std::uint8_t{0};
  }
  constexpr void set_dqp(Qpn dqp) noexcept { dest_qp = mrc::value(dqp); }
  constexpr void set_ack_request(bool on) noexcept { set_bit(kAckBit, on); }
  constexpr void set_rtx(bool on) noexcept { set_bit(kRtxBit, on); }
  constexpr void set_has_timestamp(bool on) noexcept { set_bit(kTimestampBit, on); }
  constexpr void set_reserved(std::uint8_t bits) noexcept {
    a_rtx_ts = static_cast<std::uint8_t>((a_rtx_ts & ~unsigned{kReservedMask}) |
                                         (bits & unsigned{kReservedMask}));
  }
  constexpr void set_psn(Psn psn) noexcept { sequence = psn.value(); }

 private:
  constexpr void set_bit(std::uint8_t bit, bool on) noexcept {
    a_rtx_ts = static_cast<std::uint8_t>(on ? a_rtx_ts | bit : a_rtx_ts & ~unsigned{bit});
  }
};

static_assert(sizeof(Bth) == 12 && std::is_standard_layout_v<Bth>);

/// The verification tag of a queue pair: random bits that all packets sent to it carry, so that
/// nobody can forge them who does not see them. An extension, agreed on when queue pairs are
/// connected (ConnectionInfo::tag).
///
///     bits  0 .. 31   added to the iCRC, modulo 2^32
///     bits 32 .. 51   in the BTH, where other peers have constants: p_key 16, inv-res 4
///     bits 52 .. 63   in endpoint requests and responses only, which have no PSN of a window
///
/// A trimmed packet has lost its iCRC, and keeps the bits in its BTH.
class Tag {
 public:
  /// No tag: the iCRC is plain, and p_key is the default one.
  constexpr Tag() noexcept = default;
  /// `bits` as in the table above; 0: no tag.
  constexpr explicit Tag(std::uint64_t bits) noexcept : bits_(bits == 0 ? kNone : bits) {}

  /// From random bits; differs from no tag. Not `checked`: the receiving port does not check the
  /// iCRC, and nothing is added to it.
  [[nodiscard]] static constexpr Tag make(std::uint64_t random, bool checked) noexcept {
    if (!checked) random &= ~std::uint64_t{0xFFFFFFFF};
    return Tag((random & kHeaderBits) == kNone || random == 0 ? random ^ std::uint64_t{1} << 40
                                                              : random);
  }

  [[nodiscard]] constexpr explicit operator bool() const noexcept { return bits_ != kNone; }
  /// As it is told to the peer; 0: no tag.
  [[nodiscard]] constexpr std::uint64_t bits() const noexcept { return *this ? bits_ : 0; }

  /// Added to the iCRC.
  [[nodiscard]] constexpr std::uint32_t check() const noexcept {
    return static_cast<std::uint32_t>(bits_);
  }
  /// In the BTH: 20 bits, p_key first.
  [[nodiscard]] constexpr std::uint32_t header() const noexcept {
    return static_cast<std::uint32_t>((bits_ & kHeaderBits) >> 32);
  }
  /// In endpoint packets: 12 bits.
  [[nodiscard]] constexpr std::uint16_t endpoint() const noexcept {
    return static_cast<std::uint16_t>(bits_ >> 52);
  }

  constexpr void stamp(Bth& bth) const noexcept {
    bth.set_p_key(static_cast<std::uint16_t>(header() >> 4));
    bth.set_reserved(static_cast<std::uint8_t>(header() & 0xF));
  }
  /// The bits that a BTH carries, as header() has them.
  [[nodiscard]] static constexpr std::uint32_t header_of(const Bth& bth) noexcept {
    return std::uint32_t{bth.p_key()} << 4 | bth.reserved();
  }
  [[nodiscard]] constexpr bool is_in(const Bth& bth) const noexcept {
    return header_of(bth) == header();
  }

  friend constexpr bool operator==(const Tag&, const Tag&) = default;

 private:
  static constexpr std::uint64_t kHeaderBits = std::uint64_t{0xFFFFF} << 32;
  static constexpr std::uint64_t kNone = std::uint64_t{kDefaultPKey} << 36;

  std::uint64_t bits_ = kNone;
};

/// From the IP header to the UDP header, both included.
[[nodiscard]] constexpr std::size_t envelope_size(bool ipv4) noexcept {
  return (ipv4 ? sizeof(Ipv4) : sizeof(Ipv6)) + sizeof(Udp);
}

/// From BTH to the last extension header of a data packet: BTH 12, METH 4, TSETH 4 with a
/// timestamp, RETH 16, ImmDt 4 with immediate data (mrc-1.0 §1.2). Payload, pad and iCRC follow.
[[nodiscard]] constexpr std::size_t write_header_size(bool timestamp, bool immediate) noexcept {
  return sizeof(Bth) + sizeof(Meth) + (timestamp ? sizeof(Tseth) : 0) + sizeof(Reth) +
         (immediate ? sizeof(ImmDt) : 0);
}
/// Largest write_header_size().
inline constexpr std::size_t kMaxWriteHeader = write_header_size(true, true);

/// The payload is padded to a multiple of 4.
inline constexpr std::size_t kMaxPad = 3;
/// The iCRC at the end of a packet.
inline constexpr std::size_t kIcrcSize = 4;

/// Most bytes that a data packet's transport packet (BTH .. iCRC) has besides its payload.
inline constexpr std::uint32_t kMaxWriteOverhead = kMaxWriteHeader + kMaxPad + kIcrcSize;

/// Nominal packet size, which both sides use for congestion control: UDP length + 40, whatever the
/// IP headers are (mrc-1.0 [C-15]).
inline constexpr std::uint32_t kNominalIp = 40;
/// That of a packet with this UDP length, in bytes.
[[nodiscard]] constexpr std::uint32_t nominal_size(std::uint32_t udp_length) noexcept {
  return udp_length + kNominalIp;
}
/// What the nominal size adds to the transport packet.
inline constexpr std::uint32_t kNominalOverhead = nominal_size(sizeof(Udp));

static_assert(kMaxWriteHeader == 40 && kMaxWriteOverhead == 47 && kNominalOverhead == 48);

}  // namespace mrc::inline v0_1::wire
