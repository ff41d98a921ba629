// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>

#include "mrc_fabric/plan.hpp"

/// Static configuration of real switches. On every link the end nearer to the spine is fe80::1 and
/// the other one, hosts included, fe80::2, so that routes need no further addresses.
namespace mrc::tools {

/// Whether it is the end of a link nearer to the spine.
[[nodiscard]] constexpr bool is_upper(std::size_t port) noexcept {
  return (port & 1) != 0;
}
[[nodiscard]] std::string own_address(std::size_t port);
[[nodiscard]] std::string next_hop(std::size_t port);

/// Name of the locator of the switch's uSID in both formats.
inline constexpr const char* kLocator = "MRC";

/// config_db.json of SONiC.
[[nodiscard]] std::string sonic_config(const Plan& plan, const FabricNode& node);
/// frr.conf of FRR.
[[nodiscard]] std::string frr_config(const Plan& plan, const FabricNode& node);

}  // namespace mrc::tools
