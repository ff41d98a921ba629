// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "mrc_fabric/plan.hpp"

/// What a fabric is made of, in the words of `ip -batch`.
namespace mrc::bench {

/// Every neighbour is reached by this address; which Ethernet address that is on which port, a
/// permanent entry says.
inline constexpr const char* kGateway = "fe80::1";
/// The interface that uN routes hang on. No packet passes it; on a veth they would vanish with it.
inline constexpr const char* kAnchor = "usid0";

/// Makes these links (each named by its first port) out of nothing.
[[nodiscard]] std::string links_batch(const Plan& plan, const std::vector<std::size_t>& links);

/// Brings a node to what it should be, as often as one likes: addresses, neighbours, routes over
/// the ports that `used` says ([port]).
[[nodiscard]] std::string node_batch(const Plan& plan, std::size_t node,
                                     const std::vector<bool>& used);

}  // namespace mrc::bench
