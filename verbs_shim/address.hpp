// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "mrc/mrc.hpp"
#include "verbs_shim/abi.hpp"

/// How verbs programs name other hosts.
namespace mrc_verbs {

[[nodiscard]] mrc::port::IpAddress address_of(const ibv_gid& gid) noexcept;

/// The port has one GID, which these indices name, all of type RoCEv2: 0, and what scripts for
/// network cards pass (3 is often the card's RoCEv2 GID of its IPv4 address). The length of the
/// table is 1 nevertheless: a program that looks for the best of several asks the kernel for their
/// types, which knows no such device.
inline constexpr std::uint32_t kGidIndices = 4;

/// What to say of an index that there is not.
[[nodiscard]] std::string no_gid(std::uint32_t index);

/// Verbs has one port. Queries serve one for each plane, as MRC counts them (attributes.hpp): they
/// have the same GID and P_Key.
[[nodiscard]] bool has_port(const mrc::Device& device, unsigned port) noexcept;
/// What to say of a port that queries do not know.
[[nodiscard]] std::string no_port(const mrc::Device& device, unsigned port);

/// Throws mrc::Error that names what this device has not: another port or GID, addresses that are
/// no GIDs.
void check_address(const ibv_ah_attr& address);

/// Bytes of payload in a packet.
[[nodiscard]] constexpr std::uint32_t bytes_of(ibv_mtu mtu) noexcept {
  return 128u << static_cast<unsigned>(mtu);
}

}  // namespace mrc_verbs
