// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "mrc_fabric/plan.hpp"

/// The parts of a fabric as commands of `ip -batch`.
namespace mrc::tools {

/// All neighbours have this address; permanent neighbour entries map it to an Ethernet address on
/// each port.
inline constexpr const char* kGateway = "fe80::1";
/// The neighbours of a switch, once more, by the number of its port: next hops of uA routes.
/// Nothing else has addresses of 100::/64 (RFC 6666).
inline constexpr const char* kLinkGateways = "100::";
/// The interface of uN and uA routes. No packet passes it; on a veth the routes would be deleted
/// with it.
inline constexpr const char* kAnchor = "usid0";

/// Creates these links (each given by its first port).
[[nodiscard]] std::string links_batch(const Plan& plan, const std::vector<std::size_t>& links);

/// Configures a node: addresses, neighbours, and routes over the ports with `used`[port].
/// Idempotent.
[[nodiscard]] std::string node_batch(const Plan& plan, std::size_t node,
                                     const std::vector<bool>& used);

}  // namespace mrc::tools
