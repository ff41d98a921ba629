// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "mrc/core/linkage.hpp"
#include "mrc/port/socket.hpp"

namespace mrc::inline v0_1::port {

/// Claims a name among the processes of this network namespace. The claim lasts as long as the
/// socket is open, and so ends with the process. Returns a closed socket if another process holds
/// the name. No privilege is needed: the name is an abstract Unix address, at most 100 characters.
/// Throws Error.
[[nodiscard]] Socket claim_name(const std::string& name);

/// A slot among the processes that use packet ports on this host, held as long as the socket is
/// open.
struct PacketSlotClaim {
  std::uint8_t slot = 0;  ///< top 8 bits of its QPNs
  Socket socket;          ///< holds the claim while it is open
};

/// Claims slot `wanted`, or the lowest free one of this network namespace. Throws Error when none
/// is free.
[[nodiscard]] PacketSlotClaim claim_packet_slot(std::optional<std::uint8_t> wanted = std::nullopt);

}  // namespace mrc::inline v0_1::port

#ifndef MRC_SEPARATE_COMPILATION
#include "mrc/port/impl/packet_slot.ipp"
#endif
