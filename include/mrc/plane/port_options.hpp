// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "mrc/api/fault_spec.hpp"
#include "mrc/core/types.hpp"
#include "mrc/wire/burst.hpp"

namespace mrc::inline v0_1::port {

/// Settings common to all ports on sockets. A plain value.
struct PortOptions {
  Plane plane = 0;  ///< copied into RxPacket::plane
  /// Which of the processes that share a host this is: the top 8 bits of its QPNs.
  std::uint8_t slot = 0;

  /// SO_RCVBUF wanted, bytes; the kernel may cap it. Packet ports have a ring of twice the size.
  std::uint32_t receive_buffer = 8u << 20;
  std::uint32_t send_buffer = 1u << 20;  ///< SO_SNDBUF of each sending socket, bytes
  std::uint16_t receive_slots = 16;      ///< messages per receive call, 64 KiB each; 1 .. 256

  /// False: the iCRC is sent as 0 and not checked (both ends must agree).
  bool icrc = true;
  wire::DscpMap dscp;  ///< to recognise trimmed packets

  FaultSpec faults;                  ///< in force from the start
  std::uint64_t fault_seed = 1;      ///< of the fault injector
  std::uint32_t fault_slots = 2048;  ///< packets that faults can hold back at a time

  /// Throws Error that names the kind of port, the option, its value and what is allowed.
  void check(const char* kind) const;

 protected:
  /// Throws the Error of check(): "KIND: NAME is VALUE, allowed is ALLOWED".
  [[noreturn]] static void reject(const char* kind, const char* name, std::size_t value,
                                  const char* allowed);
};

}  // namespace mrc::inline v0_1::port
