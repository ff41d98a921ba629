// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace mrc::inline v0_1::wire {

/// BTH opcodes (mrc-1.0 §1.11). Bits 7:5 are 0b110, the rest is the operation of an RC queue pair
/// where there is one. An OpenMRC extension could use the free codes of the same pattern: SEND
/// C0-C5, READ request CC, atomics D3 and D4.
enum class Opcode : std::uint8_t {
  write_first = 0xC6,
  write_middle = 0xC7,
  write_last = 0xC8,
  write_last_imm = 0xC9,
  write_only = 0xCA,
  write_only_imm = 0xCB,
  acknowledge = 0xD1,
  endpoint_request = 0xD8,
  endpoint_response = 0xD9,
  sack = 0xDC,
  nack = 0xDD,
  probe = 0xDE,
  resolution = 0xDF,  ///< OpenMRC's own, between OpenMRC devices (wire/resolution.hpp)
};

/// Whether it is a data packet: carries METH and RETH, consumes a PSN.
[[nodiscard]] constexpr bool is_write(Opcode op) noexcept {
  return op >= Opcode::write_first && op <= Opcode::write_only_imm;
}

/// Whether it starts a message (First or Only).
[[nodiscard]] constexpr bool is_first(Opcode op) noexcept {
  return op == Opcode::write_first || op == Opcode::write_only || op == Opcode::write_only_imm;
}

/// Whether it ends a message (Last or Only, with or without immediate).
[[nodiscard]] constexpr bool is_last(Opcode op) noexcept {
  return op >= Opcode::write_last && op <= Opcode::write_only_imm;
}

/// Whether an ImmDt follows RETH.
[[nodiscard]] constexpr bool has_immediate(Opcode op) noexcept {
  return op == Opcode::write_last_imm || op == Opcode::write_only_imm;
}

/// Whether a byte from the wire is one of the enumerators.
[[nodiscard]] constexpr bool is_known(std::uint8_t code) noexcept {
  switch (static_cast<Opcode>(code)) {
    case Opcode::write_first:
    case Opcode::write_middle:
    case Opcode::write_last:
    case Opcode::write_last_imm:
    case Opcode::write_only:
    case Opcode::write_only_imm:
    case Opcode::acknowledge:
    case Opcode::endpoint_request:
    case Opcode::endpoint_response:
    case Opcode::sack:
    case Opcode::nack:
    case Opcode::probe:
    case Opcode::resolution:
      return true;
  }
  return false;
}

/// Name of an opcode; static storage.
[[nodiscard]] constexpr const char* to_string(Opcode op) noexcept {
  switch (op) {
    case Opcode::write_first:
      return "WRITE First";
    case Opcode::write_middle:
      return "WRITE Middle";
    case Opcode::write_last:
      return "WRITE Last";
    case Opcode::write_last_imm:
      return "WRITE Last with Immediate";
    case Opcode::write_only:
      return "WRITE Only";
    case Opcode::write_only_imm:
      return "WRITE Only with Immediate";
    case Opcode::acknowledge:
      return "Acknowledge";
    case Opcode::endpoint_request:
      return "Endpoint Request";
    case Opcode::endpoint_response:
      return "Endpoint Response";
    case Opcode::sack:
      return "SACK";
    case Opcode::nack:
      return "NACK";
    case Opcode::resolution:
      return "Resolution";
    case Opcode::probe:
      return "Probe";
  }
  return "unknown opcode";
}

}  // namespace mrc::inline v0_1::wire
