// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "mrc/mrc.hpp"
#include "verbs_shim/abi.hpp"

/// How verbs programs name other hosts.
namespace mrc_verbs {

[[nodiscard]] mrc::port::IpAddress address_of(const ibv_gid& gid) noexcept;

/// Throws mrc::Error that names what this device has not: another port or GID, addresses that are
/// no GIDs.
void check_address(const ibv_ah_attr& address);

/// Bytes of payload in a packet.
[[nodiscard]] constexpr std::uint32_t bytes_of(ibv_mtu mtu) noexcept {
  return 128u << static_cast<unsigned>(mtu);
}

}  // namespace mrc_verbs
