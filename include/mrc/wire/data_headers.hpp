// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "mrc/core/time.hpp"
#include "mrc/wire/endian.hpp"

/// The extension headers of data packets (METH, TSETH, RETH, ImmDt) and of the Transport ACK
/// (AETH): mrc-1.0 §1.4-1.6.
namespace mrc::inline v0_1::wire {

/// Message numbers; follows BTH in every data packet.
struct Meth {
  /// Receive-queue message number of a SEND or WriteImm; 0 in plain Writes. Of a READ, an atomic
  /// and their responses: the number of the request among those of its queue pair.
  Be16 rqmsn;
  Be16 msn;  ///< message number on the send queue
};

/// One tick of a sender's timestamp. 16 bits of it wrap around after 8.388608 ms.
inline constexpr Duration kTimestampTick{128};
/// ftype of a header whose timestamp is valid.
inline constexpr std::uint16_t kFtypeTimestamp = 1;
/// The tsr bit: set when the tick is not 128 ns. Which tick it then is, is not specified (mrc-1.0
/// [O-13]).
inline constexpr std::uint16_t kTsrBit = 0x8000;
/// The bits of ftype.
inline constexpr std::uint16_t kFtypeMask = 0x000F;

/// The low 16 bits of a time in ticks of 128 ns: what a sender writes into tx_timestamp.
[[nodiscard]] constexpr std::uint16_t timestamp_of(Time time) noexcept {
  return static_cast<std::uint16_t>(static_cast<std::uint64_t>(time.time_since_epoch().count()) /
                                    static_cast<std::uint64_t>(kTimestampTick.count()));
}

/// Time from one timestamp to a later one, modulo the wrap of 8.388608 ms.
[[nodiscard]] constexpr Duration timestamp_distance(std::uint16_t from, std::uint16_t to) noexcept {
  return kTimestampTick * static_cast<std::uint16_t>(to - from);
}

/// Timestamp; between METH and RETH when BTH.ts is set.
struct Tseth {
  Be16 tx_timestamp;  ///< the sender's clock, opaque to the peer, echoed in SACK and NACK
  Be16 tsr_ftype;     ///< tsr 15, reserved 14:4, ftype 3:0

  /// The timestamp's tick is 128 ns (tsr = 0).
  [[nodiscard]] constexpr bool tick_is_128ns() const noexcept { return (tsr_ftype & kTsrBit) == 0; }
  /// 1 (kFtypeTimestamp) when the timestamp is valid.
  [[nodiscard]] constexpr std::uint16_t ftype() const noexcept {
    return static_cast<std::uint16_t>(tsr_ftype & kFtypeMask);
  }
};

/// Target of this packet's payload; in every data packet. In a SEND and in responses the target is
/// named by METH: `va` is then the offset of the payload in the message, and `rkey` is 0. A READ
/// and an atomic name the memory that they are about.
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

/// True for all NAK codes, also those without an enumerator.
[[nodiscard]] constexpr bool is_nak(Syndrome s) noexcept {
  return (static_cast<unsigned>(s) >> 5) == 0b011;
}
/// True for an acknowledgement with any credit count (MRC sends 0x1F, "no limit").
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
  /// Sets the syndrome.
  constexpr void set_code(Syndrome s) noexcept { syndrome = static_cast<std::uint8_t>(s); }
};

static_assert(sizeof(Meth) == 4 && alignof(Meth) == 1 && std::is_trivially_copyable_v<Meth>);
static_assert(offsetof(Meth, rqmsn) == 0 && offsetof(Meth, msn) == 2);
static_assert(sizeof(Tseth) == 4 && alignof(Tseth) == 1 && std::is_trivially_copyable_v<Tseth>);
static_assert(offsetof(Tseth, tx_timestamp) == 0 && offsetof(Tseth, tsr_ftype) == 2);
static_assert(sizeof(Reth) == 16 && alignof(Reth) == 1 && std::is_trivially_copyable_v<Reth>);
static_assert(offsetof(Reth, va) == 0 && offsetof(Reth, rkey) == 8);
static_assert(offsetof(Reth, dma_length) == 12);
static_assert(sizeof(ImmDt) == 4 && alignof(ImmDt) == 1 && std::is_trivially_copyable_v<ImmDt>);
static_assert(offsetof(ImmDt, immediate) == 0);
static_assert(sizeof(Aeth) == 4 && alignof(Aeth) == 1 && std::is_trivially_copyable_v<Aeth>);
static_assert(offsetof(Aeth, syndrome) == 0 && offsetof(Aeth, msn) == 1);

}  // namespace mrc::inline v0_1::wire
