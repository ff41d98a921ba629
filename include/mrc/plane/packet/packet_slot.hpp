// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "mrc/core/unique_fd.hpp"

/// Which process of a host has which slot of its packet ports, and which one answers probes: locks
/// on files in a folder of root's, where no other user can take them. A lock lasts as long as its
/// descriptor is open, and so ends with the process. Files are named by the network namespace, so
/// containers may share the folder. (The sockets of UDP ports are claims themselves: slot.hpp.)
namespace mrc::inline v0_1::port {

/// Takes lock `number` of the file for `name` in this thread's network namespace. Not open if
/// another process, or another claim of this one, has it. Makes folder and file if need be. The
/// folder must be root's or this user's, and nobody else's to write to, except for a group that its
/// owner has given it to. Links are not followed. Throws Error.
[[nodiscard]] UniqueFd claim_lock(const std::string& folder, const std::string& name,
                                  unsigned number = 0);

/// A slot among the processes that use packet ports on this host, held as long as the lock is open.
struct PacketSlotClaim {
  std::uint8_t slot = 0;  ///< top 8 bits of its QPNs
  UniqueFd lock;          ///< holds the claim while it is open
};

/// Claims slot `wanted`, or the lowest free one of this network namespace. Throws Error when none
/// is free, or when this user may not take part.
[[nodiscard]] PacketSlotClaim claim_packet_slot(const std::string& folder,
                                                std::optional<std::uint8_t> wanted = std::nullopt);

}  // namespace mrc::inline v0_1::port
