// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>

namespace mrc::inline v0_1::wire {

/// BTH opcodes (mrc-1.0 §1.11). Bits 7:5 are 0b110, the rest is the operation of an RC queue pair
/// where there is one. MRC has the writes; SEND, READ and atomics are an extension between OpenMRC
/// peers that have agreed on it (docs/extensions.md). Datagrams are RoCEv2's, with 0b011.
enum class Opcode : std::uint8_t {
  datagram = 0x64,      ///< UD SEND Only, as in RoCEv2 (resolve/packets.hpp)
  datagram_imm = 0x65,  ///< the same with immediate
  send_first = 0xC0,
  send_middle = 0xC1,
  send_last = 0xC2,
  send_last_imm = 0xC3,
  send_only = 0xC4,
  send_only_imm = 0xC5,
  write_first = 0xC6,
  write_middle = 0xC7,
  write_last = 0xC8,
  write_last_imm = 0xC9,
  write_only = 0xCA,
  write_only_imm = 0xCB,
  read_request = 0xCC,
  read_response_first = 0xCD,
  read_response_middle = 0xCE,
  read_response_last = 0xCF,
  read_response_only = 0xD0,
  acknowledge = 0xD1,
  atomic_response = 0xD2,
  compare_swap = 0xD3,
  fetch_add = 0xD4,
  packet_part = 0xD7,  ///< OpenMRC's own, between OpenMRC peers (wire/transport.hpp)
  endpoint_request = 0xD8,
  endpoint_response = 0xD9,
  sack = 0xDC,
  nack = 0xDD,
  probe = 0xDE,
  resolution = 0xDF,  ///< OpenMRC's own, between OpenMRC devices (resolve/packets.hpp)
};

namespace detail {

/// A set of opcodes: bit i stands for 0xC0 + i.
using OpcodeSet = std::uint32_t;

template <class... Op>
[[nodiscard]] constexpr OpcodeSet opcodes(Op... op) noexcept {
  return (OpcodeSet{0} | ... | (OpcodeSet{1} << (static_cast<unsigned>(op) & 31)));
}
[[nodiscard]] constexpr bool is_in(OpcodeSet set, std::uint8_t code) noexcept {
  return code >> 5 == 0b110 && (set >> (code & 31) & 1) != 0;
}

inline constexpr OpcodeSet kWrites =
    opcodes(Opcode::write_first, Opcode::write_middle, Opcode::write_last, Opcode::write_last_imm,
            Opcode::write_only, Opcode::write_only_imm);
inline constexpr OpcodeSet kSends =
    opcodes(Opcode::send_first, Opcode::send_middle, Opcode::send_last, Opcode::send_last_imm,
            Opcode::send_only, Opcode::send_only_imm);
inline constexpr OpcodeSet kResponses =
    opcodes(Opcode::read_response_first, Opcode::read_response_middle, Opcode::read_response_last,
            Opcode::read_response_only, Opcode::atomic_response);
inline constexpr OpcodeSet kRequests =
    opcodes(Opcode::read_request, Opcode::compare_swap, Opcode::fetch_add);
inline constexpr OpcodeSet kData = kWrites | kSends | kRequests | kResponses;
inline constexpr OpcodeSet kSingle =
    kRequests | opcodes(Opcode::send_only, Opcode::send_only_imm, Opcode::write_only,
                        Opcode::write_only_imm, Opcode::read_response_only,
                        Opcode::atomic_response);
inline constexpr OpcodeSet kFirsts =
    kSingle | opcodes(Opcode::send_first, Opcode::write_first, Opcode::read_response_first);
inline constexpr OpcodeSet kLasts =
    kSingle | opcodes(Opcode::send_last, Opcode::send_last_imm, Opcode::write_last,
                      Opcode::write_last_imm, Opcode::read_response_last);
inline constexpr OpcodeSet kImmediates = opcodes(Opcode::send_last_imm, Opcode::send_only_imm,
                                                 Opcode::write_last_imm, Opcode::write_only_imm);
inline constexpr OpcodeSet kOthers =
    opcodes(Opcode::acknowledge, Opcode::endpoint_request, Opcode::endpoint_response, Opcode::sack,
            Opcode::nack, Opcode::probe, Opcode::resolution, Opcode::packet_part);

/// What is asked of each received packet: a bit each in a table, one load.
enum OpcodeTrait : std::uint8_t {
  kIsData = 1,
  kIsWrite = 2,
  kIsSend = 4,
  kIsRequest = 8,
  kIsResponse = 16,
  kIsFirst = 32,
  kIsLast = 64,
  kHasImmediate = 128,
};
inline constexpr auto kOpcodeTraits = [] {
  std::array<std::uint8_t, 256> traits{};
  const auto set = [&](OpcodeSet opcodes, OpcodeTrait trait) {
    for (unsigned code = 0; code < traits.size(); ++code)
      if (is_in(opcodes, static_cast<std::uint8_t>(code)))
        traits[code] = static_cast<std::uint8_t>(traits[code] | trait);
  };
  set(kData, kIsData);
  set(kWrites, kIsWrite);
  set(kSends, kIsSend);
  set(kRequests, kIsRequest);
  set(kResponses, kIsResponse);
  set(kFirsts, kIsFirst);
  set(kLasts, kIsLast);
  set(kImmediates, kHasImmediate);
  return traits;
}();
[[nodiscard]] constexpr bool has_trait(Opcode op, OpcodeTrait trait) noexcept {
  return (kOpcodeTraits[static_cast<std::uint8_t>(op)] & trait) != 0;
}

}  // namespace detail

/// Whether it is a data packet: carries METH and RETH, consumes a PSN.
[[nodiscard]] constexpr bool is_data(Opcode op) noexcept {
  return detail::has_trait(op, detail::kIsData);
}
/// Whether it is a part of a Write or WriteImm: the data packets that MRC has.
[[nodiscard]] constexpr bool is_write(Opcode op) noexcept {
  return detail::has_trait(op, detail::kIsWrite);
}
/// Whether it is a part of a SEND.
[[nodiscard]] constexpr bool is_send(Opcode op) noexcept {
  return detail::has_trait(op, detail::kIsSend);
}
/// Whether it asks for a response: READ and atomics.
[[nodiscard]] constexpr bool is_request(Opcode op) noexcept {
  return detail::has_trait(op, detail::kIsRequest);
}
/// Whether it is an atomic operation.
[[nodiscard]] constexpr bool is_atomic(Opcode op) noexcept {
  return op == Opcode::compare_swap || op == Opcode::fetch_add;
}
/// Whether it is a part of the response to a READ or an atomic.
[[nodiscard]] constexpr bool is_response(Opcode op) noexcept {
  return detail::has_trait(op, detail::kIsResponse);
}

/// Whether it is a datagram of RoCEv2: carries DETH, belongs to no connection.
[[nodiscard]] constexpr bool is_datagram(Opcode op) noexcept {
  return op == Opcode::datagram || op == Opcode::datagram_imm;
}

/// Whether who receives it may have to know the sender's address: datagrams, and endpoint requests,
/// which anybody may send.
[[nodiscard]] constexpr bool has_origin(Opcode op) noexcept {
  return is_datagram(op) || op == Opcode::endpoint_request;
}

/// Whether a data packet starts a message (First or Only).
[[nodiscard]] constexpr bool is_first(Opcode op) noexcept {
  return detail::has_trait(op, detail::kIsFirst);
}

/// Whether a data packet ends a message (Last or Only, with or without immediate).
[[nodiscard]] constexpr bool is_last(Opcode op) noexcept {
  return detail::has_trait(op, detail::kIsLast);
}

/// Whether an ImmDt follows RETH.
[[nodiscard]] constexpr bool has_immediate(Opcode op) noexcept {
  return detail::has_trait(op, detail::kHasImmediate);
}

/// Whether a byte from the wire is one of the enumerators.
[[nodiscard]] constexpr bool is_known(std::uint8_t code) noexcept {
  return detail::is_in(detail::kData | detail::kOthers, code) ||
         is_datagram(static_cast<Opcode>(code));
}

/// Name of an opcode; static storage.
[[nodiscard]] constexpr const char* to_string(Opcode op) noexcept {
  constexpr const char* kUnknown = "unknown opcode";
  // From 0xC0 on.
  constexpr std::array<const char*, 32> kNames{"SEND First",
                                               "SEND Middle",
                                               "SEND Last",
                                               "SEND Last with Immediate",
                                               "SEND Only",
                                               "SEND Only with Immediate",
                                               "WRITE First",
                                               "WRITE Middle",
                                               "WRITE Last",
                                               "WRITE Last with Immediate",
                                               "WRITE Only",
                                               "WRITE Only with Immediate",
                                               "READ Request",
                                               "READ Response First",
                                               "READ Response Middle",
                                               "READ Response Last",
                                               "READ Response Only",
                                               "Acknowledge",
                                               "ATOMIC Response",
                                               "CmpSwap",
                                               "FetchAdd",
                                               kUnknown,
                                               kUnknown,
                                               "Packet Part",
                                               "Endpoint Request",
                                               "Endpoint Response",
                                               kUnknown,
                                               kUnknown,
                                               "SACK",
                                               "NACK",
                                               "Probe",
                                               "Resolution"};
  if (op == Opcode::datagram) return "UD SEND Only";
  if (op == Opcode::datagram_imm) return "UD SEND Only with Immediate";
  const auto code = static_cast<unsigned>(op);
  return code >> 5 == 0b110 ? kNames[code & 31] : kUnknown;
}

/// Why a responder refuses a data packet (mrc-1.0 §1.13). The requester's reaction: §2.9.
enum class NackReason : std::uint8_t {
  trimmed = 0x01,           ///< a switch cut the payload: the path is congested
  trimmed_last_hop = 0x02,  ///< cut at the last hop: the receiver is congested, not the path
  no_bitmap = 0x06,         ///< no tracking state for the PSN
  no_pkt_buffer = 0x07,     ///< no packet buffer
  no_resource = 0x0A,       ///< another resource is exhausted
  psn_oor_window = 0x0B,    ///< PSN above the responder's window
  unexp_event = 0x19,       ///< fatal: the requester's QP goes to error
  /// No receive is posted for the message: it waits. OpenMRC's own, between peers that have agreed
  /// on it (docs/extensions.md); vendor_info has the time to wait, as in RC's RNR NAK.
  receiver_not_ready = 0x80,
};

/// Whether a value, possibly from the wire, is one of the enumerators.
[[nodiscard]] constexpr bool is_known(NackReason reason) noexcept {
  switch (reason) {
    case NackReason::trimmed:
    case NackReason::trimmed_last_hop:
    case NackReason::no_bitmap:
    case NackReason::no_pkt_buffer:
    case NackReason::no_resource:
    case NackReason::psn_oor_window:
    case NackReason::unexp_event:
    case NackReason::receiver_not_ready:
      return true;
  }
  return false;
}

/// The packet was trimmed: retransmit at once, without counting a retry.
[[nodiscard]] constexpr bool is_trim(NackReason reason) noexcept {
  return reason == NackReason::trimmed || reason == NackReason::trimmed_last_hop;
}

/// Short English text for a reason; static storage.
[[nodiscard]] constexpr const char* to_string(NackReason reason) noexcept {
  switch (reason) {
    case NackReason::trimmed:
      return "TRIMMED";
    case NackReason::trimmed_last_hop:
      return "TRIMMED_LASTHOP";
    case NackReason::no_bitmap:
      return "NO_BITMAP";
    case NackReason::no_pkt_buffer:
      return "NO_PKT_BUFFER";
    case NackReason::no_resource:
      return "NO_RESOURCE";
    case NackReason::psn_oor_window:
      return "PSN_OOR_WINDOW";
    case NackReason::unexp_event:
      return "UNEXP_EVENT";
    case NackReason::receiver_not_ready:
      return "RECEIVER_NOT_READY";
  }
  return "unknown NACK reason";
}

}  // namespace mrc::inline v0_1::wire
