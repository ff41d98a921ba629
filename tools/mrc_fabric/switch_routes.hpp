// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "mrc_fabric/plan.hpp"

/// The static forwarding of a switch (mrc-1.0 §4.1), for the kernel and for exports.
namespace mrc::tools {

/// A prefix and its next-hop ports: several for ECMP.
struct SwitchRoute {
  std::string prefix;
  std::vector<std::size_t> ports;
  bool shifts = false;  ///< a uSID of the switch's own, for its link at the one port (uA)
};

/// "fcbb:0:1000::/48".
[[nodiscard]] std::string usid_prefix(const fabric::Description& d, Plane plane, fabric::Usid usid);
[[nodiscard]] std::string host_usid_prefix(const fabric::Description& d, Plane plane,
                                           const fabric::Host& host);

/// The prefix of the switch's own uSID, which it shifts out (uN); empty if uSIDs of its kind are
/// those of links.
[[nodiscard]] std::string own_prefix(const Plan& plan, const FabricNode& node);

/// uSIDs of neighbours and hosts; for plain IPv6 the addresses of hosts.
[[nodiscard]] std::vector<SwitchRoute> switch_routes(const Plan& plan, const FabricNode& node);

}  // namespace mrc::tools
